//! Says which Candle the package is on, and links AMD's HIP for the feature `rocm-rs`.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-env-changed=ROCM_PATH");
    println!("cargo:rustc-check-cfg=cfg(candle_0_10)");
    // The package of the same sources on Candle 0.10 (compat/candle-rocm-backend-0.10).
    if std::env::var("CARGO_PKG_NAME").is_ok_and(|name| name.ends_with("-0-10")) {
        println!("cargo:rustc-cfg=candle_0_10");
    }
    if std::env::var_os("CARGO_FEATURE_ROCM_RS").is_none() {
        return;
    }
    let rocm = std::env::var("ROCM_PATH").unwrap_or_else(|_| "/opt/rocm".to_owned());
    // As AMD's packages have it, and as Debian's.
    for folder in ["lib", "lib/x86_64-linux-gnu"] {
        let folder = Path::new(&rocm).join(folder);
        if folder.is_dir() {
            println!("cargo:rustc-link-search=native={}", folder.display());
        }
    }
    println!("cargo:rustc-link-lib=dylib=amdhip64");
}
