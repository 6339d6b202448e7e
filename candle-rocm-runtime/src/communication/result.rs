//! Functions that return a result, one for each of NCCL's.

use std::ffi::{c_int, c_void};
use std::ptr::null;
use std::sync::Arc;

use super::call::{Call, Kind};
use super::communicator::{self, Communicator};
use super::error::CommunicationError;
pub use super::error::CommunicationError as NcclError;
use super::group;
use super::library;
use super::sys::{
    cudaStream_t, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId,
};
use crate::foreign::current_device;
use crate::runtime;
use crate::stream::context::Context;
use crate::stream::queue::Stream;

/// What a call that did not fail gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NcclStatus {
    /// It is given to the stream.
    Success,
    /// The library goes on with it.
    InProgress,
    /// What NCCL ends its list of results with.
    NumResults,
}

impl ncclResult_t {
    /// A status, or the error.
    ///
    /// # Errors
    /// Anything but success and a call in progress.
    pub fn result(self) -> Result<NcclStatus, NcclError> {
        match self {
            Self::ncclSuccess => Ok(NcclStatus::Success),
            Self::ncclInProgress => Ok(NcclStatus::InProgress),
            Self::ncclNumResults => Ok(NcclStatus::NumResults),
            error => Err(CommunicationError::new(error, format!("{error:?}"))),
        }
    }
}

/// The library's version, such as 22703; 0 where our collectives run.
///
/// # Errors
/// The library's.
pub fn get_nccl_version() -> Result<c_int, NcclError> {
    let Some(library) = library::chosen()? else {
        return Ok(0);
    };
    let mut version = 0;
    // SAFETY: the place is writable.
    library.check("ncclGetVersion", unsafe { (library.version)(&mut version) })?;
    Ok(version)
}

/// A new identifier.
///
/// # Errors
/// The library's, or the system has no random numbers.
pub fn get_uniqueid() -> Result<ncclUniqueId, NcclError> {
    communicator::new_id()
}

fn rank_of(number: c_int) -> Result<usize, NcclError> {
    usize::try_from(number)
        .map_err(|_| CommunicationError::invalid(format!("there is no rank {number}")))
}

fn handle(rank: Communicator) -> ncclComm_t {
    Box::into_raw(Box::new(rank)).cast()
}

/// The rank of a handle.
///
/// # Safety
/// The handle is alive for as long as the result is used.
unsafe fn of<'a>(comm: ncclComm_t) -> &'a Communicator {
    // SAFETY: made by `handle`, and alive by the caller's promise.
    unsafe { &*comm.cast::<Communicator>() }
}

/// A rank's handle, on the thread's current GPU.
///
/// # Safety
/// The place is writable.
///
/// # Errors
/// As [`Communicator::from_rank`].
pub unsafe fn comm_init_rank(
    comm: *mut ncclComm_t,
    nranks: c_int,
    comm_id: ncclUniqueId,
    rank: c_int,
) -> Result<NcclStatus, NcclError> {
    let context = Context::new(current_device()?.ordinal())?;
    let rank = Communicator::from_rank(&context, rank_of(rank)?, rank_of(nranks)?, &comm_id)?;
    // SAFETY: the caller's promise.
    unsafe { comm.write(handle(rank)) };
    Ok(NcclStatus::Success)
}

/// A rank's handle on each of these GPUs.
///
/// # Safety
/// Both places have `ndev` elements, or `devlist` is null and means the first GPUs.
///
/// # Errors
/// As [`Communicator::from_contexts`].
pub unsafe fn comm_init_all(
    comm: *mut ncclComm_t,
    ndev: c_int,
    devlist: *const c_int,
) -> Result<NcclStatus, NcclError> {
    let count = rank_of(ndev)?;
    let contexts = (0..count).map(|place| {
        let ordinal = match devlist.is_null() {
            true => place,
            // SAFETY: the caller's promise.
            false => rank_of(unsafe { devlist.add(place).read() })?,
        };
        Ok(Context::new(ordinal)?)
    });
    let contexts = contexts.collect::<Result<Vec<_>, NcclError>>()?;
    for (place, rank) in Communicator::from_contexts(&contexts)?
        .into_iter()
        .enumerate()
    {
        // SAFETY: the caller's promise.
        unsafe { comm.add(place).write(handle(rank)) };
    }
    Ok(NcclStatus::Success)
}

/// Ends a rank, once its GPU has done what it was given.
///
/// # Safety
/// The handle is of this module, and nobody uses it afterwards.
///
/// # Errors
/// The library's.
pub unsafe fn comm_destroy(comm: ncclComm_t) -> Result<NcclStatus, NcclError> {
    if !comm.is_null() {
        // SAFETY: made by `handle`, ended once.
        let rank = unsafe { Box::from_raw(comm.cast::<Communicator>()) };
        rank.destroy()?;
    }
    Ok(NcclStatus::Success)
}

/// Ends a rank of the library's whatever it does; one of ours as [`comm_destroy`].
///
/// # Safety
/// As [`comm_destroy`].
///
/// # Errors
/// None: the GPU's next call has the library's.
pub unsafe fn comm_abort(comm: ncclComm_t) -> Result<NcclStatus, NcclError> {
    if !comm.is_null() {
        // SAFETY: made by `handle`, ended once.
        drop(unsafe { Box::from_raw(comm.cast::<Communicator>()) });
    }
    Ok(NcclStatus::Success)
}

/// Nothing is left to be done before a rank ends.
///
/// # Safety
/// None is needed; cudarc's is unsafe, too.
///
/// # Errors
/// None.
pub unsafe fn comm_finalize(_comm: ncclComm_t) -> Result<NcclStatus, NcclError> {
    Ok(NcclStatus::Success)
}

/// Functions that ask of a handle.
macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The handle is alive.
        ///
        /// # Errors
        /// The library's.
        pub unsafe fn $name(comm: ncclComm_t) -> Result<c_int, NcclError> {
            // SAFETY: the caller's promise.
            Ok(unsafe { of(comm) }.$method()? as c_int)
        }
    )* };
}
questions! {
    /// How many ranks there are.
    comm_count world;
    /// The number of its GPU.
    comm_cu_device ordinal;
    /// The rank's number.
    comm_user_rank rank;
}

/// The stream behind a handle, of the communicator's GPU.
///
/// # Safety
/// The stream is alive.
unsafe fn stream_of(comm: &Communicator, raw: cudaStream_t) -> Result<Arc<Stream>, NcclError> {
    let context = Context::new(comm.ordinal()?)?;
    // SAFETY: alive, by the caller's promise.
    Ok(unsafe { context.wrap_borrowed_stream(raw) })
}

/// # Safety
/// Handle, stream and the call's memory are alive and of one GPU.
unsafe fn give(comm: ncclComm_t, raw: cudaStream_t, call: Call) -> Result<NcclStatus, NcclError> {
    // SAFETY: alive, by the caller's promise.
    let comm = unsafe { of(comm) };
    // SAFETY: the caller's promises.
    let status = unsafe { comm.call(&stream_of(comm, raw)?, call) }?;
    status.result()
}

/// Functions of collectives and messages.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) => $kind:expr, $send:expr, $recv:expr, $count:expr, $dtype:expr, $op:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// Handle, stream and memory are alive and of one GPU, and the memory has so many elements.
        ///
        /// # Errors
        /// The call makes no sense, a rank is gone, or HIP refuses.
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $name($($argument: $type,)* comm: ncclComm_t, stream: cudaStream_t) -> Result<NcclStatus, NcclError> {
            let call = Call {
                kind: $kind,
                send: $send as u64,
                recv: $recv as u64,
                count: $count,
                dtype: $dtype,
                op: $op,
            };
            // SAFETY: the caller's promises.
            unsafe { give(comm, stream, call) }
        }
    )* };
}
type Elements = *const c_void;
type Results = *mut c_void;
calls! {
    /// Elements of all ranks, reduced, to one.
    fn reduce(sendbuff: Elements, recvbuff: Results, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t, root: c_int)
        => Kind::Reduce(rank_of(root)?), sendbuff, recvbuff, count, datatype, op;
    /// Elements of one rank to all.
    fn broadcast(sendbuff: Elements, recvbuff: Results, count: usize, datatype: ncclDataType_t, root: c_int)
        => Kind::Broadcast(rank_of(root)?), sendbuff, recvbuff, count, datatype, ncclRedOp_t::ncclSum;
    /// Elements of all ranks, reduced, to all.
    fn all_reduce(sendbuff: Elements, recvbuff: Results, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t)
        => Kind::AllReduce, sendbuff, recvbuff, count, datatype, op;
    /// Elements for each rank, reduced, to it.
    fn reduce_scatter(sendbuff: Elements, recvbuff: Results, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t)
        => Kind::ReduceScatter, sendbuff, recvbuff, count, datatype, op;
    /// Elements of all ranks, one rank after the other, to all.
    fn all_gather(sendbuff: Elements, recvbuff: Results, count: usize, datatype: ncclDataType_t)
        => Kind::AllGather, sendbuff, recvbuff, count, datatype, ncclRedOp_t::ncclSum;
    /// Elements to another rank.
    fn send(sendbuff: Elements, count: usize, datatype: ncclDataType_t, peer: c_int)
        => Kind::Send(rank_of(peer)?), sendbuff, null::<c_void>(), count, datatype, ncclRedOp_t::ncclSum;
    /// Elements from another rank.
    fn recv(recvbuff: Results, count: usize, datatype: ncclDataType_t, peer: c_int)
        => Kind::Recv(rank_of(peer)?), null::<c_void>(), recvbuff, count, datatype, ncclRedOp_t::ncclSum;
}

/// Begins a group.
///
/// # Errors
/// No runtime is there.
pub fn group_start() -> Result<NcclStatus, NcclError> {
    runtime::current()?;
    group::group_start()?.result()
}

/// Ends a group.
///
/// # Errors
/// A call of the group is refused or fails, or one of its ranks is gone.
pub fn group_end() -> Result<NcclStatus, NcclError> {
    group::group_end()?.result()
}
