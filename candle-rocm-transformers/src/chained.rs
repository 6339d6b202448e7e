//! One token of one sequence with quantised weights: each product makes the vector that the next one reads.

use candle_core::quantized::QTensor;
use candle_core::{bail, DType, Result, Tensor};
use candle_rocm_backend::ops::{self, Q8_1Activations, RmsNorm, Scores};
use candle_rocm_backend::profile;

use crate::cache::Cache;
use crate::linear::{Linear, State};
use crate::ranks::Ranks;
use crate::weights::{Layer, Weights};

/// Whether all products of a model are there for vectors, and those whose results are added up have no biases.
pub(crate) fn is_possible(weights: &Weights) -> bool {
    let takes = |product: &Linear| product.of_vectors().is_some();
    let plain = |product: &Linear| matches!(product.of_vectors(), Some((_, None)));
    let of_layer = |layer: &Layer| {
        layer.qkv.iter().all(takes)
            && plain(&layer.output)
            && layer.gate_up.iter().all(plain)
            && plain(&layer.down)
    };
    let head = weights.head.as_ref();
    weights.dtype() == DType::F32
        && head.is_none_or(|head| takes(&head.product))
        && weights.layers.iter().all(of_layer)
}

/// The logits, (1, vocabulary), of a `state` before the first layer, (1, hidden), at `position`: of a model that
/// [`is_possible`]. A stage that another follows gives the state for it, (1, hidden); a rank the logits of its part of the
/// vocabulary.
pub(crate) fn forward(
    weights: &Weights,
    ranks: &Ranks,
    state: State,
    position: &Tensor,
    cache: &Cache,
) -> Result<Tensor> {
    let [first, ..] = &weights.layers[..] else {
        bail!("a model without layers");
    };
    let epsilon = weights.shape.epsilon;
    let scale = 1. / (weights.shape.head_dim as f64).sqrt();
    let norm = |weight| RmsNorm { weight, epsilon };
    let State { mut x, normed } = state;
    let normed = match normed {
        Some(normed) => normed,
        None => ops::rms_norm(&x, &first.attention_norm, epsilon)?,
    };
    let mut vector = Q8_1Activations::of(&normed)?;
    for (n, layer) in weights.layers.iter().enumerate() {
        let _range = profile::range_with(|| format!("layer {n}"));
        let qkv = products(&layer.qkv, &vector)?.unsqueeze(0)?;
        let scores = Scores {
            window: layer.window,
            ..Scores::scaled(scale)
        };
        let norms = layer.head_norms.as_ref();
        let (keys, rotary) = (&cache.layers[n], &cache.rotary);
        let attention = keys.append_and_attend_vector(&qkv, norms, rotary, position, &scores)?;
        let (output, _) = of_vectors(&layer.output)?;
        let gated_norm = norm(&layer.gated_norm);
        (x, vector) = ranks.add_vector(output, &attention, &x, gated_norm, &cache.completion)?;
        let gated = match &layer.gate_up[..] {
            [both] => ops::quantized_swiglu(of_vectors(both)?.0, &vector, &cache.completion)?,
            apart => Q8_1Activations::of(&ops::swiglu_packed(&products(apart, &vector)?)?)?,
        };
        let (down, _) = of_vectors(&layer.down)?;
        let Some(next) = weights.norm_before(n + 1) else {
            return ops::quantized_linears(&[(down, Some(&x))], &gated);
        };
        (x, vector) = ranks.add_vector(down, &gated, &x, norm(next), &cache.completion)?;
    }
    match &weights.head {
        Some(head) => products(std::slice::from_ref(&head.product), &vector),
        None => Ok(x),
    }
}

fn products(products: &[Linear], x: &Q8_1Activations) -> Result<Tensor> {
    let products: Vec<_> = products.iter().map(of_vectors).collect::<Result<_>>()?;
    ops::quantized_linears(&products, x)
}

fn of_vectors(product: &Linear) -> Result<(&QTensor, Option<&Tensor>)> {
    let Some(found) = product.of_vectors() else {
        bail!("a product that takes no quantised vector");
    };
    Ok(found)
}
