//! Where allocations lie in the memory that is played back: one behind the other, in the order in which the launch first
//! touches them. A device address is the host's, which draws it anew in each process, and caches choose a line's place
//! by its number.

use std::collections::BTreeMap;

use super::record::WaveRecord;
use crate::memory::{Snapshot, MAX_READ_PAST_END};

/// The first lines of allocations, as numbers.
pub(super) struct Places<'a> {
    snapshot: &'a Snapshot,
    /// Bytes of a line.
    line: u64,
    /// By an allocation's first address: its first line here.
    first: BTreeMap<u64, u64>,
    next: u64,
}

impl<'a> Places<'a> {
    /// None is placed yet.
    pub fn new(snapshot: &'a Snapshot, line_bytes: u32) -> Places<'a> {
        Places {
            snapshot,
            line: line_bytes.into(),
            first: BTreeMap::new(),
            next: 0,
        }
    }

    /// Gives the lines that a wavefront touched their numbers here.
    pub fn place(&mut self, record: &mut WaveRecord) {
        for line in &mut record.lines {
            *line = self.line(*line);
        }
        for of in &record.accesses {
            record.lines[of.first as usize..][..of.count as usize].sort_unstable();
        }
    }

    fn line(&mut self, line: u64) -> u64 {
        // Registered memory may begin within a line.
        let last = line * self.line + (self.line - 1);
        let Some((base, end)) = self.snapshot.at_or_before(last) else {
            return line;
        };
        let next = &mut self.next;
        let first = *self.first.entry(base).or_insert_with(|| {
            let room = end - base + u64::from(MAX_READ_PAST_END);
            std::mem::replace(next, *next + room.div_ceil(self.line) + 1)
        });
        first + (line - base / self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{AllocationKind, Memory};

    const LINE: u32 = 64;

    #[test]
    fn lines_have_the_same_numbers_wherever_the_host_puts_them() {
        let memory = Memory::new(1 << 30);
        let allocate = |bytes| memory.allocate(bytes, AllocationKind::Device).unwrap();
        let [a, _, c] = [1000, 70_000, 300].map(allocate);
        let snapshot = memory.snapshot();
        let mut places = Places::new(&snapshot, LINE);
        let mut placed = |address: u64| places.line(address / u64::from(LINE));
        // In the order of touching.
        assert_eq!([placed(c), placed(c + 256), placed(a + 64)], [0, 4, 71]);
        assert_eq!([placed(a), placed(c + 64)], [70, 1]);
        // What is read past the end is no other allocation's.
        assert_eq!(placed(c + 300 + 4095), 68);
    }
}
