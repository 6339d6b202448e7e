//! The machine that the process's GPUs are part of.

use std::path::Path;

use rocm_toolchain::topology::{self, Node};

use super::gpu::Device;
use crate::base::hip::types::{attribute, HIP_SUCCESS};
use crate::runtime::machine::{of_environment, Listed, Machine};
use crate::runtime::{Runtime, RuntimeKind};

impl Runtime {
    /// The GPUs that HIP lists and those that the driver lists. Every GPU is opened, and the last one becomes the
    /// calling thread's current one.
    pub fn machine(&'static self) -> Machine {
        let listed = |ordinal| {
            let device = self.device(ordinal).ok()?;
            let info = device.info();
            Some(Listed {
                name: info.name.clone(),
                arch: info.arch.clone(),
                memory: info.total_memory,
                pci_address: device.pci_address(),
            })
        };
        let nodes = nodes(self.kind());
        Machine {
            listed: (0..self.device_count()).map(listed).collect(),
            variables: Machine::variables(&nodes, &of_environment),
            nodes,
        }
    }
}

impl Device {
    /// Where it is on PCI, as [`topology::pci_address`] makes it; none if HIP does not say.
    pub fn pci_address(&self) -> Option<u32> {
        let read = |attribute: u32| {
            let mut value = 0;
            // SAFETY: the output is writable and the ordinal is that of an existing GPU.
            let status = unsafe {
                (self.hip().hipDeviceGetAttribute)(&mut value, attribute, self.ordinal() as i32)
            };
            (status == HIP_SUCCESS).then_some(value as u32)
        };
        let bus = read(attribute::PCI_BUS)?;
        let domain = read(attribute::PCI_DOMAIN).unwrap_or(0);
        let device = read(attribute::PCI_DEVICE).unwrap_or(0);
        Some(topology::pci_address(domain, bus, device))
    }
}

/// The GPUs that the driver under a runtime lists.
pub fn nodes(kind: RuntimeKind) -> Vec<Node> {
    match kind {
        RuntimeKind::Amd => topology::gpus(Path::new("/")).unwrap_or_default(),
        RuntimeKind::Emulator => emulated_nodes(),
        RuntimeKind::Nvidia => Vec::new(),
    }
}

#[cfg(feature = "emulator")]
fn emulated_nodes() -> Vec<Node> {
    let node = |card: rocm_emulator::hip::Card| Node {
        number: card.node,
        processor: card.processor.to_owned(),
        name: card.name,
        compute_units: card.compute_units,
        render_minor: 0,
        pci_address: Some(topology::pci_address(0, card.pci_bus, 0)),
    };
    rocm_emulator::hip::cards().into_iter().map(node).collect()
}

#[cfg(not(feature = "emulator"))]
fn emulated_nodes() -> Vec<Node> {
    Vec::new()
}
