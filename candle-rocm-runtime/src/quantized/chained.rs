//! Products of a quantised matrix with one vector, each of which leaves the vector that the next one reads: module `chained`.
//!
//! Vectors are those of [`quantize_vectors`](super::quantize_vectors). Counters are zero between launches, which follow one
//! another, as on one stream: so the workgroups that end last know it.

use candle_rocm_kernels::gguf::Format;
use candle_rocm_kernels::{mmvq, QUANTIZED_CHAINED};

use super::launches::{launch, Name};
use crate::base::error::Result;
use crate::stream::queue::Stream;

/// A matrix of `rows` x `columns`, and the vector that it is multiplied with.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// How it is quantised.
    pub format: &'static Format,
    /// Its address.
    pub address: u64,
    /// Rows.
    pub rows: u32,
    /// Columns, a multiple of the format's block.
    pub columns: u32,
    /// Address of the vector.
    pub vector: u64,
}

/// The vector that the norm of a result is.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// Address of the norm's weight, a vector of f32.
    pub norm: u64,
    /// What the norm adds to the mean of squares.
    pub epsilon: f32,
    /// Address of a counter.
    pub counter: u64,
    /// Address of the vector, of a multiple of 256 elements.
    pub vector: u64,
}

/// Gives the product to the stream, and what is added to it: f32 from element `first` of `result` on, and the next vector, if
/// one is wanted.
///
/// # Safety
/// The addresses are those of device memory as described: as many addends (or 0, for none) and results from `first` on as the
/// matrix has rows.
///
/// # Errors
/// The kernel cannot be launched.
pub unsafe fn multiply(
    stream: &Stream,
    matrix: &Matrix,
    addend: u64,
    (result, first): (u64, u32),
    next: Option<Next>,
) -> Result<()> {
    let Matrix {
        format,
        address,
        rows,
        columns,
        vector,
    } = *matrix;
    let info = stream.context().info();
    let thread_rows = mmvq::thread_rows(format.elements, 1);
    let units = (info.compute_units, info.wavefront_size);
    let row_threads = mmvq::row_threads(units, rows, thread_rows, columns / mmvq::BLOCK, 1);
    let of_workgroup = mmvq::CHAINED_THREADS / row_threads * thread_rows;
    let none = Next {
        norm: 0,
        epsilon: 0.0,
        counter: 0,
        vector: 0,
    };
    let next = next.unwrap_or(none);
    // SAFETY: the kernel's arguments, for memory that the caller promises.
    unsafe {
        launch!(
            stream,
            &QUANTIZED_CHAINED,
            Name(["chained", format.name, ""], 0),
            (rows.div_ceil(of_workgroup), 1, 1),
            mmvq::CHAINED_THREADS,
            [
                address,
                vector,
                addend,
                result,
                first,
                columns,
                rows,
                row_threads,
                next.norm,
                next.epsilon,
                next.counter,
                next.vector
            ]
        )
    }
}

/// Gives silu(gate) * up as a vector to the stream, where gate and up are the products of the first and the second half of a
/// matrix of twice `rows` rows.
///
/// # Safety
/// The addresses are those of device memory: `made` of `rows` f32, `counters` of one for each 32 rows, `result` of a vector of
/// `rows` elements, a multiple of 256.
///
/// # Errors
/// The kernel cannot be launched.
pub unsafe fn multiply_gated(
    stream: &Stream,
    matrix: &Matrix,
    made: u64,
    counters: u64,
    result: u64,
) -> Result<()> {
    let Matrix {
        format,
        address,
        columns,
        vector,
        ..
    } = *matrix;
    let rows = matrix.rows / 2;
    // SAFETY: the kernel's arguments, for memory that the caller promises.
    unsafe {
        launch!(
            stream,
            &QUANTIZED_CHAINED,
            Name(["gated", format.name, ""], 0),
            (rows / mmvq::GATED_ROWS, 1, 1),
            mmvq::THREADS,
            [address, vector, made, counters, result, columns, rows]
        )
    }
}
