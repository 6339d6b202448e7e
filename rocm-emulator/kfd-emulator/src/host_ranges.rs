//! The host's own pages that kernels may reach: what programs register, and what HIP pins for a copy.
//!
//! The driver learns of them when they are registered, not when that ends: the kernel's own driver sees the pages go.
//! So, before a kernel runs, those that the process has no longer are let go here.

use rocm_emulator::memory::Memory;
use rocm_emulator::trouble;

use crate::file::is_mapped;

/// The ranges of one GPU.
#[derive(Default)]
pub struct HostRanges {
    /// As they were registered: first address, and first after. They may overlap.
    ranges: Vec<(u64, u64)>,
    /// What kernels reach of that, joined.
    reached: Vec<(u64, u64)>,
}

impl HostRanges {
    /// Add pages.
    pub fn add(&mut self, memory: &Memory, address: u64, bytes: u64) {
        let (first, end) = (address, address.saturating_add(bytes));
        let inside = |&(from, to): &(u64, u64)| from <= first && end <= to;
        if bytes == 0 || self.ranges.iter().any(inside) {
            return;
        }
        self.ranges.retain(|&(from, to)| from < first || end < to);
        self.ranges.push((first, end));
        self.reach(memory);
    }

    /// Remove those that lie within these.
    pub fn remove(&mut self, memory: &Memory, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        self.ranges.retain(|&(from, to)| from < address || end < to);
        self.reach(memory);
    }

    /// Let those go that the process has no longer.
    pub fn refresh(&mut self, memory: &Memory) {
        let before = self.ranges.len();
        self.ranges.retain(|&(from, to)| is_mapped(from, to - from));
        if self.ranges.len() != before {
            self.reach(memory);
        }
    }

    /// Tell the GPU's memory.
    fn reach(&mut self, memory: &Memory) {
        let joined = join(&self.ranges);
        let gone = self.reached.extract_if(.., |range| !joined.contains(range));
        for (from, _) in gone {
            // Registered below, and by nobody else.
            let _ = memory.unregister_host(from);
        }
        for (from, to) in joined {
            if self.reached.contains(&(from, to)) {
                continue;
            }
            // SAFETY: the process has these pages; kernels run only after `refresh` has looked again.
            match unsafe { memory.register_host(from, to - from) } {
                Ok(()) => self.reached.push((from, to)),
                Err(error) => {
                    trouble::say(format_args!("host memory that a GPU has already: {error}"))
                }
            }
        }
    }
}

/// The same addresses in ranges that neither overlap nor touch.
fn join(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in sorted {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::{join, HostRanges};
    use crate::file::PAGE;
    use rocm_emulator::memory::Memory;

    #[test]
    fn ranges_are_joined() {
        assert_eq!(join(&[(8, 9), (1, 3), (2, 5), (5, 6)]), [(1, 6), (8, 9)]);
    }

    #[test]
    fn what_one_range_reaches_stays_when_another_goes() {
        let memory = Memory::new(0);
        let mut ranges = HostRanges::default();
        let pages = vec![0u8; 8 * PAGE as usize];
        let first = (pages.as_ptr() as u64).next_multiple_of(PAGE);
        ranges.add(&memory, first, 3 * PAGE);
        ranges.add(&memory, first + 2 * PAGE, 2 * PAGE);
        assert_eq!(memory.lookup(first).unwrap().size, 4 * PAGE);
        ranges.remove(&memory, first, 3 * PAGE);
        assert!(memory.lookup(first + PAGE).is_none());
        assert_eq!(memory.lookup(first + 2 * PAGE).unwrap().size, 2 * PAGE);
        ranges.refresh(&memory);
        assert!(memory.lookup(first + 3 * PAGE).is_some());
    }
}
