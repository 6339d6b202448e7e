//! Attention, its gradients, and decoding's attention to a cache, by candle_rocm_backend's operators: Candle has none.

use std::cell::Cell;

use anyhow::{Context, Result};
use candle_core::{DType, Tensor, Var};
use candle_rocm_backend::ops::{self, AttentionOptions, KvCache, Pairs, Rotary, Scores};

use crate::data::Range;
use crate::operator::{size_of, Maker, Operator};

type Make = fn(&Maker) -> Result<Operator>;

/// Of dimensions (batch, heads, length, elements); `attend` is of one query: (heads, key heads, length, elements).
pub const ALL: [(&str, Make); 5] = [
    ("attention", |m| forward(m, false)),
    ("attention_causal", |m| forward(m, true)),
    ("attention_backward", |m| backward(m, false)),
    ("attention_causal_backward", |m| backward(m, true)),
    ("attend", attend),
];

fn options(causal: bool) -> AttentionOptions {
    AttentionOptions {
        causal,
        ..Default::default()
    }
}

fn operands(m: &Maker) -> Result<[Tensor; 3]> {
    let [batch, heads, length, elements] = m.dims()?;
    let of = |seed| m.values(&[batch, length, heads, elements], Range::Signed, seed);
    Ok([of(0)?, of(1)?, of(2)?])
}

/// Multiplications and additions of two products, of which a causal mask leaves half.
fn flops(m: &Maker, causal: bool) -> u64 {
    let all = 4 * m.dims.iter().product::<usize>() * m.dims[2];
    (if causal { all / 2 } else { all }) as u64
}

fn forward(m: &Maker, causal: bool) -> Result<Operator> {
    let operator = Operator::new(operands(m)?, move |x| {
        ops::attention(&x[0], &x[1], &x[2], &options(causal))
    });
    Ok(Operator {
        flops: flops(m, causal),
        ..operator
    })
}

/// Backward alone, of a result that was made once: five products for the two of forward. Candle adds each gradient to zeros,
/// which is timed with it.
fn backward(m: &Maker, causal: bool) -> Result<Operator> {
    let [q, k, v] = operands(m)?.map(|x| Var::from_tensor(&x));
    let (q, k, v) = (q?, k?, v?);
    let inputs = [&q, &k, &v].map(|x| x.as_tensor().clone());
    let result = ops::attention(&q, &k, &v, &options(causal))?;
    let operator = Operator::new(inputs, move |_| {
        let gradients = result.backward()?;
        let of = |x: &Var| gradients.get(x).cloned();
        let all = [of(&q), of(&k), of(&v)];
        let [Some(_), Some(_), Some(of_values)] = all else {
            candle_core::bail!("attention left an operand without a gradient");
        };
        Ok(of_values)
    });
    Ok(Operator {
        flops: flops(m, causal) / 2 * 5,
        ..operator
    })
}

/// Caches of random keys and values take turns, as inputs do elsewhere, so that the GPU's cache does not hold them.
fn attend(m: &Maker) -> Result<Operator> {
    const BYTES: usize = 128 << 20;
    const MOST: usize = 64;
    let [heads, kv_heads, length, elements] = m.dims()?;
    let packed = &[1, length, (heads + 2 * kv_heads) * elements];
    let packed = m.values(packed, Range::Signed, 1)?;
    let (dtype, device) = (packed.dtype(), packed.device());
    // Angles of zero.
    let rotary = Rotary {
        cos: Tensor::ones((length, elements / 2), dtype, device)?,
        sin: Tensor::zeros((length, elements / 2), dtype, device)?,
        pairs: Pairs::Halves,
    };
    let start = Tensor::zeros(1, DType::U32, device)?;
    let bytes = 2 * kv_heads * length * elements * dtype.size_in_bytes();
    let count = if length < 64 {
        1
    } else {
        BYTES.div_ceil(bytes).clamp(1, MOST)
    };
    let filled = |_| {
        let cache = KvCache::new((1, kv_heads, length, elements), dtype, device)?;
        cache.append(&packed, &rotary, &start)?;
        Ok(cache)
    };
    let caches: Vec<KvCache> = (0..count).map(filled).collect::<Result<_>>()?;
    let last = u32::try_from(length - 1).context("a length")?;
    let position = Tensor::new(&[last], device)?;
    let queries = m.values(&[1, 1, heads, elements], Range::Signed, 0)?;
    let moved = bytes + 2 * size_of(&queries);
    let scores = Scores::scaled(1. / (elements as f64).sqrt());
    let turn = Cell::new(0);
    let operator = Operator::new([queries], move |x| {
        turn.set((turn.get() + 1) % caches.len());
        caches[turn.get()].attend(&x[0], &position, &scores)
    });
    Ok(Operator {
        flops: 4 * (heads * length * elements) as u64,
        ..operator.moving(moved)
    })
}
