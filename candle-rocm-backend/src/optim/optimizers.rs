//! The optimisers whose steps are rules of one weight each.

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, Var};
use candle_nn::Optimizer;

use super::call::Shared;
use super::rule::{Numbers, Rule};
use super::weights::Weights;

/// What [`AdamW`] is made with; the default is Candle's and PyTorch's.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamWConfig {
    /// The learning rate.
    pub lr: f64,
    /// How much of the mean of gradients a step leaves.
    pub beta1: f64,
    /// How much of the mean of their squares a step leaves.
    pub beta2: f64,
    /// Added to the root of the mean of squares.
    pub eps: f64,
    /// Weights lose this much, times the learning rate, of themselves.
    pub weight_decay: f64,
    /// Clipping, copies and rounding.
    pub shared: Shared,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        candle_nn::ParamsAdamW::default().into()
    }
}

impl From<candle_nn::ParamsAdamW> for AdamWConfig {
    fn from(params: candle_nn::ParamsAdamW) -> Self {
        Self {
            lr: params.lr,
            beta1: params.beta1,
            beta2: params.beta2,
            eps: params.eps,
            weight_decay: params.weight_decay,
            shared: Shared::default(),
        }
    }
}

/// What [`Sgd`] is made with; the default has neither momentum nor decay.
#[derive(Clone, Debug, PartialEq)]
pub struct SgdConfig {
    /// The learning rate.
    pub lr: f64,
    /// How much of the sum of gradients a step leaves; 0 for no such state.
    pub momentum: f64,
    /// Nesterov's momentum: the gradient, and the momentum's part of the sum that it is in.
    pub nesterov: bool,
    /// This much of the weights is added to their gradients, as in PyTorch.
    pub weight_decay: f64,
    /// Clipping, copies and rounding.
    pub shared: Shared,
}

impl Default for SgdConfig {
    fn default() -> Self {
        Self {
            lr: 0.001,
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.0,
            shared: Shared::default(),
        }
    }
}

/// What [`Lion`] is made with; the default is the paper's.
#[derive(Clone, Debug, PartialEq)]
pub struct LionConfig {
    /// The learning rate: a third to a tenth of AdamW's.
    pub lr: f64,
    /// How much of the mean of gradients is in a step's direction.
    pub beta1: f64,
    /// How much of it a step leaves.
    pub beta2: f64,
    /// Weights lose this much, times the learning rate, of themselves: three to ten times AdamW's.
    pub weight_decay: f64,
    /// Clipping, copies and rounding.
    pub shared: Shared,
}

impl Default for LionConfig {
    fn default() -> Self {
        Self {
            lr: 1e-4,
            beta1: 0.9,
            beta2: 0.99,
            weight_decay: 0.0,
            shared: Shared::default(),
        }
    }
}

/// Adam with decoupled weight decay (Loshchilov and Hutter: "Decoupled weight decay regularization", ICLR 2019).
#[derive(Debug)]
pub struct AdamW {
    weights: Weights,
    config: AdamWConfig,
}

/// Stochastic gradient descent, with PyTorch's momentum and weight decay.
#[derive(Debug)]
pub struct Sgd {
    weights: Weights,
    config: SgdConfig,
}

/// Steps along the sign of a mean of gradients (Chen et al.: "Symbolic discovery of optimization algorithms", NeurIPS
/// 2023).
#[derive(Debug)]
pub struct Lion {
    weights: Weights,
    config: LionConfig,
}

impl AdamWConfig {
    /// The numbers of step `step`, from 1 on.
    fn numbers(&self, step: u32) -> Numbers {
        let unbiased = |beta: f64| 1.0 / (1.0 - beta.powf(f64::from(step)));
        Numbers {
            rate: self.lr,
            kept: 1.0 - self.lr * self.weight_decay,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.eps,
            scale1: unbiased(self.beta1),
            scale2: unbiased(self.beta2),
            ..Numbers::default()
        }
    }

    fn rule(&self) -> Rule {
        Rule::AdamW
    }
}

impl SgdConfig {
    fn numbers(&self, _: u32) -> Numbers {
        Numbers {
            rate: self.lr,
            decay: self.weight_decay,
            beta1: self.momentum,
            scale1: f64::from(u8::from(self.nesterov)),
            ..Numbers::default()
        }
    }

    fn rule(&self) -> Rule {
        match self.momentum == 0.0 {
            true => Rule::Plain,
            false => Rule::Momentum,
        }
    }
}

impl LionConfig {
    fn numbers(&self, _: u32) -> Numbers {
        Numbers {
            rate: self.lr,
            kept: 1.0 - self.lr * self.weight_decay,
            beta1: self.beta1,
            beta2: self.beta2,
            ..Numbers::default()
        }
    }

    fn rule(&self) -> Rule {
        Rule::Lion
    }
}

macro_rules! optimizer {
    ($optimizer:ident, $config:ident) => {
        impl Optimizer for $optimizer {
            type Config = $config;

            /// Variables that are no floats are left out, as by Candle's optimisers.
            ///
            /// # Errors
            /// Variables of several devices, one that is given twice, or no memory for the state.
            fn new(vars: Vec<Var>, config: $config) -> Result<Self> {
                let name = stringify!($optimizer);
                let weights = Weights::new(name, vars, config.rule(), &config.shared)?;
                Ok(Self { weights, config })
            }

            /// Steps the variables that have gradients.
            ///
            /// # Errors
            /// A gradient of another shape or dtype than its variable, or a failed launch.
            fn step(&mut self, gradients: &GradStore) -> Result<()> {
                let (rule, config) = (self.config.rule(), &self.config);
                self.weights
                    .step(gradients, rule, &config.shared, |step| config.numbers(step))
            }

            fn learning_rate(&self) -> f64 {
                self.config.lr
            }

            fn set_learning_rate(&mut self, lr: f64) {
                self.config.lr = lr;
            }
        }

        impl $optimizer {
            /// What it was made with, and the learning rate set since.
            pub fn config(&self) -> &$config {
                &self.config
            }

            /// The norm of all gradients of the last step, before clipping: one f32 (f64 of f64 weights) on the device.
            /// None if nothing is clipped.
            pub fn gradient_norm(&self) -> Option<&Tensor> {
                self.weights.norm.as_ref()
            }

            /// The variables.
            pub fn into_inner(self) -> Vec<Var> {
                self.weights.into_vars()
            }
        }
    };
}
optimizer!(AdamW, AdamWConfig);
optimizer!(Sgd, SgdConfig);
optimizer!(Lion, LionConfig);
