//! A small mixture of experts, trained in bf16 and run in FP8, beside the same on the CPU.

mod common;

use candle_core::{DType, Device, Result, Tensor, Var, D};
use candle_nn::loss::cross_entropy;
use candle_rocm_backend::fp8::{self, ScaleFormat};
use candle_rocm_backend::moe::{self, Gate, Score};
use common::{device, normal, Random};

const VOCABULARY: usize = 24;
const HIDDEN: usize = 64;
const INNER: usize = 96;
const EXPERTS: usize = 6;
const STEPS: usize = 12;
const RATE: f64 = 0.4;
const GATE: Gate = Gate {
    score: Score::Softmax,
    top: 2,
    groups: None,
    normalise: true,
    factor: 1.,
};

/// Tokens' states, a mixture that is added to them, and logits of what follows.
struct Model {
    embedding: Var,
    gate: Var,
    gate_up: Var,
    down: Var,
    head: Var,
}

impl Model {
    fn new(device: &Device) -> Result<Self> {
        let mut random = Random::new(5);
        let mut var = |dims: &[usize]| -> Result<Var> {
            let scale = 1. / (dims[dims.len() - 1] as f32).sqrt();
            let values = normal(&mut random, dims.iter().product());
            let values: Vec<f32> = values.into_iter().map(|x| x * scale).collect();
            Var::from_tensor(&Tensor::from_vec(values, dims, device)?)
        };
        Ok(Self {
            embedding: var(&[VOCABULARY, HIDDEN])?,
            gate: var(&[EXPERTS, HIDDEN])?,
            gate_up: var(&[EXPERTS, 2 * INNER, HIDDEN])?,
            down: var(&[EXPERTS, HIDDEN, INNER])?,
            head: var(&[VOCABULARY, HIDDEN])?,
        })
    }

    fn vars(&self) -> [&Var; 5] {
        [
            &self.embedding,
            &self.gate,
            &self.gate_up,
            &self.down,
            &self.head,
        ]
    }

    /// Logits of what follows each token. In bf16 the mixture, in f32 the rest.
    fn forward(&self, tokens: &Tensor, in_fp8: bool) -> Result<Tensor> {
        // Of variance 1.
        let x = (self.embedding.index_select(tokens, 0)? * (HIDDEN as f64).sqrt())?;
        let choice = GATE.choose(&x.matmul(&self.gate.t()?)?, None)?;
        let narrow = x.to_dtype(DType::BF16)?;
        let (gate_up, down) = (self.gate_up.as_tensor(), self.down.as_tensor());
        let mixed = if in_fp8 {
            let [gate_up, down] = [gate_up, down].map(|of| {
                // The operators of FP8 have no gradients.
                fp8::cast_per_block(&of.to_dtype(DType::BF16)?.detach(), ScaleFormat::F32)
            });
            let choice = moe::Choice {
                weights: choice.weights.detach(),
                ..choice
            };
            let x = narrow.detach();
            moe::forward_fp8(&x, &choice, &gate_up?, &down?, ScaleFormat::F32, None)?
        } else {
            let [gate_up, down] = [gate_up, down].map(|of| of.to_dtype(DType::BF16));
            moe::forward(&narrow, &choice, &gate_up?, &down?, None)?
        };
        (x + mixed.to_dtype(DType::F32)?)?.matmul(&self.head.t()?)
    }
}

/// Losses of the steps, the loss afterwards in bf16 and in FP8, and the tokens that FP8 thinks follow.
fn trained(device: &Device) -> Result<(Vec<f32>, [f32; 2], Vec<u32>)> {
    let model = Model::new(device)?;
    let next = |token: u32| (5 * token + 7) % VOCABULARY as u32;
    let tokens: Vec<u32> = (0..3 * VOCABULARY as u32).collect();
    let tokens: Vec<u32> = tokens.into_iter().map(|n| n % VOCABULARY as u32).collect();
    let targets: Vec<u32> = tokens.iter().map(|&token| next(token)).collect();
    let (tokens, targets) = (Tensor::new(tokens, device)?, Tensor::new(targets, device)?);
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        let loss = cross_entropy(&model.forward(&tokens, false)?, &targets)?;
        losses.push(loss.to_scalar()?);
        let gradients = loss.backward()?;
        for var in model.vars() {
            let gradient = gradients.get(var).expect("all variables are used");
            var.set(&(var.as_tensor() - (gradient * RATE)?)?)?;
        }
    }
    let after = |in_fp8: bool| -> Result<(f32, Vec<u32>)> {
        let logits = model.forward(&tokens, in_fp8)?;
        let loss = cross_entropy(&logits, &targets)?.to_scalar()?;
        Ok((loss, logits.argmax(D::Minus1)?.to_vec1()?))
    };
    let ((in_bf16, _), (in_fp8, following)) = (after(false)?, after(true)?);
    Ok((losses, [in_bf16, in_fp8], following))
}

/// The GPU's sums have another order than the CPU's, each rounded to bf16 on its way; a step's errors go into the next. FP8
/// has three bits of mantissa, so that its loss is near to bf16's, not the same.
#[test]
fn a_mixture_trained_in_bf16_and_run_in_fp8_is_the_cpus() -> Result<()> {
    let (expected, of_cpu, expected_tokens) = trained(&Device::Cpu)?;
    let (found, of_gpu, tokens) = trained(&device()?)?;
    assert!(
        expected[STEPS - 1] < 0.5 * expected[0],
        "it learns: {expected:?}"
    );
    for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!(
            (found - expected).abs() <= 0.02 * expected,
            "step {step}: a loss of {found} for {expected}"
        );
    }
    for (found, expected) in of_gpu.iter().zip(&of_cpu) {
        assert!(
            (found - expected).abs() <= 0.03 * expected,
            "{found} for {expected}"
        );
    }
    assert!(
        (of_gpu[1] - of_gpu[0]).abs() <= 0.1 * of_gpu[0],
        "FP8's loss of {} for {}",
        of_gpu[1],
        of_gpu[0]
    );
    assert_eq!(tokens, expected_tokens);
    Ok(())
}
