//! As build scripts of crates with C++ launchers: a static library, and what it is linked with.

use std::path::{Path, PathBuf};
use std::process::Command;

use rocm_toolchain::nvidia as cuda;

/// How the kernels are compiled, by whomever.
const ARGUMENTS: [&str; 4] = ["-std=c++17", "-O3", "--default-stream", "per-thread"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let library = out.join("liblaunchers.a");
    let libraries: &[&str] = match std::env::var_os("CARGO_FEATURE_NVIDIA") {
        None => {
            cudaforge::KernelBuilder::new()
                .source_dir("kernels")
                .out_dir(&out)
                .args(ARGUMENTS)
                .build_lib(&library)?;
            &["cudart", "stdc++"]
        }
        Some(_) => {
            by_nvcc(&out, &library)?;
            &["stdc++", "dl", "rt", "pthread"]
        }
    };
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-lib=launchers");
    for library in libraries {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    Ok(())
}

/// By NVIDIA's compiler, with its CUDA runtime inside and out of sight: the program has ours under the same names.
fn by_nvcc(out: &Path, library: &Path) -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-env-changed=CANDLE_ROCM_ARCHS");
    let arch = std::env::var("CANDLE_ROCM_ARCHS").unwrap_or_default();
    if !cuda::is_nvidia(&arch) || arch.contains(',') {
        return Err(format!(
            "CANDLE_ROCM_ARCHS={arch}: with the feature nvidia it names the NVIDIA GPU, such as sm_90"
        )
        .into());
    }
    let nvcc =
        cuda::nvcc().ok_or("no nvcc: install the CUDA toolkit, or set CUDA_HOME to where it is")?;
    let mut objects = Vec::new();
    for entry in std::fs::read_dir("kernels")? {
        let source = entry?.path();
        let object = out.join(source.with_extension("o").file_name().ok_or("a file")?);
        let mut command = Command::new(&nvcc);
        command.args(["-c", "-arch", &arch]).args(ARGUMENTS);
        run(command.arg("-o").args([&object, &source]))?;
        objects.push(object);
    }
    let toolkit = cuda::toolkit().ok_or("nvcc is in no toolkit's bin/")?;
    let one = out.join("one.o");
    let mut command = Command::new("ld");
    command.args(["-r", "-o"]).arg(&one).args(&objects);
    for folder in ["lib64", "lib"] {
        command.arg("-L").arg(toolkit.join(folder));
    }
    run(command.arg("-lcudart_static"))?;
    run(Command::new("objcopy").arg("--localize-hidden").arg(&one))?;
    // An archive that is there would be added to.
    let _ = std::fs::remove_file(library);
    run(Command::new("ar").arg("rcs").args([library, &one]))
}

fn run(command: &mut Command) -> Result<(), Box<dyn std::error::Error>> {
    let status = command
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {status}").into()),
    }
}
