//! Links AMD's HIP for the feature `rocm-rs`; nothing otherwise.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ROCM_PATH");
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
