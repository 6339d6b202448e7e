//! The memory in which the barriers of a cooperative launch count.
//!
//! ROCm's device library (ockl's `cg`) finds it through the hidden argument `hidden_multigrid_sync_arg`: a pointer for
//! several GPUs, this GPU's number and how many there are, the work-items before it and of all, the counter of this
//! GPU's grid (offset 32) and the number of its workgroups (offset 40).

use super::buffer::Buffer;
use crate::fault::FaultKind;
use crate::isa::{is_gfx940, Family, Target};
use crate::memory::Memory;

/// Bytes, with room after them.
const BYTES: u64 = 64;

/// Whether the device library meets at the GPU's own counters (`ds_gws_barrier`) instead of in memory; then the
/// argument only tells that the launch is cooperative.
pub(super) fn counts_itself(target: Target) -> bool {
    match target.family() {
        Family::Cdna => !is_gfx940(target),
        Family::Rdna2 => true,
        Family::Rdna3 | Family::Rdna4 => false,
    }
}

/// The memory for a grid of so many workgroups and work-items.
pub(super) fn new(memory: &Memory, workgroups: u64, items: u64) -> Result<Buffer<'_>, FaultKind> {
    let buffer = Buffer::new(memory, BYTES)?;
    buffer.put(0, &[0, 0, 0, items, 0, workgroups]);
    Ok(buffer)
}
