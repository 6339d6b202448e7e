//! Every fault that ends a launch, on a wave32 and a wave64 GPU: small kernels, each wrong in one way.

use candle_rocm_testing::gpu::Arg::{self, I32, U64};
use candle_rocm_testing::gpu::Gpu;
use rocm_emulator::exec::Options;
use rocm_emulator::fault::{Fault, FaultKind};
use rocm_emulator::isa::Target;

const TARGETS: [Target; 2] = [Target::Gfx1100, Target::Gfx942];

const SOURCE: &str = r#"
#define KERNEL extern "C" __attribute__((global)) void
#define ITEM __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()

KERNEL store(int* p, int first) { p[first + (int)(GROUP * 64 + ITEM)] = 7; }
KERNEL load(int* p, int first, int* out) { out[ITEM] = p[first + (int)ITEM]; }
KERNEL atomic(int* p, int first) { __atomic_fetch_add(p + first + (int)ITEM, 1, __ATOMIC_RELAXED); }
KERNEL wide(char* p, long offset) { if (ITEM == 5) *(long*)(p + offset) = 1; }
KERNEL misaligned_atomic(char* p) { __atomic_fetch_add((int*)(p + 2), 1, __ATOMIC_RELAXED); }
KERNEL misaligned_scalar(char* p) {
    int x;
    p += 2;
#if __gfx942__
    asm volatile("s_load_dword %0, %1, 0x0\n\ts_waitcnt lgkmcnt(0)" : "=s"(x) : "s"(p));
#else
    asm volatile("s_load_b32 %0, %1, 0x0\n\ts_waitcnt lgkmcnt(0)" : "=s"(x) : "s"(p));
#endif
    *(int*)(p - 2) = x;
}
KERNEL lds(int at, int* out) {
    __attribute__((shared)) static int data[64];
    data[ITEM] = ITEM;
    __builtin_amdgcn_s_barrier();
    out[ITEM] = data[ITEM + at];
}
KERNEL scratch(int offset) {
    int x = 1;
#if __gfx942__
    asm volatile("scratch_store_dword %0, %1, off" : : "v"(offset), "v"(x) : "memory");
#else
    asm volatile("scratch_store_b32 %0, %1, off" : : "v"(offset), "v"(x) : "memory");
#endif
}
KERNEL unknown(int* p) { asm volatile(".long 0xffffffff\n\t.long 0xffffffff"); *p = 1; }
// Stands before its caller.
extern "C" __attribute__((device, noinline, used)) void callee(int* p, int value) { *p = value; }
KERNEL caller(int* p) { callee(p + ITEM, ITEM); }
// v_mov_b32 v200, v0, and of CDNA also ds_read_b128 v[200:203], v0: registers that the kernels have not.
KERNEL far_register() { asm volatile(".long 0x7f900300"); }
#if __gfx942__
KERNEL far_load() { asm volatile(".long 0xd9fe0000\n\t.long 0xc8000000"); }
#endif
KERNEL trap(int* p) { if (p[0] == 0) __builtin_trap(); }
KERNEL endless(volatile int* p) { while (p[0] == 0) {} }
KERNEL astray() { long at = 64; asm volatile("s_setpc_b64 %0" : : "s"(at)); }
"#;

/// The fault of one workgroup of 64; afterwards the GPU still works.
fn fail(gpu: &Gpu, name: &str, args: &[Arg]) -> Box<Fault> {
    fail_of(gpu, name, 64, args, Options::default())
}

fn fail_of(gpu: &Gpu, name: &str, items: u32, args: &[Arg], options: Options) -> Box<Fault> {
    let fault = match gpu.launch(name, [1; 3], [items, 1, 1], 0, args, &options) {
        Err(fault) => fault,
        Ok(counters) => panic!("{name} was survived: {counters:?}"),
    };
    assert_eq!(fault.kernel, name);
    assert!(
        fault.to_string().contains(&format!("kernel {name}: ")),
        "{fault}"
    );
    let good = gpu.buffer(256);
    // A fault does not outlive its launch.
    gpu.run("store", [1; 3], [64, 1, 1], &[U64(good), I32(0)]);
    assert_eq!(gpu.download::<i32>(good, 64), [7; 64]);
    gpu.memory.free(good).expect("just allocated");
    fault
}

#[test]
fn one_element_past_either_end() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let (buffer, out) = (gpu.buffer(256), gpu.buffer(256));
        for (kernel, access) in [("store", "store"), ("load", "load"), ("atomic", "atomic")] {
            for (first, lane, address) in [(1, 63, buffer + 256), (-1, 0, buffer - 4)] {
                let args = [U64(buffer), I32(first), U64(out)];
                let taken = if kernel == "load" { 3 } else { 2 };
                let fault = fail(&gpu, kernel, &args[..taken]);
                // The last lane of the workgroup is in its last wavefront.
                let wave = lane / target.wavefront_size();
                assert_eq!(
                    (fault.wave, fault.lane),
                    (wave, Some(lane % target.wavefront_size())),
                    "{fault}"
                );
                let FaultKind::OutOfBounds {
                    access: found,
                    address: at,
                    bytes: 4,
                    nearest,
                } = &fault.kind
                else {
                    panic!("{fault}")
                };
                assert_eq!((*found, *at), (access, address), "{fault}");
                assert!(nearest.contains(&format!("{buffer:#x}")), "{fault}");
            }
        }
    }
}

#[test]
fn across_the_end_of_an_allocation() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let buffer = gpu.buffer(64);
        let fault = fail(&gpu, "wide", &[U64(buffer), U64(60)]);
        assert!(
            matches!(fault.kind, FaultKind::OutOfBounds { bytes: 8, .. }),
            "{fault}"
        );
        assert_eq!(fault.lane, Some(5), "{fault}");
    }
}

#[test]
fn after_free() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let buffer = gpu.buffer(256);
        gpu.memory.free(buffer).unwrap();
        let fault = fail(&gpu, "store", &[U64(buffer), I32(0)]);
        assert!(
            matches!(fault.kind, FaultKind::OutOfBounds { .. }),
            "{fault}"
        );
        assert!(fault.to_string().contains("freed"), "{fault}");
    }
}

#[test]
fn misaligned() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let buffer = gpu.buffer(256);
        for (kernel, access) in [
            ("misaligned_atomic", "atomic"),
            ("misaligned_scalar", "load"),
        ] {
            let fault = fail(&gpu, kernel, &[U64(buffer)]);
            let FaultKind::Misaligned {
                access: found,
                address,
                align: 4,
                ..
            } = fault.kind
            else {
                panic!("{fault}")
            };
            assert_eq!((found, address), (access, buffer + 2), "{fault}");
        }
    }
}

#[test]
fn lds_and_scratch_overruns() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let out = gpu.buffer(256);
        let fault = fail(&gpu, "lds", &[I32(1), U64(out)]);
        assert!(
            matches!(
                fault.kind,
                FaultKind::LdsOverrun {
                    offset: 256,
                    size: 256,
                    ..
                }
            ),
            "{fault}"
        );
        assert_eq!(fault.lane, Some(target.wavefront_size() - 1), "{fault}");
        let fault = fail(&gpu, "scratch", &[I32(1 << 16)]);
        assert!(
            matches!(fault.kind, FaultKind::ScratchOverrun { .. }),
            "{fault}"
        );
    }
}

#[test]
fn unknown_instruction() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let fault = fail(&gpu, "unknown", &[U64(gpu.buffer(4))]);
        assert!(
            matches!(fault.kind, FaultKind::UnknownInstruction { .. }),
            "{fault}"
        );
        assert!(fault.to_string().contains("ffffffff"), "{fault}");
    }
}

/// `tests/exec_waiting.rs` has the faults of barriers.
#[test]
fn a_called_function_before_the_kernel() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let fault = fail(&gpu, "caller", &[U64(gpu.buffer(64))]);
        let offset = fault.pc as i64;
        assert!((-4096..0).contains(&offset), "{fault}");
        let shown = format!("[pc -{:#x}: ", -offset);
        assert!(fault.to_string().contains(&shown), "{fault}");
    }
}

#[test]
fn reads_past_the_end_can_be_let_pass() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let (buffer, out) = (gpu.buffer(256), gpu.buffer(256));
        let options = |read_past_end| Options {
            read_past_end,
            ..Options::default()
        };
        let load = [U64(buffer), I32(4), U64(out)];
        // Items 60 to 63 read 16 bytes past the end.
        let fault = fail_of(&gpu, "load", 64, &load, options(15));
        assert!(
            matches!(fault.kind, FaultKind::OutOfBounds { access: "load", .. }),
            "{fault}"
        );
        gpu.launch("load", [1; 3], [64, 1, 1], 0, &load, &options(16))
            .unwrap_or_else(|fault| panic!("{fault}"));
        // Only reads, only past the end, and not of what was freed.
        for (kernel, first) in [("store", 1), ("atomic", 1), ("load", -1)] {
            let args = [U64(buffer), I32(first), U64(out)];
            let taken = if kernel == "load" { 3 } else { 2 };
            let fault = fail_of(&gpu, kernel, 64, &args[..taken], options(4096));
            assert!(
                matches!(fault.kind, FaultKind::OutOfBounds { .. }),
                "{fault}"
            );
        }
        gpu.memory.free(buffer).unwrap();
        let fault = fail_of(&gpu, "load", 64, &load, options(4096));
        assert!(fault.to_string().contains("freed"), "{fault}");
    }
}

#[test]
fn trap() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let fault = fail(&gpu, "trap", &[U64(gpu.buffer(4))]);
        assert!(matches!(fault.kind, FaultKind::Trap(_)), "{fault}");
    }
}

#[test]
fn a_loop_without_end() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let options = Options {
            max_instructions: 10_000,
            ..Options::default()
        };
        let fault = fail_of(&gpu, "endless", 64, &[U64(gpu.buffer(4))], options);
        assert_eq!(fault.kind, FaultKind::InstructionLimit(10_000), "{fault}");
    }
}

#[test]
fn a_register_that_the_kernel_does_not_have() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let check = |kernel: &str, name: &str, instruction: &str| {
            let fault = fail(&gpu, kernel, &[]);
            let FaultKind::RegisterOutOfRange {
                register,
                allocated,
            } = &fault.kind
            else {
                panic!("{fault}")
            };
            assert_eq!(register, name, "{fault}");
            assert!(allocated.starts_with("v0 to v"), "{fault}");
            assert!(fault.to_string().contains(instruction), "{fault}");
        };
        check("far_register", "v200", "v_mov_b32_e32 v200, v0");
        if target == Target::Gfx942 {
            check("far_load", "v203", "ds_read_b128 v[200:203], v0");
        }
    }
}

#[test]
fn a_jump_out_of_the_code() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        let fault = fail(&gpu, "astray", &[]);
        assert_eq!(fault.kind, FaultKind::BadProgramCounter, "{fault}");
    }
}

#[test]
fn the_first_workgroup_that_fails_is_reported_at_any_thread_count() {
    for target in TARGETS {
        let gpu = Gpu::new(target, SOURCE);
        // Workgroups 3 and on write past the end.
        let buffer = gpu.buffer(3 * 256);
        for threads in [1, 2, 8, 8, 8] {
            let options = Options {
                threads,
                ..Options::default()
            };
            let fault = gpu
                .launch(
                    "store",
                    [50, 1, 1],
                    [64, 1, 1],
                    0,
                    &[U64(buffer), I32(0)],
                    &options,
                )
                .unwrap_err();
            assert_eq!(
                (fault.workgroup, fault.wave, fault.lane),
                ([3, 0, 0], 0, Some(0)),
                "{fault}"
            );
        }
    }
}
