//! Attention of Candle's own operators, with all scores in memory.

use candle_core::{Result, Tensor, Var};

use super::super::operands::wide;
use super::super::softmax::scaled_masked_softmax;
use super::call::{AttentionOptions, Call, Packed};

/// The gradients of q, k and v, from the result's, computed in f32 and rounded once.
pub(super) fn gradients(call: &Call, gradient: &Tensor) -> Result<Vec<Option<Tensor>>> {
    let var = |x: &Tensor| Var::from_tensor(&wide(x)?);
    let [q, k, v] = [var(call.q)?, var(call.k)?, var(call.v)?];
    let options = AttentionOptions {
        mask: call.options.mask.as_ref().map(wide).transpose()?,
        ..call.options.clone()
    };
    let of_vars = Call::new(call.name, [&q, &k, &v], call.packed, None, &options)?;
    let gradient = wide(gradient)?;
    let mut product = gradient.zeros_like()?.sum_all()?;
    let each = match call.packed {
        None => vec![(attend(&of_vars)?, gradient)],
        Some(packed) => {
            let of_sequences = sequences(&of_vars, packed)?.into_iter();
            let each = of_sequences.map(|([first, queries], result)| {
                Ok((result, gradient.narrow(0, first, queries)?))
            });
            each.collect::<Result<_>>()?
        }
    };
    for (result, gradient) in each {
        product = (product + (result * gradient)?.sum_all()?)?;
    }
    let found = product.backward()?;
    let each = [&q, &k, &v].into_iter().map(|var| match found.get(var) {
        Some(gradient) => gradient.to_dtype(call.q.dtype()).map(Some),
        // Of sequences without queries or keys nothing comes from it.
        None => var.zeros_like()?.to_dtype(call.q.dtype()).map(Some),
    });
    each.collect()
}

/// Computed in f32 where operands are of 16 bits, and rounded once.
pub(super) fn attend(call: &Call) -> Result<Tensor> {
    let Some(packed) = call.packed else {
        let [q, k, v] = [wide(call.q)?, wide(call.k)?, wide(call.v)?];
        let all = call.options.mask.as_ref();
        let result = of_batch(call, [&q, &k, &v], all, call.options.alibi_slopes.as_ref())?;
        return result.to_dtype(call.q.dtype());
    };
    if call.q.elem_count() == 0 {
        return call.q.zeros_like();
    }
    let of_sequences = sequences(call, packed)?.into_iter();
    let results: Vec<Tensor> = of_sequences.map(|(_, result)| result).collect();
    Tensor::cat(&results, 0)?.to_dtype(call.q.dtype())
}

/// Of each packed sequence that has queries: the first, how many, and their results.
fn sequences(call: &Call, packed: Packed) -> Result<Vec<([usize; 2], Tensor)>> {
    let (starts_q, starts_k) = (
        packed.starts_q.to_vec1::<u32>()?,
        packed.starts_k.to_vec1::<u32>()?,
    );
    let mut results = Vec::new();
    for (sequence, (q, k)) in starts_q.windows(2).zip(starts_k.windows(2)).enumerate() {
        let of = |range: &[u32]| {
            [
                range[0] as usize,
                range[1].saturating_sub(range[0]) as usize,
            ]
        };
        let [_, queries] = of(q);
        if queries > 0 {
            let result = of_sequence(call, packed, sequence, of(q), of(k))?;
            results.push((of(q), result));
        }
    }
    Ok(results)
}

/// One of packed sequences, of shape (queries, heads, elements).
fn of_sequence(
    call: &Call,
    packed: Packed,
    sequence: usize,
    [first, queries]: [usize; 2],
    [first_key, keys]: [usize; 2],
) -> Result<Tensor> {
    let q = wide(&call.q.narrow(0, first, queries)?)?.unsqueeze(0)?;
    let rows = |of: &Tensor| -> Result<Tensor> {
        let rows = match call.pages {
            None => of.narrow(0, first_key, keys)?,
            Some(pages) => {
                let page_rows = of.dim(1)?;
                let pages = pages
                    .get(sequence)?
                    .narrow(0, 0, keys.div_ceil(page_rows))?;
                let rows = of.index_select(&pages.contiguous()?, 0)?;
                rows.flatten(0, 1)?.narrow(0, 0, keys)?
            }
        };
        wide(&rows)?.unsqueeze(0)
    };
    let (k, v) = (rows(call.k)?, rows(call.v)?);
    let mask = match &call.options.mask {
        None => None,
        Some(mask) => {
            let mut full = call.scores();
            full[2] = packed.longest_q;
            let mask = mask.broadcast_as(&full[..])?.narrow(0, sequence, 1)?;
            Some(mask.narrow(2, 0, queries)?.narrow(3, 0, keys)?)
        }
    };
    let slopes = match &call.options.alibi_slopes {
        Some(slopes) if slopes.rank() == 2 => Some(slopes.narrow(0, sequence, 1)?),
        other => other.clone(),
    };
    of_batch(call, [&q, &k, &v], mask.as_ref(), slopes.as_ref())?.squeeze(0)
}

/// Of (batch, rows, heads, elements).
fn of_batch(
    call: &Call,
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
    slopes: Option<&Tensor>,
) -> Result<Tensor> {
    let (batch, queries, heads, elements) = q.dims4()?;
    let (_, keys, key_heads, _) = k.dims4()?;
    if queries == 0 || keys == 0 || batch == 0 {
        return q.zeros_like();
    }
    // Heads that share keys are rows of one product.
    let rows = heads / key_heads * queries;
    let of_keys = |x: &Tensor| x.transpose(1, 2)?.contiguous();
    let q = of_keys(q)?.reshape((batch, key_heads, rows, elements))?;
    let (k, v) = (of_keys(k)?, of_keys(v)?);
    let scores = (q.matmul(&k.t()?)? * f64::from(call.scale()))?;
    let mut scores = scores.reshape((batch, heads, queries, keys))?;
    if let Some(cap) = call.options.softcap {
        scores = ((scores / f64::from(cap))?.tanh()? * f64::from(cap))?;
    }
    let positions = Positions { queries, keys };
    if let Some(slopes) = slopes {
        let distances = positions.table(|ahead| ahead.unsigned_abs() as f32);
        let distances = Tensor::from_vec(distances, (queries, keys), q.device())?;
        let slopes = slopes.reshape(((), heads, 1, 1))?;
        let loss = slopes.broadcast_mul(&distances)?.to_dtype(scores.dtype())?;
        scores = scores.broadcast_sub(&loss)?;
    }
    if let Some(mask) = mask {
        scores = scores.broadcast_add(&mask.to_dtype(scores.dtype())?)?;
    }
    let (left, right) = (call.options.window_left, call.right());
    let sees = |ahead: i64| {
        let within = |distance: i64, most: Option<usize>| {
            most.is_none_or(|most| distance <= i64::try_from(most).unwrap_or(i64::MAX))
        };
        u8::from(within(-ahead, left) && within(ahead, right))
    };
    let visible = Tensor::from_vec(positions.table(sees), (queries, keys), q.device())?;
    let weights = scaled_masked_softmax(&scores, 1.0, Some(&visible))?;
    let weights = weights.reshape((batch, key_heads, rows, keys))?;
    let result = weights.matmul(&v)?;
    let result = result.reshape((batch, heads, queries, elements))?;
    result.transpose(1, 2)?.contiguous()
}

/// Where queries stand among keys.
struct Positions {
    queries: usize,
    keys: usize,
}

impl Positions {
    /// A value for each query and key, of how far the key is after the query's place.
    fn table<T>(&self, value: impl Fn(i64) -> T) -> Vec<T> {
        let (queries, keys) = (self.queries as i64, self.keys as i64);
        let of_query = |i: i64| (0..keys).map(move |j| j - (i + keys - queries));
        (0..queries).flat_map(of_query).map(value).collect()
    }
}
