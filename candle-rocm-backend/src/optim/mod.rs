//! Optimisers that step all weights in one launch, as [`candle_nn::Optimizer`]s: a training loop changes one line.
//!
//! On a GPU a step reads a table of the tensors' addresses and sizes: one launch for all weights of a dtype, two or three
//! more where gradients are clipped. State is f32, whatever the weights' dtype, and so is what is computed. Weights of 16
//! bits are rounded to the nearest, or have copies in f32 ([`Shared::masters`]), or are rounded up or down by chance
//! ([`Shared::stochastic`]). The norm by which gradients are clipped ([`Shared::max_norm`]) is computed on the device and
//! never read back. A step's results are the same in every run.
//!
//! [`Muon`] steps matrices by Candle's products instead, and all else as [`AdamW`].
//!
//! f64 weights, and weights on the CPU, are stepped by Candle's operators; their state is f64 where they are.
//!
//! ```
//! use candle_core::{Device, Tensor, Var};
//! use candle_nn::Optimizer as _;
//! use candle_rocm_backend::{optim, runtime, RuntimeKind};
//!
//! # runtime::select(RuntimeKind::Emulator)?;
//! let device = Device::new_cuda(0)?;
//! let weight = Var::new(&[3f32, -2.], &device)?;
//! let config = optim::AdamWConfig {
//!     lr: 0.1,
//!     shared: optim::Shared {
//!         max_norm: Some(1.),
//!         ..Default::default()
//!     },
//!     ..Default::default()
//! };
//! // let mut optimizer = candle_nn::AdamW::new(...)?;
//! let mut optimizer = optim::AdamW::new(vec![weight.clone()], config)?;
//! for _ in 0..3 {
//!     optimizer.backward_step(&weight.sqr()?.sum_all()?)?;
//! }
//! assert!(weight.to_vec1::<f32>()?[0] < 2.8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod composed;
mod fused;
mod muon;
mod optimizers;
mod rule;
mod weights;

pub use call::Shared;
pub use muon::{Muon, MuonConfig};
pub use optimizers::{AdamW, AdamWConfig, Lion, LionConfig, Sgd, SgdConfig};
