//! The one error type of the runtime.
//!
//! An [`Error`] says what was being done (which kernel, which grid, how many bytes), what HIP answered
//! (its name and its text), and, on the emulator, the fault that ended the launch.

use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::base::cuda_names::CUresult;
use crate::base::hip::types::{hipError_t, HIP_ERROR_NOT_READY, HIP_ERROR_OUT_OF_MEMORY};

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure an [`Error`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A HIP function returned this code.
    Hip(hipError_t),
    /// No HIP runtime could be started: library not found, symbol missing, runtime not built in.
    Runtime,
    /// The runtime works, but there is no such GPU.
    NoDevice,
    /// The device has not enough memory, even after the cache was given back.
    OutOfMemory,
    /// An argument of a call makes no sense; nothing was sent to the device.
    InvalidArgument,
    /// A code object cannot be loaded: wrong format, architecture not embedded.
    Module,
    /// The module has no kernel of that name.
    KernelNotFound,
    /// The launch exceeds a limit of the device or of the kernel.
    LaunchLimit,
    /// The vendor's library of matrix products failed.
    Library,
    /// Another rank of a communicator is gone, or the library of communication failed.
    Communication,
    /// The operation does not exist in this release.
    Unsupported,
}

#[derive(PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    message: String,
    /// The same for C, once somebody asked.
    c_message: OnceLock<CString>,
}

/// What went wrong, in one sentence that can be shown to a user. Cheap to clone. Its first field is CUDA's number for it, as
/// programs read it from cudarc's error.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(pub CUresult, Arc<Inner>);

impl ErrorKind {
    /// CUDA's number for it.
    fn cu_result(&self) -> CUresult {
        match self {
            Self::Hip(code) => CUresult::of(*code),
            Self::Runtime => CUresult::CUDA_ERROR_NOT_INITIALIZED,
            Self::NoDevice => CUresult::CUDA_ERROR_INVALID_DEVICE,
            Self::OutOfMemory => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            Self::InvalidArgument => CUresult::CUDA_ERROR_INVALID_VALUE,
            Self::Module => CUresult::CUDA_ERROR_INVALID_IMAGE,
            Self::KernelNotFound => CUresult::CUDA_ERROR_NOT_FOUND,
            Self::LaunchLimit => CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            Self::Unsupported => CUresult::CUDA_ERROR_NOT_SUPPORTED,
            Self::Library | Self::Communication => CUresult::CUDA_ERROR_UNKNOWN,
        }
    }
}

impl Error {
    /// An error of this kind with this text.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let number = kind.cu_result();
        let inner = Inner {
            kind,
            message: message.into(),
            c_message: OnceLock::new(),
        };
        Self(number, Arc::new(inner))
    }

    /// Shorthand for [`ErrorKind::InvalidArgument`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Shorthand for [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// CUDA's number for it.
    pub fn cu_result(&self) -> CUresult {
        self.0
    }

    /// The name of CUDA's number for it.
    ///
    /// # Errors
    /// None; cudarc's has some.
    pub fn error_name(&self) -> Result<&CStr> {
        Ok(self.0.name())
    }

    /// The text, for C.
    ///
    /// # Errors
    /// None; cudarc's has some.
    pub fn error_string(&self) -> Result<&CStr> {
        let text = || CString::new(self.message().replace('\0', " ")).unwrap_or_default();
        Ok(self.1.c_message.get_or_init(text))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.1.kind
    }

    /// The text, without the type's name around it.
    pub fn message(&self) -> &str {
        &self.1.message
    }

    /// The HIP code behind this error, if a HIP function returned one.
    pub fn hip_code(&self) -> Option<hipError_t> {
        match self.1.kind {
            ErrorKind::Hip(code) => Some(code),
            _ => None,
        }
    }

    /// True if the work asked about is simply not finished.
    pub fn is_not_ready(&self) -> bool {
        self.hip_code() == Some(HIP_ERROR_NOT_READY)
    }

    /// True if the device ran out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.1.kind == ErrorKind::OutOfMemory || self.hip_code() == Some(HIP_ERROR_OUT_OF_MEMORY)
    }

    /// The same error with what was being done put before it.
    pub fn context(&self, what: impl fmt::Display) -> Self {
        Self::new(self.1.kind.clone(), format!("{what}: {}", self.1.message))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {})", self.1.kind, self.1.message)
    }
}

impl std::error::Error for Error {}

macro_rules! wrapper {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(pub Error);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::error::Error for $name {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }

        impl From<Error> for $name {
            fn from(error: Error) -> Self {
                Self(error)
            }
        }
    };
}

// Candle's error type has one `From` for each library, so each library needs a type of its own.
wrapper!(
    /// An [`Error`] of matrix multiplication.
    BlasError
);
wrapper!(
    /// An [`Error`] of convolutions and what else networks have.
    DnnError
);
wrapper!(
    /// An [`Error`] of random number generation.
    RandomError
);
wrapper!(
    /// An [`Error`] of compiling kernels at run time.
    CompileError
);
