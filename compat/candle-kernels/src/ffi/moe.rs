//! Mixtures of experts: module `moe`.
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

use candle_rocm_kernels::MOE;
use candle_rocm_runtime::{Error, Result, Stream};

use super::launch::{address, count, launch, on_stream};

/// Slots and columns of a workgroup of the products of many tokens.
const TILE: [u32; 2] = [32, 64];
/// Columns of a workgroup of the products of few tokens.
const DECODED: u32 = 4;
/// Workgroups in a direction in which kernels go on in steps of the grid.
const MOST_WORKGROUPS: u32 = 1 << 15;
/// What [`candle_launch_moe_align`] returns for an error: `hipErrorInvalidValue`.
const INVALID_VALUE: i32 = 1;

/// A type of input, as the callers number it: f16, bf16.
const INPUTS: [&str; 2] = ["f16", "bf16"];

/// A quantised format: its name in the kernels' names, the elements and bytes of a block.
type Format = (&'static str, u32, u64);
/// As the callers number them.
const FORMATS: [Format; 6] = [
    ("q8_0", 32, 34),
    ("q4_k", 256, 144),
    ("q2_k", 256, 84),
    ("q3_k", 256, 110),
    ("q5_k", 256, 176),
    ("q6_k", 256, 210),
];

/// An entry of a table that the caller chose by number.
fn choice<T: Copy>(name: &str, table: &[T], number: i32) -> Result<T> {
    usize::try_from(number)
        .ok()
        .and_then(|number| table.get(number))
        .copied()
        .ok_or_else(|| {
            Error::invalid(format!(
                "{name} is {number}, and must be 0 to {}",
                table.len() - 1
            ))
        })
}

/// The arguments that the products share.
struct Product {
    input: *const c_void,
    weights: *const c_void,
    tokens: *const i32,
    experts: *const i32,
    topk_weights: *const f32,
    output: *mut c_void,
    /// `num_experts`, `topk`, `size_m`, `size_n`, `size_k`.
    sizes: [i32; 5],
}

impl Product {
    /// Launches a kernel for weights of this format (blocks of one element for plain ones) and input aligned to
    /// `alignment` bytes; a workgroup takes `tile` slots and columns.
    fn launch(
        &self,
        stream: &Stream,
        name: &str,
        (format, elements, bytes): Format,
        alignment: u64,
        tile: [u32; 2],
        threads: u32,
    ) -> Result<()> {
        let [num_experts, topk, size_m, size_n, size_k] = self.sizes;
        let num_experts = count("num_experts", num_experts.into())?;
        let topk = count("topk", topk.into())?;
        let size_m = count("size_m", size_m.into())?;
        let size_n = count("size_n", size_n.into())?;
        let size_k = count("size_k", size_k.into())?;
        let topk_weights = self.topk_weights as u64;
        if topk == 0 || (topk_weights == 0 && size_m % topk != 0) {
            return Err(Error::invalid(format!(
                "topk is {topk} and size_m {size_m}, which without topk_weights is a multiple of it"
            )));
        }
        if size_k % elements != 0 {
            return Err(Error::invalid(format!(
                "size_k is {size_k}, and a row of {format} has a multiple of {elements} elements"
            )));
        }
        if size_m == 0 || size_n == 0 {
            return Ok(());
        }
        let input = address("input", self.input)?;
        let weights = address("weights", self.weights)?;
        let tokens = address("sorted_token_ids", self.tokens)?;
        let experts = address("expert_ids", self.experts)?;
        let output = address("output", self.output)?;
        // Rows of a multiple of four elements are read in vectors.
        let alignment = if size_k % 4 == 0 { alignment } else { 2 };
        let weight_alignment = if elements == 1 { alignment } else { 2 };
        if input % alignment != 0 || weights % weight_alignment != 0 {
            return Err(Error::invalid(format!(
                "input is at {input:#x} and weights at {weights:#x}, and must be at multiples of {alignment} and \
                 {weight_alignment} bytes"
            )));
        }
        let row_bytes = u64::from(size_k / elements) * bytes;
        let grid = (
            size_n.div_ceil(tile[1]),
            size_m.div_ceil(tile[0]).min(MOST_WORKGROUPS),
            1,
        );
        launch!(
            stream,
            &MOE,
            name,
            grid,
            threads,
            [
                input,
                weights,
                tokens,
                experts,
                topk_weights,
                output,
                num_experts,
                topk,
                size_m,
                size_n,
                size_k,
                row_bytes
            ]
        )
    }
}

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
        input,
        weights,
        tokens: sorted_token_ids,
        experts: expert_ids,
        topk_weights,
        output,
        sizes: [num_experts, topk, size_m, size_n, size_k],
    };
    // SAFETY: the caller's promise.
    unsafe {
        on_stream("moe_gemm_wmma", stream as *mut c_void, |stream| {
            let dtype = choice("dtype", &INPUTS, dtype)?;
            let name = format!("moe_gemm_{dtype}");
            product.launch(stream, &name, (dtype, 1, 2), 8, TILE, 256)
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
        input: input.cast(),
        weights,
        tokens: sorted_token_ids,
        experts: expert_ids,
        topk_weights,
        output,
        sizes: [num_experts, topk, size_m, size_n, size_k],
    };
    // SAFETY: the caller's promise.
    unsafe {
        on_stream("moe_gemm_gguf", stream as *mut c_void, |stream| {
            let format = choice("gguf_dtype", &FORMATS, gguf_dtype)?;
            let name = format!("moe_decode_{}", format.0);
            product.launch(stream, &name, format, 16, [1, DECODED], 128)
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
        input,
        weights: weights.cast(),
        tokens: sorted_token_ids,
        experts: expert_ids,
        topk_weights,
        output,
        sizes: [num_experts, topk, size_m, size_n, size_k],
    };
    // SAFETY: the caller's promise.
    unsafe {
        on_stream("moe_gemm_gguf_prefill", stream as *mut c_void, |stream| {
            let format = choice("gguf_dtype", &FORMATS, gguf_dtype)?;
            let input = choice("input_dtype", &INPUTS, input_dtype)?;
            let name = format!("moe_prefill_{}_{input}", format.0);
            product.launch(stream, &name, format, 8, TILE, 256)
        });
    }
}

/// What [`candle_launch_moe_align`] does.
fn align(
    stream: &Stream,
    slot_experts: *const i32,
    [sorted_slots, block_experts, total, cumsum]: [*mut i32; 4],
    [num_experts, block_size, slots, sorted_len]: [i32; 4],
) -> Result<()> {
    let num_experts = count("num_experts", num_experts.into())?;
    let block_size = count("block_size", block_size.into())?;
    let slots = count("numel", slots.into())?;
    let sorted_len = count("max_num_tokens_padded", sorted_len.into())?;
    if block_size == 0 {
        return Err(Error::invalid("block_size is 0, and must be positive"));
    }
    let total = address("num_tokens_post_pad", total)?;
    let cumsum = address("cumsum", cumsum)?;
    let (mut source, mut sorted, mut blocks) = (0, 0, 0);
    if slots > 0 {
        source = address("topk_ids", slot_experts)?;
    }
    if sorted_len > 0 {
        sorted = address("sorted_token_ids", sorted_slots)?;
        blocks = address("expert_ids", block_experts)?;
    }
    const THREADS: u32 = 256;
    let fill = sorted_len.div_ceil(THREADS).min(MOST_WORKGROUPS);
    let grid = (1 + fill, 1, 1);
    launch!(
        stream,
        &MOE,
        "moe_align",
        grid,
        THREADS,
        [
            source,
            sorted,
            blocks,
            total,
            cumsum,
            num_experts,
            block_size,
            slots,
            sorted_len
        ]
    )?;
    if slots == 0 {
        return Ok(());
    }
    let grid = (slots.div_ceil(THREADS).min(MOST_WORKGROUPS), 1, 1);
    launch!(
        stream,
        &MOE,
        "moe_align_sort",
        grid,
        THREADS,
        [source, sorted, cumsum, num_experts, slots, sorted_len]
    )
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
    // SAFETY: the caller's promise.
    let done = unsafe {
        on_stream("candle_launch_moe_align", stream, |stream| {
            align(
                stream,
                topk_ids,
                [sorted_token_ids, expert_ids, num_tokens_post_pad, cumsum],
                [num_experts, block_size, numel, max_num_tokens_padded],
            )
        })
    };
    if done {
        0
    } else {
        INVALID_VALUE
    }
}
