//! Names a compiled kernel by all that it depends on, wherever the sources, the compiler and the target folder lie.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};

/// Counts changes of what the name is made of, or of what is kept under it.
const FORMAT: u32 = 1;

/// One file that was read.
struct Content {
    digest: u128,
    bytes: usize,
    /// What it includes in quotes.
    includes: Vec<String>,
}

/// The contents of the files that names were made of. Each is read once.
pub struct Contents {
    /// The folders that includes are relative to, the first that has the file before others.
    include: Vec<PathBuf>,
    read: Mutex<HashMap<PathBuf, Arc<Content>>>,
}

impl Contents {
    /// Of files whose includes are relative to the folders `include`.
    pub fn new(include: Vec<PathBuf>) -> Self {
        Self {
            include,
            read: Mutex::default(),
        }
    }

    /// The folders that includes are relative to.
    pub fn include(&self) -> &[PathBuf] {
        &self.include
    }

    /// 32 hexadecimal digits for a kernel made of `source` and what it includes, of `bitcode`, and of `flags`: the
    /// architecture, what the compiler is told, and its version.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn key(&self, source: &Path, bitcode: &[PathBuf], flags: &[&str]) -> Result<String> {
        let mut text = format!("format {FORMAT}\n{flags:?}\n");
        for file in self.sources(source)? {
            text += &format!(
                "{:?} {:032x}\n",
                self.name(&file),
                self.content(&file)?.digest
            );
        }
        for file in bitcode {
            text += &format!(
                "{:?} {:032x}\n",
                file.file_name(),
                self.content(file)?.digest
            );
        }
        Ok(format!("{:032x}", xxh3_128(text.as_bytes())))
    }

    /// `source` and the files it includes, directly or not.
    ///
    /// # Errors
    /// One cannot be found or read.
    pub fn sources(&self, source: &Path) -> Result<BTreeSet<PathBuf>> {
        let mut found = BTreeSet::new();
        let mut open = vec![source.to_path_buf()];
        while let Some(file) = open.pop() {
            if !found.insert(file.clone()) {
                continue;
            }
            for name in &self.content(&file)?.includes {
                let mut candidates = self.include.iter().map(|folder| folder.join(name));
                let found = candidates.find(|path| path.is_file());
                open.push(found.ok_or_else(|| Error::NoInclude {
                    file: file.clone(),
                    name: name.clone(),
                })?);
            }
        }
        Ok(found)
    }

    /// Bytes of `source` and of the files it includes.
    ///
    /// # Errors
    /// One cannot be found or read.
    pub fn bytes(&self, source: &Path) -> Result<usize> {
        let files = self.sources(source)?.into_iter();
        files.map(|file| Ok(self.content(&file)?.bytes)).sum()
    }

    /// A file's path below the folder that includes are relative to.
    fn name<'a>(&self, file: &'a Path) -> &'a Path {
        let mut below = self.include.iter().map(|folder| file.strip_prefix(folder));
        below.find_map(std::result::Result::ok).unwrap_or(file)
    }

    fn content(&self, file: &Path) -> Result<Arc<Content>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = read.get(file) {
            return Ok(content.clone());
        }
        let bytes = std::fs::read(file).map_err(Error::file(file))?;
        let content = Arc::new(Content {
            digest: xxh3_128(&bytes),
            bytes: bytes.len(),
            // Bitcode is no text, and includes nothing.
            includes: std::str::from_utf8(&bytes).map_or(vec![], includes),
        });
        read.insert(file.to_path_buf(), content.clone());
        Ok(content)
    }
}

/// The names in `#include "..."`.
fn includes(text: &str) -> Vec<String> {
    let directives = text.lines().filter_map(|line| {
        let name = line.trim_start().strip_prefix('#')?.trim_start();
        let name = name.strip_prefix("include")?.trim_start();
        name.strip_prefix('"')?.split('"').next()
    });
    directives.map(str::to_string).collect()
}
