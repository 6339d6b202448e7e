//! As build scripts of crates with C++ launchers: a static library, and what it is linked with.

fn main() -> cudaforge::Result<()> {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    cudaforge::KernelBuilder::new()
        .source_dir("kernels")
        .out_dir(&out)
        .arg("-std=c++17")
        .arg("-O3")
        .args(["--default-stream", "per-thread"])
        .build_lib(out.join("liblaunchers.a"))?;
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-lib=launchers");
    println!("cargo:rustc-link-lib=dylib=cudart");
    println!("cargo:rustc-link-lib=dylib=stdc++");
    Ok(())
}
