//! What can go wrong, in cudaforge's variants.

use std::path::PathBuf;

/// A result with this crate's [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why kernels were not built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no compiler for AMD GPUs; says what to install.
    #[error("{0}")]
    NvccNotFound(String),
    /// A folder that should have a toolkit has none.
    #[error("no toolkit in {}", .0.display())]
    CudaToolkitNotFound(PathBuf),
    /// `CUDA_COMPUTE_CAP` is no number.
    #[error("{0}")]
    ComputeCapDetectionFailed(String),
    /// A file does not compile.
    #[error("{}: {message}", path.display())]
    CompilationFailed {
        /// The file.
        path: PathBuf,
        /// The compiler's words, with the file's lines.
        message: String,
    },
    /// A library could not be made.
    #[error("{0}")]
    LinkingFailed(String),
    /// A source is not there.
    #[error("the source {} is not there", .0.display())]
    SourcePathNotFound(PathBuf),
    /// Other people's sources could not be fetched.
    #[error("{0}")]
    GitOperationFailed(String),
    /// A file could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Something is wrong with what is kept between builds.
    #[error("{0}")]
    CacheError(String),
    /// What was asked for makes no sense, or an option is not known.
    #[error("{0}")]
    InvalidConfig(String),
}

impl From<rocm_nvcc::Error> for Error {
    fn from(error: rocm_nvcc::Error) -> Self {
        use rocm_nvcc::Error as Cuda;
        let message = error.to_string();
        match error {
            Cuda::Toolchain(_) | Cuda::Setup(_) => Self::NvccNotFound(message),
            Cuda::File { source, path } => Self::Io(std::io::Error::new(
                source.kind(),
                format!("{}: {source}", path.display()),
            )),
            Cuda::Option { .. } => Self::InvalidConfig(message),
            Cuda::Compile { file, .. } => Self::CompilationFailed {
                path: file,
                message,
            },
            Cuda::Ptx(unknown) => Self::CompilationFailed {
                path: unknown
                    .first()
                    .map_or_else(PathBuf::new, |first| PathBuf::from(&first.file)),
                message,
            },
        }
    }
}
