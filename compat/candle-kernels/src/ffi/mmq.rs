//! Products of quantised matrices with matrices (prompts).

use core::ffi::c_void;

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
