//! The process's emulated devices and everything that handles name.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{c_void, CString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use super::copy::HostBlock;
use super::error::{Code, HipError, Result};
use super::event::Event;
use super::graph::{Graph, GraphExec};
use super::handles::Table;
use super::module::{Function, Module};
use super::registry::Registry;
use super::stream::{Stream, StreamKind};
use crate::isa::Target;
use crate::memory::{AllocationKind, Memory};

/// The variable that chooses the emulated devices: a comma-separated list of processors.
pub const ARCH_VARIABLE: &str = "ROCM_EMU_ARCH";
/// The variable that sets each device's memory: bytes, or a number with K, M, G or T.
pub const MEMORY_VARIABLE: &str = "ROCM_EMU_MEMORY";
/// The variable that sets how many threads run workgroups.
pub const THREADS_VARIABLE: &str = "ROCM_EMU_THREADS";
/// The variable that sets how many instructions a wavefront may execute.
pub const INSTRUCTIONS_VARIABLE: &str = "ROCM_EMU_MAX_INSTRUCTIONS";

const DEFAULT_ARCH: &str = "gfx1100";
const DEFAULT_MEMORY: u64 = 16 << 30;

/// One emulated GPU.
pub struct Device {
    /// Its ordinal.
    pub index: usize,
    /// Its architecture.
    pub target: Target,
    /// Its memory.
    pub memory: Memory,
    /// What ended a launch; every later call that needs the device gives this until `hipDeviceReset`.
    pub fault: Mutex<Option<HipError>>,
    /// Held for reading by work on blocking streams, for writing by work on the legacy default stream, which
    /// waits for them and they for it.
    pub order: RwLock<()>,
    /// The legacy default stream.
    pub default_stream: Arc<Stream>,
    /// Raised by `hipDeviceReset`: what was made before is gone.
    pub epoch: AtomicU64,
    /// `hipSetDeviceFlags`.
    pub flags: Mutex<u32>,
    /// The pool that `hipMallocAsync` takes from.
    pub current_pool: AtomicU64,
    /// The pool that exists from the start.
    pub default_pool: u64,
}

impl Device {
    /// Fail while a fault is pending.
    pub fn healthy(&self) -> Result {
        match &*self.fault.lock() {
            Some(fault) => Err(fault.clone()),
            None => Ok(()),
        }
    }
}

/// A memory pool: `hipMallocAsync` allocates at once here, so it only keeps what the program sets and counts.
#[derive(Debug, Default)]
pub struct Pool {
    /// Its device.
    pub device: usize,
    /// `hipMemPoolAttrReleaseThreshold`.
    pub release_threshold: AtomicU64,
    /// Bytes that live allocations of the pool have.
    pub used: AtomicU64,
    /// The highest that `used` has been.
    pub used_high: AtomicU64,
    /// The reuse attributes, which change nothing here, as bits.
    pub reuse: AtomicU64,
    /// Live allocations: address and bytes.
    pub allocations: Mutex<BTreeMap<u64, u64>>,
}

/// Settings from the environment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Processors of the emulated devices.
    pub targets: Vec<Target>,
    /// Bytes of memory of each device.
    pub memory: u64,
    /// Threads for workgroups; 0 means all cores.
    pub threads: usize,
    /// Instructions that one wavefront may execute.
    pub max_instructions: Option<u64>,
}

impl Settings {
    /// Read the environment.
    ///
    /// # Errors
    /// A variable that makes no sense, in words.
    pub fn from_environment() -> std::result::Result<Settings, String> {
        let get = |name: &str| {
            std::env::var(name)
                .ok()
                .filter(|value| !value.trim().is_empty())
        };
        let number = |name: &str| match get(name) {
            Some(text) => text
                .trim()
                .parse::<u64>()
                .map(Some)
                .map_err(|_| format!("{name}={text}: not a number")),
            None => Ok(None),
        };
        let archs = get(ARCH_VARIABLE).unwrap_or_else(|| DEFAULT_ARCH.into());
        let targets = archs
            .split(',')
            .map(|name| name.trim().parse::<Target>())
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| format!("{ARCH_VARIABLE}={archs}: {error}"))?;
        let memory = match get(MEMORY_VARIABLE) {
            Some(text) => parse_bytes(&text).ok_or_else(|| {
                format!("{MEMORY_VARIABLE}={text}: not a number of bytes such as 512M or 16G")
            })?,
            None => DEFAULT_MEMORY,
        };
        Ok(Settings {
            targets,
            memory,
            threads: number(THREADS_VARIABLE)?.unwrap_or(0) as usize,
            max_instructions: number(INSTRUCTIONS_VARIABLE)?,
        })
    }
}

/// `16G`, `512M`, `4096`.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text
        .trim()
        .trim_end_matches(['b', 'B'])
        .trim_end_matches('i');
    let (digits, shift) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let bytes = digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (bytes > 0).then_some(bytes)
}

/// Everything that lives as long as the process.
pub struct Runtime {
    /// The environment's settings.
    pub settings: Settings,
    /// The devices.
    pub devices: Vec<Device>,
    /// Pinned and registered host memory by first address.
    pub host_blocks: Mutex<BTreeMap<u64, HostBlock>>,
    /// Streams that the program created.
    pub streams: Table<Stream>,
    /// Events.
    pub events: Table<Event>,
    /// Loaded modules.
    pub modules: Table<Module>,
    /// Functions of loaded modules.
    pub functions: Table<Function>,
    /// Graphs.
    pub graphs: Table<Graph>,
    /// Instantiated graphs.
    pub graph_execs: Table<GraphExec>,
    /// Memory pools.
    pub pools: Table<Pool>,
    /// Captures under way: the number of streams that capture in a mode other than relaxed.
    pub strict_captures: AtomicU64,
}

impl Runtime {
    fn new(settings: Settings) -> Runtime {
        let pools = Table::new(7);
        let devices = settings
            .targets
            .iter()
            .enumerate()
            .map(|(index, target)| {
                let default_pool = pools.insert(|_| Pool {
                    device: index,
                    ..Pool::default()
                });
                Device {
                    index,
                    target: *target,
                    memory: Memory::new(settings.memory),
                    fault: Mutex::new(None),
                    order: RwLock::new(()),
                    default_stream: Arc::new(Stream::new(index, StreamKind::Legacy, 0, 0)),
                    epoch: AtomicU64::new(0),
                    flags: Mutex::new(0),
                    current_pool: AtomicU64::new(default_pool),
                    default_pool,
                }
            })
            .collect();
        Runtime {
            settings,
            devices,
            host_blocks: Mutex::new(BTreeMap::new()),
            streams: Table::new(1),
            events: Table::new(2),
            modules: Table::new(3),
            functions: Table::new(4),
            graphs: Table::new(5),
            graph_execs: Table::new(6),
            pools,
            strict_captures: AtomicU64::new(0),
        }
    }

    /// A device by ordinal.
    ///
    /// # Errors
    /// `hipErrorInvalidDevice`.
    pub fn device(&self, ordinal: i32) -> Result<&Device> {
        usize::try_from(ordinal)
            .ok()
            .and_then(|index| self.devices.get(index))
            .ok_or_else(|| {
                HipError::new(
                    Code::InvalidDevice,
                    format!(
                        "device {ordinal}: there are {} emulated devices ({ARCH_VARIABLE})",
                        self.devices.len()
                    ),
                )
            })
    }

    /// The calling thread's current device.
    pub fn current(&self) -> &Device {
        &self.devices[CURRENT.get().min(self.devices.len() - 1)]
    }

    /// The device whose live allocations hold an address; for host memory that all devices reach, the current
    /// device.
    pub fn owner(&self, address: u64) -> Option<&Device> {
        let current = self.current();
        std::iter::once(current)
            .chain(
                self.devices
                    .iter()
                    .filter(|device| device.index != current.index),
            )
            .find(|device| device.memory.lookup(address).is_some())
    }

    /// The stream that a handle names, for the calling thread.
    ///
    /// # Errors
    /// `hipErrorInvalidHandle` when there is none (HIP says `hipErrorContextIsDestroyed` for some of these).
    pub fn stream(&self, handle: *const c_void) -> Result<Arc<Stream>> {
        match handle as usize {
            // hipStreamLegacy has a number of its own beside null.
            0 | 1 => Ok(self.current().default_stream.clone()),
            2 => Ok(self.per_thread_stream()),
            _ => self.streams.get(handle),
        }
    }

    fn per_thread_stream(&self) -> Arc<Stream> {
        let device = self.current().index;
        PER_THREAD_STREAMS.with_borrow_mut(|streams| {
            streams
                .entry(device)
                .or_insert_with(|| {
                    let stream = Arc::new(Stream::new(device, StreamKind::PerThread, 0, 0));
                    ALL_PER_THREAD.lock().push(Arc::downgrade(&stream));
                    stream
                })
                .clone()
        })
    }

    /// Every live stream of a device, default and per-thread ones included.
    pub fn streams_of(&self, device: &Device) -> Vec<Arc<Stream>> {
        let mut per_thread = ALL_PER_THREAD.lock();
        per_thread.retain(|stream| stream.strong_count() > 0);
        std::iter::once(device.default_stream.clone())
            .chain(per_thread.iter().filter_map(std::sync::Weak::upgrade))
            .chain(self.streams.all())
            .filter(|stream| stream.device == device.index)
            .collect()
    }

    /// Drop all that a device holds, its fault too (`hipDeviceReset`). Host memory stays.
    pub fn reset(&self, device: &Device) {
        let mine = |index: usize| index == device.index;
        for stream in self.streams_of(device) {
            stream.abandon_capture();
        }
        self.streams.remove_where(|stream| mine(stream.device));
        self.events.remove_where(|event| mine(event.device));
        self.functions
            .remove_where(|function| mine(function.device));
        for module in self.modules.remove_where(|module| mine(module.device)) {
            module.unload(device);
        }
        self.graphs.remove_where(|graph| mine(graph.device));
        self.graph_execs.remove_where(|exec| mine(exec.device));
        Registry::get().forget_device(device.index);
        for allocation in device.memory.allocations() {
            if allocation.kind != AllocationKind::PinnedHost {
                // A launch on another thread may free at the same time; then it is gone, as wanted.
                let _ = device.memory.free(allocation.base);
            }
        }
        self.pools
            .remove_where(|pool| mine(pool.device) && pool.device_pool_is_extra(self));
        if let Ok(pool) = self.pools.get(device.default_pool as *const c_void) {
            pool.allocations.lock().clear();
            pool.used.store(0, Ordering::Relaxed);
        }
        device
            .current_pool
            .store(device.default_pool, Ordering::Relaxed);
        device.epoch.fetch_add(1, Ordering::Relaxed);
        *device.fault.lock() = None;
    }
}

impl Pool {
    /// Whether the program created it.
    fn device_pool_is_extra(&self, _runtime: &Runtime) -> bool {
        self.reuse.load(Ordering::Relaxed) & Pool::CREATED != 0
    }

    /// Bit of `reuse` that marks pools made by `hipMemPoolCreate`.
    pub const CREATED: u64 = 1 << 63;
}

static ALL_PER_THREAD: Mutex<Vec<std::sync::Weak<Stream>>> = Mutex::new(Vec::new());

thread_local! {
    /// The current device.
    pub static CURRENT: Cell<usize> = const { Cell::new(0) };
    /// Devices below the current one on the context stack.
    pub static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// What `hipGetLastError` gives.
    pub static LAST_ERROR: Cell<u32> = const { Cell::new(0) };
    /// The account of the last failed call, if there was more to say than its status.
    pub static LAST_MESSAGE: RefCell<Option<CString>> = const { RefCell::new(None) };
    /// `hipThreadExchangeStreamCaptureMode`.
    pub static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
    static PER_THREAD_STREAMS: RefCell<BTreeMap<usize, Arc<Stream>>> = const { RefCell::new(BTreeMap::new()) };
}

/// The process's runtime, made on first use.
///
/// # Errors
/// `hipErrorNoDevice` when the environment's settings make no sense, with the reason.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            let settings = Settings::from_environment();
            if let Err(message) = &settings {
                eprintln!("rocm-emulator: {message}");
            }
            settings.map(Runtime::new)
        })
        .as_ref()
        .map_err(|message| HipError::new(Code::NoDevice, message.clone()))
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn memory_sizes() {
        assert_eq!(parse_bytes("4096"), Some(4096));
        assert_eq!(parse_bytes("16G"), Some(16 << 30));
        assert_eq!(parse_bytes(" 512MiB "), Some(512 << 20));
        assert_eq!(parse_bytes("1kb"), Some(1024));
        for bad in ["", "0", "G", "-1", "1X", "99999999T"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }
}
