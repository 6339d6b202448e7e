//! The process's emulated devices, and what their owners keep for each of them.
//!
//! Nothing here knows what the files above keep: each has its own table of handles ([`super::handles`]) and its own
//! [`PerDevice`] state, and adds to [`Runtime`] the methods that find what is there.

use std::cell::Cell;
use std::sync::OnceLock;

use parking_lot::{Mutex, RwLock};

use super::error::{Code, HipError, Result};
use super::facts;
use super::settings::{Settings, ARCH_VARIABLE};
use super::visible::{self, Processor, FIRST_NODE};
use crate::exec::Checks;
use crate::isa::Target;
use crate::memory::Memory;
use crate::trouble;

/// One emulated GPU.
pub struct Device {
    /// Its ordinal among the GPUs that the process sees.
    pub index: usize,
    /// Its place among the machine's GPUs.
    pub card: usize,
    /// Its architecture.
    pub target: Target,
    /// What it passes for, if `HSA_OVERRIDE_GFX_VERSION` says so.
    pub passes_for: Option<Processor>,
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

    /// The architecture with its features, as HIP says it.
    pub fn hip_name(&self) -> String {
        match &self.passes_for {
            Some(processor) => format!("{}{}", processor.name, self.target.facts().qualifiers),
            None => self.target.hip_name(),
        }
    }

    /// Major and minor version, as HIP says them.
    pub fn version(&self) -> (i32, i32) {
        match &self.passes_for {
            Some(processor) => processor.version,
            None => facts::version(self.target),
        }
    }

    /// The architecture whose code it takes: its own, or the one that it passes for.
    ///
    /// # Errors
    /// It passes for one with other instructions. Hardware takes such code, and then does what nobody knows.
    pub fn code_target(&self) -> Result<Target> {
        let Some(processor) = &self.passes_for else {
            return Ok(self.target);
        };
        let same = |target: &Target| target.family() == self.target.family();
        processor.target.filter(same).ok_or_else(|| {
            HipError::new(
                Code::NoBinaryForGpu,
                format!(
                    "{} passes for {} ({}), whose instructions it does not have",
                    self.target,
                    processor.name,
                    visible::OVERRIDE_VARIABLE
                ),
            )
        })
    }

    /// PCI bus; the emulated GPUs sit at 0000:03:00.0 and after.
    pub fn pci_bus(&self) -> i32 {
        facts::pci_bus(self.card)
    }
}

/// A GPU of the machine as the driver lists it, whether the process sees it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// The driver's number for it.
    pub node: u32,
    /// Its processor, such as `gfx1100`, whatever it passes for.
    pub processor: &'static str,
    /// The product's name.
    pub name: String,
    /// Compute units.
    pub compute_units: u32,
    /// PCI bus.
    pub pci_bus: u32,
}

/// The machine's GPUs as the driver lists them; none if the environment's settings make no sense.
pub fn cards() -> Vec<Card> {
    let Ok(settings) = Settings::from_environment() else {
        return Vec::new();
    };
    let card = |(card, target): (usize, &Target)| Card {
        node: (card + FIRST_NODE) as u32,
        processor: target.name(),
        name: facts::product_name(*target),
        compute_units: target.facts().product.compute_units,
        pci_bus: facts::pci_bus(card) as u32,
    };
    settings.targets.iter().enumerate().map(card).collect()
}

/// The emulated devices and what they were made with; lives as long as the process.
pub struct Runtime {
    /// The environment's settings.
    pub settings: Settings,
    /// The devices.
    pub devices: Vec<Device>,
}

impl Runtime {
    fn new(settings: Settings) -> std::result::Result<Runtime, String> {
        let seen = visible::seen(&settings, |name| {
            std::env::var(name).ok().filter(|value| !value.is_empty())
        })?;
        let devices = seen
            .into_iter()
            .enumerate()
            .map(|(index, seen)| Device {
                index,
                card: seen.card,
                target: settings.targets[seen.card],
                passes_for: seen.passes_for,
                memory: Memory::new(settings.memory[seen.card]),
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
        Ok(runtime)
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
/// `hipErrorNoDevice` when the environment's settings make no sense or hide every GPU, with the reason.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    RUNTIME
        .get_or_init(|| {
            let runtime = Settings::from_environment().and_then(Runtime::new);
            if let Err(message) = &runtime {
                trouble::say(format_args!("{message}"));
            }
            runtime
        })
        .as_ref()
        .map_err(|message| HipError::new(Code::NoDevice, message.clone()))
}
