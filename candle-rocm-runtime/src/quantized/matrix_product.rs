//! What a product of a quantised matrix with many vectors is given, and its checks.

use candle_rocm_kernels::gguf::Format;
use candle_rocm_kernels::mmq;

use super::arguments::{address, blocks, count};
use crate::base::error::{Error, Result};

/// `dst` (`ncols_y` x `stride_col_dst`, f32) = the matrix `x` (`nrows_x` x `ncols_x`) times `ncols_y` vectors, as
/// `launch_mmq_gguf_*` is given it.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct MatrixProduct {
    /// Address of room for 2^22 f32, or 0, with which few tiles take longer.
    pub tmp_fixup: u64,
    /// Address of the matrix, whose rows are `stride_row_x` blocks apart.
    pub x: u64,
    /// Address of what [`quantize_matrices`](super::quantize_matrices) made.
    pub y: u64,
    /// Address of the result, the first `nrows_x` of each `stride_col_dst` of which are written.
    pub dst: u64,
    pub ncols_x: i64,
    pub nrows_x: i64,
    pub ncols_y: i64,
    pub stride_row_x: i64,
    pub stride_col_dst: i64,
    /// The GPU's compute units, which decide about tiles.
    pub nsm: i32,
}

/// A product that makes sense and has results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    pub format: &'static Format,
    pub weights: u64,
    pub activations: u64,
    pub output: u64,
    pub k: u32,
    pub rows: u32,
    pub columns: u32,
    /// Bytes between rows of weights.
    pub row_bytes: u64,
    /// Elements between columns of the result.
    pub dst_rows: u64,
}

impl Checked {
    /// `None` if there are no results.
    pub fn of(format: &'static Format, product: &MatrixProduct) -> Result<Option<Self>> {
        let k = count("ncols_x", product.ncols_x)?;
        let rows = count("nrows_x", product.nrows_x)?;
        let columns = count("ncols_y", product.ncols_y)?;
        let row_blocks = count("stride_row_x", product.stride_row_x)?;
        let dst_rows = count("stride_col_dst", product.stride_col_dst)?;
        if k % format.elements != 0 {
            return Err(Error::invalid(format!(
                "ncols_x is {k}, and a row of {} has a multiple of {} elements",
                format.name, format.elements
            )));
        }
        if row_blocks < k / format.elements && rows > 1 {
            return Err(Error::invalid(format!(
                "stride_row_x is {row_blocks} blocks, and {k} elements take {}",
                k / format.elements
            )));
        }
        if dst_rows < rows && columns > 1 {
            return Err(Error::invalid(format!(
                "stride_col_dst is {dst_rows}, and a column has {rows} elements"
            )));
        }
        if rows == 0 || columns == 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            format,
            weights: blocks("x", product.x, format.bytes)?,
            activations: blocks("y", product.y, mmq::BLOCK_BYTES)?,
            output: address("dst", product.dst)?,
            k,
            rows,
            columns,
            row_bytes: u64::from(row_blocks) * u64::from(format.bytes),
            dst_rows: dst_rows.into(),
        }))
    }
}
