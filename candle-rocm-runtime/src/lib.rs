//! Everything between Candle and an AMD GPU that is not a kernel: the host layer that Candle's CUDA
//! backend finds under `cudarc`'s name.
//!
//! The files stand in layers; each imports only from its own and from those before it, and no files import each other
//! in a circle (`testing/tests/layers_of_crates` holds them to it):
//!
//! 1. base: [`error`], [`dtype`], [`cuda_names`], [`enqueued`], and [`hip`]: HIP as one table of functions, filled from AMD's library
//!    or from the emulator;
//! 2. [`runtime`]: which of them this process uses;
//! 3. [`device`]: its GPUs, and where the layers above keep what they have for each; [`plan`]: what all plans of launches are
//!    made of, and where they are kept;
//! 4. order: what names a stream, the streams that live, what is done when one ends;
//! 5. [`pool`]: device memory, allocated and freed in the order of streams;
//! 6. stream: [`context`], [`stream`], captures, [`event`]: where work runs and in which order;
//! 7. [`profile`]: what ran, and for how long;
//! 8. memory: [`buffer`] with its views, [`host`], [`copy`], workspaces;
//! 9. kernels: [`module`] with its images, submitting on a grid, few long rows, [`ready`]: launches whose grids were checked once;
//! 10. [`gemm`]: matrix products: problem, product, plan, library, tuner;
//! 11. [`convolution`]: convolutions and their gradients; [`launch`]: launches with their arguments, some of which other kernels
//!     replace; [`quantized`]: products of quantised matrices;
//! 12. [`graph`]: captured work; [`random`], our own generator; [`blas`] and [`rng`] give cuBLAS's and cuRAND's shape;
//!     [`foreign`]: launches from C functions; [`blas_lt`] gives cuBLASLt's, [`dnn`] cuDNN's and
//!     [`driver_api`] the driver's, [`raw_handles`] by HIP's handles, [`communication`] NCCL's; linked: CUDA's runtime for C++
//!     that a program links.
//!
//! A type of a lower layer gets methods on upper ones: [`Device::pool`] is in the pool's file, [`Stream::launch_builder`]
//! in the launches'. What belongs to a GPU is kept by its owner, not by [`Device`].
//!
//! ```
//! use candle_rocm_runtime::{runtime, Context, LaunchConfig, PushKernelArg as _, RuntimeKind};
//!
//! runtime::select(RuntimeKind::Emulator)?;
//! let context = Context::new(0)?;
//! let stream = context.default_stream();
//! let x = stream.clone_htod(&[1f32, 2., 3., 4.])?;
//! let mut y = stream.alloc_zeros::<f32>(4)?;
//! let affine = context.kernel(&candle_rocm_kernels::AFFINE, "affine_f32")?;
//! let mut launch = stream.launch_builder(&affine);
//! // Elements, dimensions, and no layout: the tensors are contiguous.
//! launch.arg(&4usize).arg(&1usize).arg(&0usize);
//! launch.arg(&x).arg(&mut y).arg(&10f32).arg(&0.5f32);
//! // SAFETY: the arguments are those of the kernel, and both buffers hold four elements.
//! unsafe { launch.launch(LaunchConfig::for_num_elems(4)) }?;
//! assert_eq!(stream.clone_dtoh(&y)?, [10.5, 20.5, 30.5, 40.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The semantics are those of cudarc 0.19.10's safe layer, which Candle was written against: buffers
//! order their uses on different streams by events, errors that a drop cannot return wait in the context,
//! and nothing blocks the host unless it must. This crate knows nothing of Candle's own types.

mod base;
pub mod blas;
pub mod blas_lt;
pub mod communication;
pub mod convolution;
pub mod device;
pub mod dnn;
pub mod driver_api;
pub mod foreign;
pub mod gemm;
pub mod graph;
mod kernels;
mod linked;
mod memory;
pub mod nvtx;
mod order;
pub mod plan;
pub mod pool;
pub mod profile;
pub mod quantized;
pub mod random;
pub mod raw_handles;
pub mod rng;
pub mod runtime;
pub mod stream;

// Each layer's modules under the crate's own name. Inside the crate they are imported from where they are.
pub use base::{cuda_names, dtype, enqueued, error, hip};
/// The variables of the environment, which the crates above name in their errors.
pub use candle_rocm_variables as variables;
pub use kernels::{launch, module, radix_sort, ready};
pub use memory::{buffer, copy, host, workspace};
pub use stream::{context, event};

pub use blas::{Blas, Gemm, GemmConfig, StridedBatchedConfig};
pub use buffer::{DeviceBuffer, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop, View, ViewMut};
pub use context::Context;
pub use device::{Device, DeviceInfo};
pub use dtype::{DeviceRepr, ValidAsZeroBits};
pub use error::{BlasError, CompileError, DnnError, Error, ErrorKind, RandomError, Result};
pub use event::Event;
pub use graph::Graph;
pub use host::{HostSlice, PinnedHostSlice};
pub use launch::{LaunchArgs, LaunchConfig, PushKernelArg};
pub use module::{Function, Image, Module};
pub use pool::PoolStatistics;
pub use rng::Rng;
pub use runtime::{Runtime, RuntimeKind};
pub use stream::Stream;
pub use workspace::Workspace;
