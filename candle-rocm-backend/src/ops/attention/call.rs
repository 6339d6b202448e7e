//! What is asked of attention: operands, options, and what must hold of them.

use candle_core::{bail, DType, Device, Result, Tensor};

use super::super::operands::{check_device, check_float};

/// Scale, masks and biases of attention. The default is a scale of 1 / sqrt(elements of a head), and nothing else.
///
/// Query i of a sequence stands at i + keys - queries among its keys, so that the last query stands at the last key.
#[derive(Clone, Debug, Default)]
pub struct AttentionOptions {
    /// What products of queries and keys are multiplied by.
    pub scale: Option<f32>,
    /// Whether a query sees no key after its place.
    pub causal: bool,
    /// How many keys before its place a query sees; all, if not set.
    pub window_left: Option<usize>,
    /// How many keys after its place a query sees; all, if not set.
    pub window_right: Option<usize>,
    /// Scores become softcap * tanh(score / softcap), before what follows is added. Larger than 0.
    pub softcap: Option<f32>,
    /// ALiBi's slopes, f32, of (heads) or (sequences, heads): a score loses the slope times the distance of key and
    /// place.
    pub alibi_slopes: Option<Tensor>,
    /// Added to scores: of the queries' dtype, and of a shape that broadcasts to (sequences, heads, queries, keys), of
    /// the longest sequences where they are packed.
    pub mask: Option<Tensor>,
}

/// Sequences that lie one after another, as [`attention_varlen`](super::attention_varlen) takes them.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// u32 of (sequences + 1): the first row of each sequence of queries, and the end of the last.
    pub starts_q: &'a Tensor,
    /// The same of the keys; where they are in pages, the differences alone count.
    pub starts_k: &'a Tensor,
    /// Queries of the longest sequence. Rows that a sequence has beyond it are not made: they hold anything.
    pub longest_q: usize,
    /// Keys of the longest sequence.
    pub longest_k: usize,
}

/// An operator and its operands, checked.
pub(super) struct Call<'a> {
    pub name: &'static str,
    pub q: &'a Tensor,
    pub k: &'a Tensor,
    pub v: &'a Tensor,
    pub packed: Option<Packed<'a>>,
    pub pages: Option<&'a Tensor>,
    pub options: &'a AttentionOptions,
    pub sizes: Sizes,
}

/// Sizes of a call; rows are those of the longest sequences.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub sequences: usize,
    pub queries: usize,
    pub keys: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub elements: usize,
}

impl<'a> Call<'a> {
    pub fn new(
        name: &'static str,
        [q, k, v]: [&'a Tensor; 3],
        packed: Option<Packed<'a>>,
        pages: Option<&'a Tensor>,
        options: &'a AttentionOptions,
    ) -> Result<Self> {
        check_float(name, q)?;
        for (other, tensor) in [("k", k), ("v", v)] {
            check_device(name, other, tensor, q)?;
            if tensor.dtype() != q.dtype() {
                bail!(
                    "{name}: {other} is {:?}, and q {:?}: convert one with to_dtype",
                    tensor.dtype(),
                    q.dtype()
                );
            }
        }
        let sizes = sizes(name, [q, k, v], packed, pages)?;
        let call = Self {
            name,
            q,
            k,
            v,
            packed,
            pages,
            options,
            sizes,
        };
        call.check_indices()?;
        call.check_options()?;
        Ok(call)
    }

    fn check_indices(&self) -> Result<()> {
        let Self { name, sizes, .. } = self;
        let Some(packed) = self.packed else {
            return Ok(());
        };
        let starts = [("starts_q", packed.starts_q), ("starts_k", packed.starts_k)];
        for (what, starts) in starts {
            check_device(name, what, starts, self.q)?;
            if starts.dtype() != DType::U32 || starts.dims() != [sizes.sequences + 1] {
                bail!(
                    "{name}: {what} is {:?} of {:?}, and must be u32 of [{}], one more than there are sequences",
                    starts.dtype(),
                    starts.shape(),
                    sizes.sequences + 1
                );
            }
        }
        let Some(pages) = self.pages else {
            return Ok(());
        };
        check_device(name, "pages", pages, self.q)?;
        let rows = self.k.dims().get(1).copied().unwrap_or(0);
        match pages.dims() {
            [sequences, most] if *sequences == sizes.sequences && most * rows >= sizes.keys => {}
            _ => bail!(
                "{name}: pages has shape {:?}, and must be ({}, {} or more) for {} keys in pages of {rows}",
                pages.shape(),
                sizes.sequences,
                sizes.keys.div_ceil(rows.max(1)),
                sizes.keys
            ),
        }
        if pages.dtype() != DType::U32 {
            bail!("{name}: pages is {:?}, and must be u32", pages.dtype());
        }
        Ok(())
    }

    fn check_options(&self) -> Result<()> {
        let Self {
            name,
            sizes,
            options,
            q,
            ..
        } = self;
        if let Some(cap) = options
            .softcap
            .filter(|cap| !(cap.is_finite() && *cap > 0.0))
        {
            bail!("{name}: a softcap of {cap}; it must be a number above 0");
        }
        if let Some(slopes) = &options.alibi_slopes {
            check_device(name, "alibi_slopes", slopes, q)?;
            let of_each = [sizes.sequences, sizes.heads];
            let fits = slopes.dims() == &of_each[1..] || slopes.dims() == of_each;
            if slopes.dtype() != DType::F32 || !fits {
                bail!(
                    "{name}: alibi_slopes is {:?} of {:?}, and must be f32 of [{}] or {of_each:?}",
                    slopes.dtype(),
                    slopes.shape(),
                    sizes.heads
                );
            }
        }
        if let Some(mask) = &options.mask {
            check_device(name, "the mask", mask, q)?;
            let full = self.scores();
            if mask.dtype() != q.dtype() || mask.broadcast_as(&full[..]).is_err() {
                bail!(
                    "{name}: the mask is {:?} of {:?}, and must be {:?} of a shape that broadcasts to {full:?}",
                    mask.dtype(),
                    mask.shape(),
                    q.dtype()
                );
            }
        }
        Ok(())
    }

    /// The shape of all scores.
    pub fn scores(&self) -> [usize; 4] {
        let Sizes {
            sequences,
            heads,
            queries,
            keys,
            ..
        } = self.sizes;
        [sequences, heads, queries, keys]
    }

    pub fn scale(&self) -> f32 {
        let elements = self.sizes.elements as f32;
        self.options.scale.unwrap_or(1.0 / elements.sqrt())
    }

    /// How many keys after its place a query sees.
    pub fn right(&self) -> Option<usize> {
        match self.options.causal {
            true => Some(0),
            false => self.options.window_right,
        }
    }

    /// Whether kernels compute, as against Candle's own operators.
    pub fn has_kernel(&self) -> bool {
        matches!(self.q.device(), Device::Cuda(_))
            && matches!(self.q.dtype(), DType::F16 | DType::BF16)
    }
}

fn sizes(
    name: &str,
    [q, k, v]: [&Tensor; 3],
    packed: Option<Packed>,
    pages: Option<&Tensor>,
) -> Result<Sizes> {
    let (ranks, form) = match (packed.is_some(), pages.is_some()) {
        (false, _) => ([4, 4], "(batch, rows, heads, elements)"),
        (true, false) => ([3, 3], "(rows, heads, elements)"),
        (true, true) => (
            [3, 4],
            "(rows, heads, elements), and k and v (pages, rows, heads, elements)",
        ),
    };
    let grouped = |heads: usize, key_heads: usize| key_heads > 0 && heads.is_multiple_of(key_heads);
    match (q.dims(), k.dims()) {
        (&[.., heads, elements], &[.., key_heads, of_keys])
            if [q.rank(), k.rank()] == ranks
                && k.shape() == v.shape()
                && (packed.is_some() || q.dims()[0] == k.dims()[0])
                && grouped(heads, key_heads)
                && elements == of_keys
                && elements > 0 =>
        {
            let (sequences, queries, keys) = match packed {
                None => (q.dims()[0], q.dims()[1], k.dims()[1]),
                Some(packed) => (
                    packed.starts_q.elem_count().saturating_sub(1),
                    packed.longest_q,
                    packed.longest_k,
                ),
            };
            Ok(Sizes {
                sequences,
                queries,
                keys,
                heads,
                key_heads,
                elements,
            })
        }
        _ => bail!(
            "{name}: q has shape {:?}, k {:?} and v {:?}: they must be {form}, k and v alike, with q's elements, and \
             q's heads a multiple of theirs",
            q.shape(),
            k.shape(),
            v.shape()
        ),
    }
}
