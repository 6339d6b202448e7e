//! What is compiled, and what comes of it.

use std::path::{Path, PathBuf};

/// CUDA source.
#[derive(Clone, Debug)]
pub enum Source {
    /// A `.cu` file.
    File(PathBuf),
    /// A string, and the name that messages call it by.
    Text {
        /// The name.
        name: String,
        /// The source.
        text: String,
    },
}

impl Source {
    /// Its path, or what it is called by.
    pub fn name(&self) -> &Path {
        match self {
            Source::File(path) => path,
            Source::Text { name, .. } => Path::new(name),
        }
    }
}

/// A compiled source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The source's name without folder and extension.
    pub name: String,
    /// One for each architecture.
    pub objects: Vec<Object>,
    /// The user's files that it was made of.
    pub dependencies: Vec<PathBuf>,
    /// What the compiler said without failing.
    pub warnings: String,
}

/// A code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The GPU or generic target, by LLVM's name.
    pub arch: String,
    /// The zstd frame.
    pub frame: Vec<u8>,
    /// Whether it was compiled now, as against found in the cache.
    pub made: bool,
}

impl Program {
    /// Of this source, and nothing yet.
    pub(crate) fn of(source: &Path) -> Self {
        let stem = source.file_stem().unwrap_or_default();
        Program {
            name: stem.to_string_lossy().into_owned(),
            ..Program::default()
        }
    }
}
