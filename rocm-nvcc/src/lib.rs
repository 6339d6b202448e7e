//! CUDA C++ for AMD GPUs: other people's `.cu` files compiled as they are, by clang's HIP mode with headers of ours under
//! CUDA's names.
//!
//! - [`Compiler`]: finds the toolchain, the architectures and the cache, and compiles [`Source`]s to a [`Program`].
//! - [`Options`]: what nvcc and NVRTC are told, as clang understands it.
//! - [`program`]: what is compiled, and what comes of it.
//! - [`text`]: a program's code objects as text, which build scripts embed where they would embed PTX.
//! - [`build_script`]: what build scripts do with `.cu` files.
//! - [`library`]: objects and libraries whose host code launches their kernels.
//! - [`nvcc`]: nvcc's command line; the program of that name is [`nvcc::run`].
//! - [`ptx`]: inline PTX rewritten to C++ before it is compiled.
//! - [`run_time`]: source compiled by a library in the process, such as hiprtc.
//! - [`headers`]: the headers, laid out in a folder.
//!
//! The toolchain, the choice of architectures and the cache are `rocm-toolchain`'s, as for the kernels of
//! `candle-rocm-kernels`.
//!
//! A warp has 32 lanes on every GPU: where wavefronts have 64, each half is a warp. `__CUDA_ARCH__` is
//! [`options::CUDA_ARCH`] unless [`options::CUDA_ARCH_VARIABLE`] or the source's own flags say otherwise.

pub mod build_script;
pub mod compiler;
mod dependent;
pub mod error;
pub mod headers;
pub mod library;
pub mod nvcc;
pub mod options;
pub mod program;
pub mod ptx;
pub mod run_time;
pub mod text;
mod unpatched;

pub use compiler::{Compiler, Side};
pub use error::{Error, Result};
pub use options::Options;
pub use program::{Object, Program, Source};

use rocm_toolchain::variables as of;
pub use rocm_toolchain::{Notice, Notices};

/// Variables of the environment on which results depend, for `cargo::rerun-if-env-changed`.
pub fn variables() -> Vec<&'static str> {
    let own = [
        of::ARCHS,
        of::CLANG,
        of::DEVICE_LIBS,
        of::KERNEL_CACHE,
        of::CUDA_ARCH,
    ];
    own.into_iter().chain(of::ROCM).collect()
}
