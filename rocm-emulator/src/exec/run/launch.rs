//! A launch and how it is run.

use parking_lot::Mutex;

use crate::codeobject::{LoadedKernel, PrintfFormats};
use crate::exec::check::Checks;
use crate::exec::clock::Cycles;
use crate::exec::services::Output;
use crate::exec::watch::{Profile, Trace};

/// Most work-items in a workgroup, on every target; how much LDS it may have is the target's.
pub const MAX_WORKGROUP: u32 = 1024;

/// A kernel and what it is launched with.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The kernel, in the memory that it is dispatched on.
    pub kernel: &'a LoadedKernel,
    /// Workgroups along x, y and z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup along x, y and z.
    pub block: [u32; 3],
    /// LDS bytes beyond the kernel's own.
    pub dynamic_lds: u32,
    /// The explicit arguments, laid out as the metadata says; dispatch adds the hidden ones.
    pub kernarg: &'a [u8],
}

/// Bytes of an HSA dispatch packet.
pub const PACKET_BYTES: usize = 64;

/// The packet of a queue that asks for a launch (HSA's `hsa_kernel_dispatch_packet_t`), where a runtime of somebody
/// else's writes one. What it says of arguments and sizes goes before what the [`Launch`] says.
#[derive(Clone, Copy, Debug)]
pub struct DispatchPacket {
    /// As it stood in the queue.
    pub bytes: [u8; PACKET_BYTES],
    /// The address of the queue, for kernels that ask for it.
    pub queue: u64,
    /// The number of the packet in its queue, for kernels that ask for it.
    pub number: u64,
}

impl DispatchPacket {
    fn dword(&self, at: usize) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|byte| self.bytes[at + byte]))
    }

    fn qword(&self, at: usize) -> u64 {
        u64::from(self.dword(at)) | u64::from(self.dword(at + 4)) << 32
    }

    /// Work-items of a workgroup along x, y and z.
    pub fn block(&self) -> [u32; 3] {
        [4, 6, 8].map(|at| u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]).into())
    }

    /// Work-items of the whole grid along x, y and z; the last workgroups may be smaller than the others.
    pub fn items(&self) -> [u32; 3] {
        [12, 16, 20].map(|at| self.dword(at))
    }

    /// Bytes of scratch of a work-item.
    pub fn scratch(&self) -> u32 {
        self.dword(24)
    }

    /// Bytes of LDS of a workgroup.
    pub fn lds(&self) -> u32 {
        self.dword(28)
    }

    /// The address of the kernel's descriptor.
    pub fn descriptor(&self) -> u64 {
        self.qword(32)
    }

    /// The address of the arguments, hidden ones included.
    pub fn arguments(&self) -> u64 {
        self.qword(40)
    }
}

/// How a launch is run.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Threads to use at most; 0 means all cores.
    pub threads: usize,
    /// Instructions that one wavefront may execute before the launch counts as hung.
    pub max_instructions: u64,
    /// Of a grid with more workgroups as many are executed, spread evenly from the first to the last; 0 means all. Quick,
    /// and what the others would have written is not written.
    pub workgroups: u64,
    /// Write down what one wavefront does.
    pub trace: Option<Trace<'a>>,
    /// Count what each instruction does, and add it to this; takes several times as long.
    pub profile: Option<&'a Mutex<Profile>>,
    /// Tell how long the launch would take on the GPU; takes several times as long.
    pub cycles: Option<&'a Cycles>,
    /// The workgroups may meet: the kernel gets what barriers of the whole grid need. All of them must be such as the
    /// GPU holds at once ([`workgroups_per_multiprocessor`](crate::exec::workgroups_per_multiprocessor)).
    pub cooperative: bool,
    /// Formats of the kernel's buffered `printf`s:
    /// [`CodeObject::printf_formats`](crate::codeobject::CodeObject::printf_formats).
    pub formats: Option<&'a PrintfFormats>,
    /// Receives what the kernel prints, instead of the process's standard output and error.
    pub output: Option<&'a Output<'a>>,
    /// Bytes past an allocation's end that a load may read, at most [`MAX_READ_PAST_END`](crate::memory::MAX_READ_PAST_END);
    /// what it reads there is undefined.
    pub read_past_end: u32,
    /// The packet that asks for the launch. Its arguments are read where they lie, and none is added.
    pub packet: Option<&'a DispatchPacket>,
    /// What to check beside. All but [`Checks::ORDER`] and [`Checks::WAITS`] run the launch on one thread;
    /// [`Checks::UNINITIALISED`] needs a memory that [remembers](crate::memory::Memory::remember_writes).
    pub checks: Checks,
    /// What [`Checks::ORDER`] and [`Checks::CACHES`] draw from.
    pub seed: u64,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            threads: 0,
            max_instructions: 1 << 34,
            workgroups: 0,
            trace: None,
            profile: None,
            cycles: None,
            cooperative: false,
            formats: None,
            output: None,
            read_past_end: 0,
            packet: None,
            checks: Checks::default(),
            seed: 0,
        }
    }
}
