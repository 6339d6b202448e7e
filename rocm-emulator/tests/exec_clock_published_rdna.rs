//! The model of time of RDNA beside what others measured on hardware, none of which its parameters were taken from.
//!
//! `cargo test -p rocm-emulator --test exec_clock_published_rdna -- --nocapture` prints the table of
//! docs/evidence/clock.md.

mod clock_support;

use candle_rocm_testing::gpu::Arg::{U32, U64};
use candle_rocm_testing::gpu::{Arg, Gpu};
use clock_support::{alone, time_of};
use rocm_emulator::isa::Target;

/// Streams, a copy of 16 bytes a work-item, and loops of one instruction.
const SOURCE: &str = include_str!("clock_support/rdna_published.hip");

/// Arrays that each kernel moves, and the bytes of a work-item's element.
const MOVED: [(&str, u64, u64); 4] = [
    ("init", 1, 8),
    ("scale", 2, 8),
    ("triad", 4, 8),
    ("copy", 2, 16),
];

/// GB/s, and by how many per cent the model may be off. RX 6900 XT: RRZE-HPC/gpu-benches, gpu-stream/rx6900xt.txt,
/// workgroups of 512. RX 7900 XTX: rocm-bandwidth-test, ROCm/legacy-rocm-build 2253. Radeon 8060S: rocm-bandwidth-test.
const STREAMS: [(Target, &str, f64, f64); 5] = [
    (Target::Gfx1030, "init", 500.0, 10.0),
    (Target::Gfx1030, "scale", 457.0, 15.0),
    (Target::Gfx1030, "triad", 433.0, 20.0),
    (Target::Gfx1100, "copy", 649.5, 50.0),
    (Target::Gfx1151, "copy", 212.6, 10.0),
];

/// Operations of each lane and instruction, 10^12 of them a second, and per cent by which the model may be off. RX 6900
/// XT: krrishnarraj/clpeak 102. RX 9070 XT: carlushuang/gcnasm, pull request 24 (matrix products in bf16; v_exp_f32).
const RATES: [(Target, &str, f64, f64, f64); 4] = [
    (Target::Gfx1030, "fma_f32", 2.0, 24.48, 10.0),
    (Target::Gfx1030, "fma_f64", 2.0, 1.58, 15.0),
    (Target::Gfx1201, "exp_f32", 1.0, 3.28, 10.0),
    (Target::Gfx1201, "wmma_bf16", 8192.0 / 32.0, 200.0, 5.0),
];

/// A row of the page; its error must be within the bound.
fn row(target: Target, what: &str, unit: &str, [found, published, most]: [f64; 3]) {
    let error = 100.0 * (found / published - 1.0);
    println!("| {target} | {what}, {unit} | {found:.1} | {published} | {error:+.0} % |");
    assert!(error.abs() < most, "{target}, {what}: {error:+.0} %");
}

#[test]
fn memory_beside_published_streams() {
    for (target, kernel, published, most) in STREAMS {
        let gpu = Gpu::new(target, SOURCE);
        let (_, arrays, bytes) = MOVED.into_iter().find(|row| row.0 == kernel).unwrap();
        // As much as the sampled workgroups reach; the launch is of 2 GiB in each array.
        let buffers: Vec<Arg> = (0..4).map(|_| U64(gpu.buffer(15 << 20))).collect();
        let grid = ((1u64 << 31) / bytes / 512) as u32;
        let time = time_of(&gpu, alone(), kernel, [grid, 512], &buffers);
        let moved = (u64::from(grid) * 512 * arrays * bytes) as f64;
        let found = moved / time.microseconds / 1000.0;
        row(target, kernel, "GB/s", [found, published, most]);
    }
}

#[test]
fn units_beside_published_rates() {
    for (target, kernel, operations, published, most) in RATES {
        let gpu = Gpu::new(target, SOURCE);
        let out = gpu.buffer(4096);
        let grid = target.multiprocessors();
        let run = |rounds| time_of(&gpu, alone(), kernel, [grid, 512], &[U64(out), U32(rounds)]);
        let microseconds = run(6).microseconds - run(2).microseconds;
        let lanes = 4.0 * 256.0 * 512.0 * f64::from(grid);
        let found = lanes * operations / microseconds / 1e6;
        row(target, kernel, "10^12/s", [found, published, most]);
    }
}
