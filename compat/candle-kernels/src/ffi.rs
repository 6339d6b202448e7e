//! The C functions of candle-kernels 0.11.1, which launch kernels by themselves: quantised products and
//! mixtures of experts.
//!
//! This release has no kernels for them yet. Candle calls them without looking for an error, so each
//! leaves one on its stream's GPU, as a kernel that fails does; the next call of the runtime (allocating,
//! launching, copying, synchronising) returns it, and it names the function. Nothing is computed, and
//! nothing that was not computed is taken for a result.
#![allow(non_snake_case, clippy::too_many_arguments)]

use core::ffi::c_void;

use candle_rocm_runtime::module::leave_missing_kernel_error;

macro_rules! missing {
    ($doc:literal $parameters:tt $($name:ident)*) => {
        $(missing!(@function $doc $parameters $name);)*
    };
    (@function $doc:literal ($($arg:ident: $type:ty),*) $name:ident) => {
        #[doc = $doc]
        ///
        /// # Safety
        /// None is needed: no argument is followed.
        pub unsafe extern "C" fn $name($($arg: $type),*) {
            $(let _ = $arg;)*
            leave_missing_kernel_error(stringify!($name));
        }
    };
}

missing! {
    "Product of each token with its experts' matrices, f16 or bf16."
    (input: *const c_void, weights: *const c_void, sorted_token_ids: *const i32, expert_ids: *const i32,
     topk_weights: *const f32, output: *mut c_void, expert_counts: *mut i32, expert_offsets: *mut i32,
     num_experts: i32, topk: i32, size_m: i32, size_n: i32, size_k: i32, dtype: i32, is_prefill: bool,
     stream: i64)
    moe_gemm_wmma
}

missing! {
    "Product of each token with its experts' quantised matrices."
    (input: *const f32, weights: *const c_void, sorted_token_ids: *const i32, expert_ids: *const i32,
     topk_weights: *const f32, output: *mut c_void, num_experts: i32, topk: i32, size_m: i32, size_n: i32,
     size_k: i32, gguf_dtype: i32, stream: i64)
    moe_gemm_gguf
}

missing! {
    "Product of many tokens with their experts' quantised matrices."
    (input: *const c_void, weights: *const u8, sorted_token_ids: *const i32, expert_ids: *const i32,
     topk_weights: *const f32, output: *mut c_void, num_experts: i32, topk: i32, size_m: i32, size_n: i32,
     size_k: i32, input_dtype: i32, gguf_dtype: i32, stream: i64)
    moe_gemm_gguf_prefill
}

missing! {
    "Product of a quantised matrix with up to eight vectors in Q8_1; the result's type is in the name."
    (vx: *const c_void, vy: *const c_void, dst: *mut c_void, ncols_x: i32, nrows_x: i32, stride_col_y: i32,
     stride_col_dst: i32, b_size: i32, stream: *mut c_void)
    launch_mmvq_gguf_q4_0_bf16_plain launch_mmvq_gguf_q4_1_bf16_plain
    launch_mmvq_gguf_q5_0_bf16_plain launch_mmvq_gguf_q5_1_bf16_plain
    launch_mmvq_gguf_q8_0_bf16_plain launch_mmvq_gguf_q2_k_bf16_plain
    launch_mmvq_gguf_q3_k_bf16_plain launch_mmvq_gguf_q4_k_bf16_plain
    launch_mmvq_gguf_q5_k_bf16_plain launch_mmvq_gguf_q6_k_bf16_plain
    launch_mmvq_gguf_q4_0_f32_plain launch_mmvq_gguf_q4_1_f32_plain
    launch_mmvq_gguf_q5_0_f32_plain launch_mmvq_gguf_q5_1_f32_plain
    launch_mmvq_gguf_q8_0_f32_plain launch_mmvq_gguf_q2_k_f32_plain
    launch_mmvq_gguf_q3_k_f32_plain launch_mmvq_gguf_q4_k_f32_plain
    launch_mmvq_gguf_q5_k_f32_plain launch_mmvq_gguf_q6_k_f32_plain
    launch_mmvq_gguf_q4_0_f16_plain launch_mmvq_gguf_q4_1_f16_plain
    launch_mmvq_gguf_q5_0_f16_plain launch_mmvq_gguf_q5_1_f16_plain
    launch_mmvq_gguf_q8_0_f16_plain launch_mmvq_gguf_q2_k_f16_plain
    launch_mmvq_gguf_q3_k_f16_plain launch_mmvq_gguf_q4_k_f16_plain
    launch_mmvq_gguf_q5_k_f16_plain launch_mmvq_gguf_q6_k_f16_plain
}

missing! {
    "Quantises vectors to Q8_1 for the products above; the input's type is in the name."
    (x: *const c_void, vy: *mut c_void, kx: i32, kx_padded: i32, num_rows: i32, stream: *mut c_void)
    launch_mmvq_gguf_quantize_q8_1_bf16
    launch_mmvq_gguf_quantize_q8_1_f16
    launch_mmvq_gguf_quantize_q8_1_f32
}

missing! {
    "Quantises matrices to Q8_1 blocks of 128 for the products below; the scales' layout is in the name."
    (x: *const c_void, ids: *const i32, vy: *mut c_void, type_x: i32, ne00: i64, s01: i64, s02: i64,
     s03: i64, ne0: i64, ne1: i64, ne2: i64, ne3: i64, stream: *mut c_void)
    launch_mmq_quantize_q8_1_D4
    launch_mmq_quantize_q8_1_DS4
    launch_mmq_quantize_q8_1_D2S6
}

missing! {
    "Product of a quantised matrix with a matrix in Q8_1."
    (tmp_fixup: *mut c_void, x: *const c_void, y: *const c_void, dst: *mut c_void, ncols_x: i64,
     nrows_x: i64, ncols_y: i64, stride_row_x: i64, stride_col_dst: i64, cc: i32, nsm: i32, smpbo: i64,
     warp_size: i32, stream: *mut c_void)
    launch_mmq_gguf_q4_0 launch_mmq_gguf_q4_1 launch_mmq_gguf_q5_0 launch_mmq_gguf_q5_1
    launch_mmq_gguf_q8_0 launch_mmq_gguf_q2_k launch_mmq_gguf_q3_k launch_mmq_gguf_q4_k
    launch_mmq_gguf_q5_k launch_mmq_gguf_q6_k
}
