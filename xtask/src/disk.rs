//! Room on the disk, looked at before a long run: a linker that finds none ends by a signal that does not say so.

use anyhow::{ensure, Context, Result};

use crate::cargo;

/// What the tests leave in the target folder, from nothing, in GB: programs, and Candle's own tests.
const TESTS_TAKE: f64 = 9.0;
/// With less than this, in GB, not even a second run, which finds most of it there, comes to its end.
const LEAST: f64 = 1.0;

/// An error where the tests cannot have room; a line where they may not.
pub fn room_for_tests() -> Result<()> {
    let folder = cargo::root();
    let disk = rustix::fs::statvfs(&folder)
        .with_context(|| format!("how full the disk of {} is", folder.display()))?;
    let free = disk.f_bavail as f64 * disk.f_frsize as f64 / 1e9;
    ensure!(
        free >= LEAST,
        "the disk has {free:.1} GB free, and the tests take {TESTS_TAKE} from nothing: make room, for example by \
         `cargo clean`"
    );
    if free < TESTS_TAKE && !cargo::target_folder().join("conformance").exists() {
        eprintln!("The disk has {free:.1} GB free: the tests take {TESTS_TAKE} from nothing.");
    }
    Ok(())
}
