//! NCCL's functions: those of AMD's RCCL, or of NCCL on NVIDIA GPUs, loaded when they are first needed.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::OnceLock;

use super::call::{Call, Kind};
use super::choice::{CommChoice, COMM_VARIABLE, LIBRARY_VARIABLE};
use super::error::CommunicationError;
use super::sys::{ncclResult_t, ncclUniqueId};
use crate::base::dynamic_library::{symbol, Found, Search};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::types::hipStream_t;
use crate::runtime::{self, RuntimeKind};

const RCCL: Search = Search {
    variable: LIBRARY_VARIABLE,
    roots: &[],
    rocm: &["lib"],
    folders: &[],
    names: &["librccl.so.1", "librccl.so"],
};

const NCCL: Search = Search {
    variable: LIBRARY_VARIABLE,
    roots: &[
        ("CUDA_HOME", &["lib64", "lib"]),
        ("CUDA_PATH", &["lib64", "lib"]),
    ],
    rocm: &[],
    folders: &["/usr/local/cuda/lib64"],
    names: &["libnccl.so.2", "libnccl.so"],
};

/// A communicator of the library.
pub(super) type RawComm = *mut c_void;

/// Declares the table of functions from one list.
macro_rules! functions {
    ($($field:ident $symbol:literal ($($argument:ty),*);)*) => {
        /// The library's functions; each gives a number of `ncclResult_t`.
        pub(super) struct Library {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            text: unsafe extern "C" fn(c_int) -> *const c_char,
            /// Where it was found.
            pub path: String,
        }

        impl Library {
            /// The functions of a library, or the name of one that it lacks.
            ///
            /// # Safety
            /// The library's functions of these names have NCCL's signatures.
            unsafe fn of(library: &'static libloading::Library, path: String) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        let found = symbol(library, $symbol).ok_or($symbol)?;
                        // SAFETY: the caller's promise.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(found.as_ptr())
                        }
                    },)*
                    text: {
                        let found = symbol(library, "ncclGetErrorString").ok_or("ncclGetErrorString")?;
                        // SAFETY: the caller's promise.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(found.as_ptr())
                        }
                    },
                    path,
                })
            }
        }
    };
}

functions! {
    version "ncclGetVersion" (*mut c_int);
    unique_id "ncclGetUniqueId" (*mut ncclUniqueId);
    init_rank "ncclCommInitRank" (*mut RawComm, c_int, ncclUniqueId, c_int);
    init_all "ncclCommInitAll" (*mut RawComm, c_int, *const c_int);
    destroy "ncclCommDestroy" (RawComm);
    abort "ncclCommAbort" (RawComm);
    count "ncclCommCount" (RawComm, *mut c_int);
    device "ncclCommCuDevice" (RawComm, *mut c_int);
    rank "ncclCommUserRank" (RawComm, *mut c_int);
    group_start "ncclGroupStart" ();
    group_end "ncclGroupEnd" ();
    reduce "ncclReduce" (*const c_void, *mut c_void, usize, u32, u32, c_int, RawComm, hipStream_t);
    broadcast "ncclBroadcast" (*const c_void, *mut c_void, usize, u32, c_int, RawComm, hipStream_t);
    all_reduce "ncclAllReduce" (*const c_void, *mut c_void, usize, u32, u32, RawComm, hipStream_t);
    reduce_scatter "ncclReduceScatter" (*const c_void, *mut c_void, usize, u32, u32, RawComm, hipStream_t);
    all_gather "ncclAllGather" (*const c_void, *mut c_void, usize, u32, RawComm, hipStream_t);
    send "ncclSend" (*const c_void, usize, u32, c_int, RawComm, hipStream_t);
    recv "ncclRecv" (*mut c_void, usize, u32, c_int, RawComm, hipStream_t);
}

impl Library {
    /// What a function gave.
    ///
    /// # Errors
    /// Anything but success, with the library's text for it.
    pub fn check(&self, what: &str, status: c_int) -> Result<ncclResult_t, CommunicationError> {
        use ncclResult_t as Status;
        let number = Status::of(status).unwrap_or(Status::ncclInternalError);
        if matches!(
            number,
            Status::ncclSuccess | Status::ncclInProgress | Status::ncclNumResults
        ) {
            return Ok(number);
        }
        // SAFETY: takes any number, and gives a string that lives as long as the library.
        let text = unsafe { CStr::from_ptr((self.text)(status)) };
        Err(CommunicationError::new(
            number,
            format!("{what}: {number:?}: {}", text.to_string_lossy()),
        ))
    }

    /// Gives a call to a stream.
    ///
    /// # Safety
    /// Communicator, stream and memory are alive, and of one GPU, which is current.
    ///
    /// # Errors
    /// The library's.
    pub unsafe fn run(
        &self,
        comm: RawComm,
        stream: hipStream_t,
        call: &Call,
    ) -> Result<ncclResult_t, CommunicationError> {
        let (send, recv) = (call.send as *const c_void, call.recv as *mut c_void);
        let (count, dtype, op) = (call.count, call.dtype as u32, call.op as u32);
        // SAFETY: the caller's promises.
        let status = unsafe {
            match call.kind {
                Kind::AllReduce => (self.all_reduce)(send, recv, count, dtype, op, comm, stream),
                Kind::AllGather => (self.all_gather)(send, recv, count, dtype, comm, stream),
                Kind::ReduceScatter => {
                    (self.reduce_scatter)(send, recv, count, dtype, op, comm, stream)
                }
                Kind::Broadcast(root) => {
                    (self.broadcast)(send, recv, count, dtype, root as c_int, comm, stream)
                }
                Kind::Reduce(root) => {
                    (self.reduce)(send, recv, count, dtype, op, root as c_int, comm, stream)
                }
                Kind::Send(peer) => (self.send)(send, count, dtype, peer as c_int, comm, stream),
                Kind::Recv(peer) => (self.recv)(recv, count, dtype, peer as c_int, comm, stream),
            }
        };
        self.check("a collective", status)
    }
}

fn load() -> Result<Library> {
    let (search, what, root) = match runtime::current()?.kind() {
        RuntimeKind::Amd => (&RCCL, "RCCL", "ROCM_PATH"),
        RuntimeKind::Nvidia => (&NCCL, "NCCL", "CUDA_HOME"),
        RuntimeKind::Emulator => {
            return Err(Error::unsupported(format!(
                "RCCL does not run on emulated GPUs: {COMM_VARIABLE}=own does"
            )))
        }
    };
    let Found { library, path } = search.load().map_err(|tried| {
        Error::new(
            ErrorKind::Runtime,
            format!(
                "{what} was not found. Install it, or set {root} to where it is, or {LIBRARY_VARIABLE} to the library \
                 itself; {COMM_VARIABLE}=own uses our own collectives. {tried}"
            ),
        )
    })?;
    // SAFETY: the library presents itself as RCCL or NCCL, whose functions have these signatures.
    let functions = unsafe { Library::of(library, path.clone()) };
    functions.map_err(|missing| {
        Error::new(
            ErrorKind::Runtime,
            format!(
                "{path} has no function {missing}; {COMM_VARIABLE}=own uses our own collectives"
            ),
        )
    })
}

/// The library, loaded at the first call.
///
/// # Errors
/// It does not load, with what was tried.
pub(super) fn library() -> Result<&'static Library> {
    static LIBRARY: OnceLock<Result<Library>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// The library, if its collectives run in this process; `None` if ours do.
///
/// # Errors
/// It is asked for, and does not load.
pub(super) fn chosen() -> Result<Option<&'static Library>> {
    match CommChoice::current()? {
        CommChoice::Own | CommChoice::Staged => Ok(None),
        CommChoice::Library => library().map(Some),
        CommChoice::Auto => Ok(library().ok()),
    }
}
