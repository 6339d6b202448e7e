//! A collective, or a message of one rank to another, as a rank asks for it.

use super::error::CommunicationError;
use super::sys::{ncclDataType_t, ncclRedOp_t};

/// What is asked for; ranks are those of the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `count` elements of each rank, reduced, to all.
    AllReduce,
    /// `count` elements of each rank, one after the other, to all.
    AllGather,
    /// Of `count` elements for each rank, reduced, its own to each.
    ReduceScatter,
    /// `count` elements of this rank to all.
    Broadcast(usize),
    /// `count` elements of each rank, reduced, to this one.
    Reduce(usize),
    /// `count` elements to this rank.
    Send(usize),
    /// `count` elements from this rank.
    Recv(usize),
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// What is asked for.
    pub kind: Kind,
    /// The address of what is sent; 0 where nothing is.
    pub send: u64,
    /// The address of results; 0 where there are none.
    pub recv: u64,
    /// Elements.
    pub count: usize,
    /// Their type.
    pub dtype: ncclDataType_t,
    /// How they are reduced, where they are.
    pub op: ncclRedOp_t,
}

/// Bytes of an element.
///
/// # Errors
/// A type that is none of elements that our kernels know.
pub(super) fn bytes_of(dtype: ncclDataType_t) -> Result<u64, CommunicationError> {
    use ncclDataType_t as Dtype;
    match dtype {
        Dtype::ncclInt8 | Dtype::ncclUint8 => Ok(1),
        Dtype::ncclFloat16 | Dtype::ncclBfloat16 => Ok(2),
        Dtype::ncclInt32 | Dtype::ncclUint32 | Dtype::ncclFloat32 => Ok(4),
        Dtype::ncclInt64 | Dtype::ncclUint64 | Dtype::ncclFloat64 => Ok(8),
        Dtype::ncclFloat8e4m3 | Dtype::ncclFloat8e5m2 | Dtype::ncclNumTypes => {
            Err(CommunicationError::invalid(format!(
                "{dtype:?} is no type of elements that ranks exchange here"
            )))
        }
    }
}

impl Call {
    /// Whether the call makes sense at this rank of so many.
    ///
    /// # Errors
    /// It names a rank that there is not, lacks memory, has more bytes than there are addresses, or a type or reduction that
    /// does not exist.
    pub fn check(&self, rank: usize, world: usize) -> Result<(), CommunicationError> {
        let refuse = |what: String| Err(CommunicationError::invalid(what));
        let named = match self.kind {
            Kind::Broadcast(root) | Kind::Reduce(root) => Some(root),
            Kind::Send(peer) | Kind::Recv(peer) => Some(peer),
            _ => None,
        };
        if let Some(named) = named.filter(|named| *named >= world) {
            return refuse(format!(
                "there is no rank {named}: {world} ranks count from 0"
            ));
        }
        let bytes = bytes_of(self.dtype)?;
        let most = (self.count as u64)
            .checked_mul(bytes)
            .and_then(|bytes| bytes.checked_mul(world as u64));
        if most.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return refuse(format!("{} elements are too many", self.count));
        }
        let reduces = matches!(
            self.kind,
            Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce(_)
        );
        if reduces && self.op as u32 >= ncclRedOp_t::ncclNumOps as u32 {
            return refuse(format!("{:?} is no reduction", self.op));
        }
        let (sends, receives) = match self.kind {
            Kind::AllReduce | Kind::AllGather | Kind::ReduceScatter => (true, true),
            Kind::Broadcast(root) => (rank == root, true),
            Kind::Reduce(root) => (true, rank == root),
            Kind::Send(_) => (true, false),
            Kind::Recv(_) => (false, true),
        };
        if self.count > 0 && (sends && self.send == 0 || receives && self.recv == 0) {
            return refuse(format!(
                "{:?} of {} elements at rank {rank} without memory for them",
                self.kind, self.count
            ));
        }
        Ok(())
    }
}
