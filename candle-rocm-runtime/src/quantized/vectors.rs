//! Products of quantised matrices with up to eight vectors (decoding): module `mmvq`.
//!
//! Sums of products of integers are exact, sums over blocks in f32.

use candle_rocm_kernels::gguf::Format;
use candle_rocm_kernels::{mmvq, MMVQ};

use super::activations::FloatType;
use super::arguments::{address, blocks, count};
use super::launches::{launch, Name};
use crate::base::error::{Error, Result};
use crate::stream::queue::Stream;

/// Vectors that one launch can take.
const MOST_VECTORS: u32 = 8;

/// `dst` (`b_size` x `stride_col_dst`) = the matrix `vx` (`nrows_x` x `ncols_x`) times `b_size` vectors, as
/// `launch_mmvq_gguf_*_plain` is given it.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct VectorProduct {
    /// Address of the matrix.
    pub vx: u64,
    /// Address of what [`quantize_vectors`](super::quantize_vectors) made, `stride_col_y` blocks of 32 elements apart.
    pub vy: u64,
    /// Address of the result.
    pub dst: u64,
    pub ncols_x: i64,
    pub nrows_x: i64,
    pub stride_col_y: i64,
    pub stride_col_dst: i64,
    pub b_size: i64,
}

/// The sizes of a product, which make sense together.
struct Sizes {
    columns: u32,
    rows: u32,
    vector_blocks: u32,
    dst_rows: u32,
    vectors: u32,
}

impl Sizes {
    fn of(format: &Format, product: &VectorProduct) -> Result<Self> {
        let sizes = Self {
            columns: count("ncols_x", product.ncols_x)?,
            rows: count("nrows_x", product.nrows_x)?,
            vector_blocks: count("stride_col_y", product.stride_col_y)?,
            dst_rows: count("stride_col_dst", product.stride_col_dst)?,
            vectors: count("b_size", product.b_size)?,
        };
        match sizes.mistake(format) {
            Some(mistake) => Err(Error::invalid(mistake)),
            None => Ok(sizes),
        }
    }

    /// What does not go together.
    fn mistake(&self, format: &Format) -> Option<String> {
        let Self {
            columns,
            rows,
            vector_blocks,
            dst_rows,
            vectors,
        } = *self;
        let needed = columns / mmvq::BLOCK;
        let together = mmvq::TOGETHER / mmvq::BLOCK;
        let several = vectors > 1;
        if vectors > MOST_VECTORS {
            Some(format!(
                "b_size is {vectors}, and {MOST_VECTORS} vectors are the most; more are a product of matrices"
            ))
        } else if columns % format.elements != 0 {
            Some(format!(
                "ncols_x is {columns}, and a row of {} has a multiple of {} elements",
                format.name, format.elements
            ))
        } else if several && vector_blocks < needed {
            Some(format!(
                "stride_col_y is {vector_blocks} blocks, and {columns} elements take {needed}"
            ))
        } else if several && dst_rows < rows {
            Some(format!(
                "stride_col_dst is {dst_rows}, and each of {vectors} vectors has {rows} results"
            ))
        } else if several && vector_blocks % together != 0 {
            Some(format!(
                "stride_col_y is {vector_blocks} blocks, and vectors are quantised {together} at a time"
            ))
        } else {
            None
        }
    }
}

/// Gives the product to the stream, in this type.
///
/// # Safety
/// The addresses are those of device memory as described, which nothing else uses until the stream has come so far.
///
/// # Errors
/// An argument makes no sense, which is named; the kernel cannot be launched.
pub unsafe fn multiply_vectors(
    stream: &Stream,
    format: &Format,
    result: FloatType,
    product: &VectorProduct,
) -> Result<()> {
    let sizes = Sizes::of(format, product)?;
    let Sizes {
        columns,
        rows,
        vector_blocks,
        dst_rows,
        vectors,
    } = sizes;
    if rows == 0 || vectors == 0 {
        return Ok(());
    }
    let weights = blocks("vx", product.vx, format.bytes)?;
    let activations = blocks("vy", product.vy, mmvq::TOGETHER_BYTES)?;
    let output = address("dst", product.dst)?;
    let size = vectors.next_power_of_two();
    let pieces = columns / mmvq::BLOCK;
    let thread_rows = mmvq::thread_rows(format.elements, size);
    let info = stream.context().info();
    let units = (info.compute_units, info.wavefront_size);
    let row_threads = mmvq::row_threads(units, rows, thread_rows, pieces, size);
    let (name, workgroups) = if mmvq::gives_cudas_bits(format, rows, columns) {
        let results = mmvq::THREADS / mmvq::GROUP;
        let name = Name(["mmvq", format.name, "cudas"], 0);
        (name, (rows * vectors).div_ceil(results))
    } else {
        let name = Name(["mmvq", format.name, ""], size);
        (
            name,
            rows.div_ceil(mmvq::THREADS / row_threads * thread_rows),
        )
    };
    let result = result as u32;
    // SAFETY: the kernel's arguments, as the contract test has them, for memory that the caller promises.
    unsafe {
        launch!(
            stream,
            &MMVQ,
            name,
            (workgroups, 1, 1),
            mmvq::THREADS,
            [
                weights,
                activations,
                output,
                columns,
                rows,
                vector_blocks,
                dst_rows,
                vectors,
                row_threads,
                result
            ]
        )
    }
}
