//! candle-flash-attn's functions on AMD GPUs, to be patched in for the published crate.
//!
//! Each gives softmax(`softmax_scale` * q k^T) v of f16 or bf16, computed in f32, with no scores in memory: it is
//! [`ops::attention`](candle_rocm_backend::ops::attention) and its kin under the published names. Here are the
//! published signatures and checks, and no kernels, no CUTLASS, no build script.
//!
//! # Shapes
//! `q` is (batch, queries, heads, elements), `k` and `v` are (batch, keys, key heads, elements); in functions with
//! `varlen` in their names sequences lie one after another, and the first two of these are one dimension: of rows.
//! Heads are a multiple of key heads, which so many neighbours share. Elements are a multiple of 8, up to 512, and lie
//! together; other strides are free. The result has q's shape and dtype.
//!
//! # Windows
//! Query i of a sequence stands at i + keys - queries among its keys: the last query at the last key.
//! `window_size_left` and `window_size_right` are how many keys before and after its place it sees; a window of more
//! than all keys (in `varlen`, of more than `max_seqlen_k`) is as good as none. `causal` is a right window of 0. A
//! query that sees no key gives zeros.
//!
//! # ALiBi and softcap
//! Scores become softcap * tanh(score / softcap), where the softcap is above 0. Then each loses its head's slope times
//! the distance of the key and the query's place. `alibi_slopes` are f32 of (heads), or, which the published crate does
//! not take, of (sequences, heads).
//!
//! # Gradients
//! Of q, k and v, which the published crate has not, for heads of up to 256 elements. Neither slopes nor keys in pages
//! have any: backward fails, and says so.
//!
//! # Errors
//! Operands that are not on one GPU, are not of one dtype, f16 or bf16, or whose shapes or strides are not those above;
//! a launch that fails.
//!
//! ```
//! # use candle_rocm_backend::{runtime, RuntimeKind};
//! # runtime::select(RuntimeKind::Emulator)?;
//! # use candle_core::{DType, Device, Tensor};
//! let device = Device::new_cuda(0)?;
//! let q = Tensor::randn(0f32, 1., (1, 20, 8, 64), &device)?.to_dtype(DType::BF16)?;
//! let k = Tensor::randn(0f32, 1., (1, 20, 2, 64), &device)?.to_dtype(DType::BF16)?;
//! let y = candle_flash_attn::flash_attn(&q, &k, &k, 1. / 64f32.sqrt(), true)?;
//! assert_eq!(y.dims(), [1, 20, 8, 64]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod checks;
mod flash_attn;
mod packed;
mod prefix;
mod signed;

use candle_core::{Result, Tensor};

pub use flash_attn::FlashAttn;
use packed::{Lengths, Pages};

/// Attention of a batch of sequences of one length.
///
/// # Errors
/// As the [crate](crate#errors) says.
pub fn flash_attn(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    FlashAttn::new(softmax_scale)
        .causal(causal)
        .of_batch([q, k, v])
}

/// The same, within windows.
///
/// # Errors
/// As the [crate](crate#errors) says.
pub fn flash_attn_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    FlashAttn::new(softmax_scale)
        .windows(window_size_left, window_size_right)
        .of_batch([q, k, v])
}

/// As [`flash_attn`], with ALiBi.
///
/// # Errors
/// As the [crate](crate#errors) says; slopes that are not f32 of (heads) or (batch, heads) on q's GPU.
pub fn flash_attn_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    FlashAttn::new(softmax_scale)
        .causal(causal)
        .alibi(Some(alibi_slopes))
        .of_batch([q, k, v])
}

/// As [`flash_attn_windowed`], with ALiBi.
///
/// # Errors
/// As [`flash_attn_alibi`].
pub fn flash_attn_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    FlashAttn::new(softmax_scale)
        .windows(window_size_left, window_size_right)
        .alibi(Some(alibi_slopes))
        .of_batch([q, k, v])
}

/// As [`flash_attn_windowed`], with or without ALiBi, and with a softcap: one of 0 or less is none.
///
/// # Errors
/// As [`flash_attn_alibi`].
#[allow(clippy::too_many_arguments)] // the published signature
pub fn flash_attn_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    FlashAttn::new(softmax_scale)
        .windows(window_size_left, window_size_right)
        .alibi(alibi_slopes)
        .softcap(Some(softcap))
        .of_batch([q, k, v])
}

/// Attention of sequences of different lengths, one after another.
///
/// `q` is (rows, heads, elements), `k` and `v` are (rows, key heads, elements). `seqlens_q` and `seqlens_k`, u32 of
/// (sequences + 1), are where each sequence starts among the rows, and the end of the last. `max_seqlen_q` and
/// `max_seqlen_k` are the rows of the longest sequence.
///
/// # Errors
/// As the [crate](crate#errors) says; starts that are not contiguous u32 on q's GPU, of one length of 2 or more. What
/// they say is not checked: they must not decrease, nor exceed the rows or the longest sequence.
#[allow(clippy::too_many_arguments)] // the published signature
pub fn flash_attn_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let lengths = Lengths::new([seqlens_q, seqlens_k], [max_seqlen_q, max_seqlen_k]);
    FlashAttn::new(softmax_scale)
        .causal(causal)
        .of_packed([q, k, v], lengths)
}

/// As [`flash_attn_varlen`], within windows.
///
/// # Errors
/// As [`flash_attn_varlen`].
#[allow(clippy::too_many_arguments)] // the published signature
pub fn flash_attn_varlen_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let lengths = Lengths::new([seqlens_q, seqlens_k], [max_seqlen_q, max_seqlen_k]);
    FlashAttn::new(softmax_scale)
        .windows(window_size_left, window_size_right)
        .of_packed([q, k, v], lengths)
}

/// As [`flash_attn_varlen_windowed`], with keys and values in pages, and perhaps a softcap.
///
/// `k` and `v` are (pages, `page_block_size`, key heads, elements), with `page_block_size` rows in a page: a multiple
/// of 32. `block_table`, u32 or i32 of (sequences, most pages of one), has the numbers of each sequence's pages, in
/// order; of `seqlens_k` the differences alone count.
///
/// `mm_prefix_ranges`, i32 of (sequences, most ranges of one, 2), has first keys, and ends behind the last, of ranges
/// whose keys the queries that stand in the same range see, whatever windows hide: of an image among text, say. A range
/// that ends where it starts, or before, is empty. With ranges there is a mask in memory, of the longest sequences, of
/// q's dtype.
///
/// # Errors
/// As [`flash_attn_varlen`]; pages of other shapes, ranges of another dtype or shape. Numbers of pages are not checked.
#[allow(clippy::too_many_arguments)] // the published signature
pub fn flash_attn_varlen_paged_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    block_table: &Tensor,
    mm_prefix_ranges: Option<&Tensor>,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    page_block_size: usize,
    softcap: Option<f32>,
) -> Result<Tensor> {
    let lengths = Lengths::new([seqlens_q, seqlens_k], [max_seqlen_q, max_seqlen_k]);
    let pages = Pages {
        table: block_table,
        rows: page_block_size,
        ranges: mm_prefix_ranges,
    };
    FlashAttn::new(softmax_scale)
        .windows(window_size_left, window_size_right)
        .softcap(softcap)
        .of_pages([q, k, v], lengths, pages)
}

/// As [`flash_attn_varlen`], with ALiBi.
///
/// # Errors
/// As [`flash_attn_varlen`]; slopes that are not f32 of (heads) or (sequences, heads) on q's GPU.
#[allow(clippy::too_many_arguments)] // the published signature
pub fn flash_attn_varlen_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let lengths = Lengths::new([seqlens_q, seqlens_k], [max_seqlen_q, max_seqlen_k]);
    FlashAttn::new(softmax_scale)
        .causal(causal)
        .alibi(Some(alibi_slopes))
        .of_packed([q, k, v], lengths)
}

/// As [`flash_attn_varlen_windowed`], with ALiBi.
///
/// # Errors
/// As [`flash_attn_varlen_alibi`].
#[allow(clippy::too_many_arguments)] // the published signature
pub fn flash_attn_varlen_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let lengths = Lengths::new([seqlens_q, seqlens_k], [max_seqlen_q, max_seqlen_k]);
    FlashAttn::new(softmax_scale)
        .windows(window_size_left, window_size_right)
        .alibi(Some(alibi_slopes))
        .of_packed([q, k, v], lengths)
}

/// As [`flash_attn_varlen_windowed`], with or without ALiBi, and with a softcap: one of 0 or less is none.
///
/// # Errors
/// As [`flash_attn_varlen_alibi`].
#[allow(clippy::too_many_arguments)] // the published signature
pub fn flash_attn_varlen_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let lengths = Lengths::new([seqlens_q, seqlens_k], [max_seqlen_q, max_seqlen_k]);
    FlashAttn::new(softmax_scale)
        .windows(window_size_left, window_size_right)
        .alibi(alibi_slopes)
        .softcap(Some(softcap))
        .of_packed([q, k, v], lengths)
}
