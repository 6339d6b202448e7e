//! `hipDeviceReset`: each owner drops what it keeps for the device.

use super::allocate::forget_pools;
use super::event::EVENTS;
use super::graph::{GRAPHS, GRAPH_EXECS};
use super::module::{FUNCTIONS, MODULES};
use super::registry::Registry;
use super::state::{Device, Runtime};
use super::stream::STREAMS;
use crate::memory::AllocationKind;

impl Runtime {
    /// Drop all that a device holds, its fault too (`hipDeviceReset`). Host memory stays.
    pub fn reset(&self, device: &Device) {
        let mine = |index: usize| index == device.index;
        for stream in self.streams_of(device) {
            stream.abandon_capture();
        }
        STREAMS.remove_where(|stream| mine(stream.device));
        EVENTS.remove_where(|event| mine(event.device));
        FUNCTIONS.remove_where(|function| mine(function.device));
        for module in MODULES.remove_where(|module| mine(module.device)) {
            module.unload(device);
        }
        GRAPHS.remove_where(|graph| mine(graph.device));
        GRAPH_EXECS.remove_where(|exec| mine(exec.device));
        Registry::get().forget_device(device.index);
        for allocation in device.memory.allocations() {
            if allocation.kind != AllocationKind::PinnedHost {
                // A launch on another thread may free at the same time; then it is gone, as wanted.
                let _ = device.memory.free(allocation.base);
            }
        }
        forget_pools(self, device);
        *device.fault.lock() = None;
    }
}
