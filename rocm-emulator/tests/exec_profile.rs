//! The counts by instruction of kernels whose conflicts and cache lines are known.

use candle_rocm_testing::gpu::Arg::{U32, U64};
use candle_rocm_testing::gpu::{Arg, Gpu, TARGETS};
use parking_lot::Mutex;
use rocm_emulator::exec::{line_bytes, InstructionProfile, Options, Profile};
use rocm_emulator::isa::Target;

/// Offsets come from arguments, so that the compiler can neither merge the accesses nor leave them out.
const SOURCE: &str = r#"
#include "hip_min.h"
#define KERNEL extern "C" __global__ void
#define X __builtin_amdgcn_workitem_id_x()
typedef unsigned four __attribute__((ext_vector_type(4)));
typedef unsigned two __attribute__((ext_vector_type(2)));

#define LDS_READ(NAME, TYPE)                                          \
    KERNEL NAME(TYPE *out, unsigned stride) {                         \
        __shared__ TYPE lds[16384 / sizeof(TYPE)];                    \
        /* Never: but without it the compiler knows that nothing was written. */ \
        if (stride == ~0u) lds[X] = out[X];                           \
        out[X] = *(TYPE *)((char *)lds + X * stride);                 \
    }
LDS_READ(read4, unsigned)
LDS_READ(read8, two)
LDS_READ(read16, four)

KERNEL write16(unsigned *out, unsigned stride) {
    __shared__ four lds[1024];
    *(four *)((char *)lds + X * stride) = (four){X, X, X, X};
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    if (X == 0) out[0] = *(unsigned *)((char *)lds + stride);
}

KERNEL add_lds(unsigned *out, unsigned stride) {
    __shared__ unsigned lds[4096];
    unsigned *at = (unsigned *)((char *)lds + X * stride);
    __hip_atomic_fetch_add(at, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    if (X == 0) out[0] = *at;
}

KERNEL gather(const unsigned *in, unsigned *out, unsigned stride) {
    out[X] = in[X * stride];
}

// A loop of `n` rounds in which every lane reads what lane 0 does.
KERNEL rounds(const unsigned *in, unsigned *out, unsigned n) {
    unsigned sum = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned next = ((volatile const unsigned *)in)[i + (sum & X & 0)];
        sum = sum * 3 + next;
    }
    out[X] = sum;
}
"#;

fn profile(gpu: &Gpu, kernel: &str, block: u32, args: &[Arg]) -> Profile {
    let profile = Mutex::new(Profile::default());
    let options = Options {
        profile: Some(&profile),
        ..Options::default()
    };
    let done = gpu.launch(kernel, [1, 1, 1], [block, 1, 1], 0, args, &options);
    done.unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
    profile.into_inner()
}

/// Instructions that the LDS serves, or that go to global memory.
fn those(profile: &Profile, of: impl Fn(&InstructionProfile) -> u64) -> Vec<InstructionProfile> {
    let rows = profile.instructions().map(|(_, row)| *row);
    rows.filter(|row| of(row) != 0).collect()
}

#[test]
fn strided_lds_reads_conflict() {
    // (kernel, bytes, stride, conflicts of 32 lanes)
    let cases = [
        ("read4", 4, 4, 0),
        ("read4", 4, 8, 1),
        ("read4", 4, 0, 0),
        ("read4", 4, 128, 31),
        ("read4", 4, 132, 0),
        ("read8", 8, 8, 0),
        ("read8", 8, 16, 2),
        ("read8", 8, 128, 30),
        ("read16", 16, 16, 0),
        ("read16", 16, 32, 4),
        ("read16", 16, 128, 28),
        ("read16", 16, 144, 0),
    ];
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        for (kernel, bytes, stride, conflicts) in cases {
            let lanes = target.wavefront_size();
            let out = gpu.buffer(16 * u64::from(lanes));
            let profile = profile(&gpu, kernel, lanes, &[U64(out), U32(stride)]);
            let lds = those(&profile, |row| row.lds_cycles);
            let name = format!("{target}, {kernel} at a stride of {stride}");
            assert_eq!(lds.len(), 1, "{name}");
            let halves = u64::from(lanes / 32);
            assert_eq!(lds[0].executions, 1, "{name}");
            assert_eq!(lds[0].lanes, lanes.into(), "{name}");
            assert_eq!(lds[0].lds_conflicts, halves * conflicts, "{name}");
            let groups = halves * u64::from(bytes / 4u32);
            assert_eq!(lds[0].lds_cycles, groups + halves * conflicts, "{name}");
        }
    }
}

#[test]
fn writes_and_atomics_of_lds() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let out = gpu.buffer(4);
        let halves = u64::from(target.wavefront_size() / 32);
        let lanes = target.wavefront_size();
        let written = profile(&gpu, "write16", lanes, &[U64(out), U32(32)]);
        // Eight lanes a group, two of each four banks.
        assert_eq!(written.total().lds_conflicts, 4 * halves, "{target}");
        let apart = profile(&gpu, "add_lds", lanes, &[U64(out), U32(4)]);
        assert_eq!(apart.total().lds_conflicts, 0, "{target}");
        // The stride is not known to be 0 when it is compiled, so that no reduction replaces the lanes' atomics.
        let together = profile(&gpu, "add_lds", lanes, &[U64(out), U32(0)]);
        assert_eq!(together.total().lds_conflicts, 31 * halves, "{target}");
    }
}

#[test]
fn global_accesses_touch_lines() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let line = line_bytes(target);
        let short = [Target::Gfx906, Target::Gfx908, Target::Gfx90a].contains(&target);
        assert_eq!(line, if short { 64 } else { 128 });
        let lanes = u64::from(target.wavefront_size());
        for (offset, stride) in [(0, 1), (4, 1), (0, 2), (0, 64), (0, 0)] {
            // Buffers begin at multiples of 256 bytes.
            let (input, out) = (gpu.buffer(1 << 16), gpu.buffer(4 * lanes));
            let args = [U64(input + offset), U64(out), U32(stride)];
            let profile = profile(&gpu, "gather", lanes as u32, &args);
            let memory = those(&profile, |row| row.global_bytes);
            let name = format!("{target}, {offset} bytes on, at a stride of {stride}");
            let [load, store] = memory[..] else {
                panic!("{name}: a load and a store, not {memory:?}");
            };
            let least = 4 * lanes / line;
            let last = offset + 4 * u64::from(stride) * (lanes - 1) + 3;
            let lines = match stride {
                64 => lanes,
                _ => last / line + 1,
            };
            assert_eq!(load.lines, lines, "{name}");
            assert_eq!(load.least_lines, least.min(lines), "{name}");
            assert_eq!(load.global_bytes, 4 * lanes, "{name}");
            assert_eq!((store.lines, store.least_lines), (least, least), "{name}");
        }
    }
}

#[test]
fn loops_are_counted_by_instruction_and_wavefront() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let (input, out) = (gpu.buffer(4096), gpu.buffer(4 * 256));
        let args = [U64(input), U64(out), U32(100)];
        let profile = profile(&gpu, "rounds", 256, &args);
        let waves = u64::from(256 / target.wavefront_size());
        let rounds = profile
            .instructions()
            .filter(|(_, row)| row.executions == 100 * waves);
        let offsets: Vec<i64> = rounds.map(|(offset, _)| offset).collect();
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        let within = profile.within(first..last + 1);
        assert_eq!(
            within.executions,
            100 * waves * offsets.len() as u64,
            "{target}"
        );
        let before = profile.within(i64::MIN..first);
        let after = profile.within(last + 1..i64::MAX);
        assert_eq!(before + within + after, profile.total(), "{target}");
        assert_eq!(profile.at(first).executions, 100 * waves, "{target}");
    }
}

#[test]
fn bytes_are_those_of_the_launch_counters() {
    let gpu = Gpu::new(Target::Gfx1100, SOURCE);
    let (input, out) = (gpu.buffer(4096), gpu.buffer(4 * 50));
    let args = [U64(input), U64(out), U32(3)];
    let counters = gpu.run("gather", [1, 1, 1], [50, 1, 1], &args);
    let profile = profile(&gpu, "gather", 50, &args);
    let moved = counters.bytes_loaded + counters.bytes_stored;
    assert_eq!(profile.total().global_bytes, moved);
    assert_eq!(moved, 2 * 4 * 50);
}
