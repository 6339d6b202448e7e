//! What must hold of operands.

use candle_core::{bail, DType, Layout, Result, Tensor};

/// The most elements of a head.
const MOST_ELEMENTS: usize = 512;

pub(crate) const NOT_ON_CPU: &str =
    "there are kernels for GPUs alone: move q, k and v with to_device, or use candle_rocm_backend::ops::attention";

/// One GPU, a dtype of 16 bits, ranks (of q, and of k and v), elements that lie together.
pub(crate) fn operands(name: &str, [q, k, v]: [&Tensor; 3], ranks: [usize; 2]) -> Result<()> {
    if !q.device().is_cuda() {
        bail!(
            "{name}: q is on {:?}, and {NOT_ON_CPU}",
            q.device().location()
        );
    }
    if !matches!(q.dtype(), DType::F16 | DType::BF16) {
        bail!(
            "{name}: q is {:?}, and only f16 and bf16 are taken",
            q.dtype()
        );
    }
    let [of_q, of_keys] = ranks;
    for (what, tensor, rank) in [("q", q, of_q), ("k", k, of_keys), ("v", v, of_keys)] {
        same_gpu(name, what, tensor, q)?;
        if tensor.dtype() != q.dtype() {
            bail!(
                "{name}: {what} is {:?}, and q {:?}",
                tensor.dtype(),
                q.dtype()
            );
        }
        if tensor.rank() != rank {
            bail!(
                "{name}: {what} of shape {:?} must have rank {rank}",
                tensor.shape()
            );
        }
        together(name, what, tensor.layout())?;
    }
    Ok(())
}

/// A head's elements lie together.
pub(crate) fn together(name: &str, what: &str, layout: &Layout) -> Result<()> {
    match layout.stride().last() {
        Some(1) => Ok(()),
        _ => bail!(
            "{name}: {what} has strides {:?}: its last dimension must be contiguous",
            layout.stride()
        ),
    }
}

/// Heads of a size that is taken, the same in all, and so many of q as go with those of k and v, which are alike.
pub(crate) fn heads(name: &str, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<()> {
    if k.shape() != v.shape() {
        bail!(
            "{name}: k has shape {:?}, and v {:?}: they must be the same",
            k.shape(),
            v.shape()
        );
    }
    let ((heads, elements), (key_heads, of_keys)) = (last_two(q), last_two(k));
    if elements != of_keys {
        bail!(
            "{name}: q has shape {:?}, and k {:?}: heads must be of one size",
            q.shape(),
            k.shape()
        );
    }
    if elements > MOST_ELEMENTS || !elements.is_multiple_of(8) {
        bail!(
            "{name}: heads of {elements} elements; multiples of 8 up to {MOST_ELEMENTS} are taken: pad q, k and v \
             with zeros"
        );
    }
    if key_heads == 0 || !heads.is_multiple_of(key_heads) {
        bail!("{name}: {heads} heads of q must be a multiple of the {key_heads} of k and v");
    }
    Ok(())
}

fn last_two(x: &Tensor) -> (usize, usize) {
    match x.dims() {
        &[.., heads, elements] => (heads, elements),
        _ => (0, 0),
    }
}

/// f32 of (heads) or (sequences, heads), on q's GPU.
pub(crate) fn slopes(
    name: &str,
    slopes: Option<&Tensor>,
    q: &Tensor,
    sequences: usize,
) -> Result<()> {
    let Some(slopes) = slopes else { return Ok(()) };
    same_gpu(name, "alibi_slopes", slopes, q)?;
    let (heads, _) = last_two(q);
    let fits = slopes.dims() == [heads] || slopes.dims() == [sequences, heads];
    if slopes.dtype() != DType::F32 || !fits {
        bail!(
            "{name}: alibi_slopes is {:?} of {:?}, and must be f32 of [{heads}] or [{sequences}, {heads}]",
            slopes.dtype(),
            slopes.shape()
        );
    }
    Ok(())
}

/// On the device that q is on.
pub(crate) fn same_gpu(name: &str, what: &str, x: &Tensor, q: &Tensor) -> Result<()> {
    if !x.device().same_device(q.device()) {
        bail!(
            "{name}: {what} is on {:?}, and must be on the device that q is on, {:?}; devices that a program made \
             twice for one GPU are two",
            x.device().location(),
            q.device().location()
        );
    }
    Ok(())
}
