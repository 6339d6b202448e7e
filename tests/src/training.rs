//! A small language model with every layer that matters to training: embedding, layer norm, causal
//! attention, GELU, a tied-shape head and cross entropy.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};

/// Tokens in the vocabulary.
pub const VOCAB: usize = 29;
/// Width of the model.
pub const WIDTH: usize = 24;
/// Tokens a sequence.
pub const LENGTH: usize = 12;
/// Sequences a batch.
pub const BATCH: usize = 4;

/// The parameters, in a fixed order.
pub struct TinyModel {
    /// Embedding, attention, feed-forward and head weights.
    pub vars: Vec<Var>,
}

/// A fixed pseudo-random sequence in -0.5..0.5 (a 64-bit LCG, Knuth's constants): the same on every device. Results on
/// a real GPU are recorded for it, so it stays a generator of its own.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        })
        .collect()
}

const SHAPES: [&[usize]; 8] = [
    &[VOCAB, WIDTH],
    &[LENGTH, WIDTH],
    &[WIDTH],
    &[WIDTH, 3 * WIDTH],
    &[WIDTH, WIDTH],
    &[WIDTH, 4 * WIDTH],
    &[4 * WIDTH, WIDTH],
    &[WIDTH, VOCAB],
];

impl TinyModel {
    /// The same initial parameters on any device.
    pub fn new(device: &Device) -> Result<Self> {
        let vars = SHAPES
            .iter()
            .enumerate()
            .map(|(i, &shape)| {
                let count = shape.iter().product();
                let offset = if shape.len() == 1 { 1.0 } else { 0.0 };
                let data: Vec<f32> = noise(count, i as u64 + 1)
                    .iter()
                    .map(|x| 0.3 * x + offset)
                    .collect();
                Var::from_tensor(&Tensor::from_vec(data, shape, device)?)
            })
            .collect::<Result<_>>()?;
        Ok(Self { vars })
    }

    /// Mean cross entropy of predicting each next token of `tokens`, (batch, length + 1) u32.
    pub fn loss(&self, tokens: &Tensor) -> Result<Tensor> {
        let [embedding, position, norm, qkv, out, up, down, head] = &self.vars[..] else {
            candle_core::bail!("the model has {} parameters, not 8", self.vars.len())
        };
        let batch = tokens.dim(0)?;
        let input = tokens.narrow(1, 0, LENGTH)?.contiguous()?;
        let target = tokens.narrow(1, 1, LENGTH)?.contiguous()?;
        let x = embedding
            .embedding(&input.flatten_all()?)?
            .reshape((batch, LENGTH, WIDTH))?
            .broadcast_add(position)?;
        let bias = Tensor::zeros(WIDTH, DType::F32, x.device())?;
        let h = candle_nn::ops::layer_norm_slow(&x, norm, &bias, 1e-5)?;
        let qkv =
            h.reshape((batch * LENGTH, WIDTH))?
                .matmul(qkv)?
                .reshape((batch, LENGTH, 3 * WIDTH))?;
        let q = qkv.narrow(2, 0, WIDTH)?;
        let k = qkv.narrow(2, WIDTH, WIDTH)?;
        let v = qkv.narrow(2, 2 * WIDTH, WIDTH)?.contiguous()?;
        let scores = (q.contiguous()?.matmul(&k.t()?.contiguous()?)? / (WIDTH as f64).sqrt())?;
        let mask: Vec<f32> = (0..LENGTH * LENGTH)
            .map(|i| {
                if i % LENGTH > i / LENGTH {
                    f32::NEG_INFINITY
                } else {
                    0.0
                }
            })
            .collect();
        let mask = Tensor::from_vec(mask, (LENGTH, LENGTH), x.device())?;
        let weights = candle_nn::ops::softmax(&scores.broadcast_add(&mask)?, 2)?;
        let x = (x + weights
            .matmul(&v)?
            .reshape((batch * LENGTH, WIDTH))?
            .matmul(out)?
            .reshape((batch, LENGTH, WIDTH))?)?;
        let flat = x.reshape((batch * LENGTH, WIDTH))?;
        let flat = (&flat + flat.matmul(up)?.gelu()?.matmul(down)?)?;
        candle_nn::loss::cross_entropy(&flat.matmul(head)?, &target.flatten_all()?)
    }

    /// A batch whose next token follows from the last: (batch, length + 1) u32.
    pub fn batch(step: usize, device: &Device) -> Result<Tensor> {
        let tokens: Vec<u32> = (0..BATCH)
            .flat_map(|row| (0..=LENGTH).map(move |i| ((step + 7 * row + 3 * i) % VOCAB) as u32))
            .collect();
        Tensor::from_vec(tokens, (BATCH, LENGTH + 1), device)
    }

    /// AdamW over all parameters. `eps` is large enough that a parameter whose gradient is rounding
    /// noise does not move by the noise's sign.
    pub fn optimizer(&self) -> Result<AdamW> {
        let params = ParamsAdamW {
            lr: 5e-3,
            eps: 1e-5,
            ..Default::default()
        };
        AdamW::new(self.vars.clone(), params)
    }

    /// `steps` training steps; the loss before each.
    pub fn train(&self, steps: usize) -> Result<Vec<f32>> {
        let mut optimizer = self.optimizer()?;
        let device = self.vars[0].device().clone();
        (0..steps)
            .map(|step| {
                let loss = self.loss(&Self::batch(step, &device)?)?;
                optimizer.backward_step(&loss)?;
                loss.to_scalar()
            })
            .collect()
    }
}
