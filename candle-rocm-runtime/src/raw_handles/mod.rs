//! Streams, events, graphs, memory and kernels by HIP's handles and addresses: the driver's functions under CUDA's own names
//! ([`streams`], [`graphs`], [`memory`], [`modules`], [`devices`], [`profiler`]), and as cudarc's `result` layer has them ([`result`]).
//!
//! What they do the runtime knows: memory comes from the pool, a capture that begins here is a capture to the safe layer, a
//! graph keeps the memory that its launches use, and kernels are launched on the grids of the safe layer. Uses of buffers are
//! not tracked, as in CUDA: who passes addresses orders the work.

mod same;

pub mod devices;
pub mod graphs;
pub mod memory;
pub mod modules;
pub mod profiler;
pub mod result;
pub mod streams;
