//! What can go wrong.

use std::path::PathBuf;

use crate::ptx::Unknown;

/// A result with this crate's [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why CUDA source was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No compiler for AMD GPUs, or no architecture to compile for, or a folder that cannot be used. Says what to do.
    #[error(transparent)]
    Toolchain(#[from] rocm_toolchain::Error),
    /// What was asked for cannot be done as it was asked. Says what to do.
    #[error("{0}")]
    Setup(String),
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An option of nvcc or NVRTC that nothing here knows.
    #[error("the option `{option}` is not known{advice}")]
    Option {
        /// The option, as it was given.
        option: String,
        /// What to do, after a colon; may be empty.
        advice: String,
    },
    /// Inline PTX that is not known.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Ptx(Vec<Unknown>),
    /// The compiler refused the source.
    #[error("{file} for {arch} does not compile:\n{log}", file = file.display())]
    Compile {
        /// The source.
        file: PathBuf,
        /// The GPU or generic target.
        arch: String,
        /// What the compiler said, with the user's lines.
        log: String,
    },
}

impl Error {
    /// For files: `result.map_err(Error::file(path))`.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        |source| Error::File {
            path: path.to_owned(),
            source,
        }
    }
}
