//! `cargo xtask conformance`: Candle's own tests, from its published sources, on the emulated GPU.
//!
//! The sources are copied from cargo's registry into the target folder and built there with Candle's `cuda`
//! feature on our crates. They reach the emulator as they would reach a GPU: through `libamdhip64.so`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// The GPUs to emulate, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = ["gfx1100", "gfx942"])]
    arch: Vec<String>,
    /// Passed on to the tests, such as part of a name.
    #[arg(last = true)]
    tests: Vec<String>,
}

/// Candle's packages with GPU tests.
const PACKAGES: [&str; 2] = ["candle-core", "candle-nn"];

/// Build and run them; an error if a test fails.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    cargo::run(&mut cargo(&["build", "--package", "amdhip64"]))?;
    let library = target_folder().join("debug/libamdhip64.so");
    let mut failed = Vec::new();
    for package in PACKAGES {
        let folder = fetch(package)?;
        for arch in &args.arch {
            let mut command = cargo(&["test", "--features", "cuda", "--no-fail-fast"]);
            for (name, path) in [
                ("cudarc", "compat/cudarc"),
                ("candle-kernels", "compat/candle-kernels"),
            ] {
                let path = cargo::root().join(path).canonicalize()?;
                command.args(["--config", &format!("patch.crates-io.{name}.path={path:?}")]);
            }
            command
                .arg("--target-dir")
                .arg(target_folder().join("conformance/build"))
                // Unoptimised tests would spend their time in Candle's CPU code.
                .args(["--config", "profile.dev.opt-level=2"])
                .arg("--")
                .args(&args.tests)
                .current_dir(&folder)
                .env("CANDLE_ROCM_RUNTIME", "amd")
                .env("CANDLE_ROCM_HIP_LIBRARY", &library)
                .env("ROCM_EMU_ARCH", arch);
            if let Err(error) = cargo::run(&mut command) {
                eprintln!("{error:#}");
                failed.push(format!("{package} on {arch}"));
            }
        }
    }
    if !failed.is_empty() {
        bail!("conformance: {} failed", failed.join(", "));
    }
    Ok(())
}

fn target_folder() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR");
    folder.map_or_else(|| cargo::root().join("target"), PathBuf::from)
}

/// A copy of the package's published source, as a workspace of its own.
fn fetch(package: &str) -> Result<PathBuf> {
    let output = cargo(&["metadata", "--format-version", "1", "--locked"]).output()?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let found = packages.iter().find(|entry| entry["name"] == package);
    let manifest = found.and_then(|entry| entry["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("{package} is not in the graph"))?;
    let source = Path::new(manifest)
        .parent()
        .context("a manifest has a folder")?;
    let folder = target_folder().join("conformance").join(package);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    copy(source, &folder)?;
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(&manifest, text + "\n[workspace]\n")?;
    // The versions that the project is locked to.
    fs::copy(cargo::root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(folder)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}
