//! The headers under CUDA's names, which are part of this library and are written to a folder for the compiler.

use std::path::{Path, PathBuf};

use include_dir::{include_dir, Dir};
use rocm_toolchain::unpacked::Sources;

use crate::error::Result;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/include");
static HEADERS: Sources = Sources::new("headers", &FILES);

/// Every header: its name, as includes give it, and its text.
pub fn all() -> Vec<(String, &'static str)> {
    HEADERS.texts()
}

/// The folder that has the headers: in the user's cache, under a name made of their contents; or below `otherwise`, where
/// that cannot be written.
///
/// # Errors
/// No folder can be written.
pub fn folder(otherwise: &Path) -> Result<PathBuf> {
    Ok(HEADERS.folder(otherwise)?)
}
