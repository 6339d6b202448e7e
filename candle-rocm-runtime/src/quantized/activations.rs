//! Vectors as products of quantised matrices read them: signed bytes with scales.

use candle_rocm_kernels::gguf::Scales;
use candle_rocm_kernels::numbers::mmvq::{RESULT_BF16, RESULT_F16, RESULT_F32};
use candle_rocm_kernels::{mmq, mmvq, MMQ, MMVQ};

use super::arguments::{address, blocks, count};
use super::launches::{launch, Name};
use crate::base::error::{Error, Result};
use crate::stream::queue::Stream;

/// A type of floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FloatType {
    /// Single precision.
    F32 = RESULT_F32,
    /// Half precision.
    F16 = RESULT_F16,
    /// bfloat16.
    Bf16 = RESULT_BF16,
}

impl FloatType {
    /// As in the kernels' names.
    fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

/// Vectors for [`multiply_vectors`](super::multiply_vectors), as `launch_mmvq_gguf_quantize_q8_1_*` is given them.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Vectors {
    /// Address of `num_rows` x `kx` numbers.
    pub x: u64,
    /// Address of the result: 288 bytes for each 256 elements, [`mmvq::TOGETHER_BYTES`].
    pub vy: u64,
    pub kx: i64,
    /// Elements of a row with the zeros at its end, a multiple of 256.
    pub kx_padded: i64,
    pub num_rows: i64,
}

/// Quantises vectors of this type.
///
/// # Safety
/// The addresses are those of device memory as described, which nothing else uses until the stream has come so far.
///
/// # Errors
/// An argument makes no sense, which is named; the kernel cannot be launched.
pub unsafe fn quantize_vectors(stream: &Stream, of: FloatType, vectors: &Vectors) -> Result<()> {
    let columns = count("kx", vectors.kx)?;
    let padded = count("kx_padded", vectors.kx_padded)?;
    let rows = count("num_rows", vectors.num_rows)?;
    if padded < columns || padded % mmvq::TOGETHER != 0 {
        return Err(Error::invalid(format!(
            "kx_padded is {padded}, and must be a multiple of {} and no less than kx, {columns}",
            mmvq::TOGETHER
        )));
    }
    let elements = u64::from(padded) * u64::from(rows);
    if elements == 0 {
        return Ok(());
    }
    let source = address("x", vectors.x)?;
    let target = blocks("vy", vectors.vy, mmvq::TOGETHER_BYTES)?;
    // Beyond this the workgroups go over the elements in steps of the grid.
    const MOST_WORKGROUPS: u64 = 1 << 20;
    let workgroups = elements.div_ceil(mmvq::THREADS.into()).min(MOST_WORKGROUPS) as u32;
    // SAFETY: the kernel's arguments, as the contract test has them, for memory that the caller promises.
    unsafe {
        launch!(
            stream,
            &MMVQ,
            Name(["mmvq_quantize_q8_1", of.name(), ""], 0),
            (workgroups, 1, 1),
            mmvq::THREADS,
            [source, target, columns, padded, elements]
        )
    }
}

/// Matrices of f32 for [`multiply_matrices`](super::multiply_matrices), as `launch_mmq_quantize_q8_1_*` is given them.
///
/// Element (i3, i2, i1, i0) of `ne3` x `ne2` x `ne1` x `ne00` is at `i3 * s03 + i2 * s02 + r * s01 + i0` of `x`, in
/// elements, where r is `ids[i1]`, or i1 without `ids`. Rows are padded with zeros to `ne0` elements and on to a multiple
/// of 128.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Matrices {
    pub x: u64,
    /// Address of i32 numbers of rows; 0 for none.
    pub ids: u64,
    /// Address of the result: 144 bytes for each 128 elements, [`mmq::BLOCK_BYTES`]; a plane's are as many as if its rows
    /// were padded to a multiple of 512.
    pub vy: u64,
    pub ne00: i64,
    pub s01: i64,
    pub s02: i64,
    pub s03: i64,
    pub ne0: i64,
    pub ne1: i64,
    pub ne2: i64,
    pub ne3: i64,
}

/// Quantises matrices of vectors, with scales as a format wants them.
///
/// # Safety
/// As [`quantize_vectors`].
///
/// # Errors
/// As [`quantize_vectors`].
pub unsafe fn quantize_matrices(
    stream: &Stream,
    scales: Scales,
    matrices: &Matrices,
) -> Result<()> {
    let columns = u64::from(count("ne00", matrices.ne00)?);
    let padded = count("ne0", matrices.ne0)?;
    let rows = u64::from(count("ne1", matrices.ne1)?);
    let planes_2 = u64::from(count("ne2", matrices.ne2)?);
    let planes = planes_2 * u64::from(count("ne3", matrices.ne3)?);
    if u64::from(padded) < columns {
        return Err(Error::invalid(format!(
            "ne0 is {padded}, and the rows of ne00 = {columns} elements are padded to it"
        )));
    }
    let chunks = u64::from(padded.div_ceil(mmq::CHUNK));
    // The next plane starts where rows padded to 512 would have ended.
    let plane_blocks = chunks.next_multiple_of(4) * rows;
    let count = chunks
        .checked_mul(rows)
        .and_then(|blocks| blocks.checked_mul(planes))
        .filter(|&blocks| blocks < u64::MAX / u64::from(mmq::BLOCK_BYTES))
        .ok_or_else(|| Error::invalid("ne0 * ne1 * ne2 * ne3 is beyond any memory".to_string()))?;
    if count == 0 {
        return Ok(());
    }
    let source = address("x", matrices.x)?;
    let target = blocks("vy", matrices.vy, mmq::BLOCK_BYTES)?;
    let Matrices {
        ids, s01, s02, s03, ..
    } = *matrices;
    // 32 threads make a block.
    let workgroups = count
        .div_ceil(u64::from(mmq::THREADS / 32))
        .min(mmq::MOST_WORKGROUPS.into()) as u32;
    // SAFETY: the kernel's arguments, as the contract test has them, for memory that the caller promises.
    unsafe {
        launch!(
            stream,
            &MMQ,
            Name(["mmq_quantize_q8_1", scales.name(), ""], 0),
            (workgroups, 1, 1),
            mmq::THREADS,
            [
                source,
                ids,
                target,
                columns,
                s01,
                s02,
                s03,
                chunks,
                rows,
                planes_2,
                plane_blocks,
                count
            ]
        )
    }
}
