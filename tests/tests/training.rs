//! Training on the device: forward, backward and AdamW against the CPU backend.

use anyhow::{ensure, Result};
use candle_core::Device;
use candle_nn::Optimizer as _;
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
