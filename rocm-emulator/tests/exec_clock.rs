//! The model of time on programs whose time follows from its rules.

mod clock_support;

use candle_rocm_testing::gpu::Arg::{U32, U64};
use candle_rocm_testing::gpu::{Arg, Gpu};
use clock_support::time_of;
use rocm_emulator::exec::{Cycles, Sampling};
use rocm_emulator::isa::Target;

/// GPUs of CDNA that have a model.
const TIMED: [Target; 2] = [Target::Gfx90a, Target::Gfx942];

/// Loops of `n` rounds, whose code the instruction cache holds from the second round on.
const SOURCE: &str = r#"
#include "hip_min.h"
#define KERNEL extern "C" __global__ void
#define X __builtin_amdgcn_workitem_id_x()
#define WORKGROUP __builtin_amdgcn_workgroup_id_x()
#define TIMES(n, code) ".rept " #n "\n" code "\n.endr\n"
typedef float four __attribute__((ext_vector_type(4)));

KERNEL adds_1024(unsigned *out) { asm volatile(TIMES(1024, "v_add_u32 v1, v1, v1") ::: "v1"); }

#define USES "s20", "s21", "scc", "v1", "v4", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "memory"
#define LOOP(NAME, BODY)                                                                        \
    KERNEL NAME(unsigned *out, unsigned n) {                                                    \
        unsigned wave = __builtin_amdgcn_readfirstlane(X / 64);                                 \
        asm volatile("s_mov_b32 s20, %0\n1:\n" BODY                                             \
                     "s_sub_u32 s20, s20, 1\n s_cmp_lg_u32 s20, 0\n s_cbranch_scc1 1b"          \
                     :: "s"(n), "s"(wave) : USES);                                              \
    }
LOOP(empty, "")
LOOP(adds, TIMES(64, "v_add_u32 v1, v1, v1"))
LOOP(exps, TIMES(64, "v_exp_f32 v1, v1"))
LOOP(scalars, TIMES(64, "s_add_u32 s21, s21, s21"))
LOOP(nops, TIMES(64, "s_nop 7"))
LOOP(both, TIMES(64, "v_add_u32 v1, v1, v1\n s_add_u32 s21, s21, s21"))

// Of 16x16 results, 16 deep: on their own sums, on two sums in turn, each on the last one's result as a factor, and with
// three adds between them, which are issued while the matrix unit works.
#define MATRIX "v_mfma_f32_16x16x16f16 "
LOOP(products, TIMES(64, MATRIX "v[8:11], v[4:5], v[6:7], v[8:11]"))
LOOP(independent, TIMES(32, MATRIX "v[8:11], v[4:5], v[6:7], v[8:11]\n" MATRIX "v[12:15], v[4:5], v[6:7], v[12:15]"))
LOOP(chained, TIMES(64, MATRIX "v[8:11], v[8:9], v[6:7], v[4:7]"))
LOOP(covered, TIMES(64, MATRIX "v[8:11], v[4:5], v[6:7], v[8:11]\n .rept 3\n v_add_u32 v1, v1, v1\n .endr"))

// The first wavefront adds before the barrier, the others after it.
#define HALVES(BARRIER)                                                                                   \
    "s_cmp_eq_u32 %1, 0\n s_cbranch_scc0 2f\n" TIMES(128, "v_add_u32 v1, v1, v1") "2:\n" BARRIER            \
    "s_cmp_eq_u32 %1, 0\n s_cbranch_scc1 3f\n" TIMES(128, "v_add_u32 v1, v1, v1") "3:\n" BARRIER
LOOP(apart, HALVES(""))
LOOP(meeting, HALVES("s_barrier\n"))

#define READS(NAME, BODY)                                                                                       \
    KERNEL NAME(unsigned *out, unsigned n, unsigned stride) {                                                   \
        __shared__ unsigned lds[16384];                                                                         \
        if (stride == ~0u) lds[X] = out[X];                                                                     \
        unsigned at = (unsigned)(unsigned long)(__attribute__((address_space(3))) unsigned *)lds + X * stride;  \
        asm volatile("s_mov_b32 s20, %0\n1:\n" BODY                                                             \
                     "s_sub_u32 s20, s20, 1\n s_cmp_lg_u32 s20, 0\n s_cbranch_scc1 1b"                          \
                     :: "s"(n), "v"(at) : USES);                                                                \
    }
READS(one_by_one, TIMES(32, "ds_read_b32 v4, %1\n s_waitcnt lgkmcnt(0)"))
READS(together, TIMES(32, "ds_read_b32 v4, %1") "s_waitcnt lgkmcnt(0)\n")

// Each loads the address of the next.
KERNEL chase_64(const unsigned long *from) {
    asm volatile(TIMES(64, "global_load_dwordx2 %0, %0, off\n s_waitcnt vmcnt(0)") : "+v"(from) :: "memory");
}
KERNEL none_of_chase(const unsigned long *from) { asm volatile("" : "+v"(from)); }

KERNEL copy(const four *from, four *to) {
    unsigned i = WORKGROUP * 256 + X;
    to[i] = from[i];
}
// Every workgroup the same megabyte.
KERNEL again(const four *from, four *to) {
    four sum = 0;
    for (unsigned i = X; i < 65536; i += 256) sum += from[i];
    if (sum.x == 1.5f) to[X] = sum;
}
"#;

/// Cycles of a round of a loop in so many wavefronts.
fn round_of(gpu: &Gpu, kernel: &str, waves: u32, more: &[Arg]) -> u64 {
    clock_support::round_of(gpu, kernel, 64 * waves, more)
}

/// What a round's end takes: two scalar instructions, and the branch.
fn end_of_round(target: Target) -> u64 {
    2 * 4 + u64::from(target.timing().unwrap().branch)
}

#[test]
fn instructions_that_depend_on_each_other_take_their_latencies() {
    for target in TIMED {
        let gpu = Gpu::new(target, SOURCE);
        let round = |kernel| round_of(&gpu, kernel, 1, &[]) - end_of_round(target);
        assert_eq!(round("empty"), 0, "{target}");
        assert_eq!(round("adds"), 64 * 4, "{target}");
        // The end of the round lies beside the last one.
        let exps = round("exps");
        assert!((64 * 16 - 12..=64 * 16).contains(&exps), "{target}: {exps}");
        assert_eq!(round("scalars"), 64 * 4, "{target}");
        assert_eq!(round("nops"), 64 * 8 * 4, "{target}");
        // One wavefront issues one instruction in a turn.
        assert_eq!(round("both"), 2 * 64 * 4, "{target}");
    }
}

#[test]
fn wavefronts_of_a_simd_share_its_turns() {
    for target in TIMED {
        let gpu = Gpu::new(target, SOURCE);
        let end = end_of_round(target);
        let round = |kernel, waves| round_of(&gpu, kernel, waves, &[]);
        // One for each SIMD.
        assert_eq!(round("adds", 4), 64 * 4 + end, "{target}");
        // Those of a SIMD take turns on the same unit, and the younger add while the oldest branches.
        for share in [2, 4] {
            let found = round("adds", 4 * share);
            let least = u64::from(share) * 64 * 4;
            assert!(
                (least..least + 2 * end).contains(&found),
                "{target}: {found}"
            );
        }
        let near = |found: u64, expected: u64| {
            assert!(
                found.abs_diff(expected) <= 32,
                "{target}: {found}, not {expected}"
            );
        };
        // Where the instructions go to two units, two wavefronts take no longer than one, but for turns at the loop's ends.
        near(round("both", 8), 2 * 64 * 4 + end);
        near(round("nops", 16), 64 * 8 * 4 + end);
    }
}

#[test]
fn the_matrix_unit_is_busy_for_its_passes() {
    for target in TIMED {
        let gpu = Gpu::new(target, SOURCE);
        let architecture = target.architecture();
        let cycles = architecture
            .matrix_cycles("v_mfma_f32_16x16x16_f16")
            .unwrap();
        assert_eq!(cycles, if target == Target::Gfx942 { 16 } else { 32 });
        let round = |kernel, waves| round_of(&gpu, kernel, waves, &[]);
        // The last one works while the round ends.
        let near = |found: u64, expected: u64| {
            let end = expected + end_of_round(target);
            assert!(
                (expected..=end).contains(&found),
                "{target}: {found}, not {expected}"
            );
        };
        near(round("products", 1), 64 * cycles);
        near(round("independent", 1), 64 * cycles);
        // The result as a factor is there three turns after the last pass.
        near(round("chained", 1), 64 * (cycles + 12));
        near(round("covered", 1), 64 * cycles);
        near(round("products", 8), 2 * 64 * cycles);
    }
}

#[test]
fn lds_reads_take_their_latency_and_conflicts() {
    for target in TIMED {
        let gpu = Gpu::new(target, SOURCE);
        let latency = u64::from(target.timing().unwrap().lds);
        let end = end_of_round(target);
        let round = |kernel, waves, stride| round_of(&gpu, kernel, waves, &[U32(stride)]);
        // Two SIMDs' way to the LDS passes 64 bytes a cycle, the banks serve conflicts one after the other; the wait has a
        // turn.
        for (stride, service) in [(4, 4), (8, 4), (16, 8), (32, 16), (64, 32), (128, 64)] {
            let expected = 32 * (latency + service + 4) + end;
            assert_eq!(
                round("one_by_one", 1, stride),
                expected,
                "{target}, stride {stride}"
            );
            // Asked for together they come as fast as they are served.
            let expected = 31 * service.max(4) + latency + service + 4 + end;
            let found = round("together", 1, stride);
            // The counter counts to 15: the others wait to be asked for, some for a turn.
            assert!(
                found >= expected && found < expected + 250,
                "{target}: {found}, {expected}"
            );
        }
        // Four wavefronts share the banks.
        let found = round("together", 4, 128);
        assert!(found.abs_diff(4 * 32 * 64) <= 200, "{target}: {found}");
    }
}

#[test]
fn a_chain_of_loads_takes_the_latency_of_where_they_hit() {
    for target in TIMED {
        let gpu = Gpu::new(target, SOURCE);
        let timing = target.timing().unwrap();
        let per_load = |stride: u64, round: u64, sampling| {
            let base = gpu.buffer(1 << 20);
            let next = |i: u64| base + (i + 1) % round * stride;
            let words: Vec<u64> = (0..(1 << 20) / 8)
                .map(|at| match at * 8 % stride {
                    0 if at * 8 / stride < round => next(at * 8 / stride),
                    _ => 0,
                })
                .collect();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            gpu.memory.write(base, &bytes).unwrap();
            let run = |kernel| time_of(&gpu, sampling, kernel, [1, 1], &[U64(base)]).cycles;
            let all = run("chase_64") - run("none_of_chase");
            gpu.memory.free(base).unwrap();
            all as f64 / 64.0
        };
        // The wait's turn, and the lines of code, fetched once.
        let near = |found: f64, latency: u32| {
            let expected = f64::from(latency);
            let code = f64::from(64 * 12 / timing.instructions[1] * timing.l2.latency) / 64.0;
            assert!(
                (expected..expected + code + 20.0).contains(&found),
                "{target}: {found}, not {expected}"
            );
        };
        let cold = Sampling::default();
        near(per_load(4096, 64, cold), timing.memory.latency);
        let warm = Sampling { warm: true, ..cold };
        if let Some(infinity) = timing.infinity {
            near(per_load(4096, 64, warm), infinity.latency);
        }
        // Over and over two lines: the first two loads miss.
        let misses = f64::from(2 * (timing.memory.latency - timing.l1_latency)) / 64.0;
        near(per_load(4096, 2, cold) - misses, timing.l1_latency);
    }
}

#[test]
fn a_barrier_waits_for_the_last() {
    for target in TIMED {
        let gpu = Gpu::new(target, SOURCE);
        let branch = u64::from(target.timing().unwrap().branch);
        let adds = 128 * 4;
        let round = |kernel| round_of(&gpu, kernel, 2, &[]);
        let near = |found: u64, expected: u64| {
            assert!(
                found.abs_diff(expected) <= 8,
                "{target}: {found}, not {expected}"
            );
        };
        // Beside each other, on two SIMDs: a comparison, a branch that is not taken, the adds, one that is.
        near(
            round("apart"),
            4 + 4 + adds + 4 + branch + end_of_round(target),
        );
        // One after the other.
        near(
            round("meeting"),
            2 * (4 + 4 + adds + 4) + end_of_round(target),
        );
    }
}

#[test]
fn streams_take_the_time_of_their_bytes() {
    for target in TIMED {
        let gpu = Gpu::new(target, SOURCE);
        let timing = target.timing().unwrap();
        let bytes: u64 = 30 << 20;
        let (from, to) = (gpu.buffer(bytes), gpu.buffer(bytes));
        let grid = (bytes / 16 / 256) as u32;
        let args = [U64(from), U64(to)];
        let run = |sampling| time_of(&gpu, sampling, "copy", [grid, 256], &args);
        let all = Sampling {
            rounds: 1000,
            ..Sampling::default()
        };
        let whole = run(all);
        assert_eq!(whole.workgroups, u64::from(grid));
        let least = 2.0 * bytes as f64 / f64::from(timing.memory.gigabytes_per_second) / 1000.0;
        let share = least / whole.microseconds;
        // The first bytes come after a latency, which is a few per cent of so short a copy.
        assert!((0.85..1.0).contains(&share), "{target}: {share}");
        // A part of it tells the same, nearly.
        let three = Sampling {
            rounds: 3,
            ..Sampling::default()
        };
        let sampled = run(three);
        let ratio = sampled.microseconds / whole.microseconds;
        assert!(sampled.sampled < whole.sampled, "{target}");
        assert!((0.95..1.05).contains(&ratio), "{target}: {ratio}");
        // The same without executing the others, and again: nothing is left to chance.
        let alone = Sampling {
            alone: true,
            ..three
        };
        assert_eq!(run(alone), sampled, "{target}");
        // Wherever the host puts the buffers.
        let turned = [U64(to), U64(from)];
        let elsewhere = time_of(&gpu, alone, "copy", [grid, 256], &turned);
        assert_eq!(elsewhere, sampled, "{target}");
        // From the Infinity Cache it is faster, where there is one.
        let warm = run(Sampling { warm: true, ..all });
        let faster = warm.microseconds < 0.8 * whole.microseconds;
        assert_eq!(faster, timing.infinity.is_some(), "{target}");
    }
}

#[test]
fn what_the_second_level_holds_is_read_at_its_rate() {
    for target in TIMED {
        let gpu = Gpu::new(target, SOURCE);
        let timing = target.timing().unwrap();
        let (from, to) = (gpu.buffer(1 << 20), gpu.buffer(4096));
        let units = target.multiprocessors();
        let grid = 8 * units;
        let time = time_of(
            &gpu,
            Sampling::default(),
            "again",
            [grid, 256],
            &[U64(from), U64(to)],
        );
        let read = f64::from(grid) * f64::from(1 << 20) / time.microseconds / 1000.0;
        let of_l2 = read / f64::from(timing.l2.gigabytes_per_second);
        // All workgroups read the same lines at about the same time: some hit in the first level.
        assert!(
            (0.5..1.6).contains(&of_l2),
            "{target}: {of_l2} of the second level's"
        );
        assert!(time.memory < 0.2, "{target}: {}", time.memory);
    }
}

#[test]
fn rounds_and_the_tail_count() {
    for target in TIMED {
        let gpu = Gpu::new(target, SOURCE);
        let out = gpu.buffer(4096);
        // 16 wavefronts, of which a compute unit holds two workgroups.
        let run = |grid| {
            let time = time_of(
                &gpu,
                Sampling::default(),
                "adds_1024",
                [grid, 1024],
                &[U64(out)],
            );
            assert_eq!(time.held, 2, "{target}");
            time.cycles as f64
        };
        let units = target.multiprocessors();
        let one = run(2 * units);
        let two = run(4 * units);
        // Beyond the first fetch of the code.
        assert!((1.6..2.05).contains(&(two / one)), "{target}: {one}, {two}");
        // A few workgroups more are another round, half as full.
        let tail = run(4 * units + units / 4);
        assert!(
            (1.2..1.6).contains(&(tail / two)),
            "{target}: {two}, {tail}"
        );
    }
}

#[test]
fn gpus_without_parameters_say_so() {
    let refused = Cycles::new(Target::Gfx1031, Sampling::default())
        .err()
        .unwrap();
    let text = refused.to_string();
    assert!(
        text.contains("gfx1031") && text.contains("gfx90a, gfx942, gfx1030, gfx1100, gfx1151 and"),
        "{text}"
    );
}
