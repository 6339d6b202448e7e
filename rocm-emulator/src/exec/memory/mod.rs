//! Instructions that reach beyond registers: memory, LDS, scratch, and the check of every such access.

mod access;
mod action;
mod atomics;
mod buffer;
mod context;
mod descriptor;
mod footprint;
mod lds;
mod lowering;
mod permute;
mod places;
mod smem;
mod transfer;
mod typed;
mod vmem;

pub(crate) use access::{Access, Outcome, Violation};
pub(crate) use buffer::BufferOp;
pub(crate) use context::Context;
pub(crate) use descriptor::SWIZZLE;
pub(crate) use footprint::Footprint;
pub(crate) use lds::LdsOp;
pub(crate) use lowering::Lowering;
pub(crate) use places::Places;
pub(crate) use smem::ScalarMemoryOp;
pub(crate) use vmem::MemoryOp;
