//! Optimisers on the emulated GPU and on the CPU, against the rules in f64, and against candle-nn's.

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::Optimizer;
use candle_rocm_backend::optim::{
    AdamW, AdamWConfig, Lion, LionConfig, Muon, MuonConfig, Sgd, SgdConfig, Shared,
};
use candle_rocm_testing::numbers::assert_near;

mod common;

use common::{normal, numbers, Random};

fn devices() -> [Device; 2] {
    [common::device().expect("a GPU"), Device::Cpu]
}

/// Elements of the weights: one, no multiple of a vector, and several workgroups.
const SIZES: [usize; 6] = [1, 7, 0, 8192, 20_003, 301];

/// Weights of these dtypes in turn.
fn weights(dtypes: &[DType], device: &Device) -> Result<Vec<Var>> {
    let of = |(i, &size): (usize, &usize)| {
        let values = normal(&mut Random::new(i as u64), size);
        let dtype = dtypes[i % dtypes.len()];
        Var::from_tensor(&Tensor::from_vec(values, size, device)?.to_dtype(dtype)?)
    };
    SIZES.iter().enumerate().map(of).collect()
}

/// Gradients: of each weight c * w + d, with numbers of its own in each step. Some are not contiguous.
fn gradients(weights: &[Var], step: usize) -> Result<GradStore> {
    let mut loss: Option<Tensor> = None;
    for (i, weight) in weights.iter().enumerate() {
        let count = weight.elem_count();
        let slopes = normal(&mut Random::new((100 * step + i) as u64), count);
        let slopes = Tensor::from_vec(slopes, count, weight.device())?.to_dtype(weight.dtype())?;
        let term = (weight.as_tensor() * slopes)?
            .to_dtype(DType::F64)?
            .sum_all()?;
        loss = Some(match loss {
            Some(loss) => (loss + term)?,
            None => term,
        });
    }
    loss.expect("a weight").backward()
}

/// A weight, its gradient, and two numbers of state, in f64.
type Step = fn(&Numbers, f64, f64, &mut [f64; 2]) -> f64;

struct Numbers {
    lr: f64,
    decay: f64,
    step: i32,
}

fn adamw(numbers: &Numbers, weight: f64, gradient: f64, state: &mut [f64; 2]) -> f64 {
    state[0] = 0.9 * state[0] + 0.1 * gradient;
    state[1] = 0.999 * state[1] + 0.001 * gradient * gradient;
    let mean = state[0] / (1.0 - 0.9f64.powi(numbers.step));
    let square = state[1] / (1.0 - 0.999f64.powi(numbers.step));
    weight * (1.0 - numbers.lr * numbers.decay) - numbers.lr * mean / (square.sqrt() + 1e-8)
}

fn plain(numbers: &Numbers, weight: f64, gradient: f64, _: &mut [f64; 2]) -> f64 {
    weight - numbers.lr * (gradient + numbers.decay * weight)
}

fn momentum(numbers: &Numbers, weight: f64, gradient: f64, state: &mut [f64; 2]) -> f64 {
    state[0] = 0.8 * state[0] + gradient + numbers.decay * weight;
    weight - numbers.lr * state[0]
}

fn nesterov(numbers: &Numbers, weight: f64, gradient: f64, state: &mut [f64; 2]) -> f64 {
    let gradient = gradient + numbers.decay * weight;
    state[0] = 0.8 * state[0] + gradient;
    weight - numbers.lr * (gradient + 0.8 * state[0])
}

fn lion(numbers: &Numbers, weight: f64, gradient: f64, state: &mut [f64; 2]) -> f64 {
    let direction = 0.9 * state[0] + 0.1 * gradient;
    state[0] = 0.99 * state[0] + 0.01 * gradient;
    weight * (1.0 - numbers.lr * numbers.decay) - numbers.lr * direction.signum()
}

/// Steps weights by an optimiser and by a rule, whose weights are rounded as `round` says.
fn compare<O: Optimizer>(
    make: impl Fn(Vec<Var>) -> Result<O>,
    rule: Step,
    [lr, decay]: [f64; 2],
    max_norm: Option<f64>,
    what: &str,
) -> Result<()> {
    for device in devices() {
        for (dtypes, tolerance) in [
            (&[DType::F32][..], 1e-5),
            (&[DType::F64], 1e-12),
            (&[DType::BF16, DType::F32, DType::F16], 2e-2),
        ] {
            let weights = weights(dtypes, &device)?;
            let mut optimizer = make(weights.clone())?;
            assert_eq!(optimizer.learning_rate(), lr);
            let mut wide: Vec<Vec<f64>> =
                weights.iter().map(|w| numbers(w)).collect::<Result<_>>()?;
            let mut states: Vec<Vec<[f64; 2]>> =
                wide.iter().map(|wide| vec![[0.0; 2]; wide.len()]).collect();
            for step in 1..=3 {
                let store = gradients(&weights, step)?;
                let found: Vec<Vec<f64>> = weights
                    .iter()
                    .map(|weight| numbers(store.get(weight).expect("a gradient")))
                    .collect::<Result<_>>()?;
                let norm = found.iter().flatten().map(|g| g * g).sum::<f64>().sqrt();
                let clip = max_norm.map_or(1.0, |most| (most / (norm + 1e-6)).min(1.0));
                let of_step = Numbers {
                    lr,
                    decay,
                    step: step as i32,
                };
                for ((wide, states), found) in wide.iter_mut().zip(&mut states).zip(&found) {
                    for ((weight, state), gradient) in wide.iter_mut().zip(states).zip(found) {
                        *weight = rule(&of_step, *weight, gradient * clip, state);
                    }
                }
                optimizer.step(&store)?;
            }
            for (weight, wide) in weights.iter().zip(&wide) {
                let what = format!(
                    "{what}: {} of {dtypes:?} on {:?}",
                    wide.len(),
                    device.location()
                );
                assert_near(&numbers(weight)?, wide, tolerance, 1.0, &what);
            }
        }
    }
    Ok(())
}

#[test]
fn steps_are_those_of_the_rules() -> Result<()> {
    for max_norm in [None, Some(0.7), Some(1e9)] {
        let shared = Shared {
            max_norm,
            ..Default::default()
        };
        let what = |name: &str| format!("{name} clipped to {max_norm:?}");
        let config = AdamWConfig {
            lr: 0.01,
            weight_decay: 0.1,
            shared: shared.clone(),
            ..Default::default()
        };
        let make = |vars| AdamW::new(vars, config.clone());
        compare(make, adamw, [0.01, 0.1], max_norm, &what("AdamW"))?;
        for (rule, momentum, nesterov, name) in [
            (plain as Step, 0.0, false, "SGD"),
            (momentum as Step, 0.8, false, "momentum"),
            (nesterov as Step, 0.8, true, "Nesterov"),
        ] {
            let config = SgdConfig {
                lr: 0.01,
                momentum,
                nesterov,
                weight_decay: 0.1,
                shared: shared.clone(),
            };
            let make = |vars| Sgd::new(vars, config.clone());
            compare(make, rule, [0.01, 0.1], max_norm, &what(name))?;
        }
    }
    let config = LionConfig {
        lr: 0.01,
        weight_decay: 0.1,
        ..Default::default()
    };
    let make = |vars| Lion::new(vars, config.clone());
    compare(make, lion, [0.01, 0.1], None, "Lion")
}

#[test]
fn adamw_is_candles() -> Result<()> {
    for device in devices() {
        // Candle's own steps no variable without elements.
        let some = || -> Result<Vec<Var>> {
            let all = weights(&[DType::F32], &device)?.into_iter();
            Ok(all.filter(|weight| weight.elem_count() > 0).collect())
        };
        let (ours, theirs) = (some()?, some()?);
        let params = candle_nn::ParamsAdamW::default();
        let mut our = AdamW::new(ours.clone(), params.clone().into())?;
        let mut their = candle_nn::AdamW::new(theirs.clone(), params)?;
        for step in 1..=4 {
            our.set_learning_rate(0.01 / step as f64);
            their.set_learning_rate(0.01 / step as f64);
            our.step(&gradients(&ours, step)?)?;
            their.step(&gradients(&theirs, step)?)?;
        }
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_near(&numbers(ours)?, &numbers(theirs)?, 1e-5, 1.0, "AdamW");
        }
    }
    Ok(())
}

/// Steps of 2^-12 are lost to bf16 weights near 1; copies in f32 and rounding by chance keep them.
#[test]
fn small_steps_are_not_lost() -> Result<()> {
    const STEPS: usize = 64;
    const COUNT: usize = 20_003;
    for device in devices() {
        let run = |shared: Shared| -> Result<Vec<f64>> {
            let weight = Var::ones(COUNT, DType::BF16, &device)?;
            let config = SgdConfig {
                lr: 1.0 / 4096.0,
                shared,
                ..Default::default()
            };
            let mut optimizer = Sgd::new(vec![weight.clone()], config)?;
            let store = (weight.as_tensor().to_dtype(DType::F32)?.sum_all()?).backward()?;
            for _ in 0..STEPS {
                optimizer.step(&store)?;
            }
            numbers(&weight)
        };
        let shared = Shared::default();
        assert_eq!(run(shared.clone())?, vec![1.0; COUNT]);
        let masters = run(Shared {
            masters: true,
            ..shared.clone()
        })?;
        let expected = 1.0 - STEPS as f64 / 4096.0;
        assert_eq!(masters, vec![expected; COUNT]);
        let of_seed = |seed| {
            run(Shared {
                stochastic: Some(seed),
                ..shared.clone()
            })
        };
        let chance = of_seed(7)?;
        let mean = chance.iter().sum::<f64>() / COUNT as f64;
        assert!((mean - expected).abs() < 2e-4, "{mean} for {expected}");
        assert_eq!(chance, of_seed(7)?, "a seed's run");
        assert_ne!(chance, of_seed(8)?, "another seed's");
    }
    Ok(())
}

/// Rounding by chance draws the same on every device.
#[test]
fn chance_is_the_seeds() -> Result<()> {
    let mut found = Vec::new();
    for device in devices() {
        let all = weights(&[DType::BF16], &device)?;
        let config = SgdConfig {
            lr: 0.25,
            shared: Shared {
                stochastic: Some(11),
                ..Default::default()
            },
            ..Default::default()
        };
        let mut optimizer = Sgd::new(all.clone(), config)?;
        for step in 1..=2 {
            optimizer.step(&gradients(&all, step)?)?;
        }
        let of: Vec<Vec<f64>> = all.iter().map(|w| numbers(w)).collect::<Result<_>>()?;
        found.push(of);
    }
    // f32 multiplies and adds at once on the GPU: a few weights are another neighbour.
    for (gpu, cpu) in found[0].iter().zip(&found[1]) {
        let other = gpu.iter().zip(cpu).filter(|(gpu, cpu)| gpu != cpu).count();
        assert!(other <= gpu.len() / 500, "{other} of {}", gpu.len());
    }
    Ok(())
}

#[test]
fn the_norm_is_on_the_device_and_weights_without_gradients_stay() -> Result<()> {
    for device in devices() {
        let all = weights(&[DType::F32, DType::BF16], &device)?;
        let config = LionConfig {
            shared: Shared {
                max_norm: Some(1.0),
                ..Default::default()
            },
            ..Default::default()
        };
        let mut optimizer = Lion::new(all.clone(), config)?;
        assert!(optimizer.gradient_norm().is_none());
        let before = numbers(&all[4])?;
        let store = gradients(&all[..4], 1)?;
        optimizer.step(&store)?;
        assert_eq!(numbers(&all[4])?, before);
        let squares = all[..4].iter().map(|weight| {
            let gradient = numbers(store.get(weight).expect("a gradient"))?;
            Ok(gradient.iter().map(|g| g * g).sum::<f64>())
        });
        let expected = squares.sum::<Result<f64>>()?.sqrt();
        let norm = optimizer.gradient_norm().expect("a norm").clone();
        assert_near(&numbers(&norm)?, &[expected], 1e-5, 1.0, "the norm");
        // Other gradients, and again all of them.
        optimizer.step(&gradients(&all[2..], 2)?)?;
        optimizer.step(&gradients(&all, 3)?)?;
        assert_ne!(numbers(&all[4])?, before);
        assert_eq!(optimizer.into_inner().len(), all.len());
    }
    Ok(())
}

/// A step of a matrix is orthogonal, of a fixed size and against the gradient; vectors are AdamW's.
#[test]
fn muons_steps_are_orthogonal() -> Result<()> {
    for device in devices() {
        // bf16 products of a polynomial with a steep slope differ visibly.
        for (dtype, tolerance) in [(DType::F64, 1e-9), (DType::F32, 0.1)] {
            for (rows, columns) in [(6, 9), (12, 5), (1, 1)] {
                let values = normal(&mut Random::new(5), rows * columns);
                let slopes = Tensor::from_vec(values, (rows, columns), &device)?.to_dtype(dtype)?;
                let matrix = Var::zeros((rows, columns), dtype, &device)?;
                let vector = Var::zeros(3, dtype, &device)?;
                let config = MuonConfig {
                    lr: 0.5,
                    ..Default::default()
                };
                let mut optimizer = Muon::new(vec![matrix.clone(), vector.clone()], config)?;
                optimizer.set_learning_rate(1.0);
                let loss = ((matrix.as_tensor() * &slopes)?.sum_all()? + vector.sum_all()?)?;
                optimizer.step(&loss.backward()?)?;
                assert_near(
                    &numbers(&vector)?,
                    &[-1.0; 3],
                    1e-5,
                    1.0,
                    "AdamW's first step",
                );
                let scale = 0.2 * (rows.max(columns) as f64).sqrt();
                let step = (matrix.as_detached_tensor().to_dtype(DType::F64)? / scale)?;
                let square = match rows < columns {
                    true => step.matmul(&step.t()?)?,
                    false => step.t()?.matmul(&step)?,
                };
                // Singular values end near 1, those that began small a little lower.
                let square = square.to_vec2::<f64>()?;
                for (i, row) in square.iter().enumerate() {
                    assert!((0.1..1.5).contains(&row[i]), "{square:?}");
                }
                let along = (step * slopes.to_dtype(DType::F64)?)?.sum_all()?;
                assert!(along.to_scalar::<f64>()? < 0.0);
                // The same by plain f64 on the CPU.
                let on_host = Var::zeros((rows, columns), DType::F64, &Device::Cpu)?;
                let config = MuonConfig {
                    lr: 1.0,
                    ..Default::default()
                };
                let mut plain = Muon::of(vec![on_host.clone()], Vec::new(), config)?;
                let slopes = slopes.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
                plain.step(&(on_host.as_tensor() * slopes)?.sum_all()?.backward()?)?;
                let what = format!("{rows} x {columns} of {dtype:?}");
                assert_near(
                    &numbers(&matrix)?,
                    &numbers(&on_host)?,
                    tolerance,
                    1.0,
                    &what,
                );
            }
        }
    }
    let vector = Var::zeros(3, DType::F32, &Device::Cpu)?;
    let error = Muon::of(vec![vector], Vec::new(), MuonConfig::default());
    let error = error.map(|_| ()).expect_err("refused").to_string();
    assert!(error.contains("Muon: a variable of shape [3]"), "{error}");
    Ok(())
}

#[test]
fn variables_that_cannot_be_stepped_are_refused() -> Result<()> {
    let device = common::device()?;
    let one = Var::ones(3, DType::F32, &device)?;
    let on_host = Var::ones(3, DType::F32, &Device::Cpu)?;
    let twice = AdamW::new(vec![one.clone(), one.clone()], Default::default());
    let apart = AdamW::new(vec![one.clone(), on_host], Default::default());
    let config = LionConfig {
        shared: Shared {
            max_norm: Some(0.0),
            ..Default::default()
        },
        ..Default::default()
    };
    let clipped = Lion::new(vec![one], config).map(|_| ());
    for (found, part) in [
        (
            twice.map(|_| ()),
            "AdamW: variable 1 of shape [3] is given twice",
        ),
        (apart.map(|_| ()), "make an optimiser for each"),
        (clipped, "Lion: gradients clipped to a norm of 0"),
    ] {
        let error = found.expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
    let mut nobody = Sgd::empty(SgdConfig::default())?;
    nobody.step(&gradients(&weights(&[DType::F32], &device)?, 1)?)
}
