//! Communicators, and collectives of device memory, as cudarc's safe layer has them.

use std::ffi::c_char;
use std::sync::Arc;

use half::{bf16, f16};

use super::call::{Call, Kind};
use super::communicator::{self, Communicator};
use super::error::CommunicationError;
use super::group::{group_end, group_start};
use super::own::AddNorm;
use super::result::NcclStatus;
use super::sys::{ncclDataType_t, ncclRedOp_t, ncclUniqueId};
use crate::memory::access::{DevicePtr, DevicePtrMut, SyncOnDrop};
use crate::memory::view::{View, ViewMut};
use crate::stream::context::Context;
use crate::stream::queue::Stream;

type Result<T, E = CommunicationError> = std::result::Result<T, E>;

/// What the ranks of a communicator find each other by: one makes it, and gives its bytes to the others.
#[derive(Clone, Copy, Debug)]
pub struct Id(ncclUniqueId);

impl Id {
    /// A new one.
    ///
    /// # Errors
    /// The library is asked for and does not load, or the system has no random numbers.
    pub fn new() -> Result<Self> {
        Ok(Self(communicator::new_id()?))
    }

    /// That of another rank, by its bytes.
    pub fn uninit(internal: [c_char; 128]) -> Self {
        Self(ncclUniqueId { internal })
    }

    /// Its bytes.
    pub fn internal(&self) -> &[c_char; 128] {
        &self.0.internal
    }
}

/// How elements are reduced. In order of the ranks: each gets the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// The sum; of integers without what does not fit.
    Sum,
    /// The product; likewise.
    Prod,
    /// The largest; NaN gives way to numbers.
    Max,
    /// The smallest; likewise.
    Min,
    /// The sum, divided by the number of ranks; of integers towards zero.
    Avg,
}

impl ReduceOp {
    fn number(&self) -> ncclRedOp_t {
        match self {
            Self::Sum => ncclRedOp_t::ncclSum,
            Self::Prod => ncclRedOp_t::ncclProd,
            Self::Max => ncclRedOp_t::ncclMax,
            Self::Min => ncclRedOp_t::ncclMin,
            Self::Avg => ncclRedOp_t::ncclAvg,
        }
    }
}

/// A type of elements that ranks exchange.
pub trait NcclType {
    /// NCCL's number for it.
    fn as_nccl_type() -> ncclDataType_t;
}

macro_rules! nccl_types {
    ($($type:ty: $number:ident,)*) => { $(
        impl NcclType for $type {
            fn as_nccl_type() -> ncclDataType_t {
                ncclDataType_t::$number
            }
        }
    )* };
}
nccl_types! {
    f16: ncclFloat16,
    bf16: ncclBfloat16,
    f32: ncclFloat32,
    f64: ncclFloat64,
    i8: ncclInt8,
    i32: ncclInt32,
    i64: ncclInt64,
    u8: ncclUint8,
    u32: ncclUint32,
    u64: ncclUint64,
    // As cudarc has it, whatever it is good for.
    char: ncclUint8,
}

/// A rank of a communicator, whose calls are given to a stream.
///
/// Calls return when they are given to the stream; what they give is there once that has run. All ranks make the same
/// collectives in the same order. A thread that has several ranks makes the calls of all in a group.
#[derive(Debug)]
pub struct Comm {
    communicator: Communicator,
    stream: Arc<Stream>,
    rank: usize,
    world_size: usize,
}

/// A call without its memory.
fn call_of<T: NcclType>(kind: Kind, count: usize, op: ncclRedOp_t) -> Call {
    Call {
        kind,
        send: 0,
        recv: 0,
        count,
        dtype: T::as_nccl_type(),
        op,
    }
}

fn rank_of(number: i32) -> Result<usize> {
    usize::try_from(number)
        .map_err(|_| CommunicationError::invalid(format!("there is no rank {number}")))
}

/// Rows whose sum over the ranks is added to others, for [`Comm::all_reduce_add`].
#[derive(Clone, Copy, Debug)]
pub struct RowsToAdd<'a, T> {
    /// This rank's part of the sum, one row after another.
    pub part: &'a View<'a, T>,
    /// What the sum is added to, of as many elements.
    pub residual: &'a View<'a, T>,
    /// Elements of a row.
    pub columns: usize,
}

/// What is moved, not reduced.
const NONE: ncclRedOp_t = ncclRedOp_t::ncclSum;

impl Comm {
    /// A rank for each of these streams, each on a GPU of its own; all are of this thread.
    ///
    /// # Errors
    /// Two have one GPU, there is no memory, or the library is asked for and does not load.
    pub fn from_devices(streams: Vec<Arc<Stream>>) -> Result<Vec<Self>> {
        let contexts: Vec<_> = streams.iter().map(|it| it.context().clone()).collect();
        let all = Communicator::from_contexts(&contexts)?;
        let world_size = all.len();
        let all = all.into_iter().zip(streams).enumerate();
        Ok(all
            .map(|(rank, (communicator, stream))| Self {
                communicator,
                stream,
                rank,
                world_size,
            })
            .collect())
    }

    /// This rank of so many, the others of which may be in other threads or processes. Waits until all have come; in a group,
    /// until its end.
    ///
    /// # Errors
    /// There is no such rank, it comes twice, or another does not come in time or ends, which the error names; two ranks have
    /// one GPU; there is no memory; or the identifier is a library's that does not load.
    pub fn from_rank(stream: Arc<Stream>, rank: usize, world_size: usize, id: Id) -> Result<Self> {
        let communicator = Communicator::from_rank(stream.context(), rank, world_size, &id.0)?;
        Ok(Self {
            communicator,
            stream,
            rank,
            world_size,
        })
    }

    /// The stream that calls are given to.
    pub fn stream(&self) -> Arc<Stream> {
        self.stream.clone()
    }

    /// Its GPU.
    pub fn context(&self) -> &Arc<Context> {
        self.stream.context()
    }

    /// The number of its GPU.
    pub fn ordinal(&self) -> usize {
        self.context().ordinal()
    }

    /// Its number.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn world_size(&self) -> usize {
        self.world_size
    }

    /// Whose collectives these are, and how ours exchange data. cudarc has no such function.
    pub fn provider(&self) -> &str {
        self.communicator.provider()
    }

    /// # Safety
    /// The memory has as many elements as the call says, and stays until the work is given to the stream.
    unsafe fn give(&self, call: Call, send: u64, recv: u64) -> Result<NcclStatus> {
        let call = Call { send, recv, ..call };
        // SAFETY: the caller's promise; the stream is this communicator's.
        unsafe { self.communicator.call(&self.stream, call) }?.result()
    }

    /// Fails unless a rank has so many elements to receive.
    fn holds(&self, what: &str, has: usize, needs: usize) -> Result<()> {
        if has >= needs {
            return Ok(());
        }
        Err(CommunicationError::invalid(format!(
            "{what} at rank {} of {}: {has} elements where {needs} are needed",
            self.rank, self.world_size
        )))
    }

    /// What is sent from one buffer and received in another.
    fn between<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        call: Call,
        send: &S,
        recv: &mut R,
    ) -> Result<NcclStatus> {
        let (src, _src) = send.device_ptr(&self.stream);
        let (dst, _dst) = recv.device_ptr_mut(&self.stream);
        // SAFETY: the callers hold the lengths to the call, and the guards live until it is given to the stream.
        unsafe { self.give(call, src, dst) }
    }

    /// What is sent from, and received in, one buffer.
    fn within<R: DevicePtrMut<T>, T: NcclType>(
        &self,
        call: Call,
        buff: &mut R,
    ) -> Result<NcclStatus> {
        let (dst, _dst) = buff.device_ptr_mut(&self.stream);
        // SAFETY: as above.
        unsafe { self.give(call, dst, dst) }
    }
}

impl Comm {
    /// All elements to another rank, which receives as many.
    ///
    /// # Errors
    /// There is no such rank, one is gone, or HIP refuses.
    pub fn send<S: DevicePtr<T>, T: NcclType>(&self, data: &S, peer: i32) -> Result<()> {
        let call = call_of::<T>(Kind::Send(rank_of(peer)?), data.len(), NONE);
        let (src, _src) = data.device_ptr(&self.stream);
        // SAFETY: so many elements, and the guard lives until the call is given to the stream.
        unsafe { self.give(call, src, 0) }.map(drop)
    }

    /// As many elements as there is room for, from another rank.
    ///
    /// # Errors
    /// As [`Comm::send`].
    pub fn recv<R: DevicePtrMut<T>, T: NcclType>(
        &self,
        buff: &mut R,
        peer: i32,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::Recv(rank_of(peer)?), buff.len(), NONE);
        let (dst, _dst) = buff.device_ptr_mut(&self.stream);
        // SAFETY: as above.
        unsafe { self.give(call, 0, dst) }
    }

    /// The root's elements to all ranks, as many as `recvbuff` has. The root must have `sendbuff`; others need none.
    ///
    /// # Errors
    /// The root has too few elements, there is no such rank, one is gone, or HIP refuses.
    pub fn broadcast<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: Option<&S>,
        recvbuff: &mut R,
        root: i32,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::Broadcast(rank_of(root)?), recvbuff.len(), NONE);
        if self.rank as i32 == root {
            self.holds("broadcast", sendbuff.map_or(0, |it| it.len()), call.count)?;
        }
        match sendbuff {
            Some(sendbuff) => self.between(call, sendbuff, recvbuff),
            None => self.within(call, recvbuff),
        }
    }

    /// [`Comm::broadcast`] in place.
    ///
    /// # Errors
    /// There is no such rank, one is gone, or HIP refuses.
    pub fn broadcast_in_place<R: DevicePtrMut<T>, T: NcclType>(
        &self,
        recvbuff: &mut R,
        root: i32,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::Broadcast(rank_of(root)?), recvbuff.len(), NONE);
        self.within(call, recvbuff)
    }

    /// The elements of all ranks, one rank after the other.
    ///
    /// # Errors
    /// There is no room for them, a rank is gone, or HIP refuses.
    pub fn all_gather<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::AllGather, sendbuff.len(), NONE);
        self.holds("all_gather", recvbuff.len(), call.count * self.world_size)?;
        self.between(call, sendbuff, recvbuff)
    }

    /// The elements of all ranks, reduced, to all.
    ///
    /// # Errors
    /// There is no room for them, a rank is gone, or HIP refuses.
    pub fn all_reduce<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::AllReduce, sendbuff.len(), reduce_op.number());
        self.holds("all_reduce", recvbuff.len(), call.count)?;
        self.between(call, sendbuff, recvbuff)
    }

    /// Whether [`Comm::all_reduce_add`] is there for so many rows: of ours, for rows that are few, of f16, bf16 or f32, 32 KiB
    /// at most and multiples of 16 bytes. All ranks find the same. cudarc has no such function.
    ///
    /// # Errors
    /// The ranks have not come.
    pub fn adds_rows<T: NcclType>(&self, rows: usize, columns: usize) -> Result<bool> {
        let dtype = T::as_nccl_type();
        self.communicator.adds_rows(rows, columns, dtype)
    }

    /// The ranks' `part` added up in f32, in their order, and `residual`, rounded once, to `sums`, in one launch, where
    /// [`Comm::adds_rows`]. The ranks are of a thread each.
    ///
    /// # Errors
    /// There is no such launch for these rows, sizes do not fit each other, a group is open, a rank is gone, or HIP refuses.
    pub fn all_reduce_add<T: NcclType>(
        &self,
        rows: RowsToAdd<T>,
        sums: &mut impl DevicePtrMut<T>,
    ) -> Result<()> {
        self.give_rows(rows, sums, None, 0)
    }

    /// [`Comm::all_reduce_add`], and in that launch the rows' RMS norm to `normed`: times `weight`, of a row's elements, with
    /// `epsilon` added to the mean of squares.
    ///
    /// # Errors
    /// As [`Comm::all_reduce_add`].
    pub fn all_reduce_add_rms_norm<T: NcclType>(
        &self,
        rows: RowsToAdd<T>,
        (weight, epsilon): (&View<T>, f32),
        sums: &mut impl DevicePtrMut<T>,
        normed: &mut impl DevicePtrMut<T>,
    ) -> Result<()> {
        self.holds("the norm's weight", weight.len(), rows.columns)?;
        self.holds("the norm", normed.len(), rows.part.len())?;
        let (weight, _weight) = weight.device_ptr(&self.stream);
        let (normed, _normed) = normed.device_ptr_mut(&self.stream);
        self.give_rows(rows, sums, Some((weight, epsilon)), normed)
    }

    /// Addresses are of memory that the caller holds.
    fn give_rows<T: NcclType>(
        &self,
        rows: RowsToAdd<T>,
        sums: &mut impl DevicePtrMut<T>,
        norm: Option<(u64, f32)>,
        normed: u64,
    ) -> Result<()> {
        let (what, count) = ("all_reduce_add", rows.part.len());
        self.holds(what, rows.residual.len(), count)?;
        self.holds(what, sums.len(), count)?;
        if rows.columns == 0 || !count.is_multiple_of(rows.columns) {
            return Err(CommunicationError::invalid(format!(
                "{what}: {count} elements are no rows of {}",
                rows.columns
            )));
        }
        let (part, _part) = rows.part.device_ptr(&self.stream);
        let (residual, _residual) = rows.residual.device_ptr(&self.stream);
        let (sums, _sums) = sums.device_ptr_mut(&self.stream);
        let (weight, epsilon) = norm.unwrap_or_default();
        let rows = AddNorm {
            part,
            residual,
            weight,
            sums,
            normed,
            rows: count / rows.columns,
            columns: rows.columns,
            dtype: T::as_nccl_type(),
            epsilon,
        };
        // SAFETY: memory of so many elements, and the guards live until the call is given to the stream.
        unsafe { self.communicator.add_norm(&self.stream, &rows) }
    }

    /// [`Comm::all_reduce`] in place.
    ///
    /// # Errors
    /// A rank is gone, or HIP refuses.
    pub fn all_reduce_in_place<R: DevicePtrMut<T>, T: NcclType>(
        &self,
        buff: &mut R,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::AllReduce, buff.len(), reduce_op.number());
        self.within(call, buff)
    }

    /// The elements of all ranks, reduced, to the root, which must have `recvbuff`; others need none.
    ///
    /// # Errors
    /// The root has no room for them, there is no such rank, one is gone, or HIP refuses.
    pub fn reduce<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: &S,
        recvbuff: Option<&mut R>,
        reduce_op: &ReduceOp,
        root: i32,
    ) -> Result<NcclStatus> {
        let kind = Kind::Reduce(rank_of(root)?);
        let call = call_of::<T>(kind, sendbuff.len(), reduce_op.number());
        if self.rank as i32 == root {
            let room = recvbuff.as_ref().map_or(0, |it| it.len());
            self.holds("reduce", room, call.count)?;
        }
        match recvbuff {
            Some(recvbuff) => self.between(call, sendbuff, recvbuff),
            None => {
                let (src, _src) = sendbuff.device_ptr(&self.stream);
                // SAFETY: so many elements, and the guard lives until the call is given to the stream.
                unsafe { self.give(call, src, 0) }
            }
        }
    }

    /// [`Comm::reduce`] in place.
    ///
    /// # Errors
    /// There is no such rank, one is gone, or HIP refuses.
    pub fn reduce_in_place<R: DevicePtrMut<T>, T: NcclType>(
        &self,
        recvbuff: &mut R,
        reduce_op: &ReduceOp,
        root: i32,
    ) -> Result<NcclStatus> {
        let kind = Kind::Reduce(rank_of(root)?);
        let call = call_of::<T>(kind, recvbuff.len(), reduce_op.number());
        self.within(call, recvbuff)
    }

    /// Of the elements that all ranks have for each, as many as `recvbuff` has: this rank's, reduced.
    ///
    /// # Errors
    /// `sendbuff` has not so many for each rank, a rank is gone, or HIP refuses.
    pub fn reduce_scatter<S: DevicePtr<T>, R: DevicePtrMut<T>, T: NcclType>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::ReduceScatter, recvbuff.len(), reduce_op.number());
        self.holds(
            "reduce_scatter",
            sendbuff.len(),
            call.count * self.world_size,
        )?;
        self.between(call, sendbuff, recvbuff)
    }

    /// Begins a group, which ends when it is dropped.
    ///
    /// # Panics
    /// The library, where its collectives run, cannot begin one.
    #[track_caller]
    pub fn group(&self) -> Group<'_> {
        if let Err(error) = group_start() {
            panic!("a group cannot begin: {error}");
        }
        Group {
            comm: self,
            syncs: Vec::new(),
        }
    }
}

/// Calls that are given to their streams together, when this is dropped. Buffers are viewed before the group begins. An error of
/// its end is returned by the GPU's next call.
#[derive(Debug)]
pub struct Group<'a> {
    comm: &'a Comm,
    /// Noted after the group's end: then the work is given to the streams.
    syncs: Vec<SyncOnDrop<'a>>,
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        let ended = group_end();
        let context = self.comm.context();
        context.record_err(ended.map_err(|error| error.error().clone()));
    }
}

impl<'g> Group<'g> {
    /// The communicator that began it.
    pub fn comm(&self) -> &'g Comm {
        self.comm
    }

    /// A call with what it reads and writes.
    fn give<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        call: Call,
        send: Option<View<'s, T>>,
        recv: Option<ViewMut<'r, T>>,
        in_place: bool,
    ) -> Result<NcclStatus> {
        let comm = self.comm;
        let (src, read) = send.map(|view| view.view_ptr(&comm.stream)).unzip();
        let (dst, written) = recv.map(|view| view.view_ptr_mut(&comm.stream)).unzip();
        let dst = dst.unwrap_or(0);
        let src = src.unwrap_or(if in_place { dst } else { 0 });
        // SAFETY: the callers hold the lengths to the call; views outlive the group, and their guards its end.
        let status = unsafe { comm.give(call, src, dst) };
        self.syncs.extend(read.into_iter().chain(written));
        status
    }

    /// [`Comm::send`].
    ///
    /// # Errors
    /// There is no such rank.
    pub fn send<'s: 'g, T: NcclType>(&mut self, data: View<'s, T>, peer: i32) -> Result<()> {
        let call = call_of::<T>(Kind::Send(rank_of(peer)?), data.len(), NONE);
        self.give(call, Some(data), None, false).map(drop)
    }

    /// [`Comm::recv`].
    ///
    /// # Errors
    /// There is no such rank.
    pub fn recv<'r: 'g, T: NcclType>(
        &mut self,
        buff: ViewMut<'r, T>,
        peer: i32,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::Recv(rank_of(peer)?), buff.len(), NONE);
        self.give(call, None, Some(buff), false)
    }

    /// [`Comm::broadcast`].
    ///
    /// # Errors
    /// The root has too few elements, or there is no such rank.
    pub fn broadcast<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        sendbuff: Option<View<'s, T>>,
        recvbuff: ViewMut<'r, T>,
        root: i32,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::Broadcast(rank_of(root)?), recvbuff.len(), NONE);
        if self.comm.rank as i32 == root {
            let has = sendbuff.as_ref().map_or(0, View::len);
            self.comm.holds("broadcast", has, call.count)?;
        }
        self.give(call, sendbuff, Some(recvbuff), true)
    }

    /// [`Comm::broadcast_in_place`].
    ///
    /// # Errors
    /// There is no such rank.
    pub fn broadcast_in_place<'r: 'g, T: NcclType>(
        &mut self,
        recvbuff: ViewMut<'r, T>,
        root: i32,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::Broadcast(rank_of(root)?), recvbuff.len(), NONE);
        self.give(call, None, Some(recvbuff), true)
    }

    /// [`Comm::all_gather`].
    ///
    /// # Errors
    /// There is no room for the elements.
    pub fn all_gather<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        sendbuff: View<'s, T>,
        recvbuff: ViewMut<'r, T>,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::AllGather, sendbuff.len(), NONE);
        let needs = call.count * self.comm.world_size;
        self.comm.holds("all_gather", recvbuff.len(), needs)?;
        self.give(call, Some(sendbuff), Some(recvbuff), false)
    }

    /// [`Comm::all_reduce`].
    ///
    /// # Errors
    /// There is no room for the elements.
    pub fn all_reduce<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        sendbuff: View<'s, T>,
        recvbuff: ViewMut<'r, T>,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::AllReduce, sendbuff.len(), reduce_op.number());
        self.comm.holds("all_reduce", recvbuff.len(), call.count)?;
        self.give(call, Some(sendbuff), Some(recvbuff), false)
    }

    /// [`Comm::all_reduce_in_place`].
    ///
    /// # Errors
    /// None before the group's end.
    pub fn all_reduce_in_place<'r: 'g, T: NcclType>(
        &mut self,
        buff: ViewMut<'r, T>,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::AllReduce, buff.len(), reduce_op.number());
        self.give(call, None, Some(buff), true)
    }

    /// [`Comm::reduce`].
    ///
    /// # Errors
    /// The root has no room for the elements, or there is no such rank.
    pub fn reduce<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        sendbuff: View<'s, T>,
        recvbuff: Option<ViewMut<'r, T>>,
        reduce_op: &ReduceOp,
        root: i32,
    ) -> Result<NcclStatus> {
        let kind = Kind::Reduce(rank_of(root)?);
        let call = call_of::<T>(kind, sendbuff.len(), reduce_op.number());
        if self.comm.rank as i32 == root {
            let room = recvbuff.as_ref().map_or(0, ViewMut::len);
            self.comm.holds("reduce", room, call.count)?;
        }
        self.give(call, Some(sendbuff), recvbuff, false)
    }

    /// [`Comm::reduce_in_place`].
    ///
    /// # Errors
    /// There is no such rank.
    pub fn reduce_in_place<'r: 'g, T: NcclType>(
        &mut self,
        recvbuff: ViewMut<'r, T>,
        reduce_op: &ReduceOp,
        root: i32,
    ) -> Result<NcclStatus> {
        let kind = Kind::Reduce(rank_of(root)?);
        let call = call_of::<T>(kind, recvbuff.len(), reduce_op.number());
        self.give(call, None, Some(recvbuff), true)
    }

    /// [`Comm::reduce_scatter`].
    ///
    /// # Errors
    /// `sendbuff` has not so many elements for each rank.
    pub fn reduce_scatter<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        sendbuff: View<'s, T>,
        recvbuff: ViewMut<'r, T>,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus> {
        let call = call_of::<T>(Kind::ReduceScatter, recvbuff.len(), reduce_op.number());
        let needs = call.count * self.comm.world_size;
        self.comm.holds("reduce_scatter", sendbuff.len(), needs)?;
        self.give(call, Some(sendbuff), Some(recvbuff), false)
    }
}
