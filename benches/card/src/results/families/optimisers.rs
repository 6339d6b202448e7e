//! Steps of the optimisers that step all weights in one launch, with gradients that are the same everywhere.

use candle_core::{Result, Tensor, Var};
use candle_nn::Optimizer;
use candle_rocm_backend::optim::{AdamW, AdamWConfig, Lion, LionConfig, Sgd, SgdConfig, Shared};
use parity::numbers::WIDE_FLOATS;

use crate::results::ladder::{any, Kind, Ladders};
use crate::results::lawful::TRANSCENDENTAL;

const KIND: Kind = Kind {
    top: 8195,
    least: 1,
    // Quotients and roots.
    lawful: Some(TRANSCENDENTAL),
    // A sum for each step, rounded to the weights' dtype; what is added is computed in f32.
    tolerance: Some([4., 1., 16.]),
};

/// Gradients are made shorter than they are.
const CLIPPED: Shared = Shared {
    max_norm: Some(1.),
    masters: false,
    stochastic: None,
};

/// Steps of a case. With one gradient for all of them AdamW would step by its sign, as Lion does.
const STEPS: u64 = 3;

/// The weights `x[0]` after a step with each of the gradients behind them.
fn stepped<O: Optimizer>(x: &[Tensor], make: impl Fn(Vec<Var>) -> Result<O>) -> Result<Tensor> {
    let weights = Var::from_tensor(&x[0])?;
    let mut optimizer = make(vec![weights.clone()])?;
    for gradient in &x[1..] {
        optimizer.backward_step(&(weights.as_tensor() * gradient)?.sum_all()?)?;
    }
    weights.as_tensor().copy()
}

pub(super) fn add(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        let inputs = move |size: usize| {
            let seeds = 121..=121 + STEPS;
            seeds.map(|seed| any(dtype, seed, &[size])).collect()
        };
        ladders.add(KIND, of("adamw"), inputs, |x| {
            let config = AdamWConfig {
                lr: 0.01,
                weight_decay: 0.1,
                ..AdamWConfig::default()
            };
            stepped(x, |weights| AdamW::new(weights, config.clone()))
        });
        ladders.add(KIND, of("sgd, momentum, clipped"), inputs, |x| {
            let config = SgdConfig {
                lr: 0.5,
                momentum: 0.9,
                nesterov: true,
                shared: CLIPPED,
                ..SgdConfig::default()
            };
            stepped(x, |weights| Sgd::new(weights, config.clone()))
        });
        // Sums and products alone.
        let lawful = None;
        ladders.add(Kind { lawful, ..KIND }, of("lion"), inputs, |x| {
            let config = LionConfig {
                lr: 0.01,
                weight_decay: 0.1,
                ..LionConfig::default()
            };
            stepped(x, |weights| Lion::new(weights, config.clone()))
        });
    }
}
