//! Muon: orthogonal steps of matrices, and AdamW's of all else.

use candle_core::backprop::GradStore;
use candle_core::{bail, DType, Result, Tensor, Var, D};
use candle_nn::Optimizer;

use super::call::compute_dtype;
use super::optimizers::{AdamW, AdamWConfig};

/// What [`Muon`] is made with; the default is PyTorch's, with one learning rate for matrices and others.
#[derive(Clone, Debug, PartialEq)]
pub struct MuonConfig {
    /// The learning rate, of matrices and of what AdamW steps.
    pub lr: f64,
    /// How much of the mean of gradients a step leaves.
    pub momentum: f64,
    /// Nesterov's momentum: the gradient, and the momentum's part of the mean that it is in.
    pub nesterov: bool,
    /// Matrices lose this much, times the learning rate, of themselves.
    pub weight_decay: f64,
    /// Steps of the iteration that makes a direction orthogonal.
    pub steps: usize,
    /// How what is no matrix is stepped, at the learning rate above. Clipping is of these gradients alone: an orthogonal
    /// step has one norm whatever its gradient's.
    pub others: AdamWConfig,
}

impl Default for MuonConfig {
    fn default() -> Self {
        Self {
            lr: 1e-3,
            momentum: 0.95,
            nesterov: true,
            weight_decay: 0.1,
            steps: 5,
            others: AdamWConfig::default(),
        }
    }
}

/// Steps matrices along the orthogonal matrix nearest to their mean gradient (Jordan et al.: "Muon: an optimizer for hidden
/// layers in neural networks", 2024), scaled so that one learning rate suits AdamW too (Liu et al.: "Muon is scalable for
/// LLM training", 2025).
///
/// The direction is made by Candle's products, in bf16 on a GPU, in f32 on the CPU, and in f64 of f64 weights; its state is
/// f32 or f64.
#[derive(Debug)]
pub struct Muon {
    matrices: Vec<Matrix>,
    others: AdamW,
    config: MuonConfig,
}

#[derive(Debug)]
struct Matrix {
    var: Var,
    mean: Var,
}

impl Muon {
    /// Steps `matrices` by Muon and `others` by AdamW: embeddings and the last layer belong to these, although they are
    /// matrices.
    ///
    /// # Errors
    /// One of the matrices is none, or as [`AdamW`]'s.
    pub fn of(matrices: Vec<Var>, others: Vec<Var>, config: MuonConfig) -> Result<Self> {
        let matrix = |var: Var| {
            if var.rank() != 2 || !var.dtype().is_float() {
                bail!(
                    "Muon: a variable of shape {:?} and {:?} is no matrix of floats: leave it to AdamW",
                    var.shape(),
                    var.dtype()
                );
            }
            let mean = Var::zeros(var.shape(), compute_dtype(var.dtype()), var.device())?;
            Ok(Matrix { var, mean })
        };
        let of_others = AdamWConfig {
            lr: config.lr,
            ..config.others.clone()
        };
        Ok(Self {
            matrices: matrices.into_iter().map(matrix).collect::<Result<_>>()?,
            others: AdamW::new(others, of_others)?,
            config,
        })
    }

    /// What it was made with, and the learning rate set since.
    pub fn config(&self) -> &MuonConfig {
        &self.config
    }

    fn step_of(&self, matrix: &Matrix, gradient: &Tensor) -> Result<()> {
        let Matrix { var, mean } = matrix;
        let MuonConfig {
            lr,
            momentum,
            nesterov,
            weight_decay,
            steps,
            ..
        } = self.config;
        let dtype = mean.dtype();
        let gradient = (gradient.to_dtype(dtype)? * (1.0 - momentum))?;
        let new = ((mean.as_detached_tensor() * momentum)? + &gradient)?;
        let direction = match nesterov {
            true => (gradient + (&new * momentum)?)?,
            false => new.clone(),
        };
        mean.set(&new)?;
        let (rows, columns) = var.dims2()?;
        let scale = 0.2 * (rows.max(columns) as f64).sqrt();
        let direction = (orthogonal(&direction, steps)?.to_dtype(dtype)? * (lr * scale))?;
        let before = var.as_detached_tensor().to_dtype(dtype)?;
        let after = ((before * (1.0 - lr * weight_decay))? - direction)?;
        var.set(&after.to_dtype(var.dtype())?)
    }
}

/// A matrix with x's singular vectors and singular values near 1: steps of Newton and Schulz with a polynomial that has a
/// steep slope at 0.
fn orthogonal(x: &Tensor, steps: usize) -> Result<Tensor> {
    const FACTORS: [f64; 3] = [3.4445, -4.775, 2.0315];
    let (rows, columns) = x.dims2()?;
    // The smaller of both products.
    let is_tall = rows > columns;
    let x = if is_tall { x.t()? } else { x.clone() };
    let norm = (x.sqr()?.sum_keepdim((D::Minus1, D::Minus2))?.sqrt()? + 1e-7)?;
    let x = x.broadcast_div(&norm)?;
    let mut x = match x.dtype() {
        DType::F32 if x.device().is_cuda() => x.to_dtype(DType::BF16)?,
        _ => x.contiguous()?,
    };
    for _ in 0..steps {
        let square = x.matmul(&x.t()?)?;
        let factor = ((&square * FACTORS[1])? + (square.matmul(&square)? * FACTORS[2])?)?;
        x = ((&x * FACTORS[0])? + factor.matmul(&x)?)?;
    }
    if is_tall {
        x.t()?.contiguous()
    } else {
        Ok(x)
    }
}

impl Optimizer for Muon {
    type Config = MuonConfig;

    /// Matrices are stepped by Muon, all else by AdamW: see [`Muon::of`]. Variables that are no floats are left out.
    ///
    /// # Errors
    /// As [`Muon::of`].
    fn new(vars: Vec<Var>, config: MuonConfig) -> Result<Self> {
        let floats = vars.into_iter().filter(|var| var.dtype().is_float());
        let (matrices, others) = floats.partition(|var| var.rank() == 2);
        Self::of(matrices, others, config)
    }

    /// Steps the variables that have gradients.
    ///
    /// # Errors
    /// As [`AdamW`]'s, or a failed product.
    fn step(&mut self, gradients: &GradStore) -> Result<()> {
        for matrix in &self.matrices {
            match gradients.get(&matrix.var) {
                Some(gradient) if gradient.elem_count() > 0 => self.step_of(matrix, gradient)?,
                _ => {}
            }
        }
        self.others.step(gradients)
    }

    fn learning_rate(&self) -> f64 {
        self.config.lr
    }

    fn set_learning_rate(&mut self, lr: f64) {
        self.config.lr = lr;
        self.others.set_learning_rate(lr);
    }
}
