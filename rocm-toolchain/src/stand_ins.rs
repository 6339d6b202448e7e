//! What satisfies a linker that is told `-lcudart` and the like: libraries with nothing in them, as candle-rocm-runtime has
//! the functions.

use std::io;
use std::path::Path;

/// Libraries that build scripts name.
const NAMES: [&str; 5] = ["cudart", "cudart_static", "cudadevrt", "cuda", "nvToolsExt"];

/// An archive with nothing in it.
const EMPTY_ARCHIVE: &[u8] = b"!<arch>\n";

/// Writes them to a folder.
///
/// # Errors
/// It cannot be written.
pub fn write(folder: &Path) -> io::Result<()> {
    NAMES
        .iter()
        .try_for_each(|name| empty(&folder.join(format!("lib{name}.a"))))
}

/// Writes a library with nothing in it.
///
/// # Errors
/// It cannot be written.
pub fn empty(library: &Path) -> io::Result<()> {
    std::fs::write(library, EMPTY_ARCHIVE)
}
