//! The operators of attention, on the emulated GPU and on the CPU, against the formula in f64; their gradients, against
//! those of the formula in Candle's operators in f64; what they refuse; and that what has no gradient says so.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_rocm_backend::ops::{
    attention, attention_composed, attention_paged, attention_varlen, AttentionOptions, Packed,
};

use candle_rocm_testing::random::asked;

mod common;

use common::{numbers, Random};

fn device() -> Device {
    common::device().expect("a GPU")
}

/// Sizes of a drawn case.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    queries: usize,
    keys: usize,
    key_heads: usize,
    group: usize,
    elements: usize,
}

/// A case on the CPU, in f32.
struct Case {
    sizes: Sizes,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    options: AttentionOptions,
}

fn drawn(random: &mut Random, shape: &[usize]) -> Result<Tensor> {
    let count = shape.iter().product();
    Tensor::from_vec(common::normal(random, count), shape, &Device::Cpu)
}

/// Of rows: up to a tile, and more than the largest one's 256.
const LENGTHS: [usize; 8] = [1, 3, 64, 113, 128, 203, 256, 301];

/// Says that so many cases of attention, and as many of its gradients, shall be drawn instead of the usual few, with rows
/// of all of [`MANY_LENGTHS`]: some seconds each. [`SEED`] has them drawn from there on, so that processes share them out.
const CASES: &str = "CANDLE_ROCM_ATTENTION_CASES";
const SEED: &str = "CANDLE_ROCM_ATTENTION_SEED";
const MANY_LENGTHS: [usize; 10] = [1, 3, 64, 113, 128, 203, 256, 799, 1023, 2048];

/// Checks the usual cases, by their elements of a head and both dtypes, or as many drawn ones as are asked for.
fn each_case(
    seed: u64,
    usual: &[usize],
    mut check: impl FnMut(&mut Random, &Case, DType) -> Result<()>,
) -> Result<()> {
    const DTYPES: [DType; 2] = [DType::F16, DType::BF16];
    let mut random = Random::new(seed + asked(SEED).unwrap_or(0));
    let Some(cases) = asked(CASES) else {
        for &elements in usual {
            for dtype in DTYPES {
                let case = case(&mut random, &LENGTHS, elements, dtype)?;
                check(&mut random, &case, dtype)?;
            }
        }
        return Ok(());
    };
    for _ in 0..cases {
        let (elements, dtype) = (32 + 8 * random.below(29), random.choose(&DTYPES));
        let case = case(&mut random, &MANY_LENGTHS, elements, dtype)?;
        check(&mut random, &case, dtype)?;
    }
    Ok(())
}

fn case(random: &mut Random, lengths: &[usize], elements: usize, dtype: DType) -> Result<Case> {
    let sizes = Sizes {
        batch: 1 + random.below(2),
        queries: random.choose(lengths),
        keys: random.choose(lengths),
        key_heads: 1 + random.below(2),
        group: 1 + random.below(2),
        elements,
    };
    let Sizes {
        batch,
        queries,
        keys,
        key_heads,
        group,
        ..
    } = sizes;
    let heads = key_heads * group;
    let rounded = |x: Tensor| x.to_dtype(dtype)?.to_dtype(DType::F32);
    let one_in = |random: &mut Random, n: usize| random.below(n) == 0;
    let reach = |random: &mut Random| random.choose(&[None, Some(0), Some(9), Some(70)]);
    let mask_shapes = [
        vec![batch, 1, 1, keys],
        vec![queries, keys],
        vec![heads, queries, keys],
        vec![batch, heads, queries, 1],
    ];
    let slopes = match random.below(4) {
        0 => Some(vec![heads]),
        1 => Some(vec![batch, heads]),
        _ => None,
    };
    let options = AttentionOptions {
        scale: one_in(random, 2).then_some(0.2),
        causal: one_in(random, 2),
        window_left: reach(random),
        window_right: reach(random),
        softcap: one_in(random, 3).then_some(4.0),
        alibi_slopes: slopes
            .map(|shape| drawn(random, &shape)?.abs()? * 0.1)
            .transpose()?,
        mask: match one_in(random, 2) {
            true => {
                let shape = &mask_shapes[random.below(mask_shapes.len())];
                Some(rounded(drawn(random, shape)?)?)
            }
            false => None,
        },
    };
    Ok(Case {
        sizes,
        q: rounded(drawn(random, &[batch, queries, heads, elements])?)?,
        k: rounded(drawn(random, &[batch, keys, key_heads, elements])?)?,
        v: rounded(drawn(random, &[batch, keys, key_heads, elements])?)?,
        options,
    })
}

impl Case {
    /// The options with tensors on a device, the mask in a dtype.
    fn options(&self, device: &Device, dtype: DType) -> Result<AttentionOptions> {
        let mut options = self.options.clone();
        for tensor in [&mut options.mask, &mut options.alibi_slopes] {
            *tensor = tensor.as_ref().map(|x| x.to_device(device)).transpose()?;
        }
        options.mask = options.mask.map(|x| x.to_dtype(dtype)).transpose()?;
        Ok(options)
    }

    /// The result in f64, and how far from it another may be: twice as far as the same formula with what each operator
    /// gives rounded to a dtype.
    fn expected(&self, dtype: DType) -> Result<(Vec<f64>, f64)> {
        let round = |x: f64| match dtype {
            DType::F16 => half::f16::from_f64(x).to_f64(),
            DType::BF16 => half::bf16::from_f64(x).to_f64(),
            _ => f64::from(x as f32),
        };
        let exact = self.formula(|x| x)?;
        let composed = self.formula(round)?;
        let error = exact.iter().zip(&composed).map(|(a, b)| (a - b).abs());
        let error = error.fold(0.0, f64::max);
        let largest = exact.iter().fold(0f64, |most, x| most.max(x.abs()));
        // A result is rounded once in any case; f32's also sums as many products as there are keys or elements.
        let rounding = match dtype {
            DType::F16 => 2f64.powi(-11),
            DType::BF16 => 2f64.powi(-8),
            _ => 256.0 * 2f64.powi(-24),
        };
        Ok((exact, (2.0 * error).max(rounding * largest)))
    }

    fn formula(&self, round: impl Fn(f64) -> f64) -> Result<Vec<f64>> {
        let Sizes {
            batch,
            queries,
            keys,
            key_heads,
            group,
            elements,
        } = self.sizes;
        let heads = key_heads * group;
        let (q, k, v) = (numbers(&self.q)?, numbers(&self.k)?, numbers(&self.v)?);
        let options = &self.options;
        let mask = match &options.mask {
            Some(mask) => numbers(&mask.broadcast_as((batch, heads, queries, keys))?)?,
            None => Vec::new(),
        };
        let slopes = match &options.alibi_slopes {
            Some(slopes) => numbers(&slopes.broadcast_as((batch, heads))?)?,
            None => Vec::new(),
        };
        let scale = f64::from(options.scale.unwrap_or(1.0 / (elements as f32).sqrt()));
        let right = if options.causal {
            Some(0)
        } else {
            options.window_right
        };
        let mut all = Vec::new();
        for b in 0..batch {
            for i in 0..queries {
                for h in 0..heads {
                    let of_query = &q[((b * queries + i) * heads + h) * elements..][..elements];
                    let of_key = |x: &[f64], j: usize, d: usize| {
                        x[((b * keys + j) * key_heads + h / group) * elements + d]
                    };
                    let score = |j: usize| {
                        let ahead = j as f64 - (i as f64 + keys as f64 - queries as f64);
                        let beyond = |far: f64, most: Option<usize>| {
                            most.is_some_and(|most| far > most as f64)
                        };
                        if beyond(-ahead, options.window_left) || beyond(ahead, right) {
                            return f64::NEG_INFINITY;
                        }
                        let dot: f64 = (0..elements).map(|d| of_query[d] * of_key(&k, j, d)).sum();
                        let mut score = round(round(dot) * scale);
                        if let Some(cap) = options.softcap {
                            let cap = f64::from(cap);
                            score = round(cap * round(round(score / cap).tanh()));
                        }
                        if !slopes.is_empty() {
                            score = round(score - round(slopes[b * heads + h] * ahead.abs()));
                        }
                        if !mask.is_empty() {
                            score = round(score + mask[((b * heads + h) * queries + i) * keys + j]);
                        }
                        score
                    };
                    let scores: Vec<f64> = (0..keys).map(score).collect();
                    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let weights: Vec<f64> = match most == f64::NEG_INFINITY {
                        true => vec![0.0; keys],
                        false => scores
                            .iter()
                            .map(|x| round(round(x - most).exp()))
                            .collect(),
                    };
                    let sum = round(weights.iter().sum::<f64>());
                    for d in 0..elements {
                        let weighted = |j: usize| match weights[j] {
                            0.0 => 0.0,
                            weight => round(weight / sum) * of_key(&v, j, d),
                        };
                        all.push(round((0..keys).map(weighted).sum()));
                    }
                }
            }
        }
        Ok(all)
    }
}

fn assert_within(found: &Tensor, expected: &[f64], bound: f64, what: &str) -> Result<()> {
    let found = numbers(found)?;
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= bound,
            "{what}: element {i} is {found}, not {expected} +- {bound}"
        );
    }
    Ok(())
}

/// The same numbers, with rows of heads in another order in memory.
fn heads_first(x: &Tensor) -> Result<Tensor> {
    x.transpose(1, 2)?.contiguous()?.transpose(1, 2)
}

/// Everything that makes the same of a case: each way of laying it out, on the GPU and on the CPU.
fn check(case: &Case, dtype: DType) -> Result<()> {
    let (expected, bound) = case.expected(dtype)?;
    let what = |way: &str| format!("{way}, {dtype:?}, {:?}, {:?}", case.sizes, case.options);
    for device in [device(), Device::Cpu] {
        let on = |x: &Tensor| x.to_device(&device)?.to_dtype(dtype);
        let (q, k, v) = (on(&case.q)?, on(&case.k)?, on(&case.v)?);
        let options = case.options(&device, dtype)?;
        let name = |way: &str| what(&format!("{way} on {:?}", device.location()));
        let y = attention(&q, &k, &v, &options)?;
        assert_eq!((y.shape(), y.dtype()), (q.shape(), dtype));
        assert_within(&y, &expected, bound, &name("as it is"))?;
        let (q2, k2, v2) = (heads_first(&q)?, heads_first(&k)?, heads_first(&v)?);
        let y = attention(&q2, &k2, &v2, &options)?;
        assert_within(&y, &expected, bound, &name("heads first"))?;

        let Sizes {
            batch,
            queries,
            keys,
            ..
        } = case.sizes;
        let starts = |length: usize| {
            let starts: Vec<u32> = (0..=batch).map(|i| (i * length) as u32).collect();
            Tensor::new(starts, &device)
        };
        let (starts_q, starts_k) = (starts(queries)?, starts(keys)?);
        let packed = Packed {
            starts_q: &starts_q,
            starts_k: &starts_k,
            longest_q: queries,
            longest_k: keys,
        };
        let (q3, k3, v3) = (q.flatten(0, 1)?, k.flatten(0, 1)?, v.flatten(0, 1)?);
        let y = attention_varlen(&q3, &k3, &v3, packed, &options)?;
        assert_within(&y, &expected, bound, &name("packed"))?;

        // Pages of 32 rows, from the last to the first.
        let rows = 32;
        let most = keys.div_ceil(rows);
        let padding = most * rows - keys;
        let paged = |x: &Tensor| -> Result<Tensor> {
            let padded = x.pad_with_zeros(1, 0, padding)?;
            let (_, _, heads, elements) = padded.dims4()?;
            let pages = padded.reshape((batch * most, rows, heads, elements))?;
            let order: Vec<u32> = (0..(batch * most) as u32).rev().collect();
            pages.index_select(&Tensor::new(order, &device)?, 0)
        };
        let numbers: Vec<u32> = (0..(batch * most) as u32).rev().collect();
        let pages = Tensor::from_vec(numbers, (batch, most), &device)?;
        let y = attention_paged(&q3, &paged(&k)?, &paged(&v)?, &pages, packed, &options)?;
        assert_within(&y, &expected, bound, &name("paged"))?;
    }
    Ok(())
}

#[test]
fn attention_is_near_the_formula() -> Result<()> {
    each_case(16, &[32, 64, 72, 104, 128, 256], |_, case, dtype| {
        check(case, dtype)
    })?;
    // No kernel takes it: it is composed, on the GPU too.
    let case = case(&mut Random::new(24), &LENGTHS, 40, DType::F32)?;
    check(&case, DType::F32)
}

/// Sequences of which some have no queries, and some no keys.
#[test]
fn packed_sequences_may_be_empty() -> Result<()> {
    let mut random = Random::new(17);
    let (q, k) = (
        drawn(&mut random, &[9, 2, 32])?,
        drawn(&mut random, &[40, 1, 32])?,
    );
    let mut results = Vec::new();
    for device in [device(), Device::Cpu] {
        let on = |x: &Tensor| x.to_device(&device)?.to_dtype(DType::F16);
        let starts_q = Tensor::new(&[0u32, 4, 4, 9], &device)?;
        let starts_k = Tensor::new(&[0u32, 0, 7, 40], &device)?;
        let packed = Packed {
            starts_q: &starts_q,
            starts_k: &starts_k,
            longest_q: 5,
            longest_k: 33,
        };
        let (q, k) = (on(&q)?, on(&k)?);
        let y = attention_varlen(&q, &k, &k, packed, &AttentionOptions::default())?;
        assert_eq!(numbers(&y.narrow(0, 0, 4)?)?, vec![0.0; 4 * 2 * 32]);
        results.push(y);
    }
    // Both round to f16 once, of values below 4.
    assert_within(
        &results[0],
        &numbers(&results[1])?,
        2f64.powi(-8),
        "both devices",
    )
}

#[test]
fn nothing_to_attend_to_gives_zeros() -> Result<()> {
    let device = device();
    let of = |rows: usize| Tensor::ones((2, rows, 3, 64), DType::F16, &device);
    let options = AttentionOptions::default();
    let y = attention(&of(5)?, &of(0)?, &of(0)?, &options)?;
    assert_eq!(numbers(&y)?, vec![0.0; 2 * 5 * 3 * 64]);
    let y = attention(&of(0)?, &of(5)?, &of(5)?, &options)?;
    assert_eq!(y.dims(), [2, 0, 3, 64]);
    // Keys all after the queries' places.
    let causal = AttentionOptions {
        causal: true,
        ..options
    };
    let y = attention(&of(5)?, &of(2)?, &of(2)?, &causal)?;
    let sums = numbers(&y.to_dtype(DType::F32)?.sum((0, 2, 3))?)?;
    assert_eq!(sums, [0.0, 0.0, 0.0, 384.0, 384.0]);
    Ok(())
}

/// The gradients of q, k and v.
type Gradients = [Vec<f64>; 3];

/// Of the formula in Candle's operators, on the CPU, each of whose results is of a dtype; that of `change`.
fn gradients_of_formula(case: &Case, change: &Tensor, dtype: DType) -> Result<Gradients> {
    let Sizes {
        batch,
        queries,
        keys,
        key_heads,
        group,
        elements,
    } = case.sizes;
    let heads = key_heads * group;
    let vars = [&case.q, &case.k, &case.v].map(|x| Var::from_tensor(&x.to_dtype(dtype)?));
    let [q, k, v] = vars;
    let (q, k, v) = (q?, k?, v?);
    // Sums are in f32 or better everywhere.
    let product = |a: &Tensor, b: &Tensor| -> Result<Tensor> {
        let wide = |x: &Tensor| match dtype {
            DType::F64 => x.contiguous(),
            _ => x.to_dtype(DType::F32)?.contiguous(),
        };
        wide(a)?.matmul(&wide(b)?)?.to_dtype(dtype)
    };
    let of_group = |x: &Tensor| -> Result<Tensor> {
        let x = x.unsqueeze(3)?;
        let x = x.broadcast_as((batch, keys, key_heads, group, elements))?;
        x.reshape((batch, keys, heads, elements))?.transpose(1, 2)
    };
    let table = |f: &dyn Fn(i64) -> f64| -> Result<Tensor> {
        let ahead = |at: usize| (at % keys) as i64 - ((at / keys + keys) as i64 - queries as i64);
        let numbers: Vec<f64> = (0..queries * keys).map(|at| f(ahead(at))).collect();
        Tensor::from_vec(numbers, (queries, keys), &Device::Cpu)?.to_dtype(dtype)
    };
    let options = &case.options;
    let scale = options.scale.unwrap_or(1.0 / (elements as f32).sqrt());
    let k_turned = of_group(&k)?.transpose(2, 3)?;
    let mut scores = (product(&q.transpose(1, 2)?, &k_turned)? * f64::from(scale))?;
    if let Some(cap) = options.softcap.map(f64::from) {
        scores = ((scores / cap)?.tanh()? * cap)?;
    }
    if let Some(slopes) = &options.alibi_slopes {
        let slopes = slopes.reshape(((), heads, 1, 1))?.to_dtype(dtype)?;
        scores = scores.broadcast_sub(&slopes.broadcast_mul(&table(&|x| x.abs() as f64)?)?)?;
    }
    if let Some(mask) = &options.mask {
        scores = scores.broadcast_add(&mask.to_dtype(dtype)?)?;
    }
    let right = match options.causal {
        true => Some(0),
        false => options.window_right,
    };
    let beyond = |far: i64, most: Option<usize>| most.is_some_and(|most| far > most as i64);
    let visible = table(
        &|ahead| match beyond(-ahead, options.window_left) || beyond(ahead, right) {
            true => 0.0,
            false => 1.0,
        },
    )?;
    // What is hidden is far below any score, and its weight 0.
    let hidden = ((&visible - 1.0)? * 30000.0)?;
    let scores = scores.broadcast_mul(&visible)?.broadcast_add(&hidden)?;
    let most = scores.max_keepdim(3)?.detach();
    let weights = scores
        .broadcast_sub(&most)?
        .exp()?
        .broadcast_mul(&visible)?;
    let sums = weights.sum_keepdim(3)?;
    let none = sums.eq(0f64)?.to_dtype(dtype)?;
    let weights = weights.broadcast_div(&(sums + none)?)?;
    let y = product(&weights, &of_group(&v)?)?.transpose(1, 2)?;
    let found = (y * change.to_dtype(dtype)?)?.sum_all()?.backward()?;
    let of = |var: &Var| numbers(found.get(var).expect("a gradient"));
    Ok([of(&q)?, of(&k)?, of(&v)?])
}

/// The gradients in f64, and how far from them others may be: three times as far as where each operator rounds to the
/// dtype.
fn expected_gradients(case: &Case, change: &Tensor, dtype: DType) -> Result<[(Vec<f64>, f64); 3]> {
    let exact = gradients_of_formula(case, change, DType::F64)?;
    let composed = gradients_of_formula(case, change, dtype)?;
    let rounding = match dtype {
        DType::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    };
    // What is left of large terms, of a query that sees one key, has f32's errors: a number of 256 of such products.
    let least = 256.0 * 2f64.powi(-24) * 8.0;
    let mut composed = composed.into_iter();
    Ok(exact.map(|exact| {
        let composed = composed.next().unwrap_or_default();
        let error = exact.iter().zip(&composed).map(|(a, b)| (a - b).abs());
        let error = error.fold(0.0, f64::max);
        let largest = exact.iter().fold(0f64, |most, x| most.max(x.abs()));
        (exact, (3.0 * error).max(rounding * largest).max(least))
    }))
}

/// Each way of laying a case out, on the GPU and on the CPU, has its gradients.
fn check_gradients(random: &mut Random, case: &Case, dtype: DType) -> Result<()> {
    let change = drawn(random, case.q.dims())?;
    let change = change.to_dtype(dtype)?.to_dtype(DType::F32)?;
    let expected = expected_gradients(case, &change, dtype)?;
    for device in [device(), Device::Cpu] {
        let of = |x: &Tensor| Var::from_tensor(&x.to_device(&device)?.to_dtype(dtype)?);
        let vars = [of(&case.q)?, of(&case.k)?, of(&case.v)?];
        let change = change.to_device(&device)?.to_dtype(dtype)?;
        let options = case.options(&device, dtype)?;
        let compare = |y: Tensor, way: &str| -> Result<()> {
            let found = (y * &change)?.sum_all()?.backward()?;
            for ((var, (exact, bound)), of) in vars.iter().zip(&expected).zip(["q", "k", "v"]) {
                let on = device.location();
                let what = format!(
                    "{of} {way} on {on:?}, {dtype:?}, {:?}, {options:?}",
                    case.sizes
                );
                let gradient = found.get(var).expect("a gradient");
                assert_eq!((gradient.shape(), gradient.dtype()), (var.shape(), dtype));
                assert_within(gradient, exact, *bound, &what)?;
            }
            Ok(())
        };
        let [q, k, v] = &vars;
        compare(attention(q, k, v, &options)?, "as it is")?;
        let (q2, k2, v2) = (heads_first(q)?, heads_first(k)?, heads_first(v)?);
        compare(attention(&q2, &k2, &v2, &options)?, "heads first")?;
        let starts = |length: usize| {
            let starts = (0..=case.sizes.batch).map(|i| (i * length) as u32);
            Tensor::new(starts.collect::<Vec<u32>>(), &device)
        };
        let (starts_q, starts_k) = (starts(case.sizes.queries)?, starts(case.sizes.keys)?);
        let packed = Packed {
            starts_q: &starts_q,
            starts_k: &starts_k,
            longest_q: case.sizes.queries,
            longest_k: case.sizes.keys,
        };
        let (q3, k3, v3) = (q.flatten(0, 1)?, k.flatten(0, 1)?, v.flatten(0, 1)?);
        let y = attention_varlen(&q3, &k3, &v3, packed, &options)?;
        compare(y.reshape(q.shape())?, "packed")?;
    }
    Ok(())
}

#[test]
fn gradients_are_near_the_formula() -> Result<()> {
    each_case(18, &[8, 64, 96, 128, 256], check_gradients)
}

/// Of so few scores the errors of weights rounded to 16 bits would not average out: gradients are composed in f32, and
/// differ from f64's by their own rounding, of up to half a unit in the last place, and what f32 leaves out.
#[test]
fn gradients_of_few_scores_are_rounded_once() -> Result<()> {
    let mut random = Random::new(23);
    for (dtype, rounding) in [(DType::F16, 2f64.powi(-11)), (DType::BF16, 2f64.powi(-8))] {
        for _ in 0..10 {
            let mut of_few = case(&mut random, &LENGTHS, 104, dtype)?;
            let rows = |x: &Tensor, most: usize| x.narrow(1, 0, most.min(x.dim(1)?));
            of_few.q = rows(&of_few.q, 2)?;
            of_few.k = rows(&of_few.k, 3)?;
            of_few.v = rows(&of_few.v, 3)?;
            (of_few.sizes.queries, of_few.sizes.keys) = (of_few.q.dim(1)?, of_few.k.dim(1)?);
            of_few.options.mask = None;
            let change = drawn(&mut random, of_few.q.dims())?.to_dtype(dtype)?;
            let exact = gradients_of_formula(&of_few, &change.to_dtype(DType::F32)?, DType::F64)?;
            let device = device();
            let of = |x: &Tensor| Var::from_tensor(&x.to_device(&device)?.to_dtype(dtype)?);
            let vars = [of(&of_few.q)?, of(&of_few.k)?, of(&of_few.v)?];
            let [q, k, v] = &vars;
            let y = attention(q, k, v, &of_few.options(&device, dtype)?)?;
            let found = (y * change.to_device(&device)?)?.sum_all()?.backward()?;
            for (var, exact) in vars.iter().zip(&exact) {
                let largest = exact.iter().fold(0f64, |most, x| most.max(x.abs()));
                let gradient = found.get(var).expect("a gradient");
                // Terms of which little is left have f32's errors.
                let bound = rounding * largest + 2f64.powi(-20);
                let what = format!("{dtype:?}, {:?}", of_few.sizes);
                assert_within(gradient, exact, bound, &what)?;
            }
        }
    }
    Ok(())
}

/// Of sequences without queries or keys, and of rows that no sequence has, gradients are 0.
#[test]
fn rows_that_nothing_sees_have_gradients_of_0() -> Result<()> {
    let mut random = Random::new(19);
    let (q, k) = (
        drawn(&mut random, &[9, 2, 32])?,
        drawn(&mut random, &[45, 1, 32])?,
    );
    // Few scores, whose gradients are composed, and more. Rows of queries that no sequence has are the GPU's alone.
    for (queries, begins) in [
        (9, [0u32, 4, 4, 9]),
        (11, [1, 4, 4, 9]),
        (1100, [1, 4, 4, 1000]),
    ] {
        let device = device();
        let of = |x: &Tensor| Var::from_tensor(&x.to_device(&device)?.to_dtype(DType::F16)?);
        let many = of(&drawn(&mut random, &[queries, 2, 32])?)?;
        let keys = of(&k)?;
        let starts_q = Tensor::new(&begins, &device)?;
        let starts_k = Tensor::new(&[0u32, 1, 7, 40], &device)?;
        let packed = Packed {
            starts_q: &starts_q,
            starts_k: &starts_k,
            longest_q: (begins[3] - 4) as usize,
            longest_k: 33,
        };
        let y = attention_varlen(&many, &keys, &keys, packed, &AttentionOptions::default())?;
        let used = y.narrow(0, begins[0] as usize, (begins[3] - begins[0]) as usize)?;
        let found = used.sqr()?.sum_all()?.backward()?;
        let of_many = found.get(&many).expect("a gradient");
        assert_eq!(of_many.dims(), many.dims());
        for rows in [0..begins[0] as usize, begins[3] as usize..queries] {
            let nobodys = of_many.narrow(0, rows.start, rows.len())?;
            assert_eq!(numbers(&nobodys)?, vec![0.0; rows.len() * 2 * 32]);
        }
        let last = of_many.narrow(0, 4, 5)?.abs()?.to_dtype(DType::F32)?;
        assert!(numbers(&last.sum((1, 2))?)?.iter().all(|&sum| sum > 0.0));
    }
    let mut results = Vec::new();
    for device in [device(), Device::Cpu] {
        let of = |x: &Tensor| Var::from_tensor(&x.to_device(&device)?.to_dtype(DType::F16)?);
        let starts_q = Tensor::new(&[0u32, 4, 4, 9], &device)?;
        let starts_k = Tensor::new(&[0u32, 0, 7, 40], &device)?;
        let packed = Packed {
            starts_q: &starts_q,
            starts_k: &starts_k,
            longest_q: 5,
            longest_k: 33,
        };
        let (q, k) = (of(&q)?, of(&k)?);
        let y = attention_varlen(&q, &k, &k, packed, &AttentionOptions::default())?;
        let found = y.sqr()?.sum_all()?.backward()?;
        let [of_q, of_k] = [&q, &k].map(|var| found.get(var).expect("a gradient").clone());
        assert_eq!(numbers(&of_q.narrow(0, 0, 4)?)?, vec![0.0; 4 * 2 * 32]);
        assert_eq!(numbers(&of_k.narrow(0, 0, 7)?)?, vec![0.0; 7 * 32]);
        assert_eq!(numbers(&of_k.narrow(0, 40, 5)?)?, vec![0.0; 5 * 32]);
        results.push([of_q, of_k]);
    }
    // Of gradients below 4, the result, the weights, their changes and the gradient are rounded to f16.
    for (on_gpu, on_cpu) in results[0].iter().zip(&results[1]) {
        assert_within(
            on_gpu,
            &numbers(on_cpu)?,
            4.0 * 2f64.powi(-9),
            "both devices",
        )?;
    }
    Ok(())
}

#[test]
fn what_is_frozen_has_no_gradient() -> Result<()> {
    let device = device();
    let x = drawn(&mut Random::new(20), &[1, 6, 2, 32])?.to_dtype(DType::F16)?;
    let plain = x.to_device(&device)?;
    let options = AttentionOptions {
        causal: true,
        ..Default::default()
    };
    let vars = [0, 1, 2].map(|_| Var::from_tensor(&plain));
    let [q, k, v] = vars;
    let (q, k, v) = (q?, k?, v?);
    let all = attention(&q, &k, &v, &options)?.sum_all()?.backward()?;
    for which in 0..3 {
        let mut operands = [&plain; 3];
        let var = [&q, &k, &v][which];
        operands[which] = var;
        let [q, k, v] = operands;
        let alone = attention(q, k, v, &options)?.sum_all()?.backward()?;
        assert!(alone.get(&plain).is_none());
        // The same kernels of the same numbers.
        let of =
            |found: &candle_core::backprop::GradStore| numbers(found.get(var).expect("a gradient"));
        assert_eq!(of(&alone)?, of(&all)?);
    }
    Ok(())
}

#[test]
fn what_has_no_gradient_says_so() -> Result<()> {
    let device = device();
    let x = |elements: usize| Tensor::ones((1, 6, 2, elements), DType::F16, &device);
    let refused = |y: Tensor, words: &[&str]| -> Result<()> {
        let error = y
            .sum_all()?
            .backward()
            .expect_err("no backward")
            .to_string();
        for word in words {
            assert!(error.contains(word), "{word:?} is not in: {error}");
        }
        Ok(())
    };
    let (plain, var) = (x(32)?, Var::from_tensor(&x(32)?)?);
    let mask = Var::from_tensor(&Tensor::zeros((6, 6), DType::F16, &device)?)?;
    let masked = AttentionOptions {
        mask: Some(mask.as_tensor().clone()),
        ..Default::default()
    };
    for q in [&plain, &*var] {
        refused(
            attention(q, &plain, &plain, &masked)?,
            &["mask", "detach", "attention_composed"],
        )?;
    }
    let options = AttentionOptions::default();
    let large = Var::from_tensor(&x(264)?)?;
    match attention(&large, &large, &large, &options) {
        Ok(y) => refused(y, &["264", "gradients", "up to 256", "attention_composed"])?,
        // Which has no kernels of heads as large.
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("264") && error.contains("sm_"), "{error}");
        }
    }
    let starts = Tensor::new(&[0u32, 6], &device)?;
    let packed = Packed {
        starts_q: &starts,
        starts_k: &starts,
        longest_q: 6,
        longest_k: 6,
    };
    let (q, pages) = (var.squeeze(0)?, Tensor::zeros((1, 1), DType::U32, &device)?);
    let y = attention_paged(&q, &plain, &plain, &pages, packed, &options)?;
    refused(y, &["attention_paged", "attention_varlen"])
}

/// The composed gradient is the CPU's.
#[test]
fn a_composed_gradient_is_right() -> Result<()> {
    let x = drawn(&mut Random::new(21), &[1, 6, 2, 32])?;
    let options = AttentionOptions {
        causal: true,
        ..Default::default()
    };
    let gradient = |device: &Device| -> Result<Vec<f64>> {
        let var = Var::from_tensor(&x.to_device(device)?)?;
        let y = attention_composed(&var, &var, &var, &options)?;
        let gradients = y.sqr()?.sum_all()?.backward()?;
        numbers(gradients.get(&var).expect("a gradient"))
    };
    let (on_gpu, on_cpu) = (gradient(&device())?, gradient(&Device::Cpu)?);
    for (a, b) in on_gpu.iter().zip(&on_cpu) {
        // Some sums of a hundred products in f32.
        assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{a} and {b}");
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_with_what_to_do() -> Result<()> {
    let device = device();
    let of = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &device);
    let half = |shape: &[usize]| of(shape, DType::F16);
    let options = AttentionOptions::default();
    let refused = |result: Result<Tensor>, words: &[&str]| {
        let error = result.expect_err("it is refused").to_string();
        for word in words {
            assert!(error.contains(word), "{word:?} is not in: {error}");
        }
    };
    let q = half(&[1, 4, 4, 64])?;
    refused(
        attention(&q, &half(&[1, 4, 3, 64])?, &half(&[1, 4, 3, 64])?, &options),
        &["attention", "[1, 4, 4, 64]", "multiple"],
    );
    refused(
        attention(&q, &half(&[2, 4, 4, 64])?, &half(&[2, 4, 4, 64])?, &options),
        &["attention", "[2, 4, 4, 64]"],
    );
    let wide = of(&[1, 4, 4, 64], DType::BF16)?;
    refused(
        attention(&q, &wide, &wide, &options),
        &["BF16", "F16", "to_dtype"],
    );
    let odd = half(&[1, 4, 4, 60])?;
    refused(
        attention(&odd, &odd, &odd, &options),
        &["60", "multiples of 8", "attention_composed", "pad"],
    );
    let bytes = of(&[1, 4, 4, 64], DType::U8)?;
    refused(attention(&bytes, &bytes, &bytes, &options), &["U8", "f16"]);
    let masked = AttentionOptions {
        mask: Some(half(&[5, 4])?),
        ..Default::default()
    };
    refused(
        attention(&q, &q, &q, &masked),
        &["mask", "[5, 4]", "[1, 4, 4, 4]"],
    );
    let capped = AttentionOptions {
        softcap: Some(0.0),
        ..Default::default()
    };
    refused(attention(&q, &q, &q, &capped), &["softcap", "above 0"]);
    let sloped = AttentionOptions {
        alibi_slopes: Some(of(&[3], DType::F32)?),
        ..Default::default()
    };
    refused(attention(&q, &q, &q, &sloped), &["alibi_slopes", "[4]"]);
    let (rows, starts) = (half(&[4, 4, 64])?, of(&[2], DType::I64)?);
    let packed = Packed {
        starts_q: &starts,
        starts_k: &starts,
        longest_q: 4,
        longest_k: 4,
    };
    refused(
        attention_varlen(&rows, &rows, &rows, packed, &options),
        &["attention_varlen", "starts_q", "u32"],
    );
    Ok(())
}
