//! Mixtures of experts: gates and places beside plain Rust, layers and their gradients beside Candle's CPU and f64.

mod common;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_rocm_backend::fp8::{self, ScaleFormat};
use candle_rocm_backend::moe::{self, Choice, Gate, GroupScore, Groups, Routing, Score};
use candle_rocm_testing::activations::sigmoid;
use common::{device, normal, numbers, Random};

fn drawn(random: &mut Random, dims: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::from_vec(normal(random, dims.iter().product()), dims, device)
}

const PLAIN: Gate = Gate {
    score: Score::Softmax,
    top: 2,
    groups: None,
    normalise: false,
    factor: 1.,
};

/// Mixtral's, Qwen's, DeepSeek-V2's and DeepSeek-V3's, and odd ones.
fn gates() -> Vec<(Gate, usize, bool)> {
    let groups = |count, top, by| Some(Groups { count, top, by });
    vec![
        (
            Gate {
                normalise: true,
                ..PLAIN
            },
            8,
            false,
        ),
        (
            Gate {
                top: 8,
                normalise: true,
                ..PLAIN
            },
            128,
            false,
        ),
        (
            Gate {
                top: 6,
                groups: groups(8, 3, GroupScore::Best),
                factor: 16.,
                ..PLAIN
            },
            160,
            false,
        ),
        (
            Gate {
                score: Score::Sigmoid,
                top: 8,
                groups: groups(8, 4, GroupScore::BestTwo),
                normalise: true,
                factor: 2.5,
            },
            256,
            true,
        ),
        (Gate { top: 1, ..PLAIN }, 1, false),
        // Groups in the ways in which kernels by fours have them, and no groups.
        (
            Gate {
                score: Score::Sigmoid,
                top: 5,
                groups: groups(5, 2, GroupScore::BestTwo),
                ..PLAIN
            },
            60,
            true,
        ),
        (
            Gate {
                top: 7,
                groups: groups(8, 3, GroupScore::BestTwo),
                normalise: true,
                ..PLAIN
            },
            384,
            true,
        ),
        (
            Gate {
                score: Score::Sigmoid,
                top: 9,
                groups: groups(4, 2, GroupScore::Best),
                ..PLAIN
            },
            480,
            false,
        ),
        (
            Gate {
                top: 4,
                groups: groups(8, 2, GroupScore::Best),
                ..PLAIN
            },
            128,
            true,
        ),
        (
            Gate {
                score: Score::Sigmoid,
                top: 16,
                groups: groups(8, 3, GroupScore::BestTwo),
                normalise: true,
                factor: 1.5,
            },
            512,
            true,
        ),
        (
            Gate {
                score: Score::Sigmoid,
                top: 8,
                normalise: true,
                ..PLAIN
            },
            384,
            true,
        ),
        (Gate { top: 6, ..PLAIN }, 64, false),
        (Gate { top: 12, ..PLAIN }, 60, false),
        (
            Gate {
                top: 32,
                score: Score::Sigmoid,
                ..PLAIN
            },
            500,
            true,
        ),
        (
            Gate {
                top: 3,
                groups: groups(7, 1, GroupScore::BestTwo),
                ..PLAIN
            },
            21,
            true,
        ),
    ]
}

#[test]
fn gates_choose_as_the_rule_says() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(21);
    for (gate, experts, has_bias) in gates() {
        for (tokens, dtype) in [(1, DType::F32), (13, DType::BF16), (8, DType::F16)] {
            let logits = drawn(&mut random, &[tokens, experts], &Device::Cpu)?.to_dtype(dtype)?;
            let bias = has_bias
                .then(|| drawn(&mut random, &[experts], &Device::Cpu))
                .transpose()?;
            let what = format!("{gate:?} of {experts}, {tokens} tokens of {dtype:?}");
            let host = gate.choose(&logits, bias.as_ref())?;
            let on_gpu = bias
                .as_ref()
                .map(|bias| bias.to_device(&device))
                .transpose()?;
            let gpu = gate.choose(&logits.to_device(&device)?, on_gpu.as_ref())?;
            for choice in [&host, &gpu] {
                check_choice(
                    &gate,
                    &numbers(&logits)?,
                    bias.as_ref(),
                    choice,
                    experts,
                    &what,
                )?;
            }
        }
    }
    Ok(())
}

/// In f64: each choice is the best of what is left but for rounding, and weights are the scores.
fn check_choice(
    gate: &Gate,
    logits: &[f64],
    bias: Option<&Tensor>,
    choice: &Choice,
    experts: usize,
    what: &str,
) -> Result<()> {
    let chosen = numbers(&choice.experts)?;
    let weights = numbers(&choice.weights)?;
    let bias = bias.map(numbers).transpose()?;
    for (token, logits) in logits.chunks(experts).enumerate() {
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|x| (x - largest).exp()).sum();
        let score = |x: f64| match gate.score {
            Score::Softmax => (x - largest).exp() / sum,
            Score::Sigmoid => sigmoid(x),
        };
        let scores: Vec<f64> = logits.iter().map(|&x| score(x)).collect();
        let choices: Vec<f64> = scores
            .iter()
            .enumerate()
            .map(|(e, s)| s + bias.as_ref().map_or(0., |b| b[e]))
            .collect();
        let mut open = vec![true; experts];
        if let Some(groups) = gate.groups {
            let each = experts / groups.count;
            let mut ranks: Vec<(f64, usize)> = choices
                .chunks(each)
                .enumerate()
                .map(|(group, of)| {
                    let mut sorted = of.to_vec();
                    sorted.sort_by(|a, b| b.total_cmp(a));
                    let second = if groups.by == GroupScore::BestTwo && each > 1 {
                        sorted[1]
                    } else {
                        0.
                    };
                    (sorted[0] + second, group)
                })
                .collect();
            ranks.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (_, group) in &ranks[groups.top..] {
                open[group * each..][..each].fill(false);
            }
        }
        let mine = &chosen[token * gate.top..][..gate.top];
        let all: f64 = mine.iter().map(|&e| scores[e as usize]).sum();
        for (i, &expert) in mine.iter().enumerate() {
            let expert = expert as usize;
            let best = (0..experts)
                .filter(|&e| open[e])
                .map(|e| choices[e])
                .fold(f64::NEG_INFINITY, f64::max);
            // f32's exponential and sums: a few units in the last place.
            assert!(
                open[expert] && choices[expert] >= best - 1e-6,
                "{what}, token {token}: expert {expert} is choice {i}"
            );
            open[expert] = false;
            let expected =
                scores[expert] * f64::from(gate.factor) / if gate.normalise { all } else { 1. };
            let found = weights[token * gate.top + i];
            assert!(
                (found - expected).abs() <= 2e-6 * expected + 1e-30,
                "{what}, token {token}: {found} for {expected}"
            );
        }
    }
    Ok(())
}

#[test]
fn what_is_not_a_number_is_chosen_last_and_ties_by_number() -> Result<()> {
    let device = device()?;
    let logits = Tensor::new(&[[1f32, f32::NAN, 1., 0., f32::NEG_INFINITY, 1.]], &device)?;
    let gate = Gate {
        score: Score::Sigmoid,
        top: 6,
        ..PLAIN
    };
    let chosen = gate.choose(&logits, None)?.experts.to_vec2::<u32>()?;
    assert_eq!(chosen, [[0, 2, 5, 3, 4, 1]]);
    Ok(())
}

/// Many of one choice, of one lane's experts or of all, in as many ways as kernels hold experts, beside the rule itself.
#[test]
fn many_that_are_equal_are_chosen_by_number() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(25);
    for (experts, top, grouped) in [
        (8, 2, false),
        (64, 8, false),
        (128, 8, true),
        (160, 6, true),
        (384, 8, false),
        (256, 8, false),
        (256, 8, true),
        (512, 16, true),
        (100, 5, false),
        (500, 32, false),
    ] {
        let groups = grouped.then_some(Groups {
            count: 8,
            top: 4,
            by: GroupScore::BestTwo,
        });
        let gate = Gate {
            score: Score::Sigmoid,
            top,
            groups,
            ..PLAIN
        };
        // All one; few numbers; those of one lane the largest; what is no number among them; infinite ones.
        let rows: Vec<Vec<f32>> = (0..12)
            .map(|row| {
                (0..experts)
                    .map(|e| match row {
                        0 => 0.,
                        1 => f32::NAN,
                        2 if e / 4 % 4 == 1 => 1. + e as f32 / 1024.,
                        3 if e / 4 % 8 == 5 => 1. - e as f32 / 1024.,
                        4 if random.below(2) == 0 => f32::NAN,
                        5 => [f32::INFINITY, f32::NEG_INFINITY, 0.][random.below(3)],
                        6 => e as f32 / 64. - 4.,
                        // Some are beyond those that are equal.
                        7 if e % 50 == 49 => 1. + (e % 7) as f32,
                        7 => 0.,
                        // All of one lane's beyond all others.
                        8 if e / 4 % 8 == 3 => 2. + (e * 29 % 64) as f32 / 64.,
                        _ => random.below(3 + row) as f32 / 4. - 1.,
                    })
                    .collect()
            })
            .collect();
        let logits = Tensor::new(rows, &device)?;
        for dtype in [DType::F32, DType::BF16] {
            let logits = logits.to_dtype(dtype)?;
            let found = gate.choose(&logits, None)?.experts.to_vec2::<u32>()?;
            let expected = gate.choose(&logits.to_device(&Device::Cpu)?, None)?;
            let expected = expected.experts.to_vec2::<u32>()?;
            for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(
                    found, expected,
                    "{top} of {experts}, row {row} of {dtype:?}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn rows_lie_by_experts_in_the_tokens_order_and_come_back() -> Result<()> {
    let gpu = device()?;
    let mut random = Random::new(22);
    for (tokens, top, experts) in [
        (1, 1, 1),
        (5, 2, 4),
        (300, 2, 3),
        (33, 8, 64),
        (1000, 1, 2),
        // By chunks.
        (4321, 2, 7),
        (1100, 8, 300),
    ] {
        // One beyond the experts now and then.
        let chosen: Vec<u32> = (0..tokens * top)
            .map(|_| random.below(experts + experts.min(2) / 2) as u32)
            .collect();
        let columns = 24;
        let x = normal(&mut random, tokens * columns);
        let weights = normal(&mut random, tokens * top);
        let addend = normal(&mut random, tokens * columns);
        for device in [Device::Cpu, gpu.clone()] {
            let what = format!(
                "{tokens} tokens, {top} of {experts}, {:?}",
                device.location()
            );
            let routing = Routing::new(
                &Tensor::from_vec(chosen.clone(), (tokens, top), &device)?,
                experts,
            )?;
            let places = numbers(routing.places())?;
            let starts = numbers(routing.groups().starts())?;
            let rows = routing.groups().rows();
            assert_eq!(starts.len(), experts + 1, "{what}");
            // Of each expert, its assignments in their order from its beginning on, which are aligned and far enough apart.
            let mut expected = vec![-1.; tokens * top];
            let mut first = 0;
            for (expert, &start) in starts[..experts].iter().enumerate() {
                assert_eq!(start, first as f64, "{what}");
                let of_expert = (0..tokens * top).filter(|&i| chosen[i] as usize == expert);
                let mut count = 0usize;
                for i in of_expert {
                    expected[i] = (first + count) as f64;
                    count += 1;
                }
                first += count.next_multiple_of(128);
            }
            assert_eq!(starts[experts], first as f64, "{what}");
            assert!(first <= rows && places == expected, "{what}");
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                let of = |values: &[f32], columns: usize| -> Result<Tensor> {
                    Tensor::from_vec(values.to_vec(), (tokens, columns), &device)?.to_dtype(dtype)
                };
                let (x, addend) = (of(&x, columns)?, of(&addend, columns)?);
                let gathered = routing.gather(&x)?;
                assert_eq!(gathered.dims(), [rows, columns]);
                let (of_x, of_rows) = (numbers(&x)?, numbers(&gathered)?);
                let mut in_use = vec![false; rows];
                for (i, &place) in places.iter().enumerate().filter(|(_, place)| **place >= 0.) {
                    let row = place as usize;
                    in_use[row] = true;
                    assert!(
                        of_rows[row * columns..][..columns] == of_x[i / top * columns..][..columns],
                        "{what}, row {row}"
                    );
                }
                for row in (0..rows).filter(|&row| !in_use[row]) {
                    assert!(
                        of_rows[row * columns..][..columns].iter().all(|&x| x == 0.),
                        "{what}, row {row}"
                    );
                }
                let factors = Tensor::from_vec(weights.clone(), (tokens, top), &device)?;
                let found = numbers(&routing.combine(&gathered, Some(&factors), Some(&addend))?)?;
                let more = numbers(&addend)?;
                for (at, found) in found.iter().enumerate() {
                    let token = at / columns;
                    let of_token = (token * top..(token + 1) * top).filter(|&i| places[i] >= 0.);
                    let (mut sum, mut magnitude) = (more[at], more[at].abs());
                    for i in of_token {
                        sum += of_x[at] * f64::from(weights[i]);
                        magnitude += (of_x[at] * f64::from(weights[i])).abs();
                    }
                    let last = match dtype {
                        DType::F32 => 2f64.powi(-24),
                        DType::F16 => 2f64.powi(-11),
                        _ => 2f64.powi(-8),
                    };
                    let bound = (top + 2) as f64 * 2f64.powi(-24) * magnitude
                        + 1.01 * last * sum.abs()
                        + 1e-7;
                    assert!(
                        (found - sum).abs() <= bound,
                        "{what}, {dtype:?}, element {at}: {found} for {sum}"
                    );
                }
                for format in [
                    ScaleFormat::F32,
                    ScaleFormat::PowersOfTwo,
                    ScaleFormat::PackedPowersOfTwo,
                ] {
                    let cast = routing.gather_cast(&x, format)?;
                    let same = fp8::cast_per_token(&gathered, format)?;
                    assert!(
                        numbers(&cast.dequantize(DType::F32)?)?
                            == numbers(&same.dequantize(DType::F32)?)?,
                        "{what}, {format:?}"
                    );
                    // What is nobody's as well: factors of zeros.
                    let factors = |of: &fp8::Fp8Matrix| of.scales().force_contiguous();
                    let [found, expected] = [factors(&cast)?, factors(&same)?].map(|x| {
                        let bytes = x.flatten_all()?.to_dtype(DType::F64)?;
                        bytes.to_vec1::<f64>()
                    });
                    assert!(found? == expected?, "{what}, {format:?}");
                }
            }
        }
    }
    Ok(())
}

/// A layer's parameters and what goes in, as variables: x, logits, gate_up, down, addend.
fn layer(random: &mut Random, device: &Device) -> Result<Vec<Var>> {
    let (tokens, experts, hidden, inner) = (20, 4, 32, 24);
    let dims: [&[usize]; 5] = [
        &[tokens, hidden],
        &[tokens, experts],
        &[experts, 2 * inner, hidden],
        &[experts, hidden, inner],
        &[tokens, hidden],
    ];
    dims.iter()
        .enumerate()
        .map(|(i, dims)| {
            let scale = if i == 2 || i == 3 { 0.2 } else { 1. };
            let x = (drawn(random, dims, device)? * scale)?;
            // Logits stay f32, that both devices choose alike.
            Var::from_tensor(&if i == 1 { x } else { x.to_dtype(DType::BF16)? })
        })
        .collect()
}

/// The layer token by token, by Candle's own operators in f64.
fn exact(vars: &[Tensor], gate: &Gate, chosen: &[Vec<u32>]) -> Result<Tensor> {
    let [x, logits, gate_up, down, addend] = vars else {
        panic!("five")
    };
    let scores = candle_nn::ops::softmax(logits, 1)?;
    let inner = down.dims()[2];
    let mut all = Vec::new();
    for (token, experts) in chosen.iter().enumerate() {
        let row = x.narrow(0, token, 1)?;
        let of = Tensor::new(&experts[..], x.device())?;
        let weights = scores.narrow(0, token, 1)?.index_select(&of, 1)?;
        let weights = if gate.normalise {
            weights.broadcast_div(&weights.sum_keepdim(1)?)?
        } else {
            weights
        };
        let mut sum = addend.narrow(0, token, 1)?;
        for (i, &expert) in experts.iter().enumerate() {
            let both = row.matmul(&gate_up.get(expert as usize)?.t()?)?;
            let made = (both.narrow(1, 0, inner)?.silu()? * both.narrow(1, inner, inner)?)?;
            let made = made.matmul(&down.get(expert as usize)?.t()?)?;
            sum = (sum + made.broadcast_mul(&weights.narrow(1, i, 1)?)?)?;
        }
        all.push(sum);
    }
    Tensor::cat(&all, 0)
}

#[test]
fn a_layer_and_its_gradients_are_those_of_each_token_by_itself() -> Result<()> {
    let device = device()?;
    let gate = Gate {
        normalise: true,
        ..PLAIN
    };
    let vars = layer(&mut Random::new(23), &device)?;
    let weights = drawn(&mut Random::new(24), &[20, 32], &Device::Cpu)?;
    let choice = gate.choose(vars[1].as_tensor(), None)?;
    let chosen = choice.experts.to_vec2::<u32>()?;
    let [x, _, gate_up, down, addend] = &vars[..] else {
        panic!("five")
    };
    let found = moe::forward(
        x.as_tensor(),
        &choice,
        gate_up.as_tensor(),
        down.as_tensor(),
        Some(addend.as_tensor()),
    )?;
    let loss = (found.to_dtype(DType::F32)? * weights.to_device(&device)?)?.sum_all()?;
    let gradients = loss.backward()?;

    let host: Vec<Var> = vars
        .iter()
        .map(|var| {
            Var::from_tensor(
                &var.as_tensor()
                    .to_device(&Device::Cpu)?
                    .to_dtype(DType::F64)?,
            )
        })
        .collect::<Result<_>>()?;
    let tensors: Vec<Tensor> = host.iter().map(|var| var.as_tensor().clone()).collect();
    let expected = exact(&tensors, &gate, &chosen)?;
    let expected_gradients = (&expected * weights.to_dtype(DType::F64)?)?
        .sum_all()?
        .backward()?;
    // bf16 between the steps: some 2^-8 of each result's size for each of five roundings.
    let near = |found: &Tensor, expected: &Tensor, what: &str| -> Result<()> {
        let (found, expected) = (numbers(found)?, numbers(expected)?);
        let size = (expected.iter().map(|x| x * x).sum::<f64>() / expected.len() as f64).sqrt();
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let allowed = 5. * 2f64.powi(-8) * (size + expected.abs());
            assert!(
                (found - expected).abs() <= allowed,
                "{what}, {at}: {found} for {expected}, {allowed} allowed"
            );
        }
        Ok(())
    };
    near(&found, &expected, "the layer")?;
    for (i, what) in ["x", "logits", "gate_up", "down", "addend"]
        .into_iter()
        .enumerate()
    {
        let of = gradients.get(vars[i].as_tensor()).expect("a gradient");
        let expected = expected_gradients
            .get(host[i].as_tensor())
            .expect("a gradient");
        near(of, expected, what)?;
    }
    Ok(())
}

/// The gradient of a weight is the product of its row and of the token's gradient, in every dtype.
#[test]
fn weights_have_gradients_in_every_dtype() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(27);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let routing = Routing::new(&Tensor::new(&[[0u32, 2], [1, 0], [2, 1]], &device)?, 3)?;
        let rows = routing.groups().rows();
        let x = drawn(&mut random, &[rows, 40], &device)?.to_dtype(dtype)?;
        let factors = Var::from_tensor(&drawn(&mut random, &[3, 2], &device)?)?;
        let gradient = drawn(&mut random, &[3, 40], &device)?.to_dtype(dtype)?;
        let sum = (routing.combine(&x, Some(factors.as_tensor()), None)? * &gradient)?.sum_all()?;
        let gradients = sum.backward()?;
        let found = numbers(gradients.get(factors.as_tensor()).expect("a gradient"))?;
        let (x, gradient, places) = (
            numbers(&x)?,
            numbers(&gradient)?,
            numbers(routing.places())?,
        );
        for (at, found) in found.iter().enumerate() {
            let (row, token) = (places[at] as usize, at / 2);
            let products = (0..40).map(|c| x[row * 40 + c] * gradient[token * 40 + c]);
            let (sum, all) = products.fold((0., 0.), |(sum, all), x| (sum + x, all + f64::abs(x)));
            assert!(
                (found - sum).abs() <= 44. * 2f64.powi(-24) * all,
                "{dtype:?}, {at}: {found} for {sum}"
            );
        }
    }
    Ok(())
}

#[test]
fn the_layer_in_fp8_is_near_that_in_bf16() -> Result<()> {
    let gpu = device()?;
    let gate = Gate {
        normalise: true,
        ..PLAIN
    };
    for device in [Device::Cpu, gpu] {
        let vars = layer(&mut Random::new(25), &device)?;
        let of = |i: usize| vars[i].as_tensor().detach();
        let choice = gate.choose(&of(1), None)?;
        let bf16 = numbers(&moe::forward(
            &of(0),
            &choice,
            &of(2),
            &of(3),
            Some(&of(4)),
        )?)?;
        for format in [ScaleFormat::F32, ScaleFormat::PackedPowersOfTwo] {
            let (gate_up, down) = (
                fp8::cast_per_block(&of(2), ScaleFormat::F32)?,
                fp8::cast_per_block(&of(3), ScaleFormat::F32)?,
            );
            let found = numbers(&moe::forward_fp8(
                &of(0),
                &choice,
                &gate_up,
                &down,
                format,
                Some(&of(4)),
            )?)?;
            let (both, squares) = bf16
                .iter()
                .zip(&found)
                .fold((0., 0.), |(both, squares), (x, y)| {
                    (both + x * y, squares + x * x + y * y)
                });
            let difference = 1. - 2. * both / squares;
            assert!(
                difference < 1e-3,
                "{format:?} on {:?}: {difference}",
                device.location()
            );
        }
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_by_name() -> Result<()> {
    let device = device()?;
    let logits = drawn(&mut Random::new(26), &[3, 8], &device)?;
    let refused = |gate: Gate, words: &[&str]| {
        let text = gate
            .choose(&logits, None)
            .expect_err("it does not fit")
            .to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    refused(Gate { top: 9, ..PLAIN }, &["moe::Gate", "9 of 8"]);
    let groups = |count, top| {
        Some(Groups {
            count,
            top,
            by: GroupScore::Best,
        })
    };
    refused(
        Gate {
            groups: groups(3, 1),
            ..PLAIN
        },
        &["moe::Gate", "count: 3", "8 experts"],
    );
    refused(
        Gate {
            top: 5,
            groups: groups(4, 2),
            ..PLAIN
        },
        &["5 of 8", "leave 4"],
    );
    let routing = Routing::new(&Tensor::new(&[[0u32, 1]], &device)?, 2)?;
    let text = routing
        .gather(&logits)
        .expect_err("it does not fit")
        .to_string();
    assert!(
        text.contains("moe::Routing::gather") && text.contains("[3, 8]") && text.contains("1 rows"),
        "{text}"
    );
    assert!(Routing::new(&Tensor::new(&[[0i64]], &device)?, 2).is_err());
    Ok(())
}

/// No tokens, and tokens of which none has an expert that there is.
#[test]
fn nobody_to_route_gives_nothing() -> Result<()> {
    let device = device()?;
    let routing = Routing::new(&Tensor::zeros((0, 2), DType::U32, &device)?, 4)?;
    let x = Tensor::zeros((0, 8), DType::F32, &device)?;
    assert_eq!(
        routing.combine(&routing.gather(&x)?, None, None)?.dims(),
        [0, 8]
    );
    let routing = Routing::new(&Tensor::new(&[[7u32, 9]], &device)?, 4)?;
    let x = Tensor::ones((1, 8), DType::F32, &device)?;
    assert_eq!(
        numbers(&routing.combine(&routing.gather(&x)?, None, None)?)?,
        [0.; 8]
    );
    Ok(())
}
