//! The driver: the commands of `/dev/kfd`, answered over the emulated GPUs.

use std::collections::HashMap;
use std::ffi::c_void;
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rocm_emulator::exec::{APERTURE_BYTES, PRIVATE_APERTURE, SHARED_APERTURE};
use rocm_emulator::hip::Settings;
use rocm_emulator::trouble;

use crate::abi::*;
use crate::buffers::{Buffers, Errno};
use crate::clock;
use crate::counts::Counts;
use crate::ending;
use crate::events::{Events, Waited};
use crate::file::DeviceFile;
use crate::gpu::Gpu;
use crate::queue::{self, Queues};
use crate::topology::{Topology, FIRST_RENDER};

/// Where addresses begin and end that GPUs and host have in common: all of a process's.
const MEMORY: (u64, u64) = (4 << 20, (1 << 47) - 1);
/// How addresses are spread over memory, which nothing here depends on.
const TILES: u32 = 0x1000_0444;
/// The number of a range's granules, 2^9 pages, which nothing here depends on.
const GRANULARITY: u32 = 9;
/// Nowhere in particular (`KFD_IOCTL_SVM_LOCATION_UNDEFINED`).
const ANYWHERE: u32 = u32::MAX;

type Answer = Result<(), Errno>;

/// The driver, with everything that it keeps; lives as long as the process.
pub struct Driver {
    /// The device files' contents.
    pub file: DeviceFile,
    /// The GPUs.
    pub gpus: Vec<Gpu>,
    /// What the kernel would say of them.
    pub topology: Topology,
    events: Events,
    /// Doorbells by GPU.
    doorbells: Vec<u64>,
    /// Whose device for drawing a descriptor is.
    renders: Mutex<HashMap<RawFd, usize>>,
    parts: OnceLock<Parts>,
}

/// What refers to the driver.
struct Parts {
    buffers: Buffers,
    queues: Queues,
}

/// The driver of this process, made when it is first asked for. `None`, with a line on standard error, where the
/// environment makes no sense.
pub fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| match Driver::new() {
        Ok(driver) => Some(driver),
        Err(error) => {
            trouble::say(format_args!("{error}"));
            None
        }
    });
    driver.as_ref()
}

impl Driver {
    fn new() -> Result<Driver, String> {
        let settings = Settings::from_environment()?;
        let file = DeviceFile::new().map_err(|error| format!("no file in memory: {error}"))?;
        let counts = Counts::from_environment()?.map(Arc::new);
        let gpus = Gpu::all(&settings, counts.as_ref());
        let bytes = queue::MOST as u64 * queue::DOORBELL;
        let doorbells = gpus.iter().map(|_| file.reserve(bytes, bytes));
        let doorbells = doorbells.collect::<Result<Vec<u64>, _>>();
        Ok(Driver {
            topology: Topology::new(&settings.targets, &settings.memory),
            doorbells: doorbells.map_err(|error| format!("no room for doorbells: {error}"))?,
            file,
            gpus,
            events: Events::default(),
            renders: Mutex::default(),
            parts: OnceLock::new(),
        })
    }

    fn parts(&'static self) -> &'static Parts {
        self.parts.get_or_init(|| Parts {
            buffers: Buffers::new(&self.file, self.doorbells.clone()),
            queues: Queues::new(&self.events),
        })
    }

    /// The buffers.
    pub fn buffers(&'static self) -> &'static Buffers {
        &self.parts().buffers
    }

    /// Open a GPU's device for drawing, by its number; `None` if there is no such one.
    pub fn open_render(&self, minor: u32) -> Option<std::io::Result<RawFd>> {
        let index = minor.checked_sub(FIRST_RENDER)? as usize;
        self.gpus.get(index)?;
        let file = self.file.open();
        if let Ok(file) = &file {
            self.renders.lock().insert(*file, index);
        }
        Some(file)
    }

    /// The GPU whose device for drawing a descriptor is.
    pub fn gpu_of(&self, file: RawFd) -> Option<&Gpu> {
        let index = *self.renders.lock().get(&file)?;
        self.file.is(file).then(|| &self.gpus[index])
    }

    /// The GPU of an id.
    fn gpu(&self, id: u32) -> Result<&Gpu, Errno> {
        let found = self.gpus.iter().find(|gpu| gpu.id() == id);
        found.ok_or(libc::EINVAL)
    }

    /// Answer a command.
    ///
    /// # Errors
    /// `errno`, as the kernel's driver would set it.
    ///
    /// # Safety
    /// `args` is what the command takes.
    pub unsafe fn command(&'static self, request: u64, args: *mut c_void) -> Answer {
        let (number, bytes) = (request as u8, (request >> 16) as usize & 0x3fff);
        let command = COMMANDS.iter().find(|command| command.0 == number);
        let Some((_, _, answer)) = command else {
            return Err(libc::EINVAL);
        };
        if args.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        unsafe { answer(self, args, bytes) }
    }
}

/// Answers a command, whose structure has so many bytes.
type Command = unsafe fn(&'static Driver, *mut c_void, usize) -> Answer;

/// Declares the table of commands.
macro_rules! commands {
    ($($number:literal $args:ident $method:ident;)*) => {
        const COMMANDS: &[(u8, &str, Command)] = &[$(
            ($number, stringify!($method), |driver, args, bytes| {
                // SAFETY: the caller's promise.
                unsafe { with(args, bytes, |args: &mut $args| driver.$method(args)) }
            }),
        )*(SHARED, "share", |driver, args, bytes| {
            // SAFETY: the caller's promise.
            unsafe { driver.share(args, bytes) }
        })];
    };
}

/// `AMDKFD_IOC_SVM`, whose structure has a tail.
const SHARED: u8 = 0x20;

commands! {
    0x01 GetVersion version;
    0x02 CreateQueue create_queue;
    0x03 DestroyQueue destroy_queue;
    0x04 Anything nothing;
    0x05 GetClocks clocks;
    0x07 Anything nothing;
    0x08 CreateEvent create_event;
    0x09 Event destroy_event;
    0x0a Event set_event;
    0x0b Event reset_event;
    0x0c WaitEvents wait_events;
    0x11 Anything nothing;
    0x12 GetTiles tiles;
    0x13 Anything nothing;
    0x14 GetApertures apertures;
    0x15 Anything nothing;
    0x16 Allocate allocate;
    0x17 Free free;
    0x18 Map map;
    0x19 Map unmap;
    0x1a Anything nothing;
    0x1e AllocateSync grid_barriers;
    0x21 SetRetry retry;
    0x23 GetAvailable available;
    0x24 Export export;
}

/// Let a command have its structure, of which callers of another version may have more or less.
///
/// # Safety
/// `args` points to so many bytes.
unsafe fn with<T: Plain>(
    args: *mut c_void,
    bytes: usize,
    answer: impl FnOnce(&mut T) -> Answer,
) -> Answer {
    let bytes = bytes.min(size_of::<T>());
    // SAFETY: zeroes are a value of it.
    let mut here: T = unsafe { std::mem::zeroed() };
    let place = std::ptr::from_mut(&mut here).cast::<u8>();
    // SAFETY: both have so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(args.cast::<u8>(), place, bytes) };
    let answer = answer(&mut here);
    let place = std::ptr::from_ref(&here).cast::<u8>();
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(place, args.cast::<u8>(), bytes) };
    answer
}

/// A list that a command points to.
///
/// # Safety
/// So many of them lie there, or can be put there, and nobody else uses them meanwhile.
unsafe fn list<'a, T: Plain>(address: u64, count: u32) -> Result<&'a mut [T], Errno> {
    match (address as *mut T, count as usize) {
        (_, 0) => Ok(&mut []),
        (first, _) if first.is_null() || !first.is_aligned() => Err(libc::EFAULT),
        // SAFETY: the caller's promise.
        (first, count) => Ok(unsafe { std::slice::from_raw_parts_mut(first, count) }),
    }
}

// SAFETY: a number.
unsafe impl Plain for u32 {}

/// The commands. Each changes its structure as the kernel's driver would.
impl Driver {
    fn version(&self, args: &mut GetVersion) -> Answer {
        (args.major, args.minor) = VERSION;
        Ok(())
    }

    /// Policies of caches, priorities of queues, trap handlers, scratch, compute units: nothing to do here.
    fn nothing(&self, _: &mut Anything) -> Answer {
        Ok(())
    }

    fn clocks(&self, args: &mut GetClocks) -> Answer {
        self.gpu(args.gpu)?;
        args.gpu_clock = clock::now();
        args.cpu_clock = clock::nanoseconds(libc::CLOCK_MONOTONIC_RAW);
        args.system_clock = clock::nanoseconds(libc::CLOCK_BOOTTIME);
        args.system_frequency = clock::NANOSECONDS;
        Ok(())
    }

    fn apertures(&self, args: &mut GetApertures) -> Answer {
        let count = args.count.min(self.gpus.len() as u32);
        // SAFETY: the command's structure says so.
        let list: &mut [Apertures] = unsafe { list(args.apertures, count) }?;
        for (apertures, gpu) in list.iter_mut().zip(&self.gpus) {
            *apertures = Apertures {
                lds: SHARED_APERTURE,
                lds_limit: SHARED_APERTURE + APERTURE_BYTES - 1,
                scratch: PRIVATE_APERTURE,
                scratch_limit: PRIVATE_APERTURE + APERTURE_BYTES - 1,
                memory: MEMORY.0,
                memory_limit: MEMORY.1,
                gpu: gpu.id(),
                pad: 0,
            };
        }
        args.count = self.gpus.len() as u32;
        Ok(())
    }

    fn tiles(&self, args: &mut GetTiles) -> Answer {
        self.gpu(args.gpu)?;
        (args.tile_count, args.macro_count) = (0, 0);
        (args.address, args.banks, args.ranks) = (TILES, 0, 0);
        Ok(())
    }

    /// Pages that come back when they are touched: the emulated GPUs cannot wait for that.
    fn retry(&self, args: &mut SetRetry) -> Answer {
        match args.enabled {
            more if more > 0 => Err(libc::EPERM),
            _ => {
                args.enabled = 0;
                Ok(())
            }
        }
    }

    fn create_queue(&'static self, args: &mut CreateQueue) -> Answer {
        let gpu = self.gpu(args.gpu)?;
        // AMD's libraries have registered their destructors by now.
        ending::ends_at_once();
        args.queue = self.parts().queues.create(gpu, args)?;
        let doorbells = self.doorbells[gpu.index];
        args.doorbell_offset = doorbells + u64::from(args.queue) * queue::DOORBELL;
        Ok(())
    }

    fn destroy_queue(&'static self, args: &mut DestroyQueue) -> Answer {
        match self.parts().queues.destroy(args.queue) {
            true => Ok(()),
            false => Err(libc::EINVAL),
        }
    }

    /// The emulator's barriers of a grid count by themselves.
    fn grid_barriers(&self, args: &mut AllocateSync) -> Answer {
        args.first = 0;
        Ok(())
    }

    fn create_event(&self, args: &mut CreateEvent) -> Answer {
        let event = self.events.create(args.kind, args.auto_reset != 0);
        args.event = event.ok_or(libc::ENOSPC)?;
        (args.slot, args.trigger) = (args.event - 1, args.event);
        // Any offset says that there is a page with a slot for each; libhsakmt has allocated it.
        args.page = u64::from(args.kind == SIGNAL_EVENT);
        Ok(())
    }

    fn destroy_event(&self, args: &mut Event) -> Answer {
        found(self.events.destroy(args.event))
    }

    fn set_event(&self, args: &mut Event) -> Answer {
        found(self.events.set(args.event))
    }

    fn reset_event(&self, args: &mut Event) -> Answer {
        found(self.events.reset(args.event))
    }

    fn wait_events(&self, args: &mut WaitEvents) -> Answer {
        // SAFETY: the command's structure says so.
        let events = unsafe { list(args.events, args.count) }?;
        args.result = match self.events.wait(events, args.all != 0, args.timeout) {
            Waited::Complete => WAIT_COMPLETE,
            Waited::TimedOut => WAIT_TIMEOUT,
            Waited::Unknown => return Err(libc::EINVAL),
        };
        Ok(())
    }

    fn allocate(&'static self, args: &mut Allocate) -> Answer {
        let gpu = self.gpu(args.gpu)?;
        self.buffers().allocate(gpu, args)
    }

    fn free(&'static self, args: &mut Free) -> Answer {
        self.buffers().free(&self.gpus, args.handle)
    }

    fn map(&'static self, args: &mut Map) -> Answer {
        self.each_gpu(args, |gpu, handle| self.buffers().map(gpu, handle))
    }

    fn unmap(&'static self, args: &mut Map) -> Answer {
        self.each_gpu(args, |gpu, handle| self.buffers().unmap(gpu, handle))
    }

    /// Do it for the GPUs that it is not done for, and count them.
    fn each_gpu(&self, args: &mut Map, act: impl Fn(&Gpu, u64) -> Answer) -> Answer {
        // SAFETY: the command's structure says so.
        let gpus: &mut [u32] = unsafe { list(args.gpus, args.count) }?;
        for id in gpus.iter().skip(args.done as usize) {
            act(self.gpu(*id)?, args.handle)?;
            args.done += 1;
        }
        Ok(())
    }

    fn available(&self, args: &mut GetAvailable) -> Answer {
        let gpu = self.gpu(args.gpu)?;
        let used = gpu.used.load(std::sync::atomic::Ordering::Relaxed);
        args.available = gpu.memory.total().saturating_sub(used);
        Ok(())
    }

    fn export(&'static self, args: &mut Export) -> Answer {
        args.file = self.buffers().export(args.handle)?;
        Ok(())
    }

    /// `AMDKFD_IOC_SVM`: ranges of the program's own memory that GPUs may reach.
    ///
    /// # Safety
    /// `args` points to so many bytes.
    unsafe fn share(&self, args: *mut c_void, bytes: usize) -> Answer {
        let head = size_of::<SharedRange>();
        if bytes < head {
            return Err(libc::EINVAL);
        }
        // SAFETY: so many bytes are there.
        let range = unsafe { args.cast::<SharedRange>().read_unaligned() };
        let most = (bytes - head) / size_of::<Attribute>();
        let count = range.attributes.min(most as u32);
        // SAFETY: the attributes follow.
        let attributes: &mut [Attribute] = unsafe { list(args as u64 + head as u64, count) }?;
        if range.operation != SHARED_SET {
            for attribute in attributes {
                self.describe(&range, attribute);
            }
            return Ok(());
        }
        // The areas in which the hardware keeps stopped wavefronts are no memory of programs.
        let kept = |one: &Attribute| {
            one.kind == shared::SET_FLAGS && one.value & shared::ALWAYS_MAPPED != 0
        };
        if attributes.iter().any(kept) {
            return Ok(());
        }
        for attribute in attributes {
            match attribute.kind {
                shared::ACCESS | shared::ACCESS_IN_PLACE => {
                    self.gpu(attribute.value)?.share(range.start, range.size);
                }
                shared::NO_ACCESS => self.gpu(attribute.value)?.unshare(range.start, range.size),
                _ => {}
            }
        }
        Ok(())
    }

    /// Say what is asked of a range.
    fn describe(&self, range: &SharedRange, attribute: &mut Attribute) {
        match attribute.kind {
            shared::ACCESS => {
                let gpu = self.gpu(attribute.value);
                attribute.kind = match gpu.is_ok_and(|gpu| gpu.shares(range.start)) {
                    true => shared::ACCESS_IN_PLACE,
                    false => shared::NO_ACCESS,
                };
            }
            shared::PREFERRED | shared::PREFETCH => attribute.value = ANYWHERE,
            shared::SET_FLAGS => attribute.value = 0,
            shared::CLEAR_FLAGS => attribute.value = u32::MAX,
            shared::GRANULARITY => attribute.value = GRANULARITY,
            _ => {}
        }
    }
}

fn found(found: bool) -> Answer {
    match found {
        true => Ok(()),
        false => Err(libc::EINVAL),
    }
}
