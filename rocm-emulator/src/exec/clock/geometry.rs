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
    pub(super) fn xcds(&self) -> u64 {
        self.target.facts().product.xcds.into()
    }

    /// XCDs that have a workgroup.
    pub(super) fn xcds_used(&self) -> u32 {
        self.xcds().min(self.workgroups).max(1) as u32
    }

    pub(super) fn units_of_xcd(&self) -> u32 {
        self.target.multiprocessors() / self.target.facts().product.xcds
    }

    /// Workgroups of the first XCD: they are dealt out in turn.
    pub(super) fn of_xcd(&self) -> u64 {
        self.workgroups.div_ceil(self.xcds())
    }

    /// Those that it holds at once.
    pub(super) fn at_once(&self) -> u64 {
        u64::from(self.held) * u64::from(self.units_of_xcd())
    }
}
