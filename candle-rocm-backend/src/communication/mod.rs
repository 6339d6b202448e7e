//! What the ranks of a program exchange of tensors: each rank is a GPU, in a thread or a process of its own.
//!
//! Over AMD's RCCL, or collectives of our own, as `CANDLE_ROCM_COMM` says (docs/user/communication.md).

mod add_norm;
mod gradients;
mod rank;

pub use candle_rocm_runtime::communication::{Id, ReduceOp};

pub use gradients::Gradients;
pub use rank::Rank;
