//! Barriers of a whole grid: the global wave sync that `ds_gws_barrier` counts with.

use std::sync::atomic::{AtomicU64, Ordering};

/// Resources of a queue (LLVM's AMDGPUUsage: a program uses 64).
const RESOURCES: usize = 64;

/// How many wavefronts have arrived at each resource.
pub(super) struct GridBarrier {
    arrived: [AtomicU64; RESOURCES],
}

impl GridBarrier {
    pub fn new() -> GridBarrier {
        GridBarrier {
            arrived: [const { AtomicU64::new(0) }; RESOURCES],
        }
    }

    fn resource(&self, resource: u32) -> &AtomicU64 {
        &self.arrived[resource as usize % RESOURCES]
    }

    /// A wavefront arrives where `members` meet; gives the count at which it may go on.
    pub fn arrive(&self, resource: u32, members: u64) -> u64 {
        let before = self.resource(resource).fetch_add(1, Ordering::AcqRel);
        (before / members + 1) * members
    }

    /// Whether the resource has counted so far.
    pub fn has_counted(&self, resource: u32, count: u64) -> bool {
        self.resource(resource).load(Ordering::Acquire) >= count
    }
}
