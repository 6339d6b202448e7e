//! The figures of a pool.

use std::fmt;

/// What a pool holds, in bytes, and what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Given out and not freed.
    pub in_use: usize,
    /// The most that was ever in use.
    pub peak_in_use: usize,
    /// Kept for further requests.
    pub cached: usize,
    /// Kept for graphs, which use it at each launch.
    pub held_by_graphs: usize,
    /// Got from the driver and not given back: the sum of `in_use`, `cached` and `held_by_graphs`.
    pub reserved: usize,
    /// The most that was ever got from the driver at one time.
    pub peak_reserved: usize,
    /// Requests served.
    pub allocations: u64,
    /// Requests for which the driver was called.
    pub driver_allocations: u64,
    /// How often the cache was given back because memory ran out.
    pub flushes: u64,
}

impl fmt::Display for PoolStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes in use, {} cached, {} held by graphs",
            self.in_use, self.cached, self.held_by_graphs
        )
    }
}

impl PoolStatistics {
    /// The driver gave a segment of so many bytes.
    pub(super) fn note_segment(&mut self, size: usize) {
        self.driver_allocations += 1;
        self.reserved += size;
        self.peak_reserved = self.peak_reserved.max(self.reserved);
    }

    /// A block of so many bytes was given out.
    pub(super) fn note_allocation(&mut self, size: usize) {
        self.allocations += 1;
        self.in_use += size;
        self.peak_in_use = self.peak_in_use.max(self.in_use);
    }
}
