//! How a launch's workgroups are spread over the GPU.

use crate::isa::Target;

/// How a launch's workgroups are spread.
pub(crate) struct Geometry {
    pub target: Target,
    pub workgroups: u64,
    /// Workgroups that a unit holds.
    pub held: u32,
}

impl Geometry {
    pub(super) fn chiplets(&self) -> u64 {
        self.target.facts().product.chiplets.into()
    }

    /// Chiplets that have a workgroup.
    pub(super) fn chiplets_used(&self) -> u32 {
        self.chiplets().min(self.workgroups).max(1) as u32
    }

    pub(super) fn units_of_chiplet(&self) -> u32 {
        self.target.multiprocessors() / self.target.facts().product.chiplets
    }

    /// Workgroups of the first chiplet: they are dealt out in turn.
    pub(super) fn of_chiplet(&self) -> u64 {
        self.workgroups.div_ceil(self.chiplets())
    }

    /// Those that it holds at once.
    pub(super) fn at_once(&self) -> u64 {
        u64::from(self.held) * u64::from(self.units_of_chiplet())
    }
}
