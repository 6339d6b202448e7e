//! The process's emulated devices, and what their owners keep for each of them.
//!
//! Nothing here knows what the files above keep: each has its own table of handles ([`super::handles`]) and its own
//! [`PerDevice`] state, and adds to [`Runtime`] the methods that find what is there.

use std::cell::Cell;
use std::sync::OnceLock;

use parking_lot::{Mutex, RwLock};

use super::error::{Code, HipError, Result};
use super::settings::{Settings, ARCH_VARIABLE};
use crate::exec::Checks;
use crate::isa::Target;
use crate::memory::Memory;

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
    /// `hipSetDeviceFlags`.
    pub flags: Mutex<u32>,
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

/// The emulated devices and what they were made with; lives as long as the process.
pub struct Runtime {
    /// The environment's settings.
    pub settings: Settings,
    /// The devices.
    pub devices: Vec<Device>,
}

impl Runtime {
    fn new(settings: Settings) -> Runtime {
        let devices = settings
            .targets
            .iter()
            .zip(&settings.memory)
            .enumerate()
            .map(|(index, (target, bytes))| Device {
                index,
                target: *target,
                memory: Memory::new(*bytes),
                fault: Mutex::new(None),
                order: RwLock::new(()),
                flags: Mutex::new(0),
            })
            .collect();
        let runtime = Runtime { settings, devices };
        if runtime.settings.checks.has(Checks::UNINITIALISED) {
            let memories = runtime.devices.iter().map(|device| &device.memory);
            memories.for_each(Memory::remember_writes);
        }
        runtime
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
}

/// What an owner keeps for each device, made for all of them when it is first asked for.
pub struct PerDevice<T> {
    make: fn(&Device) -> T,
    slots: OnceLock<Box<[T]>>,
}

impl<T> PerDevice<T> {
    /// State that `make` begins.
    pub const fn new(make: fn(&Device) -> T) -> PerDevice<T> {
        PerDevice {
            make,
            slots: OnceLock::new(),
        }
    }

    /// That of a device.
    pub fn of(&self, runtime: &Runtime, device: &Device) -> &T {
        let slots = self
            .slots
            .get_or_init(|| runtime.devices.iter().map(self.make).collect());
        &slots[device.index]
    }
}

thread_local! {
    /// The current device.
    pub static CURRENT: Cell<usize> = const { Cell::new(0) };
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
