//! The style of the kernels' sources: `.clang-format` at the root, and no line over 120 columns.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};

use crate::cargo::{self, root};
use crate::setup;

/// One version for all: another breaks some lines elsewhere.
const FORMATTER: &str = "clang-format-19";
/// What `.clang-format` says too, which leaves comments as they are.
const MOST_COLUMNS: usize = 120;
/// How the names of kernels' sources end.
const ENDS: [&str; 4] = ["cu", "cuh", "h", "inc"];
/// Where kernels are, below the root.
const FOLDERS: [&str; 6] = [
    "candle-rocm-kernels/kernels",
    "benches/gpu_mm/kernels",
    "rocm-nvcc/freestanding",
    "rocm-nvcc/include",
    "rocm-nvcc/tests/programs",
    "tests/linked/kernels",
];

/// Checks every kernel file.
///
/// # Errors
/// Files that are formatted otherwise, with the command that formats them, or lines that are too long.
pub fn check() -> Result<()> {
    setup::ensure_program(FORMATTER)?;
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources(&root().join(folder), &mut files)?;
    }
    files.sort();
    let mut long = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        for (number, line) in text.lines().enumerate() {
            if line.chars().count() > MOST_COLUMNS {
                long.push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    if !long.is_empty() {
        bail!(
            "lines of more than {MOST_COLUMNS} columns:\n{}",
            long.join("\n")
        );
    }
    let mut command = Command::new(FORMATTER);
    command.args(["--dry-run", "-Werror"]).args(&files);
    cargo::run_quietly(&mut command).with_context(|| {
        format!("the kernels' sources are formatted otherwise; `{FORMATTER} -i FILE` formats one")
    })
}

/// Adds the kernel sources in `folder` and below.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    let listing = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in listing {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, into)?;
        } else if path
            .extension()
            .and_then(|end| end.to_str())
            .is_some_and(|end| ENDS.contains(&end))
        {
            into.push(path);
        }
    }
    Ok(())
}
