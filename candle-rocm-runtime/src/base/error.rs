//! The one error type of the runtime.
//!
//! An [`Error`] says what was being done (which kernel, which grid, how many bytes), what HIP answered
//! (its name and its text), and, on the emulator, the fault that ended the launch.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

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

/// What went wrong, in one sentence that can be shown to a user. Cheap to clone. `error.0` is CUDA's number for it, as
/// programs read it from cudarc's error.
#[derive(Clone, PartialEq, Eq)]
pub enum Error {
    /// CUDA's number alone, for programs that match `DriverError(number)`: what [`CUresult::result`] makes of states, such
    /// as work that is not finished and peers that are reached already.
    DriverError(CUresult),
    /// Everything else, with a sentence.
    Described(Described),
}

/// A number with what is known of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Described {
    number: Number,
    inner: Arc<Inner>,
}

/// CUDA's number of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Number(pub CUresult);

impl Deref for Error {
    type Target = Number;

    fn deref(&self) -> &Number {
        match self {
            // SAFETY: a `Number` is laid out as its one field.
            Self::DriverError(number) => unsafe { &*std::ptr::from_ref(number).cast() },
            Self::Described(described) => &described.number,
        }
    }
}

/// What is known of a number alone.
fn alone(number: CUresult) -> &'static Inner {
    // A few, each made once.
    static ALL: Mutex<BTreeMap<CUresult, &Inner>> = Mutex::new(BTreeMap::new());
    let mut all = ALL.lock();
    all.entry(number).or_insert_with(|| {
        Box::leak(Box::new(Inner {
            kind: ErrorKind::Hip(number as u32),
            message: format!("{number:?}"),
            c_message: OnceLock::new(),
        }))
    })
}

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
        Self::Described(Described {
            number: Number(number),
            inner: Arc::new(inner),
        })
    }

    fn inner(&self) -> &Inner {
        match self {
            Self::DriverError(number) => alone(*number),
            Self::Described(described) => &described.inner,
        }
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
        Ok(self.inner().c_message.get_or_init(text))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.inner().kind
    }

    /// The text, without the type's name around it.
    pub fn message(&self) -> &str {
        &self.inner().message
    }

    /// The HIP code behind this error, if a HIP function returned one.
    pub fn hip_code(&self) -> Option<hipError_t> {
        match self.inner().kind {
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
        self.inner().kind == ErrorKind::OutOfMemory
            || self.hip_code() == Some(HIP_ERROR_OUT_OF_MEMORY)
    }

    /// The same error with what was being done put before it.
    pub fn context(&self, what: impl fmt::Display) -> Self {
        Self::new(
            self.inner().kind.clone(),
            format!("{what}: {}", self.inner().message),
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner().message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Error({:?}: {})",
            self.inner().kind,
            self.inner().message
        )
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
