//! Products of quantised matrices with up to eight vectors (decoding).

use core::ffi::c_void;

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
