//! The headers under CUDA's names, which are part of this library and are written to a folder for the compiler.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use include_dir::{include_dir, Dir};

use crate::error::Result;
use crate::unpacked;

static HEADERS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/include");

/// Every header: its name, as includes give it, and its text.
pub fn all() -> Vec<(String, &'static str)> {
    unpacked::texts(&HEADERS)
}

/// The folder that has the headers: in the user's cache, under a name made of their contents; or below `otherwise`, where
/// that cannot be written.
///
/// # Errors
/// No folder can be written.
pub fn folder(otherwise: &Path) -> Result<PathBuf> {
    static DIGEST: OnceLock<String> = OnceLock::new();
    unpacked::folder("headers", &HEADERS, &DIGEST, otherwise)
}
