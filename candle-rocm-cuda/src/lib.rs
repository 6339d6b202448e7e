//! CUDA C++ for AMD GPUs: other people's `.cu` files compiled as they are, by clang's HIP mode with headers of ours under
//! CUDA's names.
//!
//! - [`Compiler`]: finds the toolchain, the architectures and the cache, and compiles [`Source`]s to a [`Program`].
//! - [`Options`]: what nvcc and NVRTC are told, as clang understands it.
//! - [`text`]: a program's code objects as text, which build scripts embed where they would embed PTX.
//! - [`build_script`]: what build scripts do with `.cu` files.
//! - [`library`]: objects and libraries whose host code launches their kernels.
//! - [`nvcc`]: nvcc's command line; the program of that name is [`nvcc::run`].
//! - [`ptx`]: inline PTX rewritten to C++ before it is compiled.
//! - [`run_time`]: source compiled by a library in the process, such as hiprtc.
//! - [`headers`]: the headers, laid out in a folder.
//! - [`unpacked`]: sources that are part of a program, laid out likewise.
//!
//! The toolchain, the choice of architectures and the cache are those of the kernels of `candle-rocm-kernels`.
//!
//! A warp has 32 lanes on every GPU: where wavefronts have 64, each half is a warp. `__CUDA_ARCH__` is
//! [`options::CUDA_ARCH`] unless [`options::CUDA_ARCH_VARIABLE`] or the source's own flags say otherwise.

pub mod build_script;
pub mod compiler;
mod dependent;
pub mod error;
pub mod headers;
pub mod library;
mod lock;
pub mod nvcc;
pub mod options;
pub mod ptx;
pub mod run_time;
mod stand_ins;
pub mod text;
pub mod unpacked;
mod unpatched;

// The build of our own kernels and this crate do the same with them.
#[allow(dead_code)]
#[path = "../../candle-rocm-kernels/build/architectures.rs"]
mod architectures;
#[allow(dead_code)]
#[path = "../../candle-rocm-kernels/build/cache.rs"]
mod cache;
#[allow(dead_code)]
#[path = "../../candle-rocm-kernels/build/toolchain.rs"]
mod toolchain;
#[allow(dead_code)]
#[path = "../../candle-rocm-kernels/src/topology.rs"]
mod topology;
#[allow(dead_code)]
#[path = "../../candle-rocm-kernels/src/user_cache.rs"]
mod user_cache;
#[allow(dead_code)]
#[path = "../../candle-rocm-kernels/build/workers.rs"]
mod workers;

pub use compiler::{Compiler, Object, Program, Side, Source};
pub use error::{Error, Result};
pub use options::Options;

/// Variables of the environment on which results depend, for `cargo::rerun-if-env-changed`.
pub fn variables() -> Vec<&'static str> {
    let mut all = vec![
        architectures::VARIABLE,
        toolchain::CLANG_VARIABLE,
        toolchain::DEVICE_LIBS_VARIABLE,
        user_cache::KERNELS_VARIABLE,
        options::CUDA_ARCH_VARIABLE,
    ];
    all.extend(toolchain::ROCM_VARIABLES);
    all
}
