//! A cache as the check of caches has it: lines, which of their bytes it has, and which of those memory has not.

use std::collections::HashMap;
use std::ops::Range;

use super::order::Draw;

/// Bytes of a line; a bit of a mask for each.
pub(super) const LINE: u64 = 128;

/// The bits of `first..end`, which lies in the line that begins at `line`.
pub(super) fn bits(line: u64, first: u64, end: u64) -> u128 {
    let (from, to) = (first.max(line) - line, end.min(line + LINE) - line);
    match to.checked_sub(from) {
        None | Some(0) => 0,
        Some(count) => u128::MAX >> (LINE - count) << from,
    }
}

/// The positions of a mask's bits.
pub(super) fn positions(mut mask: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (at < u128::BITS).then_some(at as usize)
    })
}

/// The range of a mask's bits where they lie together.
pub(super) fn together(mask: u128) -> Option<Range<usize>> {
    let (first, count) = (mask.trailing_zeros(), mask.count_ones());
    let is_together = mask != 0 && mask >> first == u128::MAX >> (u128::BITS - count);
    is_together.then(|| first as usize..(first + count) as usize)
}

/// A line's bytes.
pub(super) type Bytes = [u8; LINE as usize];

pub(super) struct Line {
    /// Those that are here.
    pub valid: u128,
    /// Of those, what memory has not.
    pub dirty: u128,
    pub bytes: Bytes,
}

impl Line {
    /// These bytes are here now.
    pub fn fill(&mut self, mask: u128, bytes: &Bytes) {
        match together(mask) {
            Some(range) => self.bytes[range.clone()].copy_from_slice(&bytes[range]),
            None => positions(mask).for_each(|at| self.bytes[at] = bytes[at]),
        }
        self.valid |= mask;
    }
}

/// One cache.
pub(super) struct Cache {
    lines: HashMap<u64, Box<Line>>,
    /// Their addresses, to draw one.
    order: Vec<u64>,
    /// Lines that it has room for.
    room: usize,
    /// When it was last emptied.
    pub emptied: u32,
}

impl Cache {
    pub fn new(room: usize) -> Cache {
        Cache {
            lines: HashMap::new(),
            order: Vec::new(),
            room: room.max(1),
            emptied: 0,
        }
    }

    pub fn get(&mut self, line: u64) -> Option<&mut Line> {
        self.lines.get_mut(&line).map(|line| &mut **line)
    }

    /// The bytes of a line that is here, if it has those that are wanted; one that `is_gone` has none.
    pub fn hit(
        &mut self,
        line: u64,
        wanted: u128,
        is_gone: impl FnOnce() -> bool,
    ) -> Option<Bytes> {
        let line = self.get(line)?;
        if is_gone() {
            line.valid = 0;
        }
        (wanted & !line.valid == 0).then_some(line.bytes)
    }

    /// The line of an address, made if it is not here; and one that had to go for it, if one had to.
    pub fn entry(&mut self, line: u64, draw: &mut Draw) -> (&mut Line, Option<(u64, Box<Line>)>) {
        let mut gone = None;
        if !self.lines.contains_key(&line) {
            match self.order.len() == self.room {
                true => {
                    let at = draw.below(self.order.len());
                    let address = std::mem::replace(&mut self.order[at], line);
                    gone = self.lines.remove(&address).map(|line| (address, line));
                }
                false => self.order.push(line),
            }
        }
        let entry = self.lines.entry(line).or_insert_with(|| {
            Box::new(Line {
                valid: 0,
                dirty: 0,
                bytes: [0; LINE as usize],
            })
        });
        (&mut **entry, gone)
    }

    /// Forget what memory has, too.
    pub fn empty(&mut self, now: u32) {
        self.emptied = now;
        self.lines.retain(|_, line| {
            line.valid = line.dirty;
            line.dirty != 0
        });
        let lines = &self.lines;
        self.order.retain(|address| lines.contains_key(address));
    }

    /// The addresses of lines with bytes that memory has not, in an order that is the same in each run.
    pub fn dirty(&self) -> Vec<u64> {
        let is_dirty = |address: &u64| self.lines[address].dirty != 0;
        self.order.iter().copied().filter(is_dirty).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_ranges() {
        assert_eq!(bits(128, 128, 256), u128::MAX);
        assert_eq!(bits(128, 130, 132), 0b1100);
        assert_eq!(bits(128, 0, 129), 1);
        assert_eq!(bits(128, 0, 128), 0);
        assert_eq!(positions(0b1001).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(together(0b0110), Some(1..3));
        assert_eq!(together(u128::MAX), Some(0..128));
        assert_eq!((together(0), together(0b101)), (None, None));
    }

    #[test]
    fn an_emptied_cache_keeps_what_memory_has_not() {
        let mut cache = Cache::new(2);
        let mut draw = Draw::new(1);
        let line = cache.entry(0, &mut draw).0;
        (line.valid, line.dirty) = (0b11, 0b10);
        cache.entry(128, &mut draw).0.valid = 1;
        assert_eq!(cache.dirty(), [0]);
        cache.empty(7);
        assert_eq!(cache.get(0).map(|line| line.valid), Some(0b10));
        assert!(cache.get(128).is_none());
        assert!(cache.entry(256, &mut draw).1.is_none());
        assert!(cache.entry(384, &mut draw).1.is_some(), "no room for three");
    }
}
