//! The processor that plans and tables of kernels are asked about: its name parsed once, when the device is opened.

use rocm_gpus::{Architecture, CodeTarget};

use crate::nvidia::Multiprocessor;

/// A GPU's processor, by the table that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// AMD's: the entry of `rocm-gpus`.
    Amd(CodeTarget),
    /// NVIDIA's; before compute capability 8.0 without what plans know of a multiprocessor.
    Nvidia(Option<Multiprocessor>),
    /// In no table.
    Unknown,
}

impl Processor {
    /// That of this name, such as `gfx942`, `gfx11-generic` or `sm_90`; features after a colon are ignored.
    pub fn of(name: &str) -> Self {
        if name.starts_with("sm_") {
            return Self::Nvidia(Multiprocessor::of(name));
        }
        name.parse().map_or(Self::Unknown, Self::Amd)
    }

    /// The oldest architecture whose GPUs run its code, of AMD's.
    pub fn architecture(self) -> Option<Architecture> {
        match self {
            Self::Amd(target) => Some(target.architecture()),
            Self::Nvidia(_) | Self::Unknown => None,
        }
    }

    /// Work-items of a wavefront: 32 of NVIDIA's, and where nothing is known.
    pub fn wavefront(self) -> u32 {
        self.architecture().map_or(32, |of| of.unit().wavefront)
    }

    /// What plans know of it, of NVIDIA's.
    pub fn multiprocessor(self) -> Option<Multiprocessor> {
        match self {
            Self::Nvidia(unit) => unit,
            Self::Amd(_) | Self::Unknown => None,
        }
    }

    /// Whether it is NVIDIA's.
    pub fn is_nvidia(self) -> bool {
        matches!(self, Self::Nvidia(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for gpu in rocm_gpus::Gpu::all() {
            let amd = Processor::Amd(CodeTarget::Gpu(gpu));
            assert_eq!(Processor::of(gpu.name()), amd);
            assert_eq!(Processor::of(&gpu.hip_name()), amd);
            assert_eq!(amd.architecture(), Some(gpu.architecture()));
            assert!(!amd.is_nvidia() && amd.multiprocessor().is_none());
        }
        let generic = Processor::of("gfx11-generic");
        assert_eq!(generic.architecture(), Some(Architecture::Rdna3));
        let known = Processor::of("sm_90");
        assert!(known.is_nvidia() && known.multiprocessor().is_some());
        assert_eq!(Processor::of("sm_75"), Processor::Nvidia(None));
        assert_eq!(Processor::of("gfx1"), Processor::Unknown);
        assert_eq!(Processor::Unknown.architecture(), None);
    }
}
