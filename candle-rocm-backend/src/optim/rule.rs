//! What a step makes of a weight, its gradient and its state: the kernels' rules, of Candle's operators.

use candle_core::{Result, Tensor};

/// A rule of kernels/optimizers/rules.cuh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    AdamW,
    /// Gradient descent.
    Plain,
    /// The same with momentum.
    Momentum,
    Lion,
}

/// A rule's numbers in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) rate: f64,
    /// What decay leaves of weights.
    pub(super) kept: f64,
    /// What of the weights is added to gradients.
    pub(super) decay: f64,
    pub(super) beta1: f64,
    pub(super) beta2: f64,
    pub(super) epsilon: f64,
    pub(super) scale1: f64,
    pub(super) scale2: f64,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            rate: 0.0,
            kept: 1.0,
            decay: 0.0,
            beta1: 0.0,
            beta2: 0.0,
            epsilon: 0.0,
            scale1: 0.0,
            scale2: 0.0,
        }
    }
}

impl Rule {
    /// The kernel's name.
    pub(super) fn kernel(self) -> &'static str {
        match self {
            Self::AdamW => "adamw",
            Self::Plain | Self::Momentum => "sgd",
            Self::Lion => "lion",
        }
    }

    /// How many tensors of state a weight has.
    pub(super) fn states(self) -> usize {
        match self {
            Self::AdamW => 2,
            Self::Momentum | Self::Lion => 1,
            Self::Plain => 0,
        }
    }

    /// The weight after a step, and its state. All are of one dtype.
    pub(super) fn composed(
        self,
        numbers: &Numbers,
        weight: &Tensor,
        gradient: &Tensor,
        states: &[Tensor],
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let Numbers {
            rate,
            kept,
            decay,
            beta1,
            beta2,
            epsilon,
            scale1,
            scale2,
        } = *numbers;
        let mean = |before: &Tensor, new: &Tensor, beta: f64| -> Result<Tensor> {
            (before * beta)? + (new * (1.0 - beta))?
        };
        let (direction, states) = match (self, states) {
            (Self::AdamW, [first, second]) => {
                let first = mean(first, gradient, beta1)?;
                let second = mean(second, &gradient.sqr()?, beta2)?;
                let scale = ((&second * scale2)?.sqrt()? + epsilon)?;
                (((&first * scale1)? / scale)?, vec![first, second])
            }
            (Self::Lion, [first]) => {
                let direction = mean(first, gradient, beta1)?.sign()?;
                (direction, vec![mean(first, gradient, beta2)?])
            }
            (_, states) => {
                let gradient = (gradient + (weight * decay)?)?;
                match states {
                    [first] => {
                        let first = ((first * beta1)? + &gradient)?;
                        let direction = match scale1 == 0.0 {
                            true => first.clone(),
                            false => (gradient + (&first * beta1)?)?,
                        };
                        (direction, vec![first])
                    }
                    _ => (gradient, Vec::new()),
                }
            }
        };
        let weight = ((weight * kept)? - (direction * rate)?)?;
        Ok((weight, states))
    }
}
