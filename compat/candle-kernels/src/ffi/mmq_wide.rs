//! Products of quantised matrices with many vectors: both are written as bf16, and multiplied as dense ones are, by our
//! kernels or the vendor's library.

use candle_rocm_kernels::{widen, WIDEN};
use candle_rocm_runtime::gemm::{gemm_strided_batched, GemmDtype, GemmProblem, Transpose};
use candle_rocm_runtime::{Result, Stream, Workspace};

use super::launch::launch;

/// Bytes of a matrix's rows as bf16 that there is room for at a time.
const MOST_BYTES: u64 = 128 << 20;
/// Rows that are written and multiplied together are a multiple of so many, the largest tile's.
const ROWS: u32 = 256;
/// Most workgroups of kernels that go on in steps of the grid.
const MOST_WORKGROUPS: u64 = 1 << 16;

/// A product: addresses, and sizes as [`super::mmq`] has them.
#[derive(Clone, Copy)]
pub(super) struct Product {
    /// The format's name and the activations' layout, as kernels' names have them.
    pub format: &'static str,
    pub layout: &'static str,
    pub weights: u64,
    pub activations: u64,
    pub output: u64,
    pub k: u32,
    pub rows: u32,
    pub columns: u32,
    /// Between rows of weights, in bytes, and between columns of the result, in elements.
    pub row_bytes: u64,
    pub dst_rows: u64,
}

/// Whether it pays on this GPU.
pub(super) fn pays(arch: &str, columns: u32) -> bool {
    widen::least_vectors(arch).is_some_and(|least| columns >= least)
}

/// Rows that are multiplied at a time: equal shares, but for the last.
fn rows_at_a_time(k: u32, rows: u32) -> u32 {
    let bytes = 2 * u64::from(k) * u64::from(rows);
    let shares = bytes.div_ceil(MOST_BYTES).max(1);
    let rows = u64::from(rows).div_ceil(shares);
    rows.next_multiple_of(ROWS.into()) as u32
}

/// Gives it to the stream; false if there is no memory for the numbers in bf16.
///
/// # Errors
/// A launch fails.
pub(super) fn multiply(stream: &Stream, product: &Product) -> Result<bool> {
    let Product {
        k, rows, columns, ..
    } = *product;
    let share = rows_at_a_time(k, rows).min(rows);
    let elements = |count: u32| u64::from(count) * u64::from(k);
    let room = |count| match Workspace::new(stream, 2 * elements(count)) {
        Err(error) if error.is_out_of_memory() => Ok(None),
        other => other.map(Some),
    };
    let (Some(vectors), Some(matrix)) = (room(columns)?, room(share)?) else {
        return Ok(false);
    };
    let (to_vectors, to_matrix) = (vectors.address(), matrix.address());
    let workgroups = |elements: u64, of_thread: u32| {
        let of_workgroup = u64::from(widen::THREADS * of_thread);
        let count = elements.div_ceil(of_workgroup).min(MOST_WORKGROUPS);
        (count as u32, 1, 1)
    };
    let blocks = elements(columns).next_multiple_of(128);
    launch!(
        stream,
        &WIDEN,
        &format!("widen_blocks_{}", product.layout),
        workgroups(blocks, widen::SIXTEEN),
        widen::THREADS,
        [product.activations, to_vectors, k, columns]
    )?;
    for first in (0..rows).step_by(share as usize) {
        let count = share.min(rows - first);
        let weights = product.weights + u64::from(first) * product.row_bytes;
        launch!(
            stream,
            &WIDEN,
            &format!("widen_{}", product.format),
            workgroups(elements(count), widen::PIECE),
            widen::THREADS,
            [weights, to_matrix, k, count, product.row_bytes]
        )?;
        let dtype = GemmDtype::BF16ToF32;
        let problem = GemmProblem {
            transa: Transpose::Yes,
            transb: Transpose::No,
            m: count as usize,
            n: columns as usize,
            k: k as usize,
            alpha: 1.0,
            a: to_matrix,
            lda: k as usize,
            stride_a: 0,
            b: to_vectors,
            ldb: k as usize,
            stride_b: 0,
            beta: 0.0,
            c: product.output + 4 * u64::from(first),
            ldc: product.dst_rows as usize,
            stride_c: 0,
            batch: 1,
            dtype,
            compute: dtype.compute(),
        };
        // SAFETY: rows and vectors of k elements each were given to the stream to write, and the result is the caller's
        // promise.
        unsafe { gemm_strided_batched(stream, &problem) }?;
    }
    matrix.free()?;
    vectors.free()?;
    Ok(true)
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
