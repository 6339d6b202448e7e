//! Collectives over GPUs, in NCCL's shape: AMD's RCCL (NCCL on NVIDIA GPUs) where it loads, and ours.
//!
//! `CANDLE_ROCM_COMM` chooses. An identifier says whose collectives its communicator's are, so that all ranks have the same.
//! Ranks of ours are threads or processes of one machine; `own` says how they exchange data.
//!
//! ```
//! use candle_rocm_runtime::communication::{Comm, ReduceOp};
//! use candle_rocm_runtime::{runtime, Context, RuntimeKind};
//!
//! runtime::select(RuntimeKind::Emulator)?;
//! let stream = Context::new(0)?.default_stream();
//! let comms = Comm::from_devices(vec![stream.clone()])?;
//! let mut x = stream.clone_htod(&[1f32, 2.])?;
//! comms[0].all_reduce_in_place(&mut x, &ReduceOp::Sum)?;
//! assert_eq!(stream.clone_dtoh(&x)?, [1., 2.]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod choice;
mod communicator;
mod error;
mod group;
mod id;
mod library;
mod own;
pub mod result;
mod safe;
pub mod sys;

pub use communicator::Communicator;
pub use error::CommunicationError;
pub use result::{group_end, group_start};
pub use safe::{Comm, Group, Id, NcclType, ReduceOp, RowsToAdd};
