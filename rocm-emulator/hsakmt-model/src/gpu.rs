//! An emulated GPU as the driver has it: its memory, the host's ranges that it may reach, the kernels in it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use rocm_emulator::codeobject::{
    kernel_name, placed_code_object, CodeObjectError, KernelDescriptor, LoadedKernel, Placed,
};
use rocm_emulator::exec::{self, DispatchPacket, MAX_LDS, MAX_WORKGROUP};
use rocm_emulator::fault::Fault;
use rocm_emulator::hip::Settings;
use rocm_emulator::isa::Target;
use rocm_emulator::memory::{AllocationInfo, InvalidAddress, Memory};

use crate::host_ranges::HostRanges;

/// Why a packet's kernel did not run to its end.
#[derive(Debug)]
pub enum Failure {
    /// A grid or workgroup without work-items.
    NoItems,
    /// A workgroup larger than there can be.
    TooManyItems(u32),
    /// More LDS than a workgroup can have.
    TooMuchLds(u32),
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
            Failure::TooMuchLds(bytes) => write!(
                f,
                "a packet with {bytes} bytes of LDS for a workgroup, more than {MAX_LDS}"
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
    names: HashMap<u64, Arc<str>>,
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
    read_past_end: u32,
}

impl Gpu {
    /// The GPUs that the environment asks for.
    pub fn all(settings: &Settings) -> Vec<Gpu> {
        let gpus = settings.targets.iter().enumerate();
        gpus.map(|(index, target)| Gpu {
            index,
            target: *target,
            memory: Memory::new(settings.memory),
            used: AtomicU64::new(0),
            hosts: Mutex::default(),
            code: Mutex::default(),
            threads: settings.threads,
            max_instructions: settings.max_instructions,
            read_past_end: settings.read_past_end,
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
        if packet.lds() > MAX_LDS {
            return Err(Failure::TooMuchLds(packet.lds()));
        }
        self.hosts.lock().refresh(&self.memory);
        let kernel = self.kernel(packet)?;
        let launch = exec::Launch {
            kernel: &kernel,
            grid: std::array::from_fn(|axis| items[axis].div_ceil(block[axis])),
            block,
            dynamic_lds: packet.lds(),
            kernarg: &[],
        };
        let mut options = exec::Options {
            threads: self.threads,
            read_past_end: self.read_past_end,
            packet: Some(packet),
            ..exec::Options::default()
        };
        if let Some(limit) = self.max_instructions {
            options.max_instructions = limit;
        }
        let outcome = exec::dispatch(&self.memory, &launch, &options);
        outcome.map(|_| ()).map_err(Failure::Fault)
    }

    /// The kernel that a packet names.
    fn kernel(&self, packet: &DispatchPacket) -> Result<LoadedKernel, Failure> {
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
        LoadedKernel::placed(&Placed {
            target: self.target,
            name: &name,
            descriptor,
            bytes,
            code_object: code.id,
            code: home.base..home.end(),
            scratch: packet.scratch(),
        })
        .map_err(Failure::BadKernel)
    }
}

/// What the code object that lies in an allocation calls a kernel; those of AMD's runtime itself are in none.
fn name(home: &AllocationInfo, descriptor: u64) -> Arc<str> {
    // SAFETY: the allocation is mapped, and AMD's runtime does not change code that it launches.
    let image = unsafe { std::slice::from_raw_parts(home.base as *const u8, home.size as usize) };
    match kernel_name(image, descriptor - home.base) {
        Some(name) => name.into(),
        None => format!("kernel at {descriptor:#x}").into(),
    }
}
