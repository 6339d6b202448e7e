//! Products of quantised matrices with up to eight vectors (decoding).
//!
//! A vector is first quantised to what Q8_1 blocks hold, 256 elements in the 288 bytes of eight of them: signed bytes, and
//! then a scale and the sum of the elements, both f16, for each 32. Sums of products of integers are exact, sums over
//! blocks in f32.

use core::ffi::c_void;

use candle_rocm_kernels::gguf;
use candle_rocm_runtime::foreign::on_stream;
use candle_rocm_runtime::quantized::{
    multiply_vectors, quantize_vectors, FloatType, VectorProduct, Vectors,
};

macro_rules! products {
    ($($name:ident $format:ident $result:ident;)*) => {$(
        #[doc = concat!("`dst` (`b_size` x `stride_col_dst`) = the matrix `vx` (`nrows_x` x `ncols_x`, ", stringify!($format),
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
            let product = VectorProduct {
                vx: vx as u64,
                vy: vy as u64,
                dst: dst as u64,
                ncols_x: ncols_x.into(),
                nrows_x: nrows_x.into(),
                stride_col_y: stride_col_y.into(),
                stride_col_dst: stride_col_dst.into(),
                b_size: b_size.into(),
            };
            // SAFETY: the caller's promise.
            unsafe {
                on_stream(stringify!($name), stream, |stream| {
                    multiply_vectors(stream, &gguf::$format, FloatType::$result, &product)
                });
            }
        }
    )*};
}

products! {
    launch_mmvq_gguf_q4_0_f32_plain Q4_0 F32;
    launch_mmvq_gguf_q4_1_f32_plain Q4_1 F32;
    launch_mmvq_gguf_q5_0_f32_plain Q5_0 F32;
    launch_mmvq_gguf_q5_1_f32_plain Q5_1 F32;
    launch_mmvq_gguf_q8_0_f32_plain Q8_0 F32;
    launch_mmvq_gguf_q2_k_f32_plain Q2_K F32;
    launch_mmvq_gguf_q3_k_f32_plain Q3_K F32;
    launch_mmvq_gguf_q4_k_f32_plain Q4_K F32;
    launch_mmvq_gguf_q5_k_f32_plain Q5_K F32;
    launch_mmvq_gguf_q6_k_f32_plain Q6_K F32;
    launch_mmvq_gguf_q4_0_f16_plain Q4_0 F16;
    launch_mmvq_gguf_q4_1_f16_plain Q4_1 F16;
    launch_mmvq_gguf_q5_0_f16_plain Q5_0 F16;
    launch_mmvq_gguf_q5_1_f16_plain Q5_1 F16;
    launch_mmvq_gguf_q8_0_f16_plain Q8_0 F16;
    launch_mmvq_gguf_q2_k_f16_plain Q2_K F16;
    launch_mmvq_gguf_q3_k_f16_plain Q3_K F16;
    launch_mmvq_gguf_q4_k_f16_plain Q4_K F16;
    launch_mmvq_gguf_q5_k_f16_plain Q5_K F16;
    launch_mmvq_gguf_q6_k_f16_plain Q6_K F16;
    launch_mmvq_gguf_q4_0_bf16_plain Q4_0 Bf16;
    launch_mmvq_gguf_q4_1_bf16_plain Q4_1 Bf16;
    launch_mmvq_gguf_q5_0_bf16_plain Q5_0 Bf16;
    launch_mmvq_gguf_q5_1_bf16_plain Q5_1 Bf16;
    launch_mmvq_gguf_q8_0_bf16_plain Q8_0 Bf16;
    launch_mmvq_gguf_q2_k_bf16_plain Q2_K Bf16;
    launch_mmvq_gguf_q3_k_bf16_plain Q3_K Bf16;
    launch_mmvq_gguf_q4_k_bf16_plain Q4_K Bf16;
    launch_mmvq_gguf_q5_k_bf16_plain Q5_K Bf16;
    launch_mmvq_gguf_q6_k_bf16_plain Q6_K Bf16;
}

macro_rules! quantizers {
    ($($name:ident $type:ident;)*) => {$(
        #[doc = concat!("Quantises `x` (`num_rows` x `kx`, ", stringify!($type), ") for products with quantised matrices, each row padded with zeros to \
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
            let vectors = Vectors {
                x: x as u64,
                vy: vy as u64,
                kx: kx.into(),
                kx_padded: kx_padded.into(),
                num_rows: num_rows.into(),
            };
            // SAFETY: the caller's promise.
            unsafe {
                on_stream(stringify!($name), stream, |stream| {
                    quantize_vectors(stream, FloatType::$type, &vectors)
                });
            }
        }
    )*};
}

quantizers! {
    launch_mmvq_gguf_quantize_q8_1_f32 F32;
    launch_mmvq_gguf_quantize_q8_1_f16 F16;
    launch_mmvq_gguf_quantize_q8_1_bf16 Bf16;
}
