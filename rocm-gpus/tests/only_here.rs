//! What differs between GPUs is asked of the table: no other crate's code names a processor in a string, but to choose
//! which GPUs it is about, nor tells one by how its name begins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files that choose GPUs by name, and what for.
const CHOOSE: [(&str, &str); 13] = [
    (
        "benches/benches/emulator.rs",
        "which the emulator is timed as",
    ),
    (
        "benches/card/examples/predictions.rs",
        "which the clock predicts for the card",
    ),
    (
        "benches/kernel-report/src/page.rs",
        "which the page is about",
    ),
    (
        "candle-rocm-runtime/src/gemm/candidates/tests.rs",
        "tests, which name the GPUs whose plans they hold",
    ),
    (
        "rocm-emulator/src/hip/settings.rs",
        "the emulator's default",
    ),
    (
        "rocm-emulator/src/isa/table.rs",
        "the names by which its files list architectures' instructions",
    ),
    ("xtask/src/checks.rs", "what the short part runs on"),
    ("xtask/src/demo.rs", "the demo's default"),
    ("xtask/src/emulated.rs", "which tests and coverage run on"),
    ("xtask/src/rocm/counts.rs", "whose kernels are counted"),
    ("xtask/src/test.rs", "which all tests run on"),
    (
        "xtask/src/upstream_crates.rs",
        "which targets are compiled for by default",
    ),
    (
        "rocm-toolchain/src/toolchain.rs",
        "reads the names that the compiler and its libraries know",
    ),
];

/// The Rust files under `folder`, without tests and what builds leave.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder of the workspace");
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            let skipped = ["tests", "testing", "rocm-gpus"].contains(&&*name);
            if !skipped && !name.starts_with('.') && !name.starts_with("target") {
                sources(&path, into);
            }
        } else if name.ends_with(".rs") {
            into.push(path);
        }
    }
}

/// Lines of code, without comments and what is compiled for tests alone, that name a processor or its beginning.
fn names_processors(text: &str) -> bool {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .any(|line| {
            let is_digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
            line.split("\"gfx").skip(1).any(is_digit)
                || line.contains("starts_with(\"gfx")
                || line.contains("strip_prefix(\"gfx\")")
        })
}

#[test]
fn processors_are_told_apart_by_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 100, "only {} files", files.len());
    let found: BTreeSet<String> = files
        .iter()
        .filter(|file| names_processors(&std::fs::read_to_string(file).expect("readable")))
        .map(|file| {
            let path = file.strip_prefix(&root).expect("under the root");
            path.to_string_lossy().into_owned()
        })
        .collect();
    let chosen: BTreeSet<String> = CHOOSE.map(|(file, _)| file.to_owned()).into();
    assert_eq!(found, chosen, "found on the left, listed on the right");
}
