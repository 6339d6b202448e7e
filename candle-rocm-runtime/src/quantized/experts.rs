//! Products of tokens with matrices of their experts: module `moe`.
//!
//! A slot is a token's place with one of its experts; there are `size_m` of them, sorted by expert.
//!
//! - `weights` are `num_experts` matrices of `size_n` x `size_k`;
//! - `sorted_token_ids[s]`, below `size_m`, is the slot's row of the output, `expert_ids[s]` its matrix;
//! - without `topk_weights` (null) output row r takes input row r / `topk`, and `size_m` is a multiple of `topk`;
//!   with them, `size_m` f32, it takes input row r and the product is multiplied by `topk_weights[r]`;
//! - `output` is `size_m` x `size_n`. A slot whose row is beyond it is left out, and the row of a slot whose
//!   expert does not exist is zero: no id makes a kernel read or write elsewhere.
//!
//! Sums are in f32. The quantised weights' values are not rounded on the way, nor the activations of few tokens, which
//! CUDA's kernel rounds to Q8_1.

use candle_rocm_kernels::gguf::{self, Format};
use candle_rocm_kernels::MOE;

use super::arguments::{address, count};
use super::launches::{launch, Name};
use crate::base::error::{Error, Result};
use crate::stream::queue::Stream;

/// Slots and columns of a workgroup of the products of many tokens.
const TILE: [u32; 2] = [32, 64];
/// Threads of such a workgroup.
const THREADS: u32 = 256;
/// Columns of a workgroup of the products of few tokens.
const DECODED: u32 = 4;
/// Threads of such a workgroup.
const DECODE_THREADS: u32 = 128;
/// Workgroups in a direction in which kernels go on in steps of the grid.
pub(super) const MOST_WORKGROUPS: u32 = 1 << 15;

/// A type of input, as the callers number it: f16, bf16.
const INPUTS: [&str; 2] = ["f16", "bf16"];

/// The products' arguments, which the [module](self) describes.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Product {
    pub input: u64,
    pub weights: u64,
    pub sorted_token_ids: u64,
    pub expert_ids: u64,
    pub topk_weights: u64,
    pub output: u64,
    pub num_experts: i32,
    pub topk: i32,
    pub size_m: i32,
    pub size_n: i32,
    pub size_k: i32,
}

/// A kernel, and what it asks of its arguments.
struct Kernel {
    name: Name,
    /// Of the weights.
    format: &'static str,
    /// Elements and bytes of a block of weights; plain ones have blocks of one element.
    block: [u32; 2],
    /// Of the input, in bytes.
    alignment: u64,
    /// Slots and columns of a workgroup.
    tile: [u32; 2],
    threads: u32,
}

impl Kernel {
    fn quantised(name: Name, format: &Format) -> Self {
        Self {
            name,
            format: format.name,
            block: [format.elements, format.bytes],
            alignment: 8,
            tile: TILE,
            threads: THREADS,
        }
    }
}

/// Multiplies tokens with plain matrices, all f16 (`dtype` 0) or bf16 (1).
///
/// # Safety
/// The addresses are those of device memory as described, which nothing else uses until the stream has come so far.
///
/// # Errors
/// An argument makes no sense, which is named; the kernel cannot be launched.
pub unsafe fn multiply(stream: &Stream, product: &Product, dtype: i32) -> Result<()> {
    let dtype = choice("dtype", &INPUTS, dtype)?;
    let kernel = Kernel {
        name: Name(["moe_gemm", dtype, ""], 0),
        format: dtype,
        block: [1, 2],
        alignment: 8,
        tile: TILE,
        threads: THREADS,
    };
    // SAFETY: the caller's promise.
    unsafe { product.launch(stream, &kernel) }
}

/// Multiplies few tokens, f32, with matrices of a format of [`gguf::OF_EXPERTS`], by its number there. `input` starts at a
/// multiple of 16 bytes.
///
/// # Safety
/// As [`multiply`].
///
/// # Errors
/// As [`multiply`].
pub unsafe fn multiply_few(stream: &Stream, product: &Product, gguf_dtype: i32) -> Result<()> {
    let format = choice("gguf_dtype", &gguf::OF_EXPERTS, gguf_dtype)?;
    let kernel = Kernel {
        alignment: 16,
        tile: [1, DECODED],
        threads: DECODE_THREADS,
        ..Kernel::quantised(Name(["moe_decode", format.name, ""], 0), &format)
    };
    // SAFETY: the caller's promise.
    unsafe { product.launch(stream, &kernel) }
}

/// Multiplies many tokens, f16 (`input_dtype` 0) or bf16 (1), with matrices as [`multiply_few`] has them.
///
/// # Safety
/// As [`multiply`].
///
/// # Errors
/// As [`multiply`].
pub unsafe fn multiply_many(
    stream: &Stream,
    product: &Product,
    input_dtype: i32,
    gguf_dtype: i32,
) -> Result<()> {
    let format = choice("gguf_dtype", &gguf::OF_EXPERTS, gguf_dtype)?;
    let input = choice("input_dtype", &INPUTS, input_dtype)?;
    let kernel = Kernel::quantised(Name(["moe_prefill", format.name, input], 0), &format);
    // SAFETY: the caller's promise.
    unsafe { product.launch(stream, &kernel) }
}

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

impl Product {
    /// `num_experts`, `topk`, `size_m`, `size_n` and `size_k`, which make sense together.
    fn sizes(&self, kernel: &Kernel) -> Result<[u32; 5]> {
        let num_experts = count("num_experts", self.num_experts)?;
        let topk = count("topk", self.topk)?;
        let size_m = count("size_m", self.size_m)?;
        let size_n = count("size_n", self.size_n)?;
        let size_k = count("size_k", self.size_k)?;
        if topk == 0 || (self.topk_weights == 0 && size_m % topk != 0) {
            return Err(Error::invalid(format!(
                "topk is {topk} and size_m {size_m}, which without topk_weights is a multiple of it"
            )));
        }
        let (format, [elements, _]) = (kernel.format, kernel.block);
        if size_k % elements != 0 {
            return Err(Error::invalid(format!(
                "size_k is {size_k}, and a row of {format} has a multiple of {elements} elements"
            )));
        }
        Ok([num_experts, topk, size_m, size_n, size_k])
    }

    /// Checks that the kernel can read input and weights where they are.
    fn check_alignment(&self, kernel: &Kernel, size_k: u32) -> Result<()> {
        let Self { input, weights, .. } = *self;
        // Rows of a multiple of four elements are read in vectors.
        let alignment = if size_k.is_multiple_of(4) {
            kernel.alignment
        } else {
            2
        };
        let weight_alignment = if kernel.block[0] == 1 { alignment } else { 2 };
        if input % alignment != 0 || weights % weight_alignment != 0 {
            return Err(Error::invalid(format!(
                "input is at {input:#x} and weights at {weights:#x}, and must be at multiples of {alignment} and \
                 {weight_alignment} bytes"
            )));
        }
        Ok(())
    }

    /// Gives it to the stream.
    ///
    /// # Safety
    /// As [`multiply`].
    unsafe fn launch(&self, stream: &Stream, kernel: &Kernel) -> Result<()> {
        let [num_experts, topk, size_m, size_n, size_k] = self.sizes(kernel)?;
        if size_m == 0 || size_n == 0 {
            return Ok(());
        }
        let input = address("input", self.input)?;
        let weights = address("weights", self.weights)?;
        let tokens = address("sorted_token_ids", self.sorted_token_ids)?;
        let experts = address("expert_ids", self.expert_ids)?;
        let output = address("output", self.output)?;
        self.check_alignment(kernel, size_k)?;
        let topk_weights = self.topk_weights;
        let [elements, bytes] = kernel.block;
        let row_bytes = u64::from(size_k / elements) * u64::from(bytes);
        let [slots, columns] = kernel.tile;
        let grid = (
            size_n.div_ceil(columns),
            size_m.div_ceil(slots).min(MOST_WORKGROUPS),
            1,
        );
        // SAFETY: the kernel's arguments, as the contract test has them, for memory that the caller promises.
        unsafe {
            launch!(
                stream,
                &MOE,
                kernel.name,
                grid,
                kernel.threads,
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
}
