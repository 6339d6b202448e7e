//! A cache of keys and values, and the attention of few queries to it, against plain Rust in f64.

mod common;

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::graph::{recorded, Input, Step};
use candle_rocm_backend::ops::{HeadNorms, KvCache, Pairs, QuantizedVector, Rotary, Scores};
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
            for dtype in [DType::F16, DType::BF16, DType::F32] {
                for pairs in [Pairs::Halves, Pairs::Neighbours] {
                    let sizes = Sizes {
                        batch: 2,
                        heads,
                        kv_heads,
                        dim,
                        capacity: 9,
                    };
                    append_case(sizes, [1, 3][n % 2], dtype, pairs, &device)?;
                }
            }
        }
    }
    Ok(())
}

fn append_case(
    sizes: Sizes,
    steps: usize,
    dtype: DType,
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
        "{sizes:?}, {steps} steps, {dtype:?}, {pairs:?}, {:?}",
        device.location()
    );
    let mut random = Random::new(dim as u64);
    let rotary = rotary(sizes, pairs, dtype, device)?;
    let cache = KvCache::new((batch, kv_heads, capacity, dim), dtype, device)?;
    let all = heads + 2 * kv_heads;
    // The second sequence's last steps do not fit, where there are several.
    let positions = [2, capacity as u32 - 2];
    let packed = drawn(&mut random, &[batch, steps, all * dim], dtype, device)?;
    let queries = cache.append(&packed, &rotary, &Tensor::new(&positions, device)?)?;
    assert_eq!(queries.dims(), [batch, steps, heads, dim]);
    let (found, given) = (numbers(&queries)?, numbers(&packed)?);
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
                spacing(dtype) * 2.,
                &format!("{what}: key {row}, {n}"),
            );
            assert_eq!(
                &values[at * dim..][..dim],
                head(heads + kv_heads + n),
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
    dtype: DType,
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
        let what = format!(
            "{:?}, {} steps, {:?} at {:?}, {:?}, {:?}",
            self.sizes,
            self.steps,
            self.dtype,
            self.positions,
            self.scores,
            device.location()
        );
        let mut random = Random::new((dim * 7 + capacity) as u64);
        let rotary = rotary(self.sizes, Pairs::Halves, self.dtype, device)?;
        let cache = KvCache::new((batch, kv_heads, capacity, dim), self.dtype, device)?;
        let packed = drawn(
            &mut random,
            &[batch, capacity, (heads + 2 * kv_heads) * dim],
            self.dtype,
            device,
        )?;
        cache.append(&packed, &rotary, &Tensor::zeros(batch, DType::U32, device)?)?;
        let queries = drawn(
            &mut random,
            &[batch, self.steps, heads, dim],
            self.dtype,
            device,
        )?;
        let position = Tensor::new(&self.positions[..], device)?;
        let result = cache.attend(&queries, &position, &self.scores)?;
        assert_eq!(result.shape(), queries.shape());
        let expected = self.expected(
            &numbers(&queries)?,
            &numbers(&cache.keys(capacity)?)?,
            &numbers(&cache.values(capacity)?)?,
        )?;
        // Weights sum to 1 and values have variance 1: one rounding of the result, and of sums in f32 a few of each.
        let tolerance = spacing(self.dtype).max(2f64.powi(-19));
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
    let sizes = |batch, heads, kv_heads, dim, capacity| Sizes {
        batch,
        heads,
        kv_heads,
        dim,
        capacity,
    };
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
            for dtype in [DType::F16, DType::BF16, DType::F32] {
                let (positions, scores) = (positions.clone(), scores.clone());
                Case {
                    sizes,
                    steps,
                    dtype,
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
    let sizes = |batch, heads, kv_heads, dim, capacity| Sizes {
        batch,
        heads,
        kv_heads,
        dim,
        capacity,
    };
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
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            for pairs in [Pairs::Halves, Pairs::Neighbours] {
                let mut random = Random::new((dim + capacity) as u64);
                let width = (heads + 2 * kv_heads) * dim;
                let before = drawn(&mut random, &[batch, capacity, width], dtype, &device)?;
                let packed = drawn(&mut random, &[batch, 1, width], dtype, &device)?;
                let rotary = rotary(sizes, pairs, dtype, &device)?;
                let start = Tensor::zeros(batch, DType::U32, &device)?;
                let filled = || {
                    let cache = KvCache::new((batch, kv_heads, capacity, dim), dtype, &device)?;
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
                            "{sizes:?}, {dtype:?}, {pairs:?}, {scores:?}, {} at {first}",
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
                            Some(_) => 4. * spacing(dtype),
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
    let sizes = |heads, kv_heads, dim, capacity| Sizes {
        batch: 1,
        heads,
        kv_heads,
        dim,
        capacity,
    };
    // Groups of 1, 3 (of which a workgroup has a head too few), 4 and 9; heads of less than their kernel's row; and those
    // that are quantised apart, since heads or all together are no whole groups.
    for (sizes, position, launches) in [
        (sizes(8, 8, 64, 40), 0u32, 1),
        (sizes(12, 4, 64, 300), 299, 1),
        (sizes(8, 2, 128, 700), 64, 1),
        (sizes(8, 2, 128, 700), 699, 1),
        (sizes(9, 1, 256, 70), 32, 1),
        (sizes(8, 2, 96, 300), 255, 1),
        (sizes(4, 2, 96, 40), 5, 2),
        (sizes(32, 8, 24, 40), 5, 2),
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
        let cache = KvCache::new((1, kv_heads, capacity, dim), DType::F32, &device)?;
        cache.append(&before, &rotary, &Tensor::zeros(1, DType::U32, &device)?)?;
        let at = Tensor::new(&[position], &device)?;
        let scores = Scores::scaled(0.1);
        let result = cache.append_and_attend(&packed, None, &rotary, &at, &scores)?;
        let expected = QuantizedVector::of(&result.flatten_all()?)?;
        // Twice: counters are zeros again.
        for _ in 0..2 {
            let (found, kernels) =
                noted(|| cache.append_and_attend_vector(&packed, None, &rotary, &at, &scores))?;
            assert_eq!(kernels.len(), launches, "{what}: {kernels:?}");
            assert_eq!(found.elements(), heads * dim, "{what}");
            assert_eq!(found.values()?, expected.values()?, "{what}");
        }
    }
    let two = KvCache::new((2, 1, 8, 64), DType::F32, &device)?;
    let rotary = rotary(sizes(4, 1, 64, 8), Pairs::Halves, DType::F32, &device)?;
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
    let sizes = Sizes {
        batch: 2,
        heads: 4,
        kv_heads: 2,
        dim: 64,
        capacity: 12,
    };
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
    let sizes = Sizes {
        batch: 1,
        heads: 4,
        kv_heads: 2,
        dim: 64,
        capacity: 8,
    };
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
                .append(&packed.to_dtype(DType::F32)?, &angles, &position)
                .err(),
            "F32",
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
    assert_eq!(
        cache
            .attend(&zeros(&[1, 0, 4, 64], DType::F16)?, &position, &scaled)?
            .dims(),
        [1, 0, 4, 64]
    );
    Ok(())
}
