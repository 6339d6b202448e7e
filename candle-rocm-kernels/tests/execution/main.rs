//! Runs the kernels on the emulated GPUs and compares them with plain Rust.
//!
//! Every test runs on each instruction set that the build serves: wavefronts of 64 and of 32 lanes. References are
//! written from Candle's CPU semantics, in f64 where a tolerance applies.

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

use device::Gpu;

/// The emulated GPUs that the tests run on, as far as the build embedded them.
const ARCHITECTURES: [&str; 8] = [
    "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201",
];

/// Runs `test` on each of them, with the geometries that Candle asks for and with those that a GPU of one compute unit
/// gets instead.
fn on_each_gpu(test: impl Fn(&Gpu)) {
    let mut ran = 0;
    for arch in ARCHITECTURES {
        if candle_rocm_kernels::serves(arch) {
            test(&Gpu::new(arch, None));
            test(&Gpu::new(arch, Some(1)));
            ran += 1;
        }
    }
    assert!(ran > 0, "the build embedded none of {ARCHITECTURES:?}");
}

/// A fixed sequence of numbers in -1..1, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        // Constants of Knuth's MMIX generator; the upper bits are good enough here.
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn below(&mut self, limit: usize) -> usize {
        ((self.next() + 1.0) / 2.0 * limit as f64) as usize % limit
    }
}
