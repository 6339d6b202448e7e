//! How products of quantised matrices with few vectors are shared out: modules `mmvq` and `chained`.

use rocm_gpus::costs;

use crate::gguf::{self, Format};
use crate::numbers::{chained, mmvq};

/// Elements with a scale of their own.
pub const BLOCK: u32 = 32;
/// Elements of a quantised vector that lie together: its length is a multiple of them, with zeros at the end.
pub const TOGETHER: u32 = mmvq::ACTIVATIONS;
/// Their bytes: signed bytes, and then a scale and the sum of the elements, both f16, for each [`BLOCK`].
pub const TOGETHER_BYTES: u32 = mmvq::ACTIVATION_BYTES;
/// Threads of a workgroup of all kernels but `chained_*`.
pub const THREADS: u32 = mmvq::THREADS;
/// Threads of a workgroup of `chained_*`: one makes a norm alone.
pub const CHAINED_THREADS: u32 = chained::THREADS;
/// Elements of the result of `gated_*` that a workgroup makes.
pub const GATED_ROWS: u32 = 2 * THREADS / GROUP;
/// Threads that make one element of the result, unless more do.
pub const GROUP: u32 = mmvq::GROUP;
/// Candle's own tests hold products of q4_0 with matrices of at most so many elements to the bits that CUDA gave.
const CUDAS_BITS: u64 = mmvq::CUDAS_BITS;
/// SIMDs of a compute unit, as HIP counts these.
const SIMDS: u64 = 4;

/// Whether the kernel for CUDA's formula multiplies a matrix of this format, `mmvq_q4_0_cudas`, a workgroup of which makes
/// [`THREADS`] / [`GROUP`] results. Its error is 2.4 to 2.6 times that of the others.
pub fn gives_cudas_bits(format: &Format, rows: u32, columns: u32) -> bool {
    *format == gguf::Q4_0 && u64::from(rows) * u64::from(columns) <= CUDAS_BITS
}

/// Rows that a thread multiplies with what it has loaded of up to `size` vectors, of a format whose blocks have so many
/// elements: `ROWS` in the kernels.
pub fn thread_rows(block_elements: u32, size: u32) -> u32 {
    if size > 2 || block_elements == 256 {
        4
    } else {
        2
    }
}

/// How many threads make `thread_rows` of the rows, each of `pieces` [`BLOCK`]s, for up to `size` vectors, on a GPU of so
/// many compute units and lanes of a wavefront, by [`costs`] (benches/gpu_mm, group `quantized`, times it). Fewer rows want
/// more threads each, but each of them a few steps. Of eight vectors a thread reads so much that fewer do better, as long
/// as there is a wavefront for each SIMD.
pub fn row_threads(
    (compute_units, wavefront): (u32, u32),
    rows: u32,
    thread_rows: u32,
    pieces: u32,
    size: u32,
) -> u32 {
    let lanes = u64::from(rows / thread_rows) * u64::from(GROUP);
    let simds = u64::from(compute_units) * SIMDS;
    let steps = costs::MMVQ_STEPS.value as u32;
    let has_steps = pieces >= steps * GROUP;
    let is_few = rows < costs::MMVQ_FEW_ROWS.value as u32;
    let is_many = rows >= costs::MMVQ_MANY_ROWS.value as u32;
    match size {
        _ if is_few && pieces >= THREADS => THREADS,
        1 | 2 | 4 if is_many => GROUP,
        8 if lanes >= simds * u64::from(wavefront) => GROUP,
        _ if has_steps => 2 * GROUP,
        _ => GROUP,
    }
}
