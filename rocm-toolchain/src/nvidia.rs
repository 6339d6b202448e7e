//! The same kernels for NVIDIA GPUs: which architectures, and the device library they link. The compiler is the one
//! that compiles for AMD; of CUDA it needs no more than the bitcode of its math functions, libdevice. Where NVIDIA's
//! assembler is installed too, the driver has less to do when a program first uses a kernel.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::variables;

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
pub fn nvcc() -> Option<PathBuf> {
    tool("nvcc")
}

/// Where the toolkit of [`nvcc`] is installed.
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
    let named = variables::CUDA.iter().filter_map(std::env::var_os);
    named
        .map(PathBuf::from)
        .chain(["/usr/local/cuda", "/usr/lib/cuda", "/opt/cuda"].map(PathBuf::from))
}

/// libdevice's bitcode.
///
/// # Errors
/// [`variables::LIBDEVICE`] names no file; or without it, the file is in none of the usual places.
pub fn libdevice() -> Result<PathBuf> {
    if let Some(choice) = std::env::var_os(variables::LIBDEVICE) {
        let file = PathBuf::from(choice);
        return match file.is_file() {
            true => Ok(file),
            false => Err(Error::Variable {
                name: variables::LIBDEVICE,
                value: file.display().to_string(),
                reason: "no such file".to_owned(),
            }),
        };
    }
    let files: Vec<PathBuf> = roots()
        .map(|root| root.join("nvvm/libdevice/libdevice.10.bc"))
        .collect();
    match files.iter().find(|file| file.is_file()) {
        Some(file) => Ok(file.clone()),
        None => Err(Error::NoLibdevice(files)),
    }
}
