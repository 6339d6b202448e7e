//! Runs the kernels on the emulated GPUs and compares them with plain Rust.
//!
//! Every test runs on each of the five instruction sets: wavefronts of 64 and of 32 lanes. References are written from Candle's CPU
//! semantics, in f64 where a tolerance applies.

mod casts;
mod convolutions;
mod device;
mod elements;
mod elementwise;
mod folds;
mod fused;
mod indexing;
mod matmul;
mod mmq;
mod rows;
mod sorting;
mod transposed;

use candle_rocm_testing::needs;
use device::Gpu;

/// The emulated GPUs that the tests run on, as far as the build embedded them.
const ARCHITECTURES: [&str; 5] = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"];

/// Runs `test` on each of them, with the geometries that Candle asks for and with those that a GPU of one compute unit
/// gets instead.
fn on_each_gpu(test: impl Fn(&Gpu)) {
    for arch in architectures() {
        test(&Gpu::new(arch, None));
        test(&Gpu::new(arch, Some(1)));
    }
}

/// Those of [`ARCHITECTURES`] that the build embeds kernels for; each of the others must be allowed to be missing.
fn architectures() -> Vec<&'static str> {
    needs::architectures(ARCHITECTURES, candle_rocm_kernels::serves)
}
