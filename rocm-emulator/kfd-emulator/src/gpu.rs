//! An emulated GPU as the driver has it: its memory, the host's ranges that it may reach, the kernels in it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use rocm_emulator::codeobject::{
    kernel_name, placed_code_object, CodeObjectError, KernelDescriptor, LoadedKernel, Placed,
};
use rocm_emulator::exec::{self, DispatchPacket, MAX_WORKGROUP};
use rocm_emulator::fault::Fault;
use rocm_emulator::hip::Settings;
use rocm_emulator::isa::Target;
use rocm_emulator::memory::{AllocationInfo, InvalidAddress, Memory};

use crate::counts::{is_hips_own, Counted, Counts};
use crate::host_ranges::HostRanges;

/// Why a packet's kernel did not run to its end.
#[derive(Debug)]
pub enum Failure {
    /// A grid or workgroup without work-items.
    NoItems,
    /// A workgroup larger than there can be.
    TooManyItems(u32),
    /// More LDS than a workgroup can have on the GPU.
    TooMuchLds {
        /// Bytes that the packet asks for.
        asked: u32,
        /// Bytes that there can be.
        most: u32,
    },
    /// No kernel at the address that the packet names.
    NoKernel(u64),
    /// What is there cannot be one.
    BadKernel(CodeObjectError),
    /// It did what it must not.
    Fault(Box<Fault>),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::NoItems => write!(f, "a packet with a grid or workgroup of no work-items"),
            Failure::TooManyItems(items) => write!(
                f,
                "a packet with workgroups of {items} work-items, more than {MAX_WORKGROUP}"
            ),
            Failure::TooMuchLds { asked, most } => write!(
                f,
                "a packet with {asked} bytes of LDS for a workgroup, more than {most}"
            ),
            Failure::NoKernel(address) => {
                write!(
                    f,
                    "a packet whose kernel, at {address:#x}, is in no allocation"
                )
            }
            Failure::BadKernel(error) => write!(f, "a packet for what is no kernel: {error}"),
            Failure::Fault(fault) => write!(f, "{fault}"),
        }
    }
}

/// A code object that lies in an allocation.
struct Code {
    /// Its number in the emulator's caches.
    id: u64,
    /// Its kernels that were launched, by descriptor.
    names: HashMap<u64, Name>,
}

/// What a kernel is called.
#[derive(Clone)]
struct Name {
    text: Arc<str>,
    /// A code object says so; AMD's runtime has kernels of its own that are in none.
    is_given: bool,
}

/// One GPU.
pub struct Gpu {
    /// Its place among the GPUs.
    pub index: usize,
    /// Its architecture.
    pub target: Target,
    /// What its kernels can reach.
    pub memory: Memory,
    /// Bytes of its own memory in use.
    pub used: AtomicU64,
    hosts: Mutex<HostRanges>,
    code: Mutex<HashMap<u64, Code>>,
    threads: usize,
    max_instructions: Option<u64>,
    workgroups: u64,
    read_past_end: u32,
    checks: exec::Checks,
    seed: u64,
    counts: Option<Arc<Counts>>,
}

impl Gpu {
    /// The GPUs that the environment asks for, and where what their kernels execute is counted.
    pub fn all(settings: &Settings, counts: Option<&Arc<Counts>>) -> Vec<Gpu> {
        let gpus = settings.targets.iter().zip(&settings.memory).enumerate();
        gpus.map(|(index, (target, bytes))| Gpu {
            index,
            target: *target,
            memory: Memory::new(*bytes),
            used: AtomicU64::new(0),
            hosts: Mutex::default(),
            code: Mutex::default(),
            threads: settings.threads,
            max_instructions: settings.max_instructions,
            workgroups: settings.workgroups,
            read_past_end: settings.read_past_end,
            checks: settings.checks,
            seed: settings.seed,
            counts: counts.cloned(),
        })
        .collect()
    }

    /// The number of its node in the topology: the host is node 0.
    pub fn node(&self) -> u32 {
        self.index as u32 + 1
    }

    /// What commands call it by.
    pub fn id(&self) -> u32 {
        self.node() + 1
    }

    /// Take memory of its own; false if there is not so much left.
    pub fn take(&self, bytes: u64) -> bool {
        let total = self.memory.total();
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= total);
        let order = Ordering::Relaxed;
        self.used.fetch_update(order, order, more).is_ok()
    }

    /// Give it back.
    pub fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Let kernels reach a range of addresses.
    ///
    /// # Errors
    /// It overlaps what they reach already.
    ///
    /// # Safety
    /// The range is the process's, readable and writable, until [`Gpu::unmap`].
    pub unsafe fn map(&self, address: u64, bytes: u64) -> Result<(), InvalidAddress> {
        // SAFETY: the caller's promise.
        unsafe { self.memory.register_host(address, bytes) }
    }

    /// End that.
    ///
    /// # Errors
    /// No range that was mapped starts there.
    pub fn unmap(&self, address: u64) -> Result<(), InvalidAddress> {
        if let Some(code) = self.code.lock().remove(&address) {
            exec::unload(code.id);
        }
        self.memory.unregister_host(address)
    }

    /// Let kernels reach pages of the host's, as long as the host has them.
    pub fn share(&self, address: u64, bytes: u64) {
        self.hosts.lock().add(&self.memory, address, bytes);
    }

    /// End that, for ranges within this one.
    pub fn unshare(&self, address: u64, bytes: u64) {
        self.hosts.lock().remove(&self.memory, address, bytes);
    }

    /// Whether kernels reach an address of the host's.
    pub fn shares(&self, address: u64) -> bool {
        self.memory.lookup(address).is_some()
    }

    /// Run a packet's kernel to its end.
    ///
    /// # Errors
    /// What is wrong with it, or what it did wrong.
    pub fn launch(&self, packet: &DispatchPacket) -> Result<(), Failure> {
        let (block, items) = (packet.block(), packet.items());
        if block.contains(&0) || items.contains(&0) {
            return Err(Failure::NoItems);
        }
        let size = block
            .iter()
            .fold(1u32, |size, side| size.saturating_mul(*side));
        if size > MAX_WORKGROUP {
            return Err(Failure::TooManyItems(size));
        }
        let (asked, most) = (packet.lds(), self.target.unit().lds_bytes_of_workgroup);
        if asked > most {
            return Err(Failure::TooMuchLds { asked, most });
        }
        self.hosts.lock().refresh(&self.memory);
        let (kernel, is_named) = self.kernel(packet)?;
        let asked = std::array::from_fn(|axis| items[axis].div_ceil(block[axis]));
        let is_hips_own = is_hips_own(&kernel.kernel.name, is_named);
        let counts = self.counts.as_deref();
        let grid = counts.map_or(asked, |counts| counts.grid(is_hips_own, asked));
        let launch = exec::Launch {
            kernel: &kernel,
            grid,
            block,
            dynamic_lds: packet.lds(),
            kernarg: &[],
        };
        let profile = Mutex::default();
        let cycles =
            counts.and_then(|counts| counts.cycles(self.target, is_hips_own, asked == grid));
        let mut options = exec::Options {
            threads: self.threads,
            profile: counts.map(|_| &profile),
            cycles: cycles.as_ref(),
            workgroups: self.workgroups,
            read_past_end: self.read_past_end,
            packet: Some(packet),
            checks: self.checks,
            seed: self.seed,
            ..exec::Options::default()
        };
        if let Some(limit) = self.max_instructions {
            options.max_instructions = limit;
        }
        let counters = exec::dispatch(&self.memory, &launch, &options).map_err(Failure::Fault)?;
        if let Some(counts) = counts {
            let counted = Counted {
                kernel: &kernel,
                is_hips_own,
                grid: asked,
                block,
                counters,
                profile: &profile.lock(),
                time: cycles.and_then(|cycles| cycles.time()),
            };
            counts.add(self.target, &self.memory, &counted);
        }
        Ok(())
    }

    /// The kernel that a packet names, and whether a code object gives it its name.
    fn kernel(&self, packet: &DispatchPacket) -> Result<(LoadedKernel, bool), Failure> {
        let descriptor = packet.descriptor();
        let missing = || Failure::NoKernel(descriptor);
        let home = self.memory.lookup(descriptor).ok_or_else(missing)?;
        let mut bytes = [0; KernelDescriptor::SIZE];
        let read = self.memory.read(descriptor, &mut bytes);
        read.map_err(|_| missing())?;
        let mut code = self.code.lock();
        let code = code.entry(home.base).or_insert_with(|| Code {
            id: placed_code_object(),
            names: HashMap::new(),
        });
        let named = code.names.entry(descriptor);
        let name = named.or_insert_with(|| name(&home, descriptor)).clone();
        let kernel = LoadedKernel::placed(&Placed {
            target: self.target,
            name: &name.text,
            descriptor,
            bytes,
            code_object: code.id,
            code: home.base..home.end(),
            scratch: packet.scratch(),
        });
        Ok((kernel.map_err(Failure::BadKernel)?, name.is_given))
    }
}

/// What the code object that lies in an allocation calls a kernel; those of AMD's runtime itself are in none.
fn name(home: &AllocationInfo, descriptor: u64) -> Name {
    // SAFETY: the allocation is mapped, and AMD's runtime does not change code that it launches.
    let image = unsafe { std::slice::from_raw_parts(home.base as *const u8, home.size as usize) };
    let given = kernel_name(image, descriptor - home.base);
    Name {
        is_given: given.is_some(),
        text: match given {
            Some(name) => name.into(),
            None => format!("kernel at {descriptor:#x}").into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Executed;
    use candle_rocm_testing::hip::{compile, Compile};
    use rocm_emulator::codeobject::CodeObject;
    use rocm_emulator::exec::PACKET_BYTES;
    use rocm_emulator::fault::FaultKind;
    use rocm_emulator::memory::AllocationKind;

    const SOURCE: &str = r#"
        #define KERNEL extern "C" __attribute__((global))
        KERNEL void places(unsigned *out) {
            unsigned x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
            unsigned column = __builtin_amdgcn_workgroup_id_x() * 4 + x;
            unsigned row = __builtin_amdgcn_workgroup_id_y() * 2 + y;
            out[row * 8 + column] = 1 + x + 16 * y;
        }
        KERNEL void counts(unsigned *out) {
            __builtin_amdgcn_s_barrier();
            __atomic_fetch_add(out, 1, __ATOMIC_RELAXED);
        }
        KERNEL void overwrites(unsigned *out) { *out = __builtin_amdgcn_workgroup_id_x(); }
    "#;

    /// A GPU with the kernels in its memory, and room for 64 numbers.
    struct Loaded {
        gpu: Gpu,
        object: rocm_emulator::codeobject::LoadedCodeObject,
        out: u64,
        arguments: u64,
    }

    impl Loaded {
        fn on(arch: &str) -> Loaded {
            Loaded::checked(arch, exec::Checks::default())
        }

        fn checked(arch: &str, checks: exec::Checks) -> Loaded {
            Loaded::with(arch, checks, None)
        }

        fn with(arch: &str, checks: exec::Checks, counts: Option<&Arc<Counts>>) -> Loaded {
            let settings = Settings {
                targets: vec![arch.parse().unwrap()],
                memory: vec![1 << 20],
                peers: false,
                threads: 1,
                max_instructions: None,
                workgroups: 0,
                read_past_end: 0,
                checks,
                seed: 0,
                graph_fault: None,
                hip_version: 0,
            };
            let gpu = Gpu::all(&settings, counts).remove(0);
            let code = CodeObject::parse(&compile(SOURCE, &Compile::device(arch))).unwrap();
            let object = Arc::new(code).load(&gpu.memory).unwrap();
            let out = gpu.memory.allocate(4 * 64, AllocationKind::Device).unwrap();
            let arguments = gpu.memory.allocate(8, AllocationKind::Kernarg).unwrap();
            gpu.memory.write(arguments, &out.to_le_bytes()).unwrap();
            Loaded {
                gpu,
                object,
                out,
                arguments,
            }
        }

        fn packet(&self, kernel: &str, block: [u16; 3], items: [u32; 3]) -> DispatchPacket {
            let mut bytes = [0; PACKET_BYTES];
            bytes[0] = 2;
            for axis in 0..3 {
                bytes[4 + 2 * axis..][..2].copy_from_slice(&block[axis].to_le_bytes());
                bytes[12 + 4 * axis..][..4].copy_from_slice(&items[axis].to_le_bytes());
            }
            let kernel = self.object.kernel(kernel).unwrap();
            bytes[32..40].copy_from_slice(&kernel.descriptor.to_le_bytes());
            bytes[40..48].copy_from_slice(&self.arguments.to_le_bytes());
            DispatchPacket {
                bytes,
                queue: 0,
                number: 0,
            }
        }

        fn out(&self) -> Vec<u32> {
            let mut bytes = [0; 4 * 64];
            self.gpu.memory.read(self.out, &mut bytes).unwrap();
            let numbers = bytes.chunks_exact(4);
            numbers
                .map(|number| u32::from_le_bytes(number.try_into().unwrap()))
                .collect()
        }
    }

    const ARCHS: [&str; 3] = ["gfx90a", "gfx1030", "gfx1201"];

    #[test]
    fn workgroups_at_the_grids_edge_are_smaller() {
        for arch in ARCHS {
            let loaded = Loaded::on(arch);
            let packet = loaded.packet("places", [4, 2, 1], [5, 3, 1]);
            loaded.gpu.launch(&packet).unwrap();
            let expected = |at: u32| {
                let (column, row) = (at % 8, at / 8);
                let inside = column < 5 && row < 3;
                if inside {
                    1 + column % 4 + 16 * (row % 2)
                } else {
                    0
                }
            };
            assert_eq!(
                loaded.out(),
                (0..64).map(expected).collect::<Vec<_>>(),
                "{arch}"
            );
        }
    }

    #[test]
    fn wavefronts_without_work_items_are_not_waited_for() {
        for arch in ARCHS {
            let loaded = Loaded::on(arch);
            let packet = loaded.packet("counts", [256, 1, 1], [256 + 33, 1, 1]);
            loaded.gpu.launch(&packet).unwrap();
            assert_eq!(loaded.out()[0], 256 + 33, "{arch}");
        }
    }

    #[test]
    fn a_fault_names_the_kernel() {
        let loaded = Loaded::on("gfx1100");
        let packet = loaded.packet("places", [4, 2, 1], [4, 100, 1]);
        match loaded.gpu.launch(&packet) {
            Err(Failure::Fault(fault)) => {
                assert_eq!(fault.kernel, "places");
                assert!(
                    matches!(fault.kind, FaultKind::OutOfBounds { .. }),
                    "{fault}"
                );
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_checks_that_the_environment_names_are_made() {
        for arch in ARCHS {
            let launch = |checks, kernel| {
                let loaded = Loaded::checked(arch, checks);
                let packet = loaded.packet(kernel, [64, 1, 1], [128, 1, 1]);
                loaded.gpu.launch(&packet)
            };
            let races = exec::Checks::RACES;
            launch(exec::Checks::default(), "overwrites").unwrap();
            launch(races, "counts").unwrap();
            match launch(races, "overwrites") {
                Err(Failure::Fault(fault)) => {
                    assert_eq!(fault.kernel, "overwrites");
                    let found = matches!(fault.kind, FaultKind::Finding { check: "races", .. });
                    assert!(found, "{arch}: {fault}");
                }
                other => panic!("{arch}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_executed_is_counted() {
        let file = std::env::temp_dir().join(format!("counts-{}.jsonl", std::process::id()));
        for arch in ARCHS {
            let counts = Arc::new(Counts::new(&file, Executed::First(2)).unwrap());
            let loaded = Loaded::with(arch, exec::Checks::default(), Some(&counts));
            let packet = loaded.packet("counts", [64, 1, 1], [64 * 3, 1, 1]);
            loaded.gpu.launch(&packet).unwrap();
            assert_eq!(loaded.out()[0], 2 * 64, "{arch}: the third workgroup waits");
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            let parts = [
                "\"kernel\": \"counts\"",
                "\"workgroups\": 3",
                "\"executed\": 2",
                "\"items\": 64",
                "\"microseconds\": null",
            ];
            for part in parts {
                assert!(text.contains(part), "{arch}: {text}");
            }
            assert_eq!(text.lines().count(), 1);
        }
    }

    #[test]
    fn what_tells_no_time_is_left_out() {
        let file = std::env::temp_dir().join(format!("times-{}.jsonl", std::process::id()));
        // Of gfx908 nothing is known to tell times by.
        for (arch, is_timed) in [("gfx90a", true), ("gfx908", false)] {
            let counts = Arc::new(Counts::new(&file, Executed::Timed).unwrap());
            let loaded = Loaded::with(arch, exec::Checks::default(), Some(&counts));
            // More than four rounds of them.
            let packet = loaded.packet("counts", [64, 1, 1], [64 * 20_000, 1, 1]);
            loaded.gpu.launch(&packet).unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            assert!(text.contains("\"workgroups\": 20000"), "{arch}: {text}");
            let executed = loaded.out()[0] / 64;
            assert!(
                text.contains(&format!("\"executed\": {executed},")),
                "{arch}: {text}"
            );
            assert_eq!(executed < 20_000, is_timed, "{arch}: {executed}");
            assert_eq!(
                !text.contains("\"microseconds\": null"),
                is_timed,
                "{arch}: {text}"
            );
        }
    }

    #[test]
    fn packets_that_make_no_sense_are_refused() {
        let loaded = Loaded::on("gfx1100");
        let launch = |change: &dyn Fn(&mut DispatchPacket)| {
            let mut packet = loaded.packet("counts", [64, 1, 1], [64, 1, 1]);
            change(&mut packet);
            loaded.gpu.launch(&packet).unwrap_err()
        };
        let no_items = launch(&|packet| packet.bytes[12] = 0);
        assert!(matches!(no_items, Failure::NoItems), "{no_items}");
        let too_many = launch(&|packet| packet.bytes[5] = 255);
        assert!(matches!(too_many, Failure::TooManyItems(_)), "{too_many}");
        let lds = launch(&|packet| packet.bytes[31] = 1);
        assert!(matches!(lds, Failure::TooMuchLds { .. }), "{lds}");
        let nowhere = launch(&|packet| packet.bytes[32..40].fill(7));
        assert!(matches!(nowhere, Failure::NoKernel(_)), "{nowhere}");
        let out = loaded.out;
        let no_code =
            launch(&|packet| packet.bytes[32..40].copy_from_slice(&(out + 64).to_le_bytes()));
        assert!(
            matches!(no_code, Failure::Fault(_)),
            "zeroes are no instruction: {no_code}"
        );
    }
}
