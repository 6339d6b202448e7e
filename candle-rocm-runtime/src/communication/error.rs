//! The error of communication, with NCCL's number for it.

use std::fmt;

use super::sys::ncclResult_t;
use crate::base::error::{Error, ErrorKind};

/// An [`Error`] of communication between GPUs. Its first field is NCCL's number for it; the text names the rank that is gone,
/// where one is.
#[derive(Clone, PartialEq, Eq)]
pub struct CommunicationError(pub ncclResult_t, Error);

impl CommunicationError {
    /// An error with NCCL's number for it.
    pub(crate) fn new(number: ncclResult_t, message: impl Into<String>) -> Self {
        let kind = match number {
            ncclResult_t::ncclInvalidArgument | ncclResult_t::ncclInvalidUsage => {
                ErrorKind::InvalidArgument
            }
            _ => ErrorKind::Communication,
        };
        Self(number, Error::new(kind, message))
    }

    /// The error of a call that makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ncclResult_t::ncclInvalidArgument, message)
    }

    /// What went wrong, in a sentence.
    pub fn message(&self) -> &str {
        self.1.message()
    }

    /// The runtime's own error.
    pub fn error(&self) -> &Error {
        &self.1
    }
}

impl From<Error> for CommunicationError {
    fn from(error: Error) -> Self {
        let number = match error.kind() {
            ErrorKind::Hip(_) | ErrorKind::OutOfMemory | ErrorKind::NoDevice => {
                ncclResult_t::ncclUnhandledCudaError
            }
            ErrorKind::InvalidArgument => ncclResult_t::ncclInvalidArgument,
            ErrorKind::Unsupported => ncclResult_t::ncclInvalidUsage,
            ErrorKind::Communication => ncclResult_t::ncclRemoteError,
            _ => ncclResult_t::ncclSystemError,
        };
        Self(number, error)
    }
}

impl fmt::Display for CommunicationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Debug for CommunicationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NcclError({:?}: {})", self.0, self.message())
    }
}

impl std::error::Error for CommunicationError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.1)
    }
}
