//! Runs the kernels on the emulated GPUs and compares them with plain Rust.
//!
//! Every test runs on each instruction set that the build serves: wavefronts of 64 and of 32 lanes. References are
//! written from Candle's CPU semantics, in f64 where a tolerance applies.

mod attention;
mod attention_backward;
mod attention_cases;
mod casts;
mod convolutions;
mod device;
mod elements;
mod elementwise;
mod folds;
mod fused;
mod grouped;
mod indexing;
mod matmul;
mod mmq;
mod rows;
mod scans;
mod sorting;
mod transposed;

use candle_rocm_testing::needs;
use device::Gpu;

/// Runs `test` on each emulated GPU, with the geometries that Candle asks for; on one GPU of each width of wavefronts with
/// those that a GPU of one compute unit gets instead, too: how a grid strides is the same source on all.
fn on_each_gpu(test: impl Fn(&Gpu)) {
    for arch in architectures() {
        test(&Gpu::new(arch, None));
        if STRIDING.contains(&arch) {
            test(&Gpu::new(arch, Some(1)));
        }
    }
}

/// The GPUs on which grids of one compute unit run.
const STRIDING: [&str; 2] = ["gfx1100", "gfx942"];

/// The emulated GPUs that the build has kernels for.
fn architectures() -> Vec<&'static str> {
    needs::architectures(candle_rocm_kernels::serves)
}
