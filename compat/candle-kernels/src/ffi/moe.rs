//! Mixtures of experts.
//!
//! What the three products share. A slot is a token's place with one of its experts; there are `size_m` of them,
//! sorted by expert. All pointers are to the GPU's memory.
//!
//! - `weights` are `num_experts` matrices of `size_n` x `size_k`;
//! - `sorted_token_ids[s]`, below `size_m`, is the slot's row of the output, `expert_ids[s]` its matrix;
//! - without `topk_weights` (null) output row r takes input row r / `topk`, and `size_m` is a multiple of `topk`;
//!   with them, `size_m` f32, it takes input row r and the product is multiplied by `topk_weights[r]`;
//! - `output` is `size_m` x `size_n`. A slot whose row is beyond it is left out, and the row of a slot whose
//!   expert does not exist is zero: no id makes a kernel read or write elsewhere.
//!
//! Sums are in f32. The quantised weights' values are not rounded on the way, nor the activations of
//! [`moe_gemm_gguf`], which CUDA's kernel rounds to Q8_1.

use core::ffi::c_void;

use candle_rocm_runtime::foreign::on_stream;
use candle_rocm_runtime::quantized::experts::{self, Product};
use candle_rocm_runtime::quantized::{align, Alignment};

/// What [`candle_launch_moe_align`] returns for an error: `hipErrorInvalidValue`.
const INVALID_VALUE: i32 = 1;

/// Product of each token with its experts' matrices, all f16 (`dtype` 0) or bf16 (1).
///
/// The arguments are those of the [module](self). `expert_counts`, `expert_offsets` and `is_prefill`, which
/// CUDA's kernels need, mean nothing: the buffers are left as they are. An error waits in the GPU.
///
/// # Safety
/// The pointers are to memory of the current GPU that holds what is said above and that nothing else uses
/// until the stream has come so far; `stream` is a stream of that GPU, or 0.
pub unsafe extern "C" fn moe_gemm_wmma(
    input: *const c_void,
    weights: *const c_void,
    sorted_token_ids: *const i32,
    expert_ids: *const i32,
    topk_weights: *const f32,
    output: *mut c_void,
    expert_counts: *mut i32,
    expert_offsets: *mut i32,
    num_experts: i32,
    topk: i32,
    size_m: i32,
    size_n: i32,
    size_k: i32,
    dtype: i32,
    is_prefill: bool,
    stream: i64,
) {
    let _ = (expert_counts, expert_offsets, is_prefill);
    let product = Product {
        input: input as u64,
        weights: weights as u64,
        sorted_token_ids: sorted_token_ids as u64,
        expert_ids: expert_ids as u64,
        topk_weights: topk_weights as u64,
        output: output as u64,
        num_experts,
        topk,
        size_m,
        size_n,
        size_k,
    };
    // SAFETY: the caller's promise.
    unsafe {
        on_stream("moe_gemm_wmma", stream as *mut c_void, |stream| {
            experts::multiply(stream, &product, dtype)
        });
    }
}

/// Product of each of a few tokens, f32, with its experts' quantised matrices, in f32.
///
/// The arguments are those of the [module](self); `gguf_dtype` is Q8_0: 0, Q4_K: 1, Q2_K: 2, Q3_K: 3, Q5_K: 4,
/// Q6_K: 5. `input` starts at a multiple of 16 bytes. An error waits in the GPU.
///
/// # Safety
/// The pointers are to memory of the current GPU that holds what is said above and that nothing else uses
/// until the stream has come so far; `stream` is a stream of that GPU, or 0.
pub unsafe extern "C" fn moe_gemm_gguf(
    input: *const f32,
    weights: *const c_void,
    sorted_token_ids: *const i32,
    expert_ids: *const i32,
    topk_weights: *const f32,
    output: *mut c_void,
    num_experts: i32,
    topk: i32,
    size_m: i32,
    size_n: i32,
    size_k: i32,
    gguf_dtype: i32,
    stream: i64,
) {
    let product = Product {
        input: input as u64,
        weights: weights as u64,
        sorted_token_ids: sorted_token_ids as u64,
        expert_ids: expert_ids as u64,
        topk_weights: topk_weights as u64,
        output: output as u64,
        num_experts,
        topk,
        size_m,
        size_n,
        size_k,
    };
    // SAFETY: the caller's promise.
    unsafe {
        on_stream("moe_gemm_gguf", stream as *mut c_void, |stream| {
            experts::multiply_few(stream, &product, gguf_dtype)
        });
    }
}

/// Product of each of many tokens, f16 (`input_dtype` 0) or bf16 (1), with its experts' quantised matrices, in f32.
///
/// The arguments are those of the [module](self); `gguf_dtype` is that of [`moe_gemm_gguf`]. An error waits in
/// the GPU.
///
/// # Safety
/// The pointers are to memory of the current GPU that holds what is said above and that nothing else uses
/// until the stream has come so far; `stream` is a stream of that GPU, or 0.
pub unsafe extern "C" fn moe_gemm_gguf_prefill(
    input: *const c_void,
    weights: *const u8,
    sorted_token_ids: *const i32,
    expert_ids: *const i32,
    topk_weights: *const f32,
    output: *mut c_void,
    num_experts: i32,
    topk: i32,
    size_m: i32,
    size_n: i32,
    size_k: i32,
    input_dtype: i32,
    gguf_dtype: i32,
    stream: i64,
) {
    let product = Product {
        input: input as u64,
        weights: weights as u64,
        sorted_token_ids: sorted_token_ids as u64,
        expert_ids: expert_ids as u64,
        topk_weights: topk_weights as u64,
        output: output as u64,
        num_experts,
        topk,
        size_m,
        size_n,
        size_k,
    };
    // SAFETY: the caller's promise.
    unsafe {
        on_stream("moe_gemm_gguf_prefill", stream as *mut c_void, |stream| {
            experts::multiply_many(stream, &product, input_dtype, gguf_dtype)
        });
    }
}

/// Sorts `numel` slots by expert into blocks of `block_size`, each of one expert.
///
/// `topk_ids[s]` is the expert of slot s; one that does not exist leaves the slot out. Every expert's slots are
/// padded to whole blocks: `sorted_token_ids` (`max_num_tokens_padded`) has the slots, in no particular order
/// within an expert, and `numel` elsewhere; `expert_ids` (a block each of `max_num_tokens_padded`, rounded up) the
/// block's expert, and -1 past the last; `num_tokens_post_pad` the padded number. `cumsum` (`num_experts` + 1) ends
/// with where each expert's slots end without the padding, and the padded number. What does not fit in
/// `max_num_tokens_padded` is left out.
///
/// Returns 0, or `hipErrorInvalidValue` for an error, which waits in the GPU.
///
/// # Safety
/// The pointers are to memory of the current GPU that holds what is said above and that nothing else uses
/// until the stream has come so far; `stream` is a stream of that GPU, or null.
pub unsafe extern "C" fn candle_launch_moe_align(
    topk_ids: *const i32,
    sorted_token_ids: *mut i32,
    expert_ids: *mut i32,
    num_tokens_post_pad: *mut i32,
    cumsum: *mut i32,
    num_experts: i32,
    block_size: i32,
    numel: i32,
    max_num_tokens_padded: i32,
    stream: *mut c_void,
) -> i32 {
    let alignment = Alignment {
        topk_ids: topk_ids as u64,
        sorted_token_ids: sorted_token_ids as u64,
        expert_ids: expert_ids as u64,
        num_tokens_post_pad: num_tokens_post_pad as u64,
        cumsum: cumsum as u64,
        num_experts,
        block_size,
        numel,
        max_num_tokens_padded,
    };
    // SAFETY: the caller's promise.
    let done = unsafe {
        on_stream("candle_launch_moe_align", stream, |stream| {
            align(stream, &alignment)
        })
    };
    if done {
        0
    } else {
        INVALID_VALUE
    }
}
