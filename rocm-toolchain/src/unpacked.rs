//! Sources that are part of a program, written to a folder for the compiler.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use include_dir::{Dir, DirEntry};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::user_cache;

/// A folder of sources that is part of the program.
pub struct Sources {
    name: &'static str,
    files: &'static Dir<'static>,
    /// Names their contents.
    digest: OnceLock<String>,
}

impl Sources {
    /// `name` is that of their folder in the user's cache.
    pub const fn new(name: &'static str, files: &'static Dir<'static>) -> Self {
        Self {
            name,
            files,
            digest: OnceLock::new(),
        }
    }

    /// Every file: its path, and its text.
    pub fn texts(&self) -> Vec<(String, &'static str)> {
        texts(self.files)
    }

    /// The folder that has them: in the user's cache, under a name made of their contents; or below `otherwise`, where
    /// that cannot be written.
    ///
    /// # Errors
    /// No folder can be written.
    pub fn folder(&self, otherwise: &Path) -> Result<PathBuf> {
        let digest = self.digest.get_or_init(|| {
            format!(
                "{:032x}",
                xxh3_128(format!("{:?}", self.texts()).as_bytes())
            )
        });
        let in_cache = user_cache::folder().map(|cache| cache.join(self.name).join(digest));
        let aside = otherwise
            .join(format!("candle-rocm-{}", self.name))
            .join(digest);
        match in_cache.map(|folder| write(self.files, &folder).map(|()| folder)) {
            Some(Ok(folder)) => Ok(folder),
            // Says nothing: the other folder does as well, and its error is the one that matters.
            _ => write(self.files, &aside).map(|()| aside),
        }
    }
}

/// Every file below `sources`: its path there, and its text.
fn texts(sources: &'static Dir<'static>) -> Vec<(String, &'static str)> {
    fn collect(folder: &'static Dir<'static>, all: &mut Vec<(String, &'static str)>) {
        for entry in folder.entries() {
            match entry {
                DirEntry::Dir(inner) => collect(inner, all),
                DirEntry::File(file) => {
                    // Tests read them all as text.
                    let text = file.contents_utf8().unwrap_or_default();
                    all.push((file.path().display().to_string(), text));
                }
            }
        }
    }
    let mut all = Vec::new();
    collect(sources, &mut all);
    all.sort();
    all
}

/// Writes all of them to `folder`, unless they are there.
fn write(sources: &'static Dir<'static>, folder: &Path) -> Result<()> {
    // Written last, so that a folder which has it has all.
    let complete = folder.join(".complete");
    if complete.is_file() {
        return Ok(());
    }
    for (name, text) in texts(sources) {
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
