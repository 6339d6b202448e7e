//! Products of quantised matrices with up to eight vectors (decoding): module `mmvq`.
//!
//! A vector is first quantised to what Q8_1 blocks hold, 256 elements in the 288 bytes of eight of them: signed bytes, and
//! then a scale and the sum of the elements, both f16, for each 32. Sums of products of integers are exact, sums over
//! blocks in f32.

use core::ffi::c_void;

use candle_rocm_kernels::mmvq::{
    gives_cudas_bits, row_threads, thread_rows, BLOCK, GROUP, THREADS, TOGETHER, TOGETHER_BYTES,
};
use candle_rocm_kernels::MMVQ;
use candle_rocm_runtime::{Error, Result, Stream};

use super::launch::{address, blocks, count, launch, on_stream};

/// Vectors that one launch can take.
const MOST_VECTORS: u32 = 8;

/// The result's type, as `kernels/quantized/mmvq.cu` numbers it.
#[derive(Clone, Copy)]
#[repr(u32)]
enum ResultType {
    F32,
    F16,
    Bf16,
}

/// A quantised format by its name in the kernels' names.
struct Format {
    name: &'static str,
    /// Elements of a block.
    elements: u32,
    /// Bytes of a block.
    bytes: u64,
}

/// What `launch_mmvq_gguf_*_plain` does.
fn multiply(
    stream: &Stream,
    format: &Format,
    result: ResultType,
    [weights, activations, output]: [*const c_void; 3],
    [columns, rows, vector_blocks, dst_rows, vectors]: [i32; 5],
) -> Result<()> {
    let columns = count("ncols_x", columns.into())?;
    let rows = count("nrows_x", rows.into())?;
    let vector_blocks = count("stride_col_y", vector_blocks.into())?;
    let dst_rows = count("stride_col_dst", dst_rows.into())?;
    let vectors = count("b_size", vectors.into())?;
    if vectors > MOST_VECTORS {
        return Err(Error::invalid(format!(
            "b_size is {vectors}, and {MOST_VECTORS} vectors are the most; more are a product of matrices"
        )));
    }
    if columns % format.elements != 0 {
        return Err(Error::invalid(format!(
            "ncols_x is {columns}, and a row of {} has a multiple of {} elements",
            format.name, format.elements
        )));
    }
    if vector_blocks < columns / BLOCK && vectors > 1 {
        return Err(Error::invalid(format!(
            "stride_col_y is {vector_blocks} blocks, and {columns} elements take {}",
            columns / BLOCK
        )));
    }
    if dst_rows < rows && vectors > 1 {
        return Err(Error::invalid(format!(
            "stride_col_dst is {dst_rows}, and each of {vectors} vectors has {rows} results"
        )));
    }
    if vectors > 1 && vector_blocks % (TOGETHER / BLOCK) != 0 {
        return Err(Error::invalid(format!(
            "stride_col_y is {vector_blocks} blocks, and vectors are quantised {} at a time",
            TOGETHER / BLOCK
        )));
    }
    if rows == 0 || vectors == 0 {
        return Ok(());
    }
    let weights = blocks("vx", weights, format.bytes)?;
    let activations = blocks("vy", activations, TOGETHER_BYTES.into())?;
    let output = address("dst", output)?;
    let size = vectors.next_power_of_two();
    let pieces = columns / BLOCK;
    let thread_rows = thread_rows(format.elements, size);
    let info = stream.context().info();
    let units = (info.compute_units, info.wavefront_size);
    let row_threads = row_threads(units, rows, thread_rows, pieces, size);
    let (name, workgroups) = if gives_cudas_bits(format.name, rows, columns) {
        let results = THREADS / GROUP;
        let name = format!("mmvq_{}_cudas", format.name);
        (name, (rows * vectors).div_ceil(results))
    } else {
        let name = format!("mmvq_{}_{size}", format.name);
        (name, rows.div_ceil(THREADS / row_threads * thread_rows))
    };
    let grid = (workgroups, 1, 1);
    let result = result as u32;
    launch!(
        stream,
        &MMVQ,
        &name,
        grid,
        THREADS,
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

/// What `launch_mmvq_gguf_quantize_q8_1_*` does.
fn quantize(
    stream: &Stream,
    kernel: &str,
    source: *const c_void,
    blocks: *const c_void,
    [columns, padded, rows]: [i32; 3],
) -> Result<()> {
    let columns = count("kx", columns.into())?;
    let padded = count("kx_padded", padded.into())?;
    let rows = count("num_rows", rows.into())?;
    if padded < columns || padded % TOGETHER != 0 {
        return Err(Error::invalid(format!(
            "kx_padded is {padded}, and must be a multiple of {TOGETHER} and no less than kx, {columns}"
        )));
    }
    let elements = u64::from(padded) * u64::from(rows);
    if elements == 0 {
        return Ok(());
    }
    let source = address("x", source)?;
    let blocks = super::launch::blocks("vy", blocks, TOGETHER_BYTES.into())?;
    // Beyond this the workgroups go over the elements in steps of the grid.
    const MOST_WORKGROUPS: u64 = 1 << 20;
    let workgroups = elements.div_ceil(THREADS.into()).min(MOST_WORKGROUPS) as u32;
    launch!(
        stream,
        &MMVQ,
        kernel,
        (workgroups, 1, 1),
        THREADS,
        [source, blocks, columns, padded, elements]
    )
}

macro_rules! products {
    ($($name:ident $format:literal $elements:literal $bytes:literal $result:ident;)*) => {$(
        #[doc = concat!("`dst` (`b_size` x `stride_col_dst`) = the matrix `vx` (`nrows_x` x `ncols_x`, ", $format,
            ") times `b_size` vectors that `launch_mmvq_gguf_quantize_q8_1_*` made, `stride_col_y` blocks of 32 elements apart.")]
        ///
        /// At most eight vectors. `ncols_x` is a multiple of the format's block, `stride_col_y` of 8 if there are several.
        /// `vx` starts at a multiple of the power of two that divides the size of its blocks, 16 at most, `vy` of 16. An
        /// error waits in the GPU.
        ///
        /// # Safety
        /// The pointers are to memory of the current GPU that holds what is said above and that nothing else uses
        /// until the stream has come so far; `stream` is a stream of that GPU, or null.
        pub unsafe extern "C" fn $name(
            vx: *const c_void,
            vy: *const c_void,
            dst: *mut c_void,
            ncols_x: i32,
            nrows_x: i32,
            stride_col_y: i32,
            stride_col_dst: i32,
            b_size: i32,
            stream: *mut c_void,
        ) {
            let format = Format { name: $format, elements: $elements, bytes: $bytes };
            let sizes = [ncols_x, nrows_x, stride_col_y, stride_col_dst, b_size];
            // SAFETY: the caller's promise.
            unsafe {
                on_stream(stringify!($name), stream, |stream| {
                    multiply(stream, &format, ResultType::$result, [vx, vy, dst.cast_const()], sizes)
                });
            }
        }
    )*};
}

products! {
    launch_mmvq_gguf_q4_0_f32_plain "q4_0" 32 18 F32;
    launch_mmvq_gguf_q4_1_f32_plain "q4_1" 32 20 F32;
    launch_mmvq_gguf_q5_0_f32_plain "q5_0" 32 22 F32;
    launch_mmvq_gguf_q5_1_f32_plain "q5_1" 32 24 F32;
    launch_mmvq_gguf_q8_0_f32_plain "q8_0" 32 34 F32;
    launch_mmvq_gguf_q2_k_f32_plain "q2_k" 256 84 F32;
    launch_mmvq_gguf_q3_k_f32_plain "q3_k" 256 110 F32;
    launch_mmvq_gguf_q4_k_f32_plain "q4_k" 256 144 F32;
    launch_mmvq_gguf_q5_k_f32_plain "q5_k" 256 176 F32;
    launch_mmvq_gguf_q6_k_f32_plain "q6_k" 256 210 F32;
    launch_mmvq_gguf_q4_0_f16_plain "q4_0" 32 18 F16;
    launch_mmvq_gguf_q4_1_f16_plain "q4_1" 32 20 F16;
    launch_mmvq_gguf_q5_0_f16_plain "q5_0" 32 22 F16;
    launch_mmvq_gguf_q5_1_f16_plain "q5_1" 32 24 F16;
    launch_mmvq_gguf_q8_0_f16_plain "q8_0" 32 34 F16;
    launch_mmvq_gguf_q2_k_f16_plain "q2_k" 256 84 F16;
    launch_mmvq_gguf_q3_k_f16_plain "q3_k" 256 110 F16;
    launch_mmvq_gguf_q4_k_f16_plain "q4_k" 256 144 F16;
    launch_mmvq_gguf_q5_k_f16_plain "q5_k" 256 176 F16;
    launch_mmvq_gguf_q6_k_f16_plain "q6_k" 256 210 F16;
    launch_mmvq_gguf_q4_0_bf16_plain "q4_0" 32 18 Bf16;
    launch_mmvq_gguf_q4_1_bf16_plain "q4_1" 32 20 Bf16;
    launch_mmvq_gguf_q5_0_bf16_plain "q5_0" 32 22 Bf16;
    launch_mmvq_gguf_q5_1_bf16_plain "q5_1" 32 24 Bf16;
    launch_mmvq_gguf_q8_0_bf16_plain "q8_0" 32 34 Bf16;
    launch_mmvq_gguf_q2_k_bf16_plain "q2_k" 256 84 Bf16;
    launch_mmvq_gguf_q3_k_bf16_plain "q3_k" 256 110 Bf16;
    launch_mmvq_gguf_q4_k_bf16_plain "q4_k" 256 144 Bf16;
    launch_mmvq_gguf_q5_k_bf16_plain "q5_k" 256 176 Bf16;
    launch_mmvq_gguf_q6_k_bf16_plain "q6_k" 256 210 Bf16;
}

macro_rules! quantizers {
    ($($name:ident $kernel:literal $type:literal;)*) => {$(
        #[doc = concat!("Quantises `x` (`num_rows` x `kx`, ", $type, ") for products with quantised matrices, each row padded with zeros to \
            `kx_padded` elements, in 36 bytes for 32 of them.")]
        ///
        /// `kx_padded` is a multiple of 256. An error waits in the GPU.
        ///
        /// # Safety
        /// The pointers are to memory of the current GPU that holds what is said above and that nothing else uses
        /// until the stream has come so far; `stream` is a stream of that GPU, or null.
        pub unsafe extern "C" fn $name(
            x: *const c_void,
            vy: *mut c_void,
            kx: i32,
            kx_padded: i32,
            num_rows: i32,
            stream: *mut c_void,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                on_stream(stringify!($name), stream, |stream| {
                    quantize(stream, $kernel, x, vy.cast_const(), [kx, kx_padded, num_rows])
                });
            }
        }
    )*};
}

quantizers! {
    launch_mmvq_gguf_quantize_q8_1_f32 "mmvq_quantize_q8_1_f32" "f32";
    launch_mmvq_gguf_quantize_q8_1_f16 "mmvq_quantize_q8_1_f16" "f16";
    launch_mmvq_gguf_quantize_q8_1_bf16 "mmvq_quantize_q8_1_bf16" "bf16";
}
