//! What code can be compiled for: one GPU, or all of a generic target.

use std::fmt;
use std::str::FromStr;

use crate::generic::Generic;
use crate::{Architecture, Family, Gpu, Unit};

impl Generic {
    /// The GPUs of the table that run its code.
    pub fn members(self) -> impl Iterator<Item = Gpu> {
        Gpu::all().filter(move |gpu| gpu.facts().generic == Some(self))
    }
}

/// What code is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeTarget {
    /// One GPU.
    Gpu(Gpu),
    /// All GPUs of a generic target.
    Generic(Generic),
}

impl CodeTarget {
    /// LLVM's name.
    pub fn name(self) -> &'static str {
        match self {
            CodeTarget::Gpu(gpu) => gpu.name(),
            CodeTarget::Generic(generic) => generic.name(),
        }
    }

    /// The GPUs that run the code.
    pub fn gpus(self) -> impl Iterator<Item = Gpu> {
        Gpu::all().filter(move |gpu| match self {
            CodeTarget::Gpu(own) => *gpu == own,
            CodeTarget::Generic(generic) => gpu.facts().generic == Some(generic),
        })
    }

    /// Whether the GPU runs the code.
    pub fn covers(self, gpu: Gpu) -> bool {
        self.gpus().any(|other| other == gpu)
    }

    /// The oldest generation that runs the code.
    pub fn architecture(self) -> Architecture {
        match self {
            CodeTarget::Gpu(gpu) => gpu.architecture(),
            CodeTarget::Generic(Generic::Gfx9) => Architecture::Vega20,
            CodeTarget::Generic(Generic::Gfx9_4) => Architecture::Cdna3,
            CodeTarget::Generic(Generic::Gfx10_3) => Architecture::Rdna2,
            CodeTarget::Generic(Generic::Gfx11) => Architecture::Rdna3,
            CodeTarget::Generic(Generic::Gfx12) => Architecture::Rdna4,
        }
    }

    /// The instruction encodings.
    pub fn family(self) -> Family {
        self.architecture().family()
    }

    /// What HIP counts as a multiprocessor of that generation.
    pub fn unit(self) -> &'static Unit {
        self.architecture().unit()
    }

    /// Vector registers of a SIMD that the compiler may count on: the least of all members.
    pub fn vgprs(self) -> u32 {
        let all = self.gpus().map(|gpu| gpu.facts().vgprs);
        all.min().unwrap_or_default()
    }

    /// Vector registers are given out in multiples of this on such a file.
    pub fn vgpr_granule(self) -> u32 {
        crate::gpus::vgpr_granule(self.vgprs())
    }
}

impl fmt::Display for CodeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is neither a GPU's nor a generic target's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTarget(String);

impl fmt::Display for UnknownTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Gpu::all().map(Gpu::name);
        let names: Vec<_> = names.chain(Generic::ALL.map(Generic::name)).collect();
        write!(
            f,
            "unknown target {:?}; known are {}",
            self.0,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownTarget {}

impl FromStr for CodeTarget {
    type Err = UnknownTarget;

    /// Takes a GPU's name, with or without features, or a generic target's.
    fn from_str(name: &str) -> Result<Self, UnknownTarget> {
        let gpu = name.parse().map(CodeTarget::Gpu);
        let generic = || Generic::ALL.into_iter().find(|g| g.name() == name);
        gpu.or_else(|_| {
            generic()
                .map(CodeTarget::Generic)
                .ok_or_else(|| UnknownTarget(name.to_owned()))
        })
    }
}
