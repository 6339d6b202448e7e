//! A cache of keys and values, and the attention of few queries to it, against plain Rust in f64.

mod common;

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::graph::{recorded, Input, Step};
use candle_rocm_backend::ops::{HeadNorms, KvCache, Pairs, Q8_1Activations, Rotary, Scores};
use candle_rocm_backend::DeviceExt as _;
use common::{normal, numbers, Random};

/// Sequences, heads of queries, heads of keys, elements of a head, capacity.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    dim: usize,
    capacity: usize,
}

fn sizes(batch: usize, heads: usize, kv_heads: usize, dim: usize, capacity: usize) -> Sizes {
    Sizes {
        batch,
        heads,
        kv_heads,
        dim,
        capacity,
    }
}

fn drawn(random: &mut Random, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    let values = normal(random, shape.iter().product());
    Tensor::from_vec(values, shape, &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(device)
}

/// Angles as models have them, in the dtype.
fn rotary(sizes: Sizes, pairs: Pairs, dtype: DType, device: &Device) -> Result<Rotary> {
    let half = sizes.dim / 2;
    let angles = |of: fn(f64) -> f64| {
        let all: Vec<f32> = (0..sizes.capacity * half)
            .map(|i| of((i / half) as f64 / 100f64.powf((i % half) as f64 / half as f64)) as f32)
            .collect();
        Tensor::from_vec(all, (sizes.capacity, half), &Device::Cpu)?
            .to_dtype(dtype)?
            .to_device(device)
    };
    Ok(Rotary {
        cos: angles(f64::cos)?,
        sin: angles(f64::sin)?,
        pairs,
    })
}

/// The spacing of a dtype's numbers near 1.
fn spacing(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => 2f64.powi(-23),
    }
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        // Not the other way round, which NaN would pass.
        assert!(
            (found - expected).abs() <= tolerance * expected.abs().max(1.),
            "{what}, element {i}: {found} instead of {expected}"
        );
    }
}

/// Row `at` of (.., dim) turned by the angles of a place.
fn turned(row: &[f64], rotary: &Rotary, place: usize) -> Result<Vec<f64>> {
    let half = row.len() / 2;
    let of = |table: &Tensor| numbers(&table.narrow(0, place, 1)?);
    let (cos, sin) = (of(&rotary.cos)?, of(&rotary.sin)?);
    let mut result = row.to_vec();
    for i in 0..half {
        let (a, b) = match rotary.pairs {
            Pairs::Halves => (i, i + half),
            Pairs::Neighbours => (2 * i, 2 * i + 1),
        };
        result[a] = row[a] * cos[i] - row[b] * sin[i];
        result[b] = row[a] * sin[i] + row[b] * cos[i];
    }
    Ok(result)
}

/// What comes in and goes out, and what the cache keeps.
const DTYPES: [(DType, DType); 5] = [
    (DType::F16, DType::F16),
    (DType::BF16, DType::BF16),
    (DType::F32, DType::F32),
    (DType::F32, DType::F16),
    (DType::F32, DType::BF16),
];

/// `x` as numbers of a dtype, rounded to the nearest.
fn rounded(x: &Tensor, dtype: DType) -> Result<Vec<f64>> {
    numbers(&x.to_device(&Device::Cpu)?.to_dtype(dtype)?)
}

/// The devices on which the same must come out: the GPU, and Candle's CPU backend, on which it is composed.
fn devices() -> Result<[Device; 2]> {
    Ok([common::device()?, Device::Cpu])
}

#[test]
fn queries_and_keys_are_turned_and_kept_at_their_places() -> Result<()> {
    let cases = [
        (8, 3, 1),
        (64, 4, 2),
        (80, 2, 2),
        (128, 6, 3),
        (24, 4, 4),
        (512, 1, 1),
    ];
    for device in devices()? {
        for (n, (dim, heads, kv_heads)) in cases.into_iter().enumerate() {
            for dtypes in DTYPES {
                for pairs in [Pairs::Halves, Pairs::Neighbours] {
                    let sizes = sizes(2, heads, kv_heads, dim, 9);
                    append_case(sizes, [1, 3][n % 2], dtypes, pairs, &device)?;
                }
            }
        }
    }
    Ok(())
}

fn append_case(
    sizes: Sizes,
    steps: usize,
    (dtype, kept_as): (DType, DType),
    pairs: Pairs,
    device: &Device,
) -> Result<()> {
    let Sizes {
        batch,
        heads,
        kv_heads,
        dim,
        capacity,
    } = sizes;
    let what = format!(
        "{sizes:?}, {steps} steps, {dtype:?} in {kept_as:?}, {pairs:?}, {:?}",
        device.location()
    );
    let mut random = Random::new(dim as u64);
    let rotary = rotary(sizes, pairs, dtype, device)?;
    let cache = KvCache::new((batch, kv_heads, capacity, dim), kept_as, device)?;
    let all = heads + 2 * kv_heads;
    // The second sequence's last steps do not fit, where there are several.
    let positions = [2, capacity as u32 - 2];
    let packed = drawn(&mut random, &[batch, steps, all * dim], dtype, device)?;
    let queries = cache.append(&packed, &rotary, &Tensor::new(&positions, device)?)?;
    assert_eq!(queries.dims(), [batch, steps, heads, dim]);
    assert_eq!(queries.dtype(), dtype);
    let (found, given) = (numbers(&queries)?, numbers(&packed)?);
    let given_kept = rounded(&packed, kept_as)?;
    // f32 is rounded once: half the spacing, and a little of f32's.
    let tolerance = match dtype == kept_as {
        true => 2. * spacing(dtype),
        false => 0.501 * spacing(kept_as),
    };
    let (keys, values) = (
        numbers(&cache.keys(capacity)?)?,
        numbers(&cache.values(capacity)?)?,
    );
    let mut kept = vec![false; batch * kv_heads * capacity];
    for row in 0..batch * steps {
        let (sequence, step) = (row / steps, row % steps);
        let place = positions[sequence] as usize + step;
        let head = |n: usize| &given[(row * all + n) * dim..][..dim];
        for n in 0..heads {
            let expected = turned(head(n), &rotary, place.min(capacity - 1))?;
            let found = &found[(row * heads + n) * dim..][..dim];
            assert_near(
                found,
                &expected,
                spacing(dtype) * 2.,
                &format!("{what}: query {row}, head {n}"),
            );
        }
        for n in 0..kv_heads {
            if place >= capacity {
                continue;
            }
            let at = (sequence * kv_heads + n) * capacity + place;
            kept[at] = true;
            let expected = turned(head(heads + n), &rotary, place)?;
            assert_near(
                &keys[at * dim..][..dim],
                &expected,
                tolerance,
                &format!("{what}: key {row}, {n}"),
            );
            assert_eq!(
                &values[at * dim..][..dim],
                &given_kept[(row * all + heads + kv_heads + n) * dim..][..dim],
                "{what}: value {row}, {n}"
            );
        }
    }
    for (at, _) in kept.iter().enumerate().filter(|(_, kept)| !**kept) {
        let untouched = [&keys, &values]
            .iter()
            .all(|all| all[at * dim..][..dim].iter().all(|&x| x == 0.));
        assert!(untouched, "{what}: place {at} was written");
    }
    Ok(())
}

/// A cache whose keys and values were drawn, and queries.
struct Case {
    sizes: Sizes,
    steps: usize,
    dtypes: (DType, DType),
    positions: Vec<u32>,
    scores: Scores,
}

impl Case {
    fn run(&self, device: &Device) -> Result<()> {
        let Sizes {
            batch,
            heads,
            kv_heads,
            dim,
            capacity,
        } = self.sizes;
        let (dtype, kept_as) = self.dtypes;
        let what = format!(
            "{:?}, {} steps, {:?} at {:?}, {:?}, {:?}",
            self.sizes,
            self.steps,
            self.dtypes,
            self.positions,
            self.scores,
            device.location()
        );
        let mut random = Random::new((dim * 7 + capacity) as u64);
        let rotary = rotary(self.sizes, Pairs::Halves, dtype, device)?;
        let cache = KvCache::new((batch, kv_heads, capacity, dim), kept_as, device)?;
        let packed = drawn(
            &mut random,
            &[batch, capacity, (heads + 2 * kv_heads) * dim],
            dtype,
            device,
        )?;
        cache.append(&packed, &rotary, &Tensor::zeros(batch, DType::U32, device)?)?;
        let queries = drawn(&mut random, &[batch, self.steps, heads, dim], dtype, device)?;
        let position = Tensor::new(&self.positions[..], device)?;
        let result = cache.attend(&queries, &position, &self.scores)?;
        assert_eq!(result.shape(), queries.shape());
        assert_eq!(result.dtype(), dtype);
        let expected = self.expected(
            &rounded(&queries, kept_as)?,
            &numbers(&cache.keys(capacity)?)?,
            &numbers(&cache.values(capacity)?)?,
        )?;
        // Weights sum to 1 and values have variance 1: one rounding of the result, and of sums in f32 a few of each. Matrix
        // instructions take weights in the cache's dtype.
        let tolerance = spacing(kept_as).max(2f64.powi(-19));
        assert_near(&numbers(&result)?, &expected, tolerance, &what);
        Ok(())
    }

    fn expected(&self, queries: &[f64], keys: &[f64], values: &[f64]) -> Result<Vec<f64>> {
        let Sizes {
            batch,
            heads,
            kv_heads,
            dim,
            capacity,
        } = self.sizes;
        let slopes = self.scores.slopes.as_ref().map(numbers).transpose()?;
        let mut all = Vec::new();
        for row in 0..batch * self.steps {
            let (sequence, step) = (row / self.steps, row % self.steps);
            let last = self.positions[sequence] as usize + step;
            let end = (last + 1).min(capacity);
            let begin = self
                .scores
                .window
                .map_or(0, |window| end.saturating_sub(window));
            for head in 0..heads {
                let of = |all: &'_ [f64], key: usize| -> Vec<f64> {
                    let at = (sequence * kv_heads + head / (heads / kv_heads)) * capacity + key;
                    all[at * dim..][..dim].to_vec()
                };
                let query = &queries[(row * heads + head) * dim..][..dim];
                let scores: Vec<f64> = (begin..end)
                    .map(|key| {
                        let dot: f64 = query.iter().zip(of(keys, key)).map(|(a, b)| a * b).sum();
                        let score = dot * self.scores.scale;
                        let capped = self
                            .scores
                            .softcap
                            .map_or(score, |cap| cap * (score / cap).tanh());
                        capped
                            - slopes
                                .as_ref()
                                .map_or(0., |slopes| slopes[head] * (last - key) as f64)
                    })
                    .collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
                let sum: f64 = weights.iter().sum();
                let mut result = vec![0.; dim];
                for (weight, key) in weights.iter().zip(begin..end) {
                    for (to, value) in result.iter_mut().zip(of(values, key)) {
                        *to += weight / sum * value;
                    }
                }
                all.extend(result);
            }
        }
        Ok(all)
    }
}

#[test]
fn queries_attend_to_what_is_kept() -> Result<()> {
    for device in devices()? {
        let plain = |dim: usize| Scores::scaled(1. / (dim as f64).sqrt());
        let slopes = |heads: usize| -> Result<Option<Tensor>> {
            let all: Vec<f32> = (0..heads)
                .map(|head| 0.5f32.powi(head as i32 + 1))
                .collect();
            Ok(Some(Tensor::new(all, &device)?))
        };
        // Groups of 1, 3, 4, 7 and 8 heads; one part of keys and several; the first token, and one past the capacity.
        let cases = [
            (sizes(1, 4, 4, 64, 40), 1, vec![0], plain(64)),
            (sizes(2, 6, 2, 128, 150), 1, vec![149, 63], plain(128)),
            (sizes(1, 8, 2, 64, 300), 1, vec![299], plain(64)),
            (sizes(2, 7, 1, 24, 33), 2, vec![31, 7], plain(24)),
            (
                sizes(1, 8, 1, 80, 130),
                3,
                vec![100],
                Scores {
                    softcap: Some(2.),
                    ..plain(80)
                },
            ),
            (
                sizes(1, 4, 1, 256, 70),
                1,
                vec![68],
                Scores {
                    slopes: slopes(4)?,
                    ..plain(256)
                },
            ),
            (
                sizes(1, 3, 1, 512, 40),
                1,
                vec![39],
                Scores {
                    window: Some(17),
                    ..plain(512)
                },
            ),
            (
                sizes(2, 8, 2, 128, 200),
                1,
                vec![180, 10],
                Scores {
                    window: Some(70),
                    ..plain(128)
                },
            ),
            (sizes(1, 2, 2, 128, 20), 1, vec![17], plain(128)),
            (sizes(1, 2, 2, 256, 20), 1, vec![19], plain(256)),
            (sizes(1, 1, 1, 512, 20), 1, vec![3], plain(512)),
            (sizes(1, 2, 1, 8, 20), 2, vec![19], plain(8)),
            // More queries than workgroups can count by: another kernel puts their parts together.
            (sizes(1, 1, 1, 64, 300), 26, vec![270], plain(64)),
        ];
        for (sizes, steps, positions, scores) in cases {
            for dtypes in DTYPES {
                let (positions, scores) = (positions.clone(), scores.clone());
                Case {
                    sizes,
                    steps,
                    dtypes,
                    positions,
                    scores,
                }
                .run(&device)?;
            }
        }
    }
    Ok(())
}

/// The kernels of a call, and what it gives.
fn noted<T>(call: impl FnOnce() -> Result<T>) -> Result<(T, Vec<String>)> {
    let (done, noted) = recorded(call);
    Ok((done?, noted.kernels))
}

#[test]
fn a_step_in_one_launch_is_the_same() -> Result<()> {
    let device = common::device()?;
    let capped = |dim: usize| Scores {
        softcap: Some(3.),
        window: Some(50),
        ..Scores::scaled(1. / (dim as f64).sqrt())
    };
    // Groups of 1, 4, 6 and 9; first tokens, parts that begin with the new key, the last place and one beyond it.
    for (sizes, positions) in [
        (sizes(1, 4, 4, 64, 40), [0, 39]),
        (sizes(2, 8, 2, 128, 300), [64, 299]),
        // The first token of all: rows past its own are no numbers of the cache's.
        (sizes(1, 4, 1, 64, 40), [0, 3]),
        (sizes(1, 6, 1, 24, 200), [1, 128]),
        (sizes(2, 9, 1, 256, 70), [32, 70]),
        (sizes(1, 2, 1, 512, 40), [16, 33]),
        (sizes(1, 4, 1, 80, 600), [64, 599]),
    ] {
        let Sizes {
            batch,
            heads,
            kv_heads,
            dim,
            capacity,
        } = sizes;
        for (dtype, kept_as) in DTYPES {
            for pairs in [Pairs::Halves, Pairs::Neighbours] {
                let mut random = Random::new((dim + capacity) as u64);
                let width = (heads + 2 * kv_heads) * dim;
                let before = drawn(&mut random, &[batch, capacity, width], dtype, &device)?;
                let packed = drawn(&mut random, &[batch, 1, width], dtype, &device)?;
                let rotary = rotary(sizes, pairs, dtype, &device)?;
                let start = Tensor::zeros(batch, DType::U32, &device)?;
                let filled = || {
                    let cache = KvCache::new((batch, kv_heads, capacity, dim), kept_as, &device)?;
                    cache.append(&before, &rotary, &start)?;
                    Ok::<_, candle_core::Error>(cache)
                };
                let (one, two) = (filled()?, filled()?);
                let norms = HeadNorms {
                    queries: drawn(&mut random, &[dim], dtype, &device)?,
                    keys: drawn(&mut random, &[dim], dtype, &device)?,
                    epsilon: 1e-6,
                };
                for (scores, norms) in [
                    (Scores::scaled(0.1), None),
                    (capped(dim), None),
                    (Scores::scaled(0.02), Some(norms)),
                ] {
                    // Twice: counters are zeros again.
                    for first in positions {
                        let all: Vec<u32> =
                            (0..batch as u32).map(|n| first - n.min(first)).collect();
                        let position = Tensor::new(all, &device)?;
                        let what = format!(
                            "{sizes:?}, {dtype:?} in {kept_as:?}, {pairs:?}, {scores:?}, {} at {first}",
                            norms.is_some()
                        );
                        let (found, kernels) = noted(|| {
                            one.append_and_attend(
                                &packed,
                                norms.as_ref(),
                                &rotary,
                                &position,
                                &scores,
                            )
                        })?;
                        assert_eq!(kernels.len(), 1, "{what}: {kernels:?}");
                        let apart = match &norms {
                            Some(norms) => two.normed(&packed, norms)?,
                            None => packed.clone(),
                        };
                        let queries = two.append(&apart, &rotary, &position)?;
                        let expected = two.attend(&queries, &position, &scores)?;
                        let tolerance = match norms {
                            // Own keys come from LDS, and parts are put together in one order: the same numbers.
                            None => 0.,
                            // A sum of squares in another order may round what it norms, and attention's weights, otherwise.
                            Some(_) => 4. * spacing(kept_as),
                        };
                        assert_near(&numbers(&found)?, &numbers(&expected)?, tolerance, &what);
                        for of in [KvCache::keys, KvCache::values] {
                            let (one, two) = (of(&one, capacity)?, of(&two, capacity)?);
                            let what = format!("{what}: what is kept");
                            assert_near(&numbers(&one)?, &numbers(&two)?, tolerance, &what);
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn attention_leaves_a_quantised_vector() -> Result<()> {
    let device = common::device()?;
    // Groups of 1, 3 (of which a workgroup has a head too few), 4 and 9; heads of less than their kernel's row; and those
    // that are quantised apart, since heads or all together are no whole groups.
    for (sizes, position, launches) in [
        (sizes(1, 8, 8, 64, 40), 0u32, 1),
        (sizes(1, 12, 4, 64, 300), 299, 1),
        (sizes(1, 8, 2, 128, 700), 0, 1),
        (sizes(1, 8, 2, 128, 700), 64, 1),
        (sizes(1, 8, 2, 128, 700), 699, 1),
        (sizes(1, 9, 1, 256, 70), 32, 1),
        (sizes(1, 8, 2, 96, 300), 255, 1),
        (sizes(1, 4, 2, 96, 40), 5, 2),
        (sizes(1, 32, 8, 24, 40), 5, 2),
    ] {
        let Sizes {
            heads,
            kv_heads,
            dim,
            capacity,
            ..
        } = sizes;
        let what = format!("{sizes:?} at {position}");
        let mut random = Random::new((heads + dim) as u64);
        let width = (heads + 2 * kv_heads) * dim;
        let before = drawn(&mut random, &[1, capacity, width], DType::F32, &device)?;
        let packed = drawn(&mut random, &[1, 1, width], DType::F32, &device)?;
        let rotary = rotary(sizes, Pairs::Halves, DType::F32, &device)?;
        for kept_as in [DType::F32, DType::F16, DType::BF16] {
            let what = format!("{what} in {kept_as:?}");
            let cache = KvCache::new((1, kv_heads, capacity, dim), kept_as, &device)?;
            cache.append(&before, &rotary, &Tensor::zeros(1, DType::U32, &device)?)?;
            let at = Tensor::new(&[position], &device)?;
            let scores = Scores::scaled(0.1);
            let result = cache.append_and_attend(&packed, None, &rotary, &at, &scores)?;
            let expected = Q8_1Activations::of(&result.flatten_all()?)?;
            // Twice: counters are zeros again.
            for _ in 0..2 {
                let (found, kernels) =
                    noted(|| cache.append_and_attend_vector(&packed, None, &rotary, &at, &scores))?;
                assert_eq!(kernels.len(), launches, "{what}: {kernels:?}");
                assert_eq!(found.elements(), heads * dim, "{what}");
                let (found, expected) = (found.values()?, expected.values()?);
                assert_eq!(found.len(), expected.len(), "{what}");
                let of_f32 = numbers(&result)?;
                for ((x, y), exact) in found.iter().zip(&expected).zip(&of_f32) {
                    // Values of 16 bits lie midway between two steps at times, and the one kernel divides by the step, the other
                    // multiplies: either is as near, but for the f16 in which the step is kept.
                    let (from, other) = (f64::from(*x) - exact, f64::from(*y) - exact);
                    let tie = kept_as != DType::F32
                        && (from + other).abs() <= spacing(DType::F16) * exact.abs();
                    assert!(x == y || tie, "{what}: {x} instead of {y}, of {exact}");
                }
            }
        }
    }
    let two = KvCache::new((2, 1, 8, 64), DType::F32, &device)?;
    let rotary = rotary(sizes(1, 4, 1, 64, 8), Pairs::Halves, DType::F32, &device)?;
    let packed = Tensor::zeros((2, 1, 6 * 64), DType::F32, &device)?;
    let at = Tensor::zeros(2, DType::U32, &device)?;
    let several = two.append_and_attend_vector(&packed, None, &rotary, &at, &Scores::scaled(1.));
    let error = several.expect_err("two sequences").to_string();
    assert!(error.contains("1 tokens of 2 sequences"), "{error}");
    Ok(())
}

#[test]
fn a_captured_step_is_right_at_every_position() -> Result<()> {
    let (_, device) = (common::device()?, Device::new_rocm_with_stream(0)?);
    let sizes = sizes(2, 4, 2, 64, 12);
    let dtype = DType::F32;
    let mut random = Random::new(5);
    let packed: Vec<Tensor> = (0..6)
        .map(|_| drawn(&mut random, &[2, 1, 8 * 64], dtype, &device))
        .collect::<Result<_>>()?;
    let rotary = rotary(sizes, Pairs::Halves, dtype, &device)?;
    let scores = Scores::scaled(0.125);
    let one = Tensor::ones(2, DType::U32, &device)?;
    let new_cache = || KvCache::new((2, 2, 12, 64), dtype, &device);
    let step = |cache: &KvCache, packed: &Tensor, position: &Tensor| -> Result<Tensor> {
        cache.append_and_attend(packed, None, &rotary, position, &scores)
    };
    // One by one, with a position from the host.
    let cache = new_cache()?;
    let mut expected = Vec::new();
    for (n, packed) in packed.iter().enumerate() {
        let position = Tensor::new(&[n as u32, n as u32 + 3], &device)?;
        expected.push(numbers(&step(&cache, packed, &position)?)?);
    }
    // Captured once; the step moves the position on itself.
    let cache = new_cache()?;
    let (x, position) = (
        Input::new(&packed[0])?,
        Input::new(&Tensor::new(&[0u32, 3], &device)?)?,
    );
    let (first, captured) = Step::capture(&device, || {
        let result = step(&cache, x.tensor(), position.tensor())?;
        position.set(&(position.tensor() + &one)?)?;
        Ok(result)
    })?;
    assert_eq!(numbers(&first)?, expected[0]);
    for (packed, expected) in packed.iter().zip(&expected).skip(1) {
        x.set(packed)?;
        assert_eq!(&numbers(captured.run()?)?, expected);
    }
    assert_eq!(numbers(position.tensor())?, [6., 9.]);
    Ok(())
}

#[test]
fn what_does_not_fit_is_an_error_with_its_shape() -> Result<()> {
    let device = common::device()?;
    let cache = KvCache::new((1, 2, 8, 64), DType::F16, &device)?;
    let sizes = sizes(1, 4, 2, 64, 8);
    let angles = rotary(sizes, Pairs::Halves, DType::F16, &device)?;
    let position = Tensor::zeros(1, DType::U32, &device)?;
    let zeros = |shape: &[usize], dtype| Tensor::zeros(shape, dtype, &device);
    let packed = zeros(&[1, 1, 8 * 64], DType::F16)?;
    let short = Rotary {
        cos: angles.cos.narrow(0, 0, 4)?,
        ..angles.clone()
    };
    let queries = zeros(&[1, 1, 4, 64], DType::F16)?;
    let scaled = Scores::scaled(0.1);
    let wide = rotary(sizes, Pairs::Halves, DType::F32, &device)?;
    let norms = HeadNorms {
        queries: zeros(&[64], DType::F16)?,
        keys: zeros(&[64], DType::F32)?,
        epsilon: 1e-5,
    };
    let errors = [
        (
            KvCache::new((1, 2, 8, 12), DType::F16, &device).err(),
            "in steps of 8, not 12",
        ),
        (
            KvCache::new((1, 2, 8, 64), DType::F64, &device).err(),
            "not F64",
        ),
        (
            KvCache::new((1, 0, 8, 64), DType::F16, &device).err(),
            "holds nothing",
        ),
        (
            cache
                .append(&zeros(&[1, 1, 7 * 64], DType::F16)?, &angles, &position)
                .err(),
            "[1, 1, 448]",
        ),
        (
            cache
                .append(&packed.to_dtype(DType::BF16)?, &angles, &position)
                .err(),
            "BF16, and a cache of 1 sequences, 2 heads of 64 and F16: they must be (batch, steps, (heads + 2 kv_heads) * dim), \
             of the cache's dtype or F32",
        ),
        (
            cache
                .append(&packed.to_dtype(DType::F32)?, &angles, &position)
                .err(),
            "and F32, as the packed heads",
        ),
        (
            cache
                .attend(&queries.to_dtype(DType::F64)?, &position, &scaled)
                .err(),
            "of the cache's dtype or F32",
        ),
        (
            cache
                .append_and_attend(&packed.to_dtype(DType::F32)?, Some(&norms), &wide, &position, &scaled)
                .err(),
            "the queries' norm has shape [64] and F16, and must be contiguous, [64] and F32",
        ),
        (
            cache
                .append_and_attend_prompt(&packed, None, &angles, (&position, 8), &scaled)
                .err(),
            "append_and_attend_prompt: 1 tokens after 8",
        ),
        (
            cache.append(&packed, &short, &position).err(),
            "at least 8 positions",
        ),
        (
            cache
                .append(&packed, &angles, &zeros(&[2], DType::U32)?)
                .err(),
            "must be contiguous, [1] and U32",
        ),
        (
            cache
                .attend(&zeros(&[1, 1, 3, 64], DType::F16)?, &position, &scaled)
                .err(),
            "[1, 1, 3, 64]",
        ),
        (
            cache
                .attend(&queries, &zeros(&[1], DType::I64)?, &scaled)
                .err(),
            "I64",
        ),
        (
            cache
                .attend(
                    &queries,
                    &position,
                    &Scores {
                        window: Some(0),
                        ..scaled.clone()
                    },
                )
                .err(),
            "a window of 0",
        ),
    ];
    for (error, expected) in errors {
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "`{error}` lacks `{expected}`");
    }
    // Nothing to do.
    assert_eq!(
        cache
            .append(&zeros(&[1, 0, 8 * 64], DType::F16)?, &angles, &position)?
            .dims(),
        [1, 0, 4, 64]
    );
    for dtype in [DType::F16, DType::F32] {
        let result = cache.attend(&zeros(&[1, 0, 4, 64], dtype)?, &position, &scaled)?;
        assert_eq!((result.dims(), result.dtype()), (&[1, 0, 4, 64][..], dtype));
    }
    let none = cache.append_and_attend_prompt(
        &zeros(&[1, 0, 8 * 64], DType::F32)?,
        None,
        &wide,
        (&position, 3),
        &scaled,
    )?;
    assert_eq!(
        (none.dims(), none.dtype()),
        (&[1, 0, 4, 64][..], DType::F32)
    );
    Ok(())
}

#[test]
fn a_prompt_attends_as_its_tokens_do() -> Result<()> {
    let sizes = sizes(2, 6, 2, 40, 60);
    let Sizes {
        batch,
        heads,
        kv_heads,
        dim,
        capacity,
    } = sizes;
    let (first, steps) = (21, 35);
    let plain = Scores::scaled(1. / (dim as f64).sqrt());
    let windowed = Scores {
        window: Some(9),
        softcap: Some(2.),
        ..plain.clone()
    };
    for device in devices()? {
        for dtypes in DTYPES {
            let (dtype, kept_as) = dtypes;
            let mut random = Random::new(77);
            let width = (heads + 2 * kv_heads) * dim;
            let before = drawn(&mut random, &[batch, first, width], dtype, &device)?;
            let packed = drawn(&mut random, &[batch, steps, width], dtype, &device)?;
            let rotary = rotary(sizes, Pairs::Neighbours, dtype, &device)?;
            let norms = HeadNorms {
                queries: drawn(&mut random, &[dim], dtype, &device)?,
                keys: drawn(&mut random, &[dim], dtype, &device)?,
                epsilon: 1e-6,
            };
            let at = |place: u32| Tensor::new(vec![place; batch], &device);
            for (scores, norms) in [(&plain, None), (&windowed, Some(&norms))] {
                let cache = KvCache::new((batch, kv_heads, capacity, dim), kept_as, &device)?;
                cache.append(&before, &rotary, &at(0)?)?;
                let position = (&at(first as u32)?, first);
                let found =
                    cache.append_and_attend_prompt(&packed, norms, &rotary, position, scores)?;
                assert_eq!(found.dims(), [batch, steps, heads, dim]);
                assert_eq!(found.dtype(), dtype);
                let normed = norms
                    .map(|norms| cache.normed(&packed, norms))
                    .transpose()?;
                let normed = normed.as_ref().unwrap_or(&packed);
                let queries = cache.append(normed, &rotary, &at(first as u32)?)?;
                let expected = Case {
                    sizes,
                    steps,
                    dtypes,
                    positions: vec![first as u32; batch],
                    scores: scores.clone(),
                }
                .expected(
                    &rounded(&queries, kept_as)?,
                    &numbers(&cache.keys(capacity)?)?,
                    &numbers(&cache.values(capacity)?)?,
                )?;
                // Weights and the result are rounded to the cache's dtype.
                let tolerance = (2. * spacing(kept_as)).max(2f64.powi(-19));
                let what = format!("{dtypes:?}, {scores:?}, {:?}", device.location());
                assert_near(&numbers(&found)?, &expected, tolerance, &what);
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_beyond_the_range_of_16_bits_is_kept_as_the_largest() -> Result<()> {
    let sizes = sizes(1, 1, 1, 8, 4);
    let (most_f16, most_bf16) = (65504., f64::from(f32::from_bits(0x7f7f_0000)));
    // What bf16 has between the largest and infinity.
    let above = f32::from_bits(0x7f7f_ffff);
    let given = [
        65519.,
        -65521.,
        1e6,
        -1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        above,
        f32::NAN,
    ];
    let f16 = [1., -1., 1., -1., 1., -1., 1., f64::NAN].map(|sign| sign * most_f16);
    // 65,519 and 65,521 are 65,536, and 1e6 is 999,424, with 8 bits.
    let mut bf16 = [
        65536.,
        -65536.,
        999_424.,
        0.,
        most_bf16,
        -most_bf16,
        most_bf16,
        f64::NAN,
    ];
    bf16[3] = rounded(&Tensor::new(&[-1e30f32], &Device::Cpu)?, DType::BF16)?[0];
    let same = |found: &[f64], expected: &[f64]| {
        let pairs = found.iter().zip(expected);
        found.len() == expected.len()
            && pairs
                .into_iter()
                .all(|(x, y)| x == y || x.is_nan() && y.is_nan())
    };
    for device in devices()? {
        for (kept_as, expected) in [(DType::F16, f16), (DType::BF16, bf16)] {
            // Angles of zero: keys are what they were, but for infinities and NaN, which the angles' products spread in pairs.
            let rotary = Rotary {
                cos: Tensor::ones((4, 4), DType::F32, &device)?,
                sin: Tensor::zeros((4, 4), DType::F32, &device)?,
                pairs: Pairs::Neighbours,
            };
            let finite = given.map(|x| if x.is_finite() { x } else { 1. });
            let packed = [[0f32; 8], finite, given].concat();
            let packed = Tensor::from_vec(packed, (1, 1, 24), &Device::Cpu)?.to_device(&device)?;
            let position = Tensor::zeros(1, DType::U32, &device)?;
            let (one, two) = (
                KvCache::new((1, 1, 4, 8), kept_as, &device)?,
                KvCache::new((1, 1, 4, 8), kept_as, &device)?,
            );
            one.append(&packed, &rotary, &position)?;
            let scores = Scores::scaled(1.);
            two.append_and_attend(&packed, None, &rotary, &position, &scores)?;
            let of_finite: Vec<f64> = expected
                .into_iter()
                .zip(given)
                .map(|(y, x)| if x.is_finite() { y } else { 1. })
                .collect();
            for cache in [&one, &two] {
                let (keys, values) = (numbers(&cache.keys(1)?)?, numbers(&cache.values(1)?)?);
                assert!(
                    same(&keys, &of_finite),
                    "{sizes:?}, {kept_as:?}: keys {keys:?}"
                );
                assert!(same(&values, &expected), "{kept_as:?}: values {values:?}");
            }
            // Queries: a large one is as the largest, and finds its key.
            let large = Tensor::full(1e8f32, (1, 1, 1, 8), &device)?;
            let most = Tensor::full(expected[6] as f32, (1, 1, 1, 8), &device)?;
            if kept_as == DType::F16 {
                let scores = Scores::scaled(1e-9);
                let found = |queries: &Tensor| numbers(&one.attend(queries, &position, &scores)?);
                assert!(same(&found(&large)?, &found(&most)?), "{kept_as:?}");
            }
        }
    }
    Ok(())
}
