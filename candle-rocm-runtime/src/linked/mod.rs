//! CUDA's runtime for C++ that a program links: host code compiled by rocm-nvcc, whose `<<<>>>` reach the runtime that
//! this process chose.
//!
//! These are C functions, which the linker finds: those by which objects register their kernels when the program starts and
//! launch them (HIP's names, as clang calls them), and those of the CUDA runtime that launchers call. Streams are the
//! handles that [`Stream::raw`](crate::stream::Stream::raw) returns, and the GPU is the calling thread's current one.
//!
//! A call that fails returns CUDA's number for it, and `cudaGetErrorString` then tells the whole of it. A launch returns
//! nothing: its error is `cudaGetLastError`'s, and if nobody asks for it the next call of the runtime on that GPU returns it.

mod errors;
mod events;
mod kernels;
mod launches;
mod memory;
mod nvtx;
mod properties;
mod registry;
mod same;
