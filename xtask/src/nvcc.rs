//! `cargo xtask nvcc DIR`: a folder where build scripts that call nvcc find one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rocm_toolchain::stand_ins;

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;

/// What programs ask for the compute capability: that for which source is compiled, and nothing else.
const NVIDIA_SMI: &str = r#"#!/bin/sh
case "$*" in
"--query-gpu=compute_cap --format=csv") printf 'compute_cap\n8.0\n' ;;
"--query-gpu=compute_cap --format=csv,noheader") echo 8.0 ;;
*) echo "candle-rocm's nvidia-smi knows --query-gpu=compute_cap alone; rocm-smi tells of AMD GPUs" >&2; exit 1 ;;
esac
"#;

/// Where.
#[derive(clap::Args)]
pub struct Args {
    /// The folder, which is made if need be.
    folder: PathBuf,
}

/// Lays out `bin/nvcc`, `include` and `lib64`, and prints the variables that lead build scripts there.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    let folder = lay_out(&args.folder)?;
    let shown = folder.display();
    let variables = variables(&folder).map(|(name, value)| format!("{name}={value}"));
    println!("export {} PATH={shown}/bin:$PATH", variables.join(" "));
    Ok(())
}

/// What leads build scripts to such a folder, beside the search path.
pub fn variables(folder: &Path) -> [(&'static str, String); 6] {
    let shown = folder.display();
    [
        ("CUDA_HOME", shown.to_string()),
        ("CUDA_PATH", shown.to_string()),
        ("CUDA_ROOT", shown.to_string()),
        ("CUDA_TOOLKIT_ROOT_DIR", shown.to_string()),
        ("NVCC", format!("{shown}/bin/nvcc")),
        ("CUDA_COMPUTE_CAP", "80".to_owned()),
    ]
}

/// Lays it out; its full path.
pub fn lay_out(folder: &Path) -> Result<PathBuf> {
    let program = program()?;
    for part in ["bin", "lib64"] {
        fs::create_dir_all(folder.join(part)).with_context(|| folder.display().to_string())?;
    }
    let folder = folder.canonicalize()?;
    let nvcc = folder.join("bin/nvcc");
    fs::copy(&program, &nvcc).with_context(|| nvcc.display().to_string())?;
    let asked = folder.join("bin/nvidia-smi");
    fs::write(&asked, NVIDIA_SMI).with_context(|| asked.display().to_string())?;
    fs::set_permissions(&asked, fs::Permissions::from_mode(0o755))?;
    copy(
        &cargo::root().join("rocm-nvcc/include"),
        &folder.join("include"),
    )?;
    // What `-lcudart` finds: nothing, as the runtime has the functions.
    stand_ins::write(&folder.join("lib64"))?;
    Ok(folder)
}

/// The program, built.
pub fn program() -> Result<PathBuf> {
    let build = [
        "build",
        "--profile",
        "quick",
        "--package",
        "rocm-nvcc",
        "--bin",
        "nvcc",
    ];
    let messages = cargo::messages(&mut cargo(&build))?;
    let program = messages
        .iter()
        .filter(|message| message["target"]["name"] == "nvcc")
        .find_map(|message| message["executable"].as_str());
    program
        .map(PathBuf::from)
        .context("cargo built no program `nvcc`")
}

/// Copies a folder and all in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to).with_context(|| to.display().to_string())?;
        }
    }
    Ok(())
}
