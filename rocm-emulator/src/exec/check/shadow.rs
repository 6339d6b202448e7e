//! Who touched which bytes last: a cell for each dword of memory or LDS, and one for each byte of dwords whose bytes
//! differ.

use std::collections::HashMap;

/// An access that is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touch {
    /// The wavefront's number in the launch, plus one; 0 for none.
    pub wave: u32,
    /// When, by the wavefront's own clock.
    pub time: u32,
    /// The instruction's distance from the kernel's first.
    pub offset: i32,
}

impl Touch {
    pub fn is_some(self) -> bool {
        self.wave != 0
    }
}

/// What is remembered of some bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub writer: Touch,
    /// The writer was an atomic, which others may touch atomically.
    pub atomic: bool,
    /// Two of those that read since: whoever writes then conflicts with one of them at least.
    pub readers: [Touch; 2],
    /// When the writer wrote, by the launch's clock: for the check of caches.
    pub when: u32,
    /// The dword's bytes have cells of their own.
    split: bool,
}

const PAGE: usize = 1024;

/// Cells of all memory that was touched, by dword.
#[derive(Default)]
pub(super) struct Shadow {
    pages: HashMap<u64, Box<[Cell; PAGE]>>,
    bytes: HashMap<u64, [Cell; 4]>,
}

impl Shadow {
    /// Visit the cells of a range of addresses; `each` gets the address and number of a cell's bytes, and may stop.
    pub fn visit<T>(
        &mut self,
        first: u64,
        end: u64,
        mut each: impl FnMut(u64, u64, &mut Cell) -> Option<T>,
    ) -> Option<T> {
        let mut at = first;
        while at < end {
            let dword = at / 4;
            let page = dword / PAGE as u64;
            let cells = self
                .pages
                .entry(page)
                .or_insert_with(|| Box::new([Cell::default(); PAGE]));
            // The rest of the page at once: most accesses are of many dwords.
            let stop = end.min((page + 1) * PAGE as u64 * 4);
            while at < stop {
                let cell = &mut cells[(at / 4) as usize % PAGE];
                let next = stop.min((at / 4 + 1) * 4);
                let whole = at.is_multiple_of(4) && next - at == 4;
                if whole && !cell.split {
                    if let Some(found) = each(at, 4, cell) {
                        return Some(found);
                    }
                    at = next;
                    continue;
                }
                if !cell.split {
                    self.bytes.insert(at / 4, [*cell; 4]);
                    cell.split = true;
                }
                let parts = self.bytes.entry(at / 4).or_insert([Cell::default(); 4]);
                for byte in at..next {
                    if let Some(found) = each(byte, 1, &mut parts[(byte % 4) as usize]) {
                        return Some(found);
                    }
                }
                at = next;
            }
        }
        None
    }

    /// Look at the cells of a range of addresses that there are, as [`Shadow::visit`] does.
    pub fn look<T>(
        &self,
        first: u64,
        end: u64,
        mut each: impl FnMut(u64, u64, &Cell) -> Option<T>,
    ) -> Option<T> {
        let mut at = first;
        while at < end {
            let dword = at / 4;
            let Some(cells) = self.pages.get(&(dword / PAGE as u64)) else {
                at = (dword / PAGE as u64 + 1) * PAGE as u64 * 4;
                continue;
            };
            let cell = &cells[dword as usize % PAGE];
            let next = end.min((dword + 1) * 4);
            let found = match self.bytes.get(&dword).filter(|_| cell.split) {
                None => each(at, next - at, cell),
                Some(parts) => {
                    (at..next).find_map(|byte| each(byte, 1, &parts[(byte % 4) as usize]))
                }
            };
            if found.is_some() {
                return found;
            }
            at = next;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_dword_part_when_they_must() {
        let mut shadow = Shadow::default();
        let write = |wave: u32| {
            move |_: u64, _: u64, cell: &mut Cell| -> Option<()> {
                cell.writer.wave = wave;
                None
            }
        };
        shadow.visit(0, 16, write(1));
        shadow.visit(6, 9, write(2));
        let mut seen = Vec::new();
        shadow.visit(0, 16, |at, _, cell| -> Option<()> {
            seen.push((at, cell.writer.wave));
            None
        });
        let expected = [
            (0, 1),
            (4, 1),
            (5, 1),
            (6, 2),
            (7, 2),
            (8, 2),
            (9, 1),
            (10, 1),
            (11, 1),
            (12, 1),
        ];
        assert_eq!(seen, expected);
        let mut again = Vec::new();
        shadow.look(0, 4 * PAGE as u64 * 3, |at, bytes, cell| -> Option<()> {
            again.extend((cell.writer.wave != 0).then_some((at, bytes, cell.writer.wave)));
            None
        });
        assert_eq!(again[..3], [(0, 4, 1), (4, 1, 1), (5, 1, 1)]);
        assert_eq!(again.len(), expected.len());
    }

    #[test]
    fn ranges_cross_pages() {
        let mut shadow = Shadow::default();
        let mut count = 0;
        shadow.visit(
            4 * PAGE as u64 - 8,
            4 * PAGE as u64 + 8,
            |_, _, _| -> Option<()> {
                count += 1;
                None
            },
        );
        assert_eq!(count, 4);
    }
}
