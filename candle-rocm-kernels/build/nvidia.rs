//! The same kernels for NVIDIA GPUs: which architectures, and the device library they link. The compiler is the one
//! that compiles for AMD; of CUDA it needs no more than the bitcode of its math functions, libdevice. Where NVIDIA's
//! assembler is installed too, the driver has less to do when a program first uses a kernel.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Names libdevice's file, instead of the search.
pub const LIBDEVICE_VARIABLE: &str = "CANDLE_ROCM_LIBDEVICE";
/// Where CUDA is installed, as other builds understand them.
pub const CUDA_VARIABLES: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];

/// Whether an architecture's name is NVIDIA's, such as `sm_90`.
pub fn is_nvidia(arch: &str) -> bool {
    arch.starts_with("sm_")
}

/// Those of NVIDIA's architectures that `clang` compiles for; none if it was built without.
pub fn processors(clang: &Path) -> Vec<String> {
    let listing = Command::new(clang)
        .args(["--target=nvptx64-nvidia-cuda", "--print-supported-cpus"])
        .output();
    // Without the target there is no listing, and asking for such an architecture is an error that lists the others.
    let Ok(listing) = listing else { return vec![] };
    let text = [listing.stdout, listing.stderr].concat();
    String::from_utf8_lossy(&text)
        .split_whitespace()
        .filter(|word| is_nvidia(word))
        .map(str::to_string)
        .collect()
}

/// NVIDIA's assembler, if the CUDA toolkit is here: it makes of PTX what the driver would make of it on loading.
pub fn ptxas() -> Option<PathBuf> {
    tool("ptxas")
}

/// NVIDIA's compiler of CUDA, if the toolkit is here.
#[allow(dead_code)] // it is for tests that hold ours to it
pub fn nvcc() -> Option<PathBuf> {
    tool("nvcc")
}

/// Where the toolkit of [`nvcc`] is installed.
#[allow(dead_code)] // as above
pub fn toolkit() -> Option<PathBuf> {
    let nvcc = std::fs::canonicalize(nvcc()?).ok()?;
    // It is in bin/.
    nvcc.ancestors().nth(2).map(Path::to_path_buf)
}

/// A program of the CUDA toolkit.
fn tool(name: &str) -> Option<PathBuf> {
    let beside = roots().map(|root| root.join("bin").join(name));
    beside.chain(which::which(name)).find(|file| file.is_file())
}

/// What NVIDIA's assembler says of itself, if it is here.
pub fn ptxas_version() -> Option<String> {
    let output = Command::new(ptxas()?).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where CUDA may be installed.
fn roots() -> impl Iterator<Item = PathBuf> {
    let named = CUDA_VARIABLES.iter().filter_map(std::env::var_os);
    named
        .map(PathBuf::from)
        .chain(["/usr/local/cuda", "/usr/lib/cuda", "/opt/cuda"].map(PathBuf::from))
}

/// libdevice's bitcode.
///
/// # Errors
/// It is in none of the usual places; the text says which, and how to name one.
pub fn libdevice() -> Result<PathBuf, String> {
    if let Some(choice) = std::env::var_os(LIBDEVICE_VARIABLE) {
        let file = PathBuf::from(choice);
        return match file.is_file() {
            true => Ok(file),
            false => Err(format!(
                "{LIBDEVICE_VARIABLE}={}: no such file",
                file.display()
            )),
        };
    }
    let files: Vec<PathBuf> = roots()
        .map(|root| root.join("nvvm/libdevice/libdevice.10.bc"))
        .collect();
    files.iter().find(|file| file.is_file()).cloned().ok_or_else(|| {
        let tried: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        format!(
            "no libdevice (a part of the CUDA toolkit; {LIBDEVICE_VARIABLE} names the file). Tried {}",
            tried.join(", ")
        )
    })
}
