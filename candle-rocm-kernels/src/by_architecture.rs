//! Lists that differ between architectures, as headers have them and the build reads them.

use rocm_gpus::Architecture;

use crate::processor::Processor;

/// A list for each; the fields' names are those of the lists in headers (kernels/portable/architecture.cuh).
#[allow(missing_docs)]
pub(crate) struct Lists<T: 'static> {
    pub vega20: &'static [T],
    pub cdna1: &'static [T],
    pub cdna2: &'static [T],
    pub cdna3: &'static [T],
    pub cdna4: &'static [T],
    pub rdna2: &'static [T],
    pub rdna3: &'static [T],
    pub rdna4: &'static [T],
    pub nvidia: &'static [T],
}

impl<T> Lists<T> {
    /// That of a processor; of NVIDIA's, whatever plans know of it. Empty of unknown ones.
    pub fn of(&self, processor: Processor) -> &'static [T] {
        match processor {
            Processor::Amd(target) => self.of_architecture(target.architecture()),
            Processor::Nvidia(_) => self.nvidia,
            Processor::Unknown => &[],
        }
    }

    /// All of them.
    pub fn lists(&self) -> [&'static [T]; 9] {
        [
            self.vega20,
            self.cdna1,
            self.cdna2,
            self.cdna3,
            self.cdna4,
            self.rdna2,
            self.rdna3,
            self.rdna4,
            self.nvidia,
        ]
    }

    fn of_architecture(&self, architecture: Architecture) -> &'static [T] {
        match architecture {
            Architecture::Vega20 => self.vega20,
            Architecture::Cdna1 => self.cdna1,
            Architecture::Cdna2 => self.cdna2,
            Architecture::Cdna3 => self.cdna3,
            Architecture::Cdna4 => self.cdna4,
            Architecture::Rdna2 => self.rdna2,
            // One code object is for both.
            Architecture::Rdna3 | Architecture::Rdna3_5 => self.rdna3,
            Architecture::Rdna4 => self.rdna4,
        }
    }
}
