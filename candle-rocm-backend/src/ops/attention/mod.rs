//! Attention: softmax(scale * q k^T + what is hidden or added) v.

mod call;
mod composed;
mod gradient;
mod kernel;

use candle_core::{bail, Result, Tensor};

use super::node::{plain, result_of};
use call::Call;
pub use call::{AttentionOptions, Packed};

/// Attention of a batch of sequences of one length.
///
/// `q` is (batch, queries, heads, elements), `k` and `v` (batch, keys, key heads, elements); heads are a multiple of
/// key heads, which so many neighbours share. The result has q's shape and dtype, and is contiguous. A query that sees
/// no key gives zeros.
///
/// On a GPU, f16 and bf16 are computed in f32 by one kernel, and no scores are in memory. Heads have a multiple of 8
/// elements there, up to 512. Operands whose elements lie together are read where they are, whatever their other
/// strides. Other dtypes, and other devices, have [`attention_composed`].
///
/// Backward gives gradients of q, k and v, of heads of up to 256 elements, by kernels that keep no scores in memory
/// either: they make them anew from the logarithm of each query's sum of weights, f32, which the result keeps. Where all
/// sequences and heads have 1,024 scores at most, Candle's own operators give them, in f32. A mask and
/// slopes have none: backward fails if one of them is a variable, and says so, as it does of larger heads.
/// [`attention_composed`] has a mask's.
///
/// # Errors
/// Dtypes, shapes or devices that do not go together, heads that no kernel takes, or a failed launch; each names the
/// operator, what was found, and what to do.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// use candle_rocm_backend::ops::{attention, AttentionOptions};
///
/// let device = Device::new_cuda(0)?;
/// let q = Tensor::randn(0f32, 1., (2, 10, 8, 64), &device)?.to_dtype(DType::BF16)?;
/// let k = Tensor::randn(0f32, 1., (2, 30, 2, 64), &device)?.to_dtype(DType::BF16)?;
/// let causal = AttentionOptions { causal: true, ..Default::default() };
/// let y = attention(&q, &k, &k, &causal)?;
/// assert_eq!(y.dims(), q.dims());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, options: &AttentionOptions) -> Result<Tensor> {
    attend(&Call::new("attention", [q, k, v], None, None, options)?)
}

/// The same of Candle's own operators, with all scores in memory: on any device, in any dtype, with gradients of q, k,
/// v and the mask.
///
/// Operands are as for [`attention`], heads of any size. f16 and bf16 are computed in f32, and rounded once.
///
/// # Errors
/// As [`attention`].
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// # let device = Device::new_cuda(0)?;
/// let q = Tensor::randn(0f32, 1., (2, 10, 4, 60), &device)?;
/// let y = candle_rocm_backend::ops::attention_composed(&q, &q, &q, &Default::default())?;
/// assert_eq!(y.dims(), q.dims());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn attention_composed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    options: &AttentionOptions,
) -> Result<Tensor> {
    let call = Call::new("attention_composed", [q, k, v], None, None, options)?;
    composed::attend(&call)
}

/// Attention of sequences of different lengths, one after another.
///
/// `q` is (rows, heads, elements), `k` and `v` (rows, key heads, elements), each with the rows of all sequences.
/// Everything else is as for [`attention`]; where there is no kernel, and for gradients of 1,024 scores at most, the starts
/// are read by the host.
///
/// # Errors
/// As [`attention`]; starts of another dtype or shape. What they say is not checked on a GPU: starts must not decrease,
/// nor exceed the rows.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// use candle_rocm_backend::ops::{attention_varlen, Packed};
///
/// let device = Device::new_cuda(0)?;
/// let q = Tensor::randn(0f32, 1., (7 + 20, 8, 64), &device)?.to_dtype(DType::F16)?;
/// let starts = Tensor::new(&[0u32, 7, 27], &device)?;
/// let packed = Packed { starts_q: &starts, starts_k: &starts, longest_q: 20, longest_k: 20 };
/// let y = attention_varlen(&q, &q, &q, packed, &Default::default())?;
/// assert_eq!(y.dims(), q.dims());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn attention_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    packed: Packed<'_>,
    options: &AttentionOptions,
) -> Result<Tensor> {
    attend(&Call::new(
        "attention_varlen",
        [q, k, v],
        Some(packed),
        None,
        options,
    )?)
}

/// Attention of sequences of different lengths, whose keys and values are in pages. It has no gradients where there is a
/// kernel: backward fails, and says so.
///
/// `q` is (rows, heads, elements), `k` and `v` are (pages, rows of a page, key heads, elements). `pages`, u32 of
/// (sequences, most pages of one), has the numbers of each sequence's pages, in order. Everything else is as for
/// [`attention_varlen`].
///
/// # Errors
/// As [`attention_varlen`]; pages of another dtype or shape. Their numbers are not checked on a GPU.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// use candle_rocm_backend::ops::{attention_paged, Packed};
///
/// let device = Device::new_cuda(0)?;
/// let q = Tensor::randn(0f32, 1., (5, 8, 64), &device)?.to_dtype(DType::F16)?;
/// let cache = Tensor::randn(0f32, 1., (8, 16, 4, 64), &device)?.to_dtype(DType::F16)?;
/// let pages = Tensor::new(&[[3u32, 7, 0, 5]], &device)?;
/// let (starts_q, starts_k) = (Tensor::new(&[0u32, 5], &device)?, Tensor::new(&[0u32, 60], &device)?);
/// let packed = Packed { starts_q: &starts_q, starts_k: &starts_k, longest_q: 5, longest_k: 60 };
/// let y = attention_paged(&q, &cache, &cache, &pages, packed, &Default::default())?;
/// assert_eq!(y.dims(), q.dims());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn attention_paged(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    pages: &Tensor,
    packed: Packed<'_>,
    options: &AttentionOptions,
) -> Result<Tensor> {
    attend(&Call::new(
        "attention_paged",
        [q, k, v],
        Some(packed),
        Some(pages),
        options,
    )?)
}

fn attend(call: &Call) -> Result<Tensor> {
    if !call.has_kernel() {
        return composed::attend(call);
    }
    if call.q.elem_count() == 0 || call.k.elem_count() == 0 || call.sizes.keys == 0 {
        return call.q.zeros_like();
    }
    let of_options = [&call.options.mask, &call.options.alibi_slopes];
    let of_options = of_options.into_iter().flatten();
    let mut operands = vec![call.q, call.k, call.v];
    operands.extend(of_options.filter(|operand| operand.track_op()));
    if call.pages.is_none() && operands.len() == 3 {
        return attend_with_gradients(call, &operands);
    }
    let (result, _) = kernel::attend(call, false)?;
    // A gradient of any of them is an error, of which Candle must hear: three operands are what its graph takes.
    let name = call.name;
    let reason = match call.pages {
        Some(_) => "keys in pages have no gradient: pack them and use attention_varlen",
        None => {
            "neither a mask nor slopes have gradients, and one of them is a variable: detach it, or use \
             attention_composed"
        }
    };
    operands.sort_by_key(|operand| !operand.track_op());
    operands.truncate(3);
    let backward = move |_: &[&Tensor], _: &Tensor, _: &Tensor| bail!("{name}: {reason}");
    result_of(name, &operands, result, call.q.shape(), Box::new(backward))
}

fn attend_with_gradients(call: &Call, operands: &[&Tensor]) -> Result<Tensor> {
    let tracks = operands.iter().any(|operand| operand.track_op());
    let (result, lse) = kernel::attend(call, tracks)?;
    let Some(lse) = lse else {
        return Ok(plain(result, call.q.shape()));
    };
    let lse = plain(lse, &kernel::lse_shape(call));
    let (name, options) = (call.name, call.options.clone());
    let starts = call.packed.map(|packed| {
        let starts = [packed.starts_q, packed.starts_k].map(Tensor::clone);
        (starts, [packed.longest_q, packed.longest_k])
    });
    let backward = move |operands: &[&Tensor], result: &Tensor, gradient: &Tensor| {
        let &[q, k, v] = operands else {
            bail!("{name}: {} operands in the graph", operands.len());
        };
        let packed = starts
            .as_ref()
            .map(|([starts_q, starts_k], longest)| Packed {
                starts_q,
                starts_k,
                longest_q: longest[0],
                longest_k: longest[1],
            });
        let call = Call::new(name, [q, k, v], packed, None, &options)?;
        let wanted = [q.track_op(), k.track_op() || v.track_op()];
        let found = gradient::gradients(&call, [result, &lse, gradient], wanted)?;
        let each = found.into_iter().zip(operands);
        // Those of k and v come together.
        Ok(each
            .map(|(found, operand)| found.filter(|_| operand.track_op()))
            .collect())
    };
    result_of(name, operands, result, call.q.shape(), Box::new(backward))
}
