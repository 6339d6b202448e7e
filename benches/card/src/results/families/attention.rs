//! Attention, its gradients, and one query's to a cache.

use candle_core::{DType, Result, Tensor, Var};
use candle_rocm_backend::ops::{self, AttentionOptions, KvCache, Pairs, Rotary, Scores};

use crate::results::ladder::{any, fixed, Kind, Ladders};
use crate::results::lawful::TRANSCENDENTAL;

const KIND: Kind = Kind {
    top: 129,
    least: 1,
    lawful: Some(TRANSCENDENTAL),
    // Sums in f32 in another order; weights are rounded to the dtype before they are multiplied with values.
    tolerance: Some([2., 2., 64.]),
};

const HEADS: usize = 4;
const KEY_HEADS: usize = 2;

fn operands(dtype: DType, length: usize, elements: usize) -> Result<Vec<parity::case::Input>> {
    Ok(vec![
        any(dtype, 61, &[1, length, HEADS, elements])?,
        any(dtype, 62, &[1, length + 7, KEY_HEADS, elements])?,
        any(dtype, 63, &[1, length + 7, KEY_HEADS, elements])?,
    ])
}

fn options(causal: bool) -> AttentionOptions {
    AttentionOptions {
        causal,
        ..AttentionOptions::default()
    }
}

pub(super) fn forward(ladders: &mut Ladders) {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for elements in [64, 128] {
            for causal in [false, true] {
                let name = format!(
                    "{} {elements}{}",
                    dtype.as_str(),
                    if causal { ", causal" } else { "" }
                );
                ladders.add(
                    KIND,
                    name,
                    move |length| operands(dtype, length, elements),
                    move |x| ops::attention(&x[0], &x[1], &x[2], &options(causal)),
                );
            }
        }
    }
}

/// Gradients of q, k and v of the sum of squares of the result, one after another.
fn gradients(x: &[Tensor], causal: bool) -> Result<Tensor> {
    let [q, k, v] = [0, 1, 2].map(|at: usize| Var::from_tensor(&x[at]));
    let (q, k, v) = (q?, k?, v?);
    let all = ops::attention(&q, &k, &v, &options(causal))?
        .sum_all()?
        .backward()?;
    let of = |x: &Var| -> Result<Tensor> {
        match all.get(x) {
            Some(gradient) => gradient.flatten_all(),
            None => candle_core::bail!("attention left an operand without a gradient"),
        }
    };
    Tensor::cat(&[of(&q)?, of(&k)?, of(&v)?], 0)
}

pub(super) fn backward(ladders: &mut Ladders) {
    let kind = Kind {
        // A product more, of numbers that are rounded to the dtype.
        tolerance: Some([4., 8., 64.]),
        ..KIND
    };
    for dtype in [DType::F16, DType::BF16] {
        for causal in [false, true] {
            let name = format!("{}{}", dtype.as_str(), if causal { ", causal" } else { "" });
            ladders.add(
                kind,
                name,
                move |length| operands(dtype, length, 64),
                move |x| gradients(x, causal),
            );
        }
    }
}

pub(super) fn one_query(ladders: &mut Ladders) {
    for dtype in [DType::F16, DType::BF16] {
        let kind = Kind { top: 385, ..KIND };
        let inputs = move |length: usize| {
            Ok(vec![
                fixed(dtype, 64, &[1, length, (HEADS + 2 * KEY_HEADS) * 64])?,
                fixed(dtype, 65, &[1, 1, HEADS, 64])?,
            ])
        };
        ladders.add(kind, dtype.as_str(), inputs, |x| {
            let (length, device) = (x[0].dim(1)?, x[0].device());
            let cache = KvCache::new((1, KEY_HEADS, length, 64), x[0].dtype(), device)?;
            // Angles of zero.
            let rotary = Rotary {
                cos: Tensor::ones((length, 32), x[0].dtype(), device)?,
                sin: Tensor::zeros((length, 32), x[0].dtype(), device)?,
                pairs: Pairs::Halves,
            };
            cache.append(&x[0], &rotary, &Tensor::zeros(1, DType::U32, device)?)?;
            let position = Tensor::new(&[length as u32 - 1], device)?;
            cache.attend(&x[1], &position, &Scores::scaled(0.125))
        });
    }
}
