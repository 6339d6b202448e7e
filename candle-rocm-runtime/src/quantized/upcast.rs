//! Products of quantised matrices with many vectors: both are written as bf16, and multiplied as dense ones are, by our
//! kernels or the vendor's library.

use candle_rocm_kernels::{mmq, upcast, Processor, UPCAST};

use super::launches::{launch, Name};
use super::matrix_product::Checked;
use crate::base::error::Result;
use crate::gemm::{gemm_strided_batched, GemmDtype, GemmProblem, Transpose};
use crate::memory::workspace::Workspace;
use crate::stream::queue::Stream;

/// Bytes of a matrix's rows as bf16 that there is room for at a time.
const MOST_BYTES: u64 = 128 << 20;
/// Rows that are written and multiplied together are a multiple of so many, the largest tile's.
const ROWS: u32 = 256;
/// Most workgroups of kernels that go on in steps of the grid.
const MOST_WORKGROUPS: u64 = 1 << 16;

/// Whether it pays on this GPU.
pub(super) fn pays(processor: Processor, columns: u32) -> bool {
    upcast::least_vectors(processor).is_some_and(|least| columns >= least)
}

/// Rows that are multiplied at a time: equal shares, but for the last.
fn rows_at_a_time(k: u32, rows: u32) -> u32 {
    let bytes = 2 * u64::from(k) * u64::from(rows);
    let shares = bytes.div_ceil(MOST_BYTES).max(1);
    let rows = u64::from(rows).div_ceil(shares);
    rows.next_multiple_of(ROWS.into()) as u32
}

/// Gives a product to the stream; false if there is no memory for the numbers in bf16.
///
/// # Safety
/// The product's addresses are those of device memory as it describes.
///
/// # Errors
/// A launch fails.
pub(super) unsafe fn multiply(stream: &Stream, product: &Checked) -> Result<bool> {
    let Checked {
        k, rows, columns, ..
    } = *product;
    let share = rows_at_a_time(k, rows).min(rows);
    let room = |count: u32| {
        let bytes = 2 * u64::from(count) * u64::from(k);
        match Workspace::new(stream, bytes) {
            Err(error) if error.is_out_of_memory() => Ok(None),
            other => other.map(Some),
        }
    };
    let (Some(vectors), Some(matrix)) = (room(columns)?, room(share)?) else {
        return Ok(false);
    };
    // SAFETY: the caller's promise, and room for all vectors.
    unsafe { upcast_vectors(stream, product, vectors.address()) }?;
    for first in (0..rows).step_by(share as usize) {
        let rows = first..rows.min(first + share);
        // SAFETY: the caller's promise, room for so many rows, and vectors that the stream writes before it reads them.
        unsafe { multiply_rows(stream, product, rows, matrix.address(), vectors.address()) }?;
    }
    matrix.free()?;
    vectors.free()?;
    Ok(true)
}

/// A grid for so many elements, of which a thread makes `of_thread` at a time.
fn grid(elements: u64, of_thread: u32) -> (u32, u32, u32) {
    let of_workgroup = u64::from(upcast::THREADS * of_thread);
    let count = elements.div_ceil(of_workgroup).min(MOST_WORKGROUPS);
    (count as u32, 1, 1)
}

/// Writes all vectors as bf16.
///
/// # Safety
/// As [`multiply`], and there is room for them at `to`.
unsafe fn upcast_vectors(stream: &Stream, product: &Checked, to: u64) -> Result<()> {
    let Checked {
        activations,
        k,
        columns,
        ..
    } = *product;
    let elements = u64::from(columns) * u64::from(k);
    let whole = elements.next_multiple_of(mmq::CHUNK.into());
    // SAFETY: the kernel's arguments, as the contract test has them, for memory that the caller promises.
    unsafe {
        launch!(
            stream,
            &UPCAST,
            Name(["upcast_blocks", product.format.scales.name(), ""], 0),
            grid(whole, upcast::SIXTEEN),
            upcast::THREADS,
            [activations, to, k, columns]
        )
    }
}

/// Writes some rows of the matrix as bf16 and multiplies them with the vectors.
///
/// # Safety
/// As [`multiply`], there is room for the rows at `matrix`, and the vectors' bf16 are at `vectors`.
unsafe fn multiply_rows(
    stream: &Stream,
    product: &Checked,
    rows: std::ops::Range<u32>,
    matrix: u64,
    vectors: u64,
) -> Result<()> {
    let (first, count) = (rows.start, rows.end - rows.start);
    let Checked {
        k,
        columns,
        row_bytes,
        ..
    } = *product;
    let weights = product.weights + u64::from(first) * row_bytes;
    // SAFETY: the kernel's arguments, as the contract test has them, for memory that the caller promises.
    unsafe {
        launch!(
            stream,
            &UPCAST,
            Name(["upcast", product.format.name, ""], 0),
            grid(u64::from(count) * u64::from(k), upcast::PIECE),
            upcast::THREADS,
            [weights, matrix, k, count, row_bytes]
        )
    }?;
    let problem = GemmProblem {
        ldc: product.dst_rows as usize,
        ..GemmProblem::packed(
            GemmDtype::BF16ToF32,
            [Transpose::Yes, Transpose::No],
            [count, columns, k].map(|size| size as usize),
            [matrix, vectors, product.output + 4 * u64::from(first)],
        )
    };
    // SAFETY: rows and vectors of k elements each were given to the stream to write, and the result is the caller's
    // promise.
    unsafe { gemm_strided_batched(stream, &problem) }
}

#[cfg(test)]
mod tests {
    use super::{rows_at_a_time, MOST_BYTES, ROWS};

    /// Shares are whole tiles and fit, but for a tile's rows that are wider.
    #[test]
    fn rows_fit() {
        for k in [32, 4096, 14_336, 1 << 20] {
            for rows in [1, 255, 257, 4096, 128_256] {
                let share = rows_at_a_time(k, rows);
                assert!(
                    share > 0 && share.is_multiple_of(ROWS),
                    "{k} {rows} {share}"
                );
                let spare = 2 * u64::from(k) * u64::from(ROWS);
                let bytes = 2 * u64::from(k) * u64::from(share.min(rows));
                assert!(bytes <= MOST_BYTES + spare, "{k} {rows} {share}");
            }
        }
        assert_eq!(rows_at_a_time(4096, 14_336), 14_336);
        assert_eq!(rows_at_a_time(14_336, 4096), 4096);
    }
}
