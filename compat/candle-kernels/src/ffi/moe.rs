//! Mixtures of experts.

use core::ffi::c_void;

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
