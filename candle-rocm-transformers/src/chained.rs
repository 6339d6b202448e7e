//! One token of one sequence with quantised weights: each product makes the vector that the next one reads.

use candle_core::quantized::QTensor;
use candle_core::{bail, DType, Result, Tensor};
use candle_rocm_backend::ops::{self, Q8_1Activations, RmsNorm, Scores};
use candle_rocm_backend::profile;

use crate::cache::Cache;
use crate::linear::Linear;
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
    weights.embedding.dtype() == DType::F32
        && takes(&weights.head)
        && weights.layers.iter().all(of_layer)
}

/// The logits, (1, vocabulary), after a token whose embedding is `x`, (1, hidden), at `position`: of a model that
/// [`is_possible`].
pub(crate) fn forward(
    weights: &Weights,
    x: Tensor,
    position: &Tensor,
    cache: &Cache,
) -> Result<Tensor> {
    let [first, ..] = &weights.layers[..] else {
        bail!("a model without layers");
    };
    let epsilon = weights.shape.epsilon;
    let scale = 1. / (weights.shape.head_dim as f64).sqrt();
    let norm = |weight| RmsNorm { weight, epsilon };
    let normed = ops::rms_norm(&x, &first.attention_norm, epsilon)?;
    let (mut x, mut vector) = (x, Q8_1Activations::of(&normed)?);
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
        (x, vector) = ops::quantized_add_norm(
            output,
            &attention,
            &x,
            norm(&layer.gated_norm),
            &cache.completion,
        )?;
        let gated = match &layer.gate_up[..] {
            [both] => ops::quantized_swiglu(of_vectors(both)?.0, &vector, &cache.completion)?,
            apart => Q8_1Activations::of(&ops::swiglu_packed(&products(apart, &vector)?)?)?,
        };
        let next = weights.layers.get(n + 1);
        let next = next.map_or(&weights.norm, |next| &next.attention_norm);
        let (down, _) = of_vectors(&layer.down)?;
        (x, vector) = ops::quantized_add_norm(down, &gated, &x, norm(next), &cache.completion)?;
    }
    products(std::slice::from_ref(&weights.head), &vector)
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
