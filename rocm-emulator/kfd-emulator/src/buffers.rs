//! Memory that libhsakmt asks for: ranges of the device file, at addresses that it has chosen and reserved.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::abi::{allocation, Allocate};
use crate::file::{self, DeviceFile};
use crate::gpu::Gpu;
use rocm_emulator::trouble;

/// `errno` of a command that fails.
pub type Errno = i32;

/// Pages of 2 MiB are what the host has for large ranges.
const LARGE: u64 = 2 << 20;

/// A range of the device file, given back when the last who holds it lets go.
pub struct Extent {
    file: &'static DeviceFile,
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// Whose memory it is, if a GPU's.
    owner: Option<&'static Gpu>,
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.file.release(self.offset, self.bytes);
        if let Some(gpu) = self.owner {
            gpu.give_back(self.bytes);
        }
    }
}

/// What is behind a buffer.
enum Behind {
    /// Memory of the GPU's or of the host's.
    Extent(Arc<Extent>),
    /// The program's own pages, at the same address.
    Host,
    /// Doorbells and registers, which kernels do not reach.
    Registers,
}

/// What libhsakmt has a handle of.
struct Buffer {
    address: u64,
    bytes: u64,
    behind: Behind,
    /// The GPUs that it is mapped to.
    gpus: Vec<usize>,
}

/// All of them.
pub struct Buffers {
    file: &'static DeviceFile,
    /// Where each GPU's doorbells are in the file.
    doorbells: Vec<u64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    buffers: HashMap<u64, Buffer>,
    last: u64,
    /// Descriptors that stand for buffers (dma-bufs).
    exported: HashMap<RawFd, Weak<Extent>>,
}

impl Buffers {
    /// None yet, for GPUs whose doorbells begin at these offsets.
    pub fn new(file: &'static DeviceFile, doorbells: Vec<u64>) -> Buffers {
        Buffers {
            file,
            doorbells,
            state: Mutex::default(),
        }
    }

    /// `AMDKFD_IOC_ALLOC_MEMORY_OF_GPU`.
    pub fn allocate(&self, gpu: &'static Gpu, args: &mut Allocate) -> Result<(), Errno> {
        // The second half of a queue's addresses shows its first once more, and libhsakmt does not use it.
        let halves = 1 + u64::from(args.flags & allocation::QUEUE != 0);
        let bytes = args.size / halves;
        let has = |flags: u32| args.flags & flags != 0;
        let behind = if has(allocation::USER) {
            // Elsewhere than at their own address, pages of the program's cannot be had twice.
            if args.offset != args.address {
                return Err(libc::EINVAL);
            }
            Behind::Host
        } else if has(allocation::DOORBELL) {
            args.offset = self.doorbells[gpu.index];
            Behind::Registers
        } else if has(allocation::REGISTERS) {
            args.offset = self.reserve(bytes)?;
            Behind::Registers
        } else if has(allocation::VRAM | allocation::HOST) {
            let owner = has(allocation::VRAM).then_some(gpu);
            let extent = self.extent(owner, bytes)?;
            args.offset = extent.offset;
            Behind::Extent(extent)
        } else {
            return Err(libc::EINVAL);
        };
        let mut state = self.state.lock();
        state.last += 1;
        args.handle = state.last;
        let buffer = Buffer {
            address: args.address,
            bytes,
            behind,
            gpus: Vec::new(),
        };
        state.buffers.insert(args.handle, buffer);
        Ok(())
    }

    fn extent(&self, owner: Option<&'static Gpu>, bytes: u64) -> Result<Arc<Extent>, Errno> {
        if owner.is_some_and(|gpu| !gpu.take(bytes)) {
            return Err(libc::ENOMEM);
        }
        match self.reserve(bytes) {
            Ok(offset) => Ok(Arc::new(Extent {
                file: self.file,
                offset,
                bytes,
                owner,
            })),
            Err(error) => {
                if let Some(gpu) = owner {
                    gpu.give_back(bytes);
                }
                Err(error)
            }
        }
    }

    fn reserve(&self, bytes: u64) -> Result<u64, Errno> {
        let align = if bytes >= LARGE { LARGE } else { file::PAGE };
        let reserved = self.file.reserve(bytes, align);
        reserved.map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))
    }

    /// `AMDKFD_IOC_FREE_MEMORY_OF_GPU`.
    pub fn free(&self, gpus: &[Gpu], handle: u64) -> Result<(), Errno> {
        let buffer = self.state.lock().buffers.remove(&handle);
        let buffer = buffer.ok_or(libc::EINVAL)?;
        for gpu in &buffer.gpus {
            forget(&gpus[*gpu], buffer.address);
        }
        Ok(())
    }

    /// `AMDKFD_IOC_MAP_MEMORY_TO_GPU`, for one GPU.
    pub fn map(&self, gpu: &Gpu, handle: u64) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let buffer = state.buffers.get_mut(&handle).ok_or(libc::EINVAL)?;
        if buffer.gpus.contains(&gpu.index) {
            return Ok(());
        }
        let reached = match &buffer.behind {
            Behind::Registers => false,
            Behind::Host => true,
            Behind::Extent(extent) => {
                if buffer.gpus.is_empty() {
                    // SAFETY: libhsakmt has reserved the addresses for this buffer.
                    let mapped =
                        unsafe { self.file.map(buffer.address, buffer.bytes, extent.offset) };
                    mapped.map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))?;
                }
                true
            }
        };
        if reached {
            // SAFETY: the addresses are the buffer's until it is unmapped.
            let mapped = unsafe { gpu.map(buffer.address, buffer.bytes) };
            mapped.map_err(|error| {
                trouble::say(format_args!("a buffer over another: {error}"));
                libc::EINVAL
            })?;
        }
        buffer.gpus.push(gpu.index);
        Ok(())
    }

    /// `AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU`, for one GPU.
    pub fn unmap(&self, gpu: &Gpu, handle: u64) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let buffer = state.buffers.get_mut(&handle).ok_or(libc::EINVAL)?;
        let before = buffer.gpus.len();
        buffer.gpus.retain(|mapped| *mapped != gpu.index);
        if buffer.gpus.len() != before && !matches!(buffer.behind, Behind::Registers) {
            forget(gpu, buffer.address);
        }
        Ok(())
    }

    /// `AMDKFD_IOC_EXPORT_DMABUF`: a descriptor that stands for the buffer.
    pub fn export(&self, handle: u64) -> Result<RawFd, Errno> {
        let state = self.state.lock();
        let buffer = state.buffers.get(&handle).ok_or(libc::EINVAL)?;
        let Behind::Extent(extent) = &buffer.behind else {
            return Err(libc::EINVAL);
        };
        let extent = extent.clone();
        drop(state);
        self.export_extent(&extent)
    }

    /// Let a descriptor stand for memory, as long as somebody else holds it.
    pub fn export_extent(&self, extent: &Arc<Extent>) -> Result<RawFd, Errno> {
        let file = self.file.open();
        let file = file.map_err(|error| error.raw_os_error().unwrap_or(libc::EMFILE))?;
        let mut state = self.state.lock();
        state.exported.insert(file, Arc::downgrade(extent));
        Ok(file)
    }

    /// The memory that a descriptor stands for.
    pub fn exported(&self, file: RawFd) -> Option<Arc<Extent>> {
        self.state.lock().exported.get(&file)?.upgrade()
    }
}

/// Kernels do not reach a buffer any more.
fn forget(gpu: &Gpu, address: u64) {
    // The buffer says that it is mapped; for one without memory there is nothing to forget.
    let _ = gpu.unmap(address);
}
