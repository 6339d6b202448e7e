//! HSA's signals: a number in memory that queues and the host count down, with times and an event beside it.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use crate::abi::signal::{BYTES, END, EVENT, START, VALUE};
use crate::events::Events;
use crate::gpu::Gpu;

/// A signal (`amd_signal_t`), at an address that the GPU reaches.
#[derive(Clone, Copy)]
pub struct Signal(u64);

impl Signal {
    /// The signal of a handle; `None` if the GPU reaches none there, or for the handle 0, which stands for none.
    pub fn of(gpu: &Gpu, handle: u64) -> Option<Signal> {
        let home = gpu.memory.lookup(handle)?;
        let whole = handle.is_multiple_of(8) && home.end() - handle >= BYTES;
        whole.then_some(Signal(handle))
    }

    /// Its number now.
    pub fn value(self) -> i64 {
        self.number().load(Ordering::Acquire)
    }

    /// Note when what it stands for ran, and count it down.
    pub fn complete(self, begun: u64, ended: u64, events: &Events) {
        self.quadword(START).store(begun, Ordering::Relaxed);
        self.quadword(END).store(ended, Ordering::Relaxed);
        self.number().fetch_sub(1, Ordering::AcqRel);
        self.wake(events);
    }

    /// Set its number.
    pub fn store(self, value: i64, events: &Events) {
        self.number().store(value, Ordering::Release);
        self.wake(events);
    }

    /// Set its event, if it has one: threads may sleep on it.
    fn wake(self, events: &Events) {
        // SAFETY: as in `quadword`.
        let event = unsafe { &*((self.0 + EVENT) as *const AtomicU32) };
        match event.load(Ordering::Relaxed) {
            0 => {}
            event => {
                events.set(event);
            }
        }
    }

    fn number(self) -> &'static AtomicI64 {
        // SAFETY: as in `quadword`.
        unsafe { &*((self.0 + VALUE) as *const AtomicI64) }
    }

    fn quadword(self, at: u64) -> &'static AtomicU64 {
        // SAFETY: the signal is in mapped memory, aligned; AMD's runtime keeps it while a packet names it.
        unsafe { &*((self.0 + at) as *const AtomicU64) }
    }
}
