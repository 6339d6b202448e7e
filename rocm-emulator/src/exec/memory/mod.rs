//! Instructions that reach beyond registers: memory, LDS, scratch, and the check of every such access.

mod atomics;
mod buffer;
mod context;
mod lds;
mod smem;
mod transfer;
mod vmem;

pub(crate) use buffer::BufferOp;
pub(crate) use context::{Access, Context, Violation};
pub(crate) use lds::LdsOp;
pub(crate) use smem::ScalarMemoryOp;
pub(crate) use transfer::Places;
pub(crate) use vmem::MemoryOp;
