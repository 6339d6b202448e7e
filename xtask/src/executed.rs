//! The note of which kernels ran on which emulated GPU: the emulator writes it while tests run.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cargo;

/// The variable by which the emulator is told where to write what ran.
pub const VARIABLE: &str = "ROCM_EMU_COVERAGE";

/// The file in which what runs from now on is noted.
pub fn file() -> PathBuf {
    cargo::target_folder().join("coverage.tsv")
}

/// Forget what ran before.
pub fn start() -> Result<()> {
    let file = file();
    fs::create_dir_all(cargo::target_folder())?;
    fs::write(&file, "").with_context(|| format!("writing {}", file.display()))
}
