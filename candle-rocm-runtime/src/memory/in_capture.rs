//! Fills and copies of a stream that is captured.
//!
//! Kernels do them there, which a layer above provides: some releases of AMD's HIP replay graphs wrongly whose nodes are
//! memory operations, and kernels need no copy engine.

use std::sync::OnceLock;

use crate::base::error::Result;
use crate::stream::queue::Stream;

/// Kernels that fill and copy. Each tells whether it gave one to the stream: a build may have none for its GPU.
pub(crate) struct ByKernels {
    /// Sets so many bytes from an address on to zero.
    pub zeros: fn(&Stream, u64, usize) -> Result<bool>,
    /// Copies to an address, from another of the same GPU, so many bytes.
    pub copy: fn(&Stream, u64, u64, usize) -> Result<bool>,
}

static BY_KERNELS: OnceLock<ByKernels> = OnceLock::new();

/// From now on captured fills and copies are these kernels.
pub(crate) fn provide(by: ByKernels) {
    // A second capture brings the same.
    let _ = BY_KERNELS.set(by);
}

/// Has a kernel set bytes to zero if the stream is captured; tells whether one does.
pub(crate) fn zeros(stream: &Stream, address: u64, bytes: usize) -> Result<bool> {
    match BY_KERNELS.get() {
        Some(by) if stream.is_capturing()? => (by.zeros)(stream, address, bytes),
        _ => Ok(false),
    }
}

/// Has a kernel copy within the stream's GPU if the stream is captured; tells whether one does.
pub(super) fn copy(stream: &Stream, to: u64, from: u64, bytes: usize) -> Result<bool> {
    match BY_KERNELS.get() {
        Some(by) if stream.is_capturing()? => (by.copy)(stream, to, from, bytes),
        _ => Ok(false),
    }
}
