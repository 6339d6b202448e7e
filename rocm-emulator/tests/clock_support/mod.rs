//! What the tests of the clock share: the times of launches, and of a loop's round.
#![allow(dead_code)]

use candle_rocm_testing::gpu::Arg::{U32, U64};
use candle_rocm_testing::gpu::{Arg, Gpu};
use rocm_emulator::exec::{Cycles, LaunchTime, Options, Sampling};

/// The sampling of times beside measured ones: few rounds, and no other work on the GPU.
pub fn alone() -> Sampling {
    Sampling {
        alone: true,
        rounds: 3,
        ..Sampling::default()
    }
}

/// The time of a launch of `grid` workgroups of `block` work-items.
///
/// # Panics
/// The GPU has no clock, or the launch ends with a fault.
pub fn time_of(
    gpu: &Gpu,
    sampling: Sampling,
    kernel: &str,
    sizes: [u32; 2],
    args: &[Arg],
) -> LaunchTime {
    time_with_lds(gpu, sampling, kernel, sizes, 0, args)
}

/// The time of such a launch, with so many bytes of dynamic LDS.
///
/// # Panics
/// As [`time_of`].
pub fn time_with_lds(
    gpu: &Gpu,
    sampling: Sampling,
    kernel: &str,
    [grid, block]: [u32; 2],
    dynamic_lds: u32,
    args: &[Arg],
) -> LaunchTime {
    let cycles = Cycles::new(gpu.target, sampling).unwrap();
    let options = Options {
        cycles: Some(&cycles),
        ..Options::default()
    };
    let (grid, block) = ([grid, 1, 1], [block, 1, 1]);
    let done = gpu.launch(kernel, grid, block, dynamic_lds, args, &options);
    done.unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
    cycles.time().unwrap()
}

/// Cycles of a round of a loop in a workgroup of `block` work-items, as the difference of 30 rounds and 10. The kernel's
/// arguments are a buffer, the rounds, and `more`.
///
/// # Panics
/// As [`time_of`].
pub fn round_of(gpu: &Gpu, kernel: &str, block: u32, more: &[Arg]) -> u64 {
    let out = gpu.buffer(4096);
    let run = |rounds| {
        let args = [&[U64(out), U32(rounds)], more].concat();
        time_of(gpu, Sampling::default(), kernel, [1, block], &args).cycles
    };
    (run(30) - run(10)) / 20
}
