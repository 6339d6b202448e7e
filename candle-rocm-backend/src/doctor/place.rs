//! Where to look: the machine, the process, and what was built into the program.

use std::path::{Path, PathBuf};

use candle_rocm_runtime::runtime::machine::{Listed, Machine};
use candle_rocm_runtime::RuntimeKind;
use rocm_toolchain::topology::{self, Node};

/// Where to look. [`Place::here`] is this machine and process; tests lay out others.
pub struct Place<'a> {
    /// The folder that stands for `/`.
    pub root: &'a Path,
    /// Variables of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Starts the process's runtime, and tells what it is made of.
    pub start: &'a dyn Fn() -> Result<Started, String>,
    /// The kernels in the program.
    pub embedded: Embedded<'a>,
    /// The folder of compiled kernels.
    pub kernel_cache: Option<PathBuf>,
    /// The file of timed matrix products.
    pub timings: Option<PathBuf>,
}

/// A runtime that could be started.
#[derive(Clone, Debug)]
pub struct Started {
    /// Which.
    pub kind: RuntimeKind,
    /// Its library's path.
    pub library: String,
    /// As `hipRuntimeGetVersion` and `cuDriverGetVersion` give it; 0 if unknown.
    pub version: i32,
    /// Its GPUs, or what is wrong with one.
    pub gpus: Vec<Result<Gpu, String>>,
    /// The GPUs that the driver under the emulator lists. Those of AMD's driver are read below [`Place::root`].
    pub nodes: Vec<Node>,
}

impl Started {
    /// The machine around its GPUs.
    pub(super) fn machine(&self, place: &Place<'_>) -> Machine {
        let nodes = match self.kind {
            RuntimeKind::Amd => topology::gpus(place.root).unwrap_or_default(),
            _ => self.nodes.clone(),
        };
        let listed = |gpu: &Result<Gpu, String>| {
            let gpu = gpu.as_ref().ok()?;
            Some(Listed {
                name: gpu.name.clone(),
                arch: gpu.arch.clone(),
                memory: gpu.memory,
                pci_address: gpu.pci_address,
            })
        };
        Machine {
            listed: self.gpus.iter().map(listed).collect(),
            variables: Machine::variables(&nodes, place.variable),
            nodes,
        }
    }
}

/// A GPU as the runtime describes it.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// Marketing name.
    pub name: String,
    /// Processor, such as `gfx1100`.
    pub arch: String,
    /// Bytes of its memory.
    pub memory: usize,
    /// Where it is on PCI, as the runtime says it; none if that is not known.
    pub pci_address: Option<u32>,
    /// The vendor's library of matrix products with its version, or why it cannot be had.
    pub library: Result<String, String>,
    /// Whether its graphs are right, or why they are off; none where that was not tried.
    pub graphs: Option<Result<(), String>>,
}

/// The kernels in a program.
#[derive(Clone, Debug)]
pub struct Embedded<'a> {
    /// GPUs and generic targets that it has code for.
    pub targets: Vec<&'a str>,
    /// Why these, in words.
    pub reason: &'a str,
}

impl Embedded<'static> {
    /// Those of this program.
    pub fn here() -> Self {
        Self {
            targets: candle_rocm_kernels::architectures().to_vec(),
            reason: candle_rocm_kernels::architectures_reason(),
        }
    }
}
