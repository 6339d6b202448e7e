//! The model of time of RDNA's work-group processors, on programs whose time follows from its rules.

mod clock_support;

use candle_rocm_testing::gpu::Arg::{U32, U64};
use candle_rocm_testing::gpu::{Arg, Gpu};
use candle_rocm_testing::hip::{compile, Compile};
use clock_support::{round_of, time_of};
use rocm_emulator::exec::Sampling;
use rocm_emulator::isa::{Architecture, Target};

/// RX 6900 XT, RX 7900 XTX, Radeon 8060S, RX 9070 XT.
const TIMED: [Target; 4] = [
    Target::Gfx1030,
    Target::Gfx1100,
    Target::Gfx1151,
    Target::Gfx1201,
];

/// Loops of `n` rounds, whose code the instruction cache holds from the second round on.
const SOURCE: &str = include_str!("clock_support/rdna.hip");

/// A program of wavefronts of 32 or 64 lanes.
fn gpu(target: Target, options: &[&str]) -> Gpu {
    let mut how = Compile::device(target.name());
    how.args.extend(options.iter().map(|&it| it.to_owned()));
    let gpu = Gpu::empty(target, 1 << 26);
    gpu.program("program", || compile(SOURCE, &how));
    gpu
}

/// What a round's end takes a wavefront: a subtraction; its result, compared; the branch.
fn end_of_round(target: Target) -> u64 {
    let timing = target.timing().unwrap();
    u64::from(timing.scalar) + 1 + u64::from(timing.branch)
}

/// Cycles of a round without its end.
fn round_without_end(gpu: &Gpu, kernel: &str, block: u32, more: &[Arg]) -> u64 {
    round_of(gpu, kernel, block, more).saturating_sub(end_of_round(gpu.target))
}

/// A round in which several wavefronts of each SIMD keep a unit busy for `expected` cycles, but for their rounds' ends.
fn busy(gpu: &Gpu, kernel: &str, block: u32, expected: u64) {
    let found = round_of(gpu, kernel, block, &[]);
    let most = expected + 2 * end_of_round(gpu.target);
    assert!(
        (expected..=most).contains(&found),
        "{}, {kernel}: {found} cycles, not {expected}",
        gpu.target
    );
}

/// `found` cycles beside those that follow from the rules: the last results come while the round ends.
fn near(target: Target, what: &str, found: u64, expected: u64) {
    let slack = 12 + expected / 50;
    assert!(
        found.abs_diff(expected) <= slack,
        "{target}, {what}: {found} cycles, not {expected}"
    );
}

#[test]
fn instructions_take_their_latencies_and_their_units() {
    for target in TIMED {
        let gpu = gpu(target, &[]);
        let round = |kernel| round_without_end(&gpu, kernel, 32, &[]);
        near(target, "empty", round("empty"), 0);
        near(target, "adds", round("adds"), 64 * 5);
        near(target, "independent adds", round("adds_apart"), 64);
        near(target, "sums in place", round("sums"), 64 * 5);
        near(target, "scalars", round("scalars"), 64 * 2);
        near(target, "exps", round("exps"), 64 * 10);
        near(target, "independent exps", round("exps_apart"), 64 * 4);
        // Three others are issued while the transcendental unit works.
        near(target, "exps and adds", round("exps_and_adds"), 64 * 4);
        near(target, "products", round("products"), 64 * 4);
        let rates = target.unit().vector;
        let double = u64::from(rates.f32 / rates.f64);
        busy(&gpu, "doubles", 32, 16 * double);
    }
}

#[test]
fn an_fma_loop_reaches_the_peak() {
    for target in TIMED {
        let gpu = gpu(target, &[]);
        let out = gpu.buffer(4096);
        // 16 wavefronts for each work-group processor, 4 for each of its SIMDs.
        let units = target.multiprocessors();
        let run = |rounds| {
            time_of(
                &gpu,
                Sampling::default(),
                "fmas",
                [units, 512],
                &[U64(out), U32(rounds)],
            )
        };
        let microseconds = run(6).microseconds - run(2).microseconds;
        let operations = 2.0 * 256.0 * 4.0 * 512.0 * f64::from(units);
        let found = operations / microseconds / 1e6;
        let peak = 2.0
            * f64::from(units * target.unit().vector.f32)
            * f64::from(target.facts().product.clock_mhz)
            / 1e6;
        let share = found / peak;
        assert!((0.9..1.001).contains(&share), "{target}: {found} of {peak}");
    }
}

#[test]
fn dual_issue_doubles_what_an_instruction_does() {
    for target in TIMED.into_iter().filter(|&it| it != Target::Gfx1030) {
        let gpu = gpu(target, &[]);
        // As many instructions, of which each has one sum or two.
        busy(&gpu, "fmas", 32 * 16, 4 * 256);
        busy(&gpu, "dual_fmas", 32 * 16, 4 * 256);
    }
}

#[test]
fn operands_of_one_bank_conflict_on_rdna2_alone() {
    for target in TIMED {
        let gpu = gpu(target, &[]);
        let conflicts = if target == Target::Gfx1030 { 3 } else { 1 };
        busy(&gpu, "banks_apart", 32 * 16, 4 * 64);
        busy(&gpu, "one_bank", 32 * 16, 4 * 64 * conflicts);
    }
}

#[test]
fn wavefronts_of_64_take_two_passes() {
    for target in TIMED {
        let gpu = gpu(target, &["-mwavefrontsize64"]);
        let round = |kernel| round_without_end(&gpu, kernel, 64, &[]);
        near(target, "adds", round("adds_apart"), 2 * 64);
        near(target, "exps", round("exps_apart"), 2 * 64 * 4);
        // What can be dual-issued is, for both halves.
        let passes = if target == Target::Gfx1030 { 2 } else { 1 };
        busy(&gpu, "fmas", 64 * 8, 2 * 256 * passes);
    }
}

#[test]
fn matrix_instructions_take_their_cycles() {
    for target in TIMED.into_iter().filter(|&it| it != Target::Gfx1030) {
        let gpu = gpu(target, &[]);
        let round = |kernel, block| round_without_end(&gpu, kernel, block, &[]);
        let rdna4 = target.architecture() == Architecture::Rdna4;
        let cycles = if rdna4 { 16 } else { 32 };
        near(target, "f16", round("wmmas", 32), 32 * cycles);
        let small = if rdna4 { 4 } else { 16 };
        near(target, "iu4", round("small_wmmas", 32), 32 * small);
        // Two wavefronts of a SIMD, of five: the one multiplies, the other adds.
        let both = round("wmmas_beside_adds", 32 * 5);
        let adds = 32 * 8;
        let expected = if rdna4 {
            32 * cycles
        } else {
            32 * cycles + adds
        };
        assert!(
            both.abs_diff(expected) <= expected / 8,
            "{target}: {both} cycles, not {expected}"
        );
    }
}

#[test]
fn lds_reads_take_their_latency_and_conflicts() {
    for target in TIMED {
        let gpu = gpu(target, &[]);
        let latency = u64::from(target.timing().unwrap().lds);
        let round = |kernel, block, stride| round_without_end(&gpu, kernel, block, &[U32(stride)]);
        for (stride, service) in [(4, 1), (8, 2), (16, 4), (32, 8), (64, 16), (128, 32)] {
            let what = format!("stride {stride}");
            let one_by_one = round("one_by_one", 32, stride);
            near(target, &what, one_by_one, 32 * (latency + service + 1));
            let together = round("together", 32, stride);
            near(target, &what, together, 32 * service + latency);
        }
        // All of a workgroup's wavefronts share the banks of one LDS.
        near(target, "shared", round("together", 128, 128), 4 * 32 * 32);
    }
}

#[test]
fn in_cu_mode_two_workgroups_have_an_lds_each() {
    for target in TIMED {
        let cycles = |gpu: &Gpu, block, grid| {
            let out = gpu.buffer(4096);
            let run = |rounds| {
                let args = [U64(out), U32(rounds), U32(128)];
                time_of(gpu, Sampling::default(), "together", [grid, block], &args).cycles
            };
            run(30) - run(10)
        };
        let (whole, apart) = (gpu(target, &[]), gpu(target, &["-mcumode"]));
        let grid = target.multiprocessors();
        // One workgroup for each processor: four wavefronts ask one LDS, in either mode.
        let one = cycles(&whole, 128, grid);
        assert!(
            cycles(&apart, 128, grid).abs_diff(one) <= one / 20,
            "{target}"
        );
        // Two in CU mode, of half the size: each its own LDS.
        let two = cycles(&apart, 64, 2 * grid);
        assert!(two < one * 6 / 10, "{target}: {two} of {one}");
    }
}

#[test]
fn a_chain_of_loads_takes_the_latency_of_where_they_hit() {
    for target in TIMED {
        let gpu = gpu(target, &[]);
        let timing = target.timing().unwrap();
        let unit = target.unit();
        // Of so many lines in turn, gone round so often.
        let per_load = |lines: u64, rounds: u32| {
            let stride = 128;
            let base = gpu.buffer(lines * stride);
            let next = |i: u64| base + (i + 1) % lines * stride;
            let mut bytes = vec![0; (lines * stride) as usize];
            for i in 0..lines {
                let at = (i * stride) as usize;
                bytes[at..at + 8].copy_from_slice(&next(i).to_le_bytes());
            }
            gpu.memory.write(base, &bytes).unwrap();
            let run = |rounds| {
                let args = [U64(base), U32(rounds * lines as u32 / 64)];
                time_of(&gpu, Sampling::default(), "chase", [1, 1], &args).cycles
            };
            let all = run(2 + rounds) - run(2);
            gpu.memory.free(base).unwrap();
            all as f64 / f64::from(rounds) / lines as f64
        };
        let close = |found: f64, latency: u32| {
            let ratio = found / f64::from(latency);
            assert!(
                (0.9..1.15).contains(&ratio),
                "{target}: {found}, not {latency}"
            );
        };
        close(per_load(64, 4), timing.l1_latency);
        let beyond_l0 = u64::from(unit.vector_cache_kib) * 1024 / 128 * 2;
        let latency = timing
            .array
            .map_or(timing.l2.latency, |array| array.latency);
        close(per_load(beyond_l0, 2), latency);
    }
}

#[test]
fn stores_are_counted_apart() {
    for target in TIMED {
        let gpu = gpu(target, &[]);
        let round = |kernel| {
            let out = gpu.buffer(1 << 16);
            let run = |rounds| {
                time_of(
                    &gpu,
                    Sampling::default(),
                    kernel,
                    [1, 32],
                    &[U64(out), U32(rounds)],
                )
                .cycles
            };
            (run(30) - run(10)) / 20
        };
        let timing = target.timing().unwrap();
        // A load that hits is waited for, the store before it not.
        let loads = round("waits_for_loads");
        let stores = round("waits_for_stores");
        assert!(
            loads < u64::from(timing.l1_latency) + 60 && stores > u64::from(timing.l2.latency),
            "{target}: {loads}, {stores}"
        );
    }
}

#[test]
fn a_hint_costs_a_turn_and_no_more() {
    for target in TIMED.into_iter().filter(|&it| it != Target::Gfx1030) {
        let gpu = gpu(target, &[]);
        // Within the latency of what it waits for.
        near(
            target,
            "dependent",
            round_without_end(&gpu, "hinted", 32, &[]),
            64 * 5,
        );
        // Other wavefronts fill the SIMD meanwhile.
        near(
            target,
            "hidden",
            round_without_end(&gpu, "hinted_apart", 32 * 8, &[]),
            2 * 64,
        );
    }
}

#[test]
fn a_split_barrier_lets_work_be_done_meanwhile() {
    let gpu = gpu(Target::Gfx1201, &[]);
    // The first wavefront is late; the others add between arriving and waiting.
    let together = round_without_end(&gpu, "late", 64, &[]);
    let split = round_without_end(&gpu, "late_split", 64, &[]);
    let adds = 128 * 5;
    near(Target::Gfx1201, "together", together, 2 * adds);
    // The others jump over what the first adds.
    let branch = u64::from(Target::Gfx1201.timing().unwrap().branch);
    near(Target::Gfx1201, "split", split, adds + branch);
}

#[test]
fn copies_take_the_time_of_their_bytes() {
    for target in TIMED {
        let gpu = gpu(target, &[]);
        let memory = target.timing().unwrap().memory.gigabytes_per_second;
        let bytes: u64 = 30 << 20;
        let args = [U64(gpu.buffer(bytes)), U64(gpu.buffer(bytes))];
        let grid = (bytes / 16 / 256) as u32;
        let time = time_of(&gpu, Sampling::default(), "copy", [grid, 256], &args);
        let found = 2.0 * bytes as f64 / time.microseconds / 1000.0;
        let share = found / f64::from(memory);
        assert!((0.8..1.0).contains(&share), "{target}: {found} of {memory}");
        assert!(time.memory > 0.8, "{target}: {}", time.memory);
        assert!(time.launch.is_some_and(|launch| launch.stream_ns > 1000));
    }
}
