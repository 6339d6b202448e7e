//! Every fault that ends a launch, on a wave32 and a wave64 GPU: small kernels, each wrong in one way.

mod hip_support;

use std::sync::Arc;

use hip_support::{compile, Compile};
use rocm_emulator::codeobject::{CodeObject, LoadedCodeObject};
use rocm_emulator::exec::{dispatch, Counters, Launch, Options};
use rocm_emulator::fault::{Fault, FaultKind};
use rocm_emulator::isa::Target;
use rocm_emulator::memory::{AllocationKind, Memory};

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
KERNEL barrier(int* p) {
    if (__builtin_amdgcn_readfirstlane(ITEM) >= 64) asm volatile("s_endpgm");
    asm volatile("s_barrier" ::: "memory");
    *p = 1;
}
KERNEL trap(int* p) { if (p[0] == 0) __builtin_trap(); }
KERNEL endless(volatile int* p) { while (p[0] == 0) {} }
KERNEL astray() { long at = 64; asm volatile("s_setpc_b64 %0" : : "s"(at)); }
"#;

struct Gpu {
    memory: Memory,
    code: LoadedCodeObject,
}

impl Gpu {
    fn new(target: Target) -> Gpu {
        let bytes = compile(SOURCE, &Compile::device(target));
        let memory = Memory::new(1 << 24);
        let object = Arc::new(CodeObject::parse(&bytes).unwrap());
        Gpu {
            code: object.load(&memory).unwrap(),
            memory,
        }
    }

    fn buffer(&self, bytes: u64) -> u64 {
        self.memory.allocate(bytes, AllocationKind::Device).unwrap()
    }

    /// Arguments are 8-byte pointers and 4-byte integers, each at its natural alignment.
    fn launch(
        &self,
        name: &str,
        groups: u32,
        items: u32,
        args: &[Arg],
        options: Options,
    ) -> Result<Counters, Box<Fault>> {
        let mut kernarg = Vec::new();
        for arg in args {
            match arg {
                Arg::Wide(value) => {
                    kernarg.resize(kernarg.len().next_multiple_of(8), 0);
                    kernarg.extend(value.to_le_bytes());
                }
                Arg::Int(value) => kernarg.extend(value.to_le_bytes()),
            }
        }
        let launch = Launch {
            kernel: self.code.kernel(name).unwrap(),
            grid: [groups, 1, 1],
            block: [items, 1, 1],
            dynamic_lds: 0,
            kernarg: &kernarg,
        };
        dispatch(&self.memory, &launch, &options)
    }

    /// The fault of one workgroup of 64; afterwards the GPU still works.
    fn fault(&self, name: &str, args: &[Arg]) -> Box<Fault> {
        self.fault_of(name, 64, args, Options::default())
    }

    fn fault_of(&self, name: &str, items: u32, args: &[Arg], options: Options) -> Box<Fault> {
        let fault = match self.launch(name, 1, items, args, options) {
            Err(fault) => fault,
            Ok(counters) => panic!("{name} was survived: {counters:?}"),
        };
        assert_eq!(fault.kernel, name);
        assert!(
            fault.to_string().contains(&format!("kernel {name}: ")),
            "{fault}"
        );
        let good = self.buffer(256);
        self.launch(
            "store",
            1,
            64,
            &[Arg::Wide(good), Arg::Int(0)],
            Options::default(),
        )
        .expect("a fault does not outlive its launch");
        let mut last = [0; 4];
        self.memory.read(good + 252, &mut last).unwrap();
        assert_eq!(last, 7i32.to_le_bytes());
        self.memory.free(good).unwrap();
        fault
    }
}

enum Arg {
    Wide(u64),
    Int(i32),
}

use Arg::{Int, Wide};

#[test]
fn one_element_past_either_end() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let (buffer, out) = (gpu.buffer(256), gpu.buffer(256));
        for (kernel, access) in [("store", "store"), ("load", "load"), ("atomic", "atomic")] {
            for (first, lane, address) in [(1, 63, buffer + 256), (-1, 0, buffer - 4)] {
                let fault = gpu.fault(kernel, &[Wide(buffer), Int(first), Wide(out)]);
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
        let gpu = Gpu::new(target);
        let buffer = gpu.buffer(64);
        let fault = gpu.fault("wide", &[Wide(buffer), Wide(60)]);
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
        let gpu = Gpu::new(target);
        let buffer = gpu.buffer(256);
        gpu.memory.free(buffer).unwrap();
        let fault = gpu.fault("store", &[Wide(buffer), Int(0)]);
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
        let gpu = Gpu::new(target);
        let buffer = gpu.buffer(256);
        for (kernel, access) in [
            ("misaligned_atomic", "atomic"),
            ("misaligned_scalar", "load"),
        ] {
            let fault = gpu.fault(kernel, &[Wide(buffer)]);
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
        let gpu = Gpu::new(target);
        let out = gpu.buffer(256);
        let fault = gpu.fault("lds", &[Int(1), Wide(out)]);
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
        let fault = gpu.fault("scratch", &[Int(1 << 16)]);
        assert!(
            matches!(fault.kind, FaultKind::ScratchOverrun { .. }),
            "{fault}"
        );
    }
}

#[test]
fn unknown_instruction() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let fault = gpu.fault("unknown", &[Wide(gpu.buffer(4))]);
        assert!(
            matches!(fault.kind, FaultKind::UnknownInstruction { .. }),
            "{fault}"
        );
        assert!(fault.to_string().contains("ffffffff"), "{fault}");
    }
}

#[test]
fn barrier_that_some_waves_do_not_reach() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let fault = gpu.fault_of("barrier", 128, &[Wide(gpu.buffer(4))], Options::default());
        let half = 64 / target.wavefront_size();
        let FaultKind::BarrierMismatch { waiting, ended } = fault.kind else {
            panic!("{fault}")
        };
        assert_eq!((waiting, ended), (half, half), "{fault}");
    }
}

#[test]
fn trap() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let fault = gpu.fault("trap", &[Wide(gpu.buffer(4))]);
        assert!(matches!(fault.kind, FaultKind::Trap(_)), "{fault}");
    }
}

#[test]
fn a_loop_without_end() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let options = Options {
            max_instructions: 10_000,
            ..Options::default()
        };
        let fault = gpu.fault_of("endless", 64, &[Wide(gpu.buffer(4))], options);
        assert_eq!(fault.kind, FaultKind::InstructionLimit(10_000), "{fault}");
    }
}

#[test]
fn a_jump_out_of_the_code() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        let fault = gpu.fault("astray", &[]);
        assert_eq!(fault.kind, FaultKind::BadProgramCounter, "{fault}");
    }
}

#[test]
fn the_first_workgroup_that_fails_is_reported_at_any_thread_count() {
    for target in TARGETS {
        let gpu = Gpu::new(target);
        // Workgroups 3 and on write past the end.
        let buffer = gpu.buffer(3 * 256);
        for threads in [1, 2, 8, 8, 8] {
            let options = Options {
                threads,
                ..Options::default()
            };
            let fault = gpu
                .launch("store", 50, 64, &[Wide(buffer), Int(0)], options)
                .unwrap_err();
            assert_eq!(
                (fault.workgroup, fault.wave, fault.lane),
                ([3, 0, 0], 0, Some(0)),
                "{fault}"
            );
        }
    }
}
