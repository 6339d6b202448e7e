//! Training on the device: forward, backward and AdamW against the CPU backend; and on two devices against one.

use anyhow::{ensure, Context as _, Result};
use candle_core::{Device, Tensor};
use candle_nn::Optimizer as _;
use candle_rocm_backend::communication::{Gradients, Id, Rank};
use candle_rocm_testing::process::{alone, gpus_alike, GPUS};
use candle_rocm_tests::training::TinyModel;
use candle_rocm_tests::{device, ensure_close, Tolerance};

/// f32 sums of a few hundred terms in another order, through a handful of layers.
const F32: Tolerance = Tolerance {
    absolute: 1e-6,
    relative: 2e-5,
};

#[test]
fn one_step_matches_the_cpu() -> Result<()> {
    let gpu = device()?;
    let models = [TinyModel::new(&Device::Cpu)?, TinyModel::new(&gpu)?];
    let mut losses = Vec::new();
    let mut grads = Vec::new();
    for model in &models {
        let loss = model.loss(&TinyModel::batch(0, model.vars[0].device())?)?;
        let grad = loss.backward()?;
        model.optimizer()?.step(&grad)?;
        losses.push(loss);
        grads.push(grad);
    }
    ensure_close("loss", &losses[1], &losses[0], F32)?;
    for (i, (cpu, gpu)) in models[0].vars.iter().zip(&models[1].vars).enumerate() {
        let (Some(expected), Some(actual)) = (grads[0].get(cpu), grads[1].get(gpu)) else {
            anyhow::bail!("parameter {i} has no gradient");
        };
        ensure_close(&format!("gradient of parameter {i}"), actual, expected, F32)?;
        // One AdamW step moves a parameter by at most the learning rate, 5e-3; a gradient's relative
        // error of 2e-5, magnified by g / (g + eps) for gradients near eps, moves it by a hundredth of that.
        let stepped = Tolerance {
            absolute: 5e-5,
            relative: 0.0,
        };
        ensure_close(&format!("parameter {i} after a step"), gpu, cpu, stepped)?;
    }
    Ok(())
}

#[test]
fn fifty_steps_lower_the_loss() -> Result<()> {
    let losses = TinyModel::new(&device()?)?.train(50)?;
    let (first, last) = (losses[0], losses[49]);
    // Chance level is ln(29) = 3.37; the next token is a function of the last, so training must get well below.
    ensure!(
        last < 0.5 * first,
        "loss went from {first} to {last} in 50 steps"
    );
    Ok(())
}

/// Steps of two ranks, each with every other batch.
const STEPS: usize = 6;

/// The parameters after training on one GPU, by a mean of the gradients of two batches at a time: what ranks compute, in
/// their order.
fn by_accumulation(device: &Device) -> Result<Vec<Vec<f32>>> {
    let model = TinyModel::new(device)?;
    let mut optimizer = model.optimizer()?;
    for step in 0..STEPS {
        let of_batch = |n| -> Result<_> {
            let batch = TinyModel::batch(2 * step + n, device)?;
            Ok(model.loss(&batch)?.backward()?)
        };
        let (mut first, second) = (of_batch(0)?, of_batch(1)?);
        for var in &model.vars {
            let halves = first.get(var).zip(second.get(var));
            let (one, other) = halves.context("a parameter without gradient")?;
            let mean = ((one + other)? / 2.)?;
            first.insert(var, mean);
        }
        optimizer.step(&first)?;
    }
    parameters(&model)
}

/// The loss before each step of training on one GPU with both batches as one.
fn losses_of_one(device: &Device) -> Result<Vec<f32>> {
    let model = TinyModel::new(device)?;
    let mut optimizer = model.optimizer()?;
    let step = |step| -> Result<f32> {
        let [one, other] = [0, 1].map(|n| TinyModel::batch(2 * step + n, device));
        let loss = model.loss(&Tensor::cat(&[one?, other?], 0)?)?;
        optimizer.backward_step(&loss)?;
        Ok(loss.to_scalar()?)
    };
    (0..STEPS).map(step).collect()
}

/// What a rank has after its training: the parameters, and its loss before each step.
fn by_rank(
    number: usize,
    id: Id,
    (beside, bucket): (bool, usize),
) -> Result<(Vec<Vec<f32>>, Vec<f32>)> {
    let device = Device::new_cuda(number)?;
    let model = TinyModel::new(&device)?;
    if number == 1 {
        // The first rank's are taken.
        model.vars[0].set(&model.vars[0].zeros_like()?)?;
    }
    let rank = match beside {
        true => Rank::join_beside(&device, number, 2, id)?,
        false => Rank::join(&device, number, 2, id)?,
    };
    let gradients = Gradients::new(rank, model.vars.clone())?;
    let mut gradients = gradients.with_bucket_bytes(bucket);
    gradients.take_variables(0)?;
    let mut optimizer = model.optimizer()?;
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let loss = model.loss(&TinyModel::batch(2 * step + number, &device)?)?;
        let mut of_batch = loss.backward()?;
        gradients.average(&mut of_batch)?;
        optimizer.step(&of_batch)?;
        losses.push(loss.to_scalar()?);
    }
    Ok((parameters(&model)?, losses))
}

fn parameters(model: &TinyModel) -> Result<Vec<Vec<f32>>> {
    let all = model.vars.iter().map(|var| var.flatten_all()?.to_vec1());
    Ok(all.collect::<candle_core::Result<_>>()?)
}

/// Whatever the buckets and streams: the bits of one GPU that adds up as ranks do, and, but for the order of sums over a batch,
/// one GPU with the whole batch.
#[test]
fn two_gpus_train_as_one() {
    let gpus = gpus_alike(2);
    let variables = [
        (GPUS, gpus.as_str()),
        ("CANDLE_ROCM_RUNTIME", "emulator"),
        ("CANDLE_ROCM_COMM", "own"),
    ];
    alone("two_gpus_train_as_one", &variables, || {
        let device = Device::new_cuda(0).expect("a GPU");
        let expected = by_accumulation(&device).expect("one GPU trains");
        let losses = losses_of_one(&device).expect("one GPU trains");
        // Each gradient alone, some of them together, all of them.
        for way in [(false, 1), (true, 1), (true, 4096), (false, 1 << 20)] {
            let id = Rank::new_id().expect("an identifier");
            let [first, second] = std::thread::scope(|scope| {
                let second = scope.spawn(|| by_rank(1, id, way));
                let first = by_rank(0, id, way).expect("rank 0 trains");
                [
                    first,
                    second.join().expect("rank 1").expect("rank 1 trains"),
                ]
            });
            assert!(first.0 == expected, "{way:?}: rank 0 has other parameters");
            assert!(second.0 == expected, "{way:?}: rank 1 has other parameters");
            for (step, loss) in losses.iter().enumerate() {
                let mean = (first.1[step] + second.1[step]) / 2.;
                // As far as a step of AdamW moves by gradients that differ in their last bits (`one_step_matches_the_cpu`).
                assert!((mean - loss).abs() < 2e-4, "step {step}: {mean} and {loss}");
            }
        }
    });
}
