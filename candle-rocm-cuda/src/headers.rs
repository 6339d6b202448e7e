//! The headers under CUDA's names, which are part of this library and are written to a folder for the compiler.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use include_dir::{include_dir, Dir, DirEntry};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::user_cache;

static HEADERS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/include");

/// Every header: its name, as includes give it, and its text.
pub fn all() -> Vec<(String, &'static str)> {
    texts(&HEADERS)
}

/// Every file of a folder: its name in the folder, and its text.
pub(crate) fn texts(folder: &'static Dir<'static>) -> Vec<(String, &'static str)> {
    fn collect(folder: &'static Dir<'static>, all: &mut Vec<(String, &'static str)>) {
        for entry in folder.entries() {
            match entry {
                DirEntry::Dir(inner) => collect(inner, all),
                DirEntry::File(file) => {
                    // A test reads them all as text.
                    let text = file.contents_utf8().unwrap_or_default();
                    all.push((file.path().display().to_string(), text));
                }
            }
        }
    }
    let mut all = Vec::new();
    collect(folder, &mut all);
    all.sort();
    all
}

/// The folder that has the headers: in the user's cache, under a name made of their contents; or below `otherwise`, where
/// that cannot be written.
///
/// # Errors
/// No folder can be written.
pub fn folder(otherwise: &Path) -> Result<PathBuf> {
    static DIGEST: OnceLock<String> = OnceLock::new();
    let digest =
        DIGEST.get_or_init(|| format!("{:032x}", xxh3_128(format!("{:?}", all()).as_bytes())));
    let in_cache = user_cache::folder().map(|cache| cache.join("headers").join(digest));
    let aside = otherwise.join("candle-rocm-headers").join(digest);
    match in_cache.map(|folder| write(&folder).map(|()| folder)) {
        Some(Ok(folder)) => Ok(folder),
        // Says nothing: the other folder does as well, and its error is the one that matters.
        _ => write(&aside).map(|()| aside),
    }
}

/// Writes all headers to `folder`, unless they are there.
fn write(folder: &Path) -> Result<()> {
    // Written last, so that a folder which has it has all.
    let complete = folder.join(".complete");
    if complete.is_file() {
        return Ok(());
    }
    for (name, text) in all() {
        save(&folder.join(name), text)?;
    }
    save(&complete, "")
}

/// Writes aside and renames, as builds side by side write the same.
fn save(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let aside = tempfile::NamedTempFile::new_in(folder).map_err(Error::file(folder))?;
    std::fs::write(aside.path(), text).map_err(Error::file(path))?;
    aside
        .persist(path)
        .map(|_| ())
        .map_err(|error| Error::file(path)(error.error))
}
