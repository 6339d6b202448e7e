//! Products of quantised matrices with matrices (prompts).
//!
//! The activations are first quantised to blocks of 128 elements in 144 bytes: 16 bytes of scales, then 128 signed
//! bytes. Block `c` of column `i` is number `c * columns + i`. The scales' layout follows from the weights' format
//! ([`gguf::Format::scales`]). An infinite or NaN activation makes its column's results NaN.

use core::ffi::c_void;

use candle_rocm_kernels::gguf::{self, Scales};
use candle_rocm_runtime::foreign::on_stream;
use candle_rocm_runtime::quantized::{
    multiply_matrices, quantize_matrices, Matrices, MatrixProduct,
};

macro_rules! quantizers {
    ($($name:ident $scales:ident;)*) => {$(
        /// Quantises f32 matrices to blocks of 128 in `vy`, for the products below; the layout is in the name.
        ///
        /// Element (i3, i2, i1, i0) of `ne3` x `ne2` x `ne1` x `ne00` is at `i3 * s03 + i2 * s02 + r * s01 + i0` of
        /// `x`, in elements, where r is `ids[i1]`, or i1 if `ids` is null. Rows are padded with zeros to `ne0`
        /// elements and on to a multiple of 128. Planes (i3, i2) follow each other, each as long as if rows were
        /// padded to a multiple of 512. `vy` starts at a multiple of 16 bytes. `type_x` means nothing. An error
        /// waits in the GPU.
        ///
        /// # Safety
        /// The pointers are to memory of the current GPU that holds what is said above and that nothing else uses
        /// until the stream has come so far; `stream` is a stream of that GPU, or null.
        pub unsafe extern "C" fn $name(
            x: *const c_void,
            ids: *const i32,
            vy: *mut c_void,
            type_x: i32,
            ne00: i64,
            s01: i64,
            s02: i64,
            s03: i64,
            ne0: i64,
            ne1: i64,
            ne2: i64,
            ne3: i64,
            stream: *mut c_void,
        ) {
            let _ = type_x;
            let (x, ids, vy) = (x as u64, ids as u64, vy as u64);
            let matrices = Matrices { x, ids, vy, ne00, s01, s02, s03, ne0, ne1, ne2, ne3 };
            // SAFETY: the caller's promise.
            unsafe {
                on_stream(stringify!($name), stream, |stream| {
                    quantize_matrices(stream, Scales::$scales, &matrices)
                });
            }
        }
    )*};
}

quantizers! {
    launch_mmq_quantize_q8_1_D4 D4;
    launch_mmq_quantize_q8_1_DS4 DS4;
    launch_mmq_quantize_q8_1_D2S6 D2S6;
}

macro_rules! products {
    ($($name:ident $format:ident;)*) => {$(
        #[doc = concat!("`dst` (`ncols_y` x `stride_col_dst`, f32) = the matrix `x` (`nrows_x` x `ncols_x`, ", stringify!($format),
            ") times `ncols_y` columns of blocks of the layout that this format asks for ([`gguf::Format::scales`]).")]
        ///
        /// Rows of `x` are `stride_row_x` blocks apart; the first `nrows_x` of each `stride_col_dst` results are
        /// written. `ncols_x` is a multiple of the format's block. `x` and `y` start at a multiple of the power of two
        /// that divides the size of their blocks, 16 at most. `tmp_fixup` is room for 2^22 f32, or null, with which
        /// few tiles take longer. `nsm` is the number of the GPU's compute units, which decides about tiles; `cc`,
        /// `smpbo` and `warp_size` mean nothing. An error waits in the GPU.
        ///
        /// # Safety
        /// The pointers are to memory of the current GPU that holds what is said above and that nothing else uses
        /// until the stream has come so far; `stream` is a stream of that GPU, or null.
        pub unsafe extern "C" fn $name(
            tmp_fixup: *mut c_void,
            x: *const c_void,
            y: *const c_void,
            dst: *mut c_void,
            ncols_x: i64,
            nrows_x: i64,
            ncols_y: i64,
            stride_row_x: i64,
            stride_col_dst: i64,
            cc: i32,
            nsm: i32,
            smpbo: i64,
            warp_size: i32,
            stream: *mut c_void,
        ) {
            let _ = (cc, smpbo, warp_size);
            let product = MatrixProduct {
                tmp_fixup: tmp_fixup as u64,
                x: x as u64,
                y: y as u64,
                dst: dst as u64,
                ncols_x,
                nrows_x,
                ncols_y,
                stride_row_x,
                stride_col_dst,
                nsm,
            };
            // SAFETY: the caller's promise.
            unsafe {
                on_stream(stringify!($name), stream, |stream| {
                    multiply_matrices(stream, &gguf::$format, &product)
                });
            }
        }
    )*};
}

products! {
    launch_mmq_gguf_q4_0 Q4_0;
    launch_mmq_gguf_q4_1 Q4_1;
    launch_mmq_gguf_q5_0 Q5_0;
    launch_mmq_gguf_q5_1 Q5_1;
    launch_mmq_gguf_q8_0 Q8_0;
    launch_mmq_gguf_q2_k Q2_K;
    launch_mmq_gguf_q3_k Q3_K;
    launch_mmq_gguf_q4_k Q4_K;
    launch_mmq_gguf_q5_k Q5_K;
    launch_mmq_gguf_q6_k Q6_K;
}
