//! Parts of the way to memory: caches that hold lines, ports that pass bytes.

/// Parts of a cycle that ports count in.
const PARTS: u64 = 1 << 12;
/// Lines of a set. AMD's second-level caches have 16 ways; of the others it is assumed.
const WAYS: usize = 16;

/// What passes so many bytes a cycle, one request after the other.
pub(super) struct Port {
    /// Parts of a cycle for 1024 bytes.
    parts_of_kib: u64,
    free: u64,
    busy: u64,
}

impl Port {
    pub fn new(bytes_of_cycle: f64) -> Port {
        Port {
            parts_of_kib: (1024.0 * PARTS as f64 / bytes_of_cycle).round() as u64,
            free: 0,
            busy: 0,
        }
    }

    /// A request of so many bytes that arrives in a cycle: how many cycles later it has passed.
    pub fn pass(&mut self, at: u64, bytes: u64) -> u64 {
        let needs = self.parts_of_kib * bytes / 1024;
        self.free = self.free.max(at * PARTS) + needs;
        self.busy += needs;
        (self.free - at * PARTS) / PARTS
    }

    /// The cycle from which on it is idle.
    pub fn idle_from(&self) -> u64 {
        self.free.div_ceil(PARTS)
    }

    /// Cycles in which it was busy.
    pub fn busy(&self) -> u64 {
        self.busy / PARTS
    }
}

/// A line that a cache holds.
#[derive(Clone, Copy, Default)]
struct Line {
    /// Its number and 1; 0 where there is none.
    tag: u64,
    used: u64,
    /// When its data are there.
    ready: u64,
    dirty: bool,
}

/// Lines, of which those go that were not used for longest.
pub(super) struct Cache {
    sets: usize,
    lines: Vec<Line>,
    clock: u64,
}

impl Cache {
    pub fn new(bytes: u64, line_bytes: u64) -> Cache {
        let sets = ((bytes / line_bytes) as usize / WAYS).max(1);
        Cache {
            sets,
            lines: vec![Line::default(); sets * WAYS],
            clock: 0,
        }
    }

    /// AMD's caches spread addresses over their parts by hashing, too (ROCm Compute Profiler, "L2 cache").
    fn set(&mut self, line: u64) -> &mut [Line] {
        let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let first = hash as usize % self.sets * WAYS;
        &mut self.lines[first..first + WAYS]
    }

    /// When a line's data are there, if it is held.
    pub fn find(&mut self, line: u64) -> Option<u64> {
        self.clock += 1;
        let clock = self.clock;
        let held = self.set(line).iter_mut().find(|of| of.tag == line + 1)?;
        held.used = clock;
        Some(held.ready)
    }

    /// Hold a line whose data come then.
    pub fn keep(&mut self, line: u64, ready: u64) {
        self.clock += 1;
        let clock = self.clock;
        let set = self.set(line);
        let oldest = set.iter_mut().min_by_key(|of| of.used);
        if let Some(oldest) = oldest {
            *oldest = Line {
                tag: line + 1,
                used: clock,
                ready,
                dirty: false,
            };
        }
    }

    /// Note that a line that is held was written; whether it was not before.
    pub fn write(&mut self, line: u64) -> bool {
        let held = self.set(line).iter_mut().find(|of| of.tag == line + 1);
        held.is_some_and(|held| !std::mem::replace(&mut held.dirty, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_passes_its_bytes_in_order() {
        let mut port = Port::new(64.0);
        assert_eq!(port.pass(10, 256), 4);
        // Behind the first.
        assert_eq!(port.pass(10, 64), 5);
        assert_eq!(port.pass(100, 64), 1);
        assert_eq!((port.busy(), port.idle_from()), (6, 101));
        // Faster than a line a cycle.
        let mut port = Port::new(256.0);
        let last = (0..1000).map(|_| port.pass(0, 128)).last();
        assert_eq!(last, Some(500));
    }

    #[test]
    fn a_cache_drops_what_was_not_used_for_longest() {
        let mut cache = Cache::new(16 * 128, 128);
        for line in 0..16 {
            cache.keep(line, line);
        }
        assert_eq!(cache.find(0), Some(0));
        cache.keep(16, 7);
        assert_eq!(
            (cache.find(0), cache.find(1), cache.find(16)),
            (Some(0), None, Some(7))
        );
        assert!(cache.write(0) && !cache.write(0) && !cache.write(1));
    }
}
