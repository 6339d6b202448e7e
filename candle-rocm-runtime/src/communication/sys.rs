//! Types under NCCL's own names.
#![allow(missing_docs, non_camel_case_types, non_upper_case_globals)]

use std::ffi::{c_char, c_int};

use crate::base::hip::types::hipStream_t;

/// A rank of a communicator, of which there is nothing to know.
#[derive(Debug)]
pub struct ncclComm {
    _nothing: (),
}
/// Its handle.
pub type ncclComm_t = *mut ncclComm;
/// A stream's handle.
pub type cudaStream_t = hipStream_t;

/// What the ranks of a communicator find each other by.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct ncclUniqueId {
    pub internal: [c_char; 128],
}

/// Declares an enumeration of C by its names and numbers.
macro_rules! enumeration {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum $name {
            $($variant = $number,)*
        }
    };
}

enumeration! {
    /// What a call gives.
    ncclResult_t {
        ncclSuccess = 0,
        ncclUnhandledCudaError = 1,
        ncclSystemError = 2,
        ncclInternalError = 3,
        ncclInvalidArgument = 4,
        ncclInvalidUsage = 5,
        ncclRemoteError = 6,
        ncclInProgress = 7,
        ncclNumResults = 8,
    }
}

enumeration! {
    /// Element types.
    ncclDataType_t {
        ncclInt8 = 0,
        ncclUint8 = 1,
        ncclInt32 = 2,
        ncclUint32 = 3,
        ncclInt64 = 4,
        ncclUint64 = 5,
        ncclFloat16 = 6,
        ncclFloat32 = 7,
        ncclFloat64 = 8,
        ncclBfloat16 = 9,
        ncclFloat8e4m3 = 10,
        ncclFloat8e5m2 = 11,
        ncclNumTypes = 12,
    }
}

enumeration! {
    /// How elements are reduced.
    ncclRedOp_t {
        ncclSum = 0,
        ncclProd = 1,
        ncclMax = 2,
        ncclMin = 3,
        ncclAvg = 4,
        ncclNumOps = 5,
        ncclMaxRedOp = 2147483647,
    }
}

impl ncclResult_t {
    /// The one of a number of C.
    pub(super) fn of(number: c_int) -> Option<Self> {
        Some(match number {
            0 => Self::ncclSuccess,
            1 => Self::ncclUnhandledCudaError,
            2 => Self::ncclSystemError,
            3 => Self::ncclInternalError,
            4 => Self::ncclInvalidArgument,
            5 => Self::ncclInvalidUsage,
            6 => Self::ncclRemoteError,
            7 => Self::ncclInProgress,
            _ => return None,
        })
    }
}

impl ncclDataType_t {
    pub const ncclChar: Self = Self::ncclInt8;
    pub const ncclInt: Self = Self::ncclInt32;
    pub const ncclHalf: Self = Self::ncclFloat16;
    pub const ncclFloat: Self = Self::ncclFloat32;
    pub const ncclDouble: Self = Self::ncclFloat64;
}
