//! Wavefronts and workgroups that wait for each other, on every family: barriers, flags in memory, barriers of a grid.

use candle_rocm_testing::gpu::Arg::{U32, U64};
use candle_rocm_testing::gpu::{Gpu, TARGETS};
use rocm_emulator::exec::{workgroups_per_multiprocessor, Options};
use rocm_emulator::fault::FaultKind;
use rocm_emulator::isa::{Family, Target};

const SOURCE: &str = r#"
#include "hip_min.h"
#define KERNEL extern "C" __global__ void
#define X __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()
#define WX __builtin_amdgcn_workgroup_size_x()

static __device__ __attribute__((always_inline)) void sync() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// The usual early return before a barrier.
KERNEL early_return(unsigned *out, unsigned n) {
    __shared__ unsigned lds[1024];
    unsigned i = X;
    if (i >= n) return;
    lds[i] = i + 1;
    sync();
    out[i] = lds[n - 1 - i];
}

// Wavefront w takes part in w + 1 barriers.
KERNEL staircase(unsigned *out) {
    __shared__ unsigned steps;
    if (X == 0) steps = 0;
    sync();
    unsigned waves = WX / __builtin_amdgcn_wavefrontsize();
    unsigned wave = __builtin_amdgcn_readfirstlane(X / __builtin_amdgcn_wavefrontsize());
    unsigned seen = 0;
    for (unsigned step = 0; step <= wave; step++) {
        if (__builtin_amdgcn_mbcnt_hi(-1, __builtin_amdgcn_mbcnt_lo(-1, 0)) == 0)
            __hip_atomic_fetch_add(&steps, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
        sync();
        seen = __hip_atomic_load(&steps, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
        sync();
    }
    out[X] = seen;
}

// Each workgroup waits for the next: by reading, by exchanging, by sleeping between reads, with a loop that counts.
#define CHAIN(name, wait)                                                                             \
    KERNEL name(unsigned *flags, unsigned *out) {                                                     \
        unsigned n = __builtin_amdgcn_grid_size_x() / WX, turns = 0;                                  \
        if (X == 0 && GROUP + 1 < n) {                                                                \
            unsigned *next = flags + GROUP + 1;                                                       \
            while (wait) turns++;                                                                     \
        }                                                                                             \
        sync();                                                                                       \
        if (X == 0) __hip_atomic_store(flags + GROUP, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); \
        out[GROUP * WX + X] = GROUP + 1;                                                              \
    }
#define LOAD(p) __hip_atomic_load(p, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT)
static __device__ bool exchanged(unsigned *p) {
    unsigned one = 1;
    return __hip_atomic_compare_exchange_strong(p, &one, 2, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
static __device__ unsigned slept(unsigned *p) {
    __builtin_amdgcn_s_sleep(2);
    return LOAD(p);
}
CHAIN(chain_of_reads, LOAD(next) == 0)
CHAIN(chain_of_exchanges, !exchanged(next))
CHAIN(chain_of_sleeps, slept(next) == 0)
KERNEL chain_of_counts(unsigned *flags, unsigned *out) {
    unsigned n = __builtin_amdgcn_grid_size_x() / WX, turns = 0;
    if (X == 0 && GROUP + 1 < n)
        while (LOAD(flags + GROUP + 1) == 0) turns++;
    if (X == 0) __hip_atomic_store(flags + GROUP, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    out[GROUP * WX + X] = GROUP + 1 + (turns == 0xffffffff);
}

// Workgroups write numbers of 64 bits whose halves are alike to the same places, and count what they find otherwise.
KERNEL alike(unsigned long *places, unsigned *torn, unsigned count) {
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned long half = i * 2 + GROUP % 2;
        __hip_atomic_store(places + X, half << 32 | half, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        unsigned long word = __hip_atomic_load(places + X, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        found += (unsigned)(word >> 32) != (unsigned)word;
    }
    __hip_atomic_fetch_add(torn, found, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// The same with two such numbers in a move of 128 bits.
KERNEL alike_in_pairs(unsigned *places, unsigned *torn, unsigned count) {
    typedef unsigned Quad __attribute__((ext_vector_type(4)));
    volatile Quad *place = (volatile Quad *)places + X;
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned half = i * 2 + GROUP % 2;
        *place = (Quad){half, half, ~half, ~half};
        Quad quad = *place;
        found += (quad.x != quad.y) + (quad.z != quad.w);
    }
    __hip_atomic_fetch_add(torn, found, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// Workgroup 0 waits in a function that its code knows by address alone, workgroup 1 sleeps outside of it, and sets the flag.
static __device__ __attribute__((noinline)) unsigned waits(unsigned *flag) {
    while (slept(flag) == 0) {}
    return 3;
}
static __device__ __attribute__((noinline)) unsigned does_not(unsigned *flag) { return *flag; }
KERNEL waiting_in_a_function(unsigned *flag, unsigned *out, unsigned choice) {
    if (GROUP == 0) {
        unsigned (*chosen)(unsigned *) = choice ? waits : does_not;
        out[X] = chosen(flag);
        return;
    }
    for (unsigned i = 0; i < 500; i++) __builtin_amdgcn_s_sleep(2);
    __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}

// A barrier of all workgroups between rounds, as programs write it.
KERNEL rounds(unsigned *arrived, unsigned *from, unsigned *to, unsigned count) {
    unsigned n = __builtin_amdgcn_grid_size_x() / WX;
    for (unsigned round = 0; round < count; round++) {
        if (X == 0) {
            unsigned next = GROUP + 1 == n ? 0 : GROUP + 1;
            __hip_atomic_store(to + GROUP, LOAD(from + next) + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
            __hip_atomic_fetch_add(arrived, 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
            while (LOAD(arrived) < (round + 1) * n) {}
        }
        sync();
        unsigned *other = from;
        from = to;
        to = other;
    }
}

// The barrier that hardware counts (before GFX11): every workgroup's first wavefront meets the others.
KERNEL counted_rounds(unsigned *from, unsigned *to, unsigned count) {
#if !__gfx1100__ && !__gfx1151__ && !__gfx1201__
    unsigned n = __builtin_amdgcn_grid_size_x() / WX;
    for (unsigned round = 0; round < count; round++) {
        if (X == 0) {
            unsigned next = GROUP + 1 == n ? 0 : GROUP + 1;
            __hip_atomic_store(to + GROUP, LOAD(from + next) + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
            __builtin_amdgcn_ds_gws_barrier(n - 1, 0);
        }
        sync();
        unsigned *other = from;
        from = to;
        to = other;
    }
#endif
}

// What ROCm's device library reads of a cooperative launch: whether it is one, its workgroups, and the memory that it counts
// in, which begins with 0.
KERNEL cooperative(unsigned *out) {
    unsigned long sync = ((const unsigned long *)__builtin_amdgcn_implicitarg_ptr())[11];
    if (X != 0 || GROUP != 0 || __builtin_amdgcn_workgroup_id_y() != 0) return;
    out[0] = sync != 0;
    out[1] = sync > 1 ? ((unsigned *)sync)[10] : 0;
    out[2] = sync > 1 ? __hip_atomic_fetch_add((unsigned *)sync + 8, 5, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) : 0;
}

#if __gfx1201__
// What GFX12 splits: work between arriving and waiting, and a wavefront that asks whether it is the first to arrive.
KERNEL split_barrier(unsigned *out) {
    __shared__ unsigned lds[128];
    lds[X] = X;
    asm volatile("s_wait_dscnt 0\n\ts_barrier_signal -1" ::: "memory");
    unsigned between = X * X;
    asm volatile("s_barrier_wait -1" ::: "memory");
    out[X] = lds[127 - X] + between;
}
KERNEL first_to_arrive(unsigned *out) {
    int first;
    asm volatile("s_barrier_signal_isfirst -1\n\ts_cselect_b32 %0, 1, 0\n\ts_barrier_wait -1" : "=s"(first) : : "memory", "scc");
    out[X] = first;
}
// A wavefront signals and goes on; the others' barrier is complete while it works.
KERNEL signal_and_go(unsigned *out) {
    if (__builtin_amdgcn_readfirstlane(X) == 0) {
        asm volatile("s_barrier_signal -1" ::: "memory");
        while (__hip_atomic_load(out, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0) {}
        asm volatile("s_barrier_wait -1" ::: "memory");
        out[1] = 7;
    } else {
        asm volatile("s_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
        if (X == 32) __hip_atomic_store(out, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    }
}
KERNEL wait_without_signal(unsigned *out) {
    if (__builtin_amdgcn_readfirstlane(X) >= 32) asm volatile("s_endpgm");
    asm volatile("s_barrier_wait -1" ::: "memory");
    out[X] = 1;
}
#endif
"#;

fn each_gpu(test: impl Fn(&Gpu)) {
    for target in TARGETS {
        test(&Gpu::new(target, SOURCE));
    }
}

/// A wait without end must not take long here.
fn options(threads: usize) -> Options<'static> {
    Options {
        threads,
        max_instructions: 1 << 27,
        ..Options::default()
    }
}

#[test]
fn wavefronts_that_have_ended_are_not_waited_for() {
    each_gpu(|gpu| {
        for n in [1u32, 64, 100, 192] {
            let out = gpu.buffer(4 * 256);
            gpu.run("early_return", [1; 3], [256, 1, 1], &[U64(out), U32(n)]);
            let want: Vec<u32> = (0..n).map(|i| n - i).collect();
            let found = gpu.download::<u32>(out, n as usize);
            assert_eq!(found, want, "{} {n}", gpu.target);
        }
    });
}

#[test]
fn wavefronts_leave_one_after_the_other() {
    each_gpu(|gpu| {
        let lanes = gpu.target.wavefront_size();
        let (out, waves) = (gpu.buffer(4 * 512), 512 / lanes);
        gpu.run("staircase", [1; 3], [512, 1, 1], &[U64(out)]);
        // In step s the wavefronts from s on take part.
        let want: Vec<u32> = (0..512)
            .map(|item| (0..=item / lanes).map(|step| waves - step).sum())
            .collect();
        assert_eq!(gpu.download::<u32>(out, 512), want, "{}", gpu.target);
    });
}

#[test]
fn workgroups_wait_for_later_ones() {
    each_gpu(|gpu| {
        let groups = 30u32;
        for kernel in [
            "chain_of_reads",
            "chain_of_exchanges",
            "chain_of_sleeps",
            "chain_of_counts",
        ] {
            // A loop that counts its turns does not show that it waits, and takes its share of time each time.
            if kernel == "chain_of_counts" && gpu.target != Target::Gfx1100 {
                continue;
            }
            for threads in [1, 3] {
                let (flags, out) = (gpu.buffer(4 * 32), gpu.buffer(4 * 30 * 96));
                let done = gpu.launch(
                    kernel,
                    [groups, 1, 1],
                    [96, 1, 1],
                    0,
                    &[U64(flags), U64(out)],
                    &options(threads),
                );
                done.unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
                let want: Vec<u32> = (0..groups * 96).map(|item| item / 96 + 1).collect();
                let found = gpu.download::<u32>(out, want.len());
                assert_eq!(found, want, "{} {kernel} {threads}", gpu.target);
            }
        }
    });
}

/// Loads and stores of 64 bits at aligned places are single ones (LLVM, "User Guide for AMDGPU Backend", memory model).
#[test]
fn numbers_of_64_bits_are_written_whole() {
    each_gpu(|gpu| {
        for kernel in ["alike", "alike_in_pairs"] {
            let (places, torn) = (gpu.buffer(16 * 64), gpu.buffer(4));
            let done = gpu.launch(
                kernel,
                [4, 1, 1],
                [64, 1, 1],
                0,
                &[U64(places), U64(torn), U32(2_000)],
                &options(4),
            );
            done.unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
            assert_eq!(gpu.download::<u32>(torn, 1), [0], "{} {kernel}", gpu.target);
        }
    });
}

/// A thread goes on with a workgroup whose code it has not met.
#[test]
fn a_workgroup_that_waits_in_a_function_goes_on_in_another_thread() {
    each_gpu(|gpu| {
        for _ in 0..5 {
            let (flag, out) = (gpu.buffer(4), gpu.buffer(4 * 64));
            let done = gpu.launch(
                "waiting_in_a_function",
                [2, 1, 1],
                [64, 1, 1],
                0,
                &[U64(flag), U64(out), U32(1)],
                &options(2),
            );
            done.unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
            assert_eq!(gpu.download::<u32>(out, 64), [3; 64], "{}", gpu.target);
        }
    });
}

#[test]
fn all_workgroups_meet() {
    const ROUNDS: u32 = 7;
    each_gpu(|gpu| {
        let groups = 50usize;
        let counts = matches!(gpu.target.family(), Family::Cdna | Family::Rdna2);
        for kernel in ["rounds", "counted_rounds"] {
            if kernel == "counted_rounds" && !counts {
                continue;
            }
            for threads in [1, 3] {
                let numbers: Vec<u32> = (0..groups as u32).map(|group| 1000 * group).collect();
                let (arrived, from, to) = (
                    gpu.buffer(4),
                    gpu.upload(&numbers),
                    gpu.buffer(4 * groups as u64),
                );
                let args = [U64(arrived), U64(from), U64(to), U32(ROUNDS)];
                let args = if kernel == "rounds" {
                    &args[..]
                } else {
                    &args[1..]
                };
                let grid = [groups as u32, 1, 1];
                let done = gpu.launch(kernel, grid, [128, 1, 1], 0, args, &options(threads));
                done.unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
                let want: Vec<u32> = (0..groups)
                    .map(|group| numbers[(group + ROUNDS as usize) % groups] + ROUNDS)
                    .collect();
                let found = gpu.download::<u32>(to, groups);
                assert_eq!(found, want, "{} {kernel} {threads}", gpu.target);
            }
        }
    });
}

#[test]
fn cooperative_launches_get_what_their_barriers_need() {
    each_gpu(|gpu| {
        // Older GPUs count themselves, and only say that the launch is cooperative.
        let in_memory = matches!(gpu.target.family(), Family::Rdna3 | Family::Rdna4)
            || gpu.target == Target::Gfx942;
        for cooperative in [false, true] {
            let out = gpu.upload(&[9u32; 3]);
            let options = Options {
                cooperative,
                ..options(1)
            };
            let done = gpu.launch(
                "cooperative",
                [3, 2, 1],
                [64, 1, 1],
                0,
                &[U64(out)],
                &options,
            );
            done.unwrap_or_else(|fault| panic!("{}: {fault}", gpu.target));
            let groups = if cooperative && in_memory { 6 } else { 0 };
            let want = [u32::from(cooperative), groups, 0];
            assert_eq!(gpu.download::<u32>(out, 3), want, "{}", gpu.target);
        }
    });
}

/// More workgroups than the GPU holds: the first wait for one that never gets on it.
#[test]
fn a_gpu_holds_so_many_workgroups_and_no_more() {
    let target = Target::Gfx1030;
    let gpu = Gpu::new(target, SOURCE);
    let program = gpu.program("program", || unreachable!("loaded"));
    let kernel = &program.kernel("chain_of_reads").unwrap().kernel;
    let held = workgroups_per_multiprocessor(kernel, 1024, 0) * target.multiprocessors();
    assert!((40..1000).contains(&held), "{held}");
    for (groups, fits) in [(held, true), (held + 1, false)] {
        let (flags, out) = (gpu.buffer(4 * 2048), gpu.buffer(4 * 1024 * 1024));
        let args = [U64(flags), U64(out)];
        let limit = Options {
            max_instructions: 1 << 24,
            ..options(2)
        };
        let done = gpu.launch(
            "chain_of_reads",
            [groups, 1, 1],
            [1024, 1, 1],
            0,
            &args,
            &limit,
        );
        match done {
            Ok(_) => assert!(fits, "{groups} of {held}"),
            Err(fault) => {
                assert!(!fits, "{groups} of {held}: {fault}");
                assert_eq!(fault.kind, FaultKind::InstructionLimit(1 << 24), "{fault}");
            }
        }
        gpu.memory.free(flags).unwrap();
        gpu.memory.free(out).unwrap();
    }
}

#[test]
fn gfx12_arrives_and_waits_apart() {
    let gpu = Gpu::new(Target::Gfx1201, SOURCE);
    let out = gpu.buffer(4 * 128);
    gpu.run("split_barrier", [1; 3], [128, 1, 1], &[U64(out)]);
    let want: Vec<u32> = (0..128).map(|i| 127 - i + i * i).collect();
    assert_eq!(gpu.download::<u32>(out, 128), want);

    gpu.run("first_to_arrive", [1; 3], [128, 1, 1], &[U64(out)]);
    let found = gpu.download::<u32>(out, 128);
    let firsts = found.chunks(32).filter(|wave| wave == &[1; 32]).count();
    let others = found.chunks(32).filter(|wave| wave == &[0; 32]).count();
    assert_eq!((firsts, others), (1, 3), "{found:?}");

    let out = gpu.buffer(8);
    let done = gpu.launch(
        "signal_and_go",
        [1; 3],
        [64, 1, 1],
        0,
        &[U64(out)],
        &options(1),
    );
    done.unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(gpu.download::<u32>(out, 2), [1, 7]);

    let out = gpu.buffer(4 * 64);
    let fault = gpu
        .launch(
            "wait_without_signal",
            [1; 3],
            [64, 1, 1],
            0,
            &[U64(out)],
            &options(1),
        )
        .unwrap_err();
    let kind = FaultKind::BarrierMismatch {
        waiting: 1,
        ended: 1,
    };
    assert_eq!((&fault.kind, fault.wave), (&kind, 0), "{fault}");
}
