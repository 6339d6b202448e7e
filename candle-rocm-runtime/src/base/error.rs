//! The one error type of the runtime.
//!
//! An [`Error`] says what was being done (which kernel, which grid, how many bytes), what HIP answered
//! (its name and its text), and, on the emulator, the fault that ended the launch.

use std::fmt;
use std::sync::Arc;

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
    /// The operation does not exist in this release.
    Unsupported,
}

#[derive(PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    message: String,
}

/// What went wrong, in one sentence that can be shown to a user. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Arc<Inner>);

impl Error {
    /// An error of this kind with this text.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
        }))
    }

    /// Shorthand for [`ErrorKind::InvalidArgument`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Shorthand for [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The text, without the type's name around it.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The HIP code behind this error, if a HIP function returned one.
    pub fn hip_code(&self) -> Option<hipError_t> {
        match self.0.kind {
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
        self.0.kind == ErrorKind::OutOfMemory || self.hip_code() == Some(HIP_ERROR_OUT_OF_MEMORY)
    }

    /// The same error with what was being done put before it.
    pub fn context(&self, what: impl fmt::Display) -> Self {
        Self::new(self.0.kind.clone(), format!("{what}: {}", self.0.message))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {})", self.0.kind, self.0.message)
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
    /// An [`Error`] of random number generation.
    RandomError
);
wrapper!(
    /// An [`Error`] of compiling kernels at run time.
    CompileError
);
