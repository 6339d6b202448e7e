//! How far ahead of its wait a loop asks for what it needs: the arithmetic between a load from global memory, or a read
//! of LDS, and the first instruction that waits for it.
//!
//! Counters count in order: a wait that leaves n operations on their way waits for all but the last n. Arithmetic is
//! the matrix instructions' cycles, or without any, those in which multiply-adds are issued. It is one wavefront's; what
//! others of the SIMD do meanwhile comes on top.

use std::collections::VecDeque;

use crate::listing::{Counter, Line, Listing};
use crate::loops::Loop;

/// A loop's least distances, in cycles of arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distances {
    /// From a load from global memory to the wait for it; `None` where the loop loads nothing, or waits for nothing.
    pub load: Option<u64>,
    /// From a read of LDS.
    pub read: Option<u64>,
    /// All arithmetic of an iteration: what is loaded at its beginning and waited for at its end is as far ahead as one
    /// set of registers allows.
    pub iteration: u64,
}

/// An operation on its way.
#[derive(Clone, Copy)]
struct Pending {
    /// The arithmetic before it, where it is one whose distance counts.
    since: Option<u64>,
}

/// Of a loop with all that it contains, taken round twice, so that what is loaded in one iteration may be waited for in
/// the next. Loops within count once, and what branches skip counts as executed.
pub fn of(listing: &Listing, of: &Loop) -> Distances {
    let lines: Vec<&Line> = listing
        .lines
        .iter()
        .filter(|line| of.offsets.contains(&line.offset))
        .collect();
    let has_matrix = lines.iter().any(|line| line.matrix_cycles > 0);
    let issue = u64::from(listing.target.unit().issue_cycles);
    let cycles = |line: &Line| match has_matrix {
        true => line.matrix_cycles,
        false => u64::from(line.multiply_add) * issue,
    };
    let mut least = [None; Counter::COUNT];
    let mut pending: [VecDeque<Pending>; Counter::COUNT] = Default::default();
    let mut done = 0;
    for round in 0..2 {
        for line in &lines {
            for (counter, leaves) in line.counted.leaves.iter().enumerate() {
                let Some(leaves) = *leaves else { continue };
                let waited = pending[counter].len().saturating_sub(leaves);
                for since in pending[counter].drain(..waited).filter_map(|of| of.since) {
                    let distance = done - since;
                    least[counter] =
                        Some(least[counter].map_or(distance, |it: u64| it.min(distance)));
                }
            }
            if let Some(counter) = line.counted.raises {
                let counts = round == 0 && line.counted.fetches;
                let since = counts.then_some(done);
                pending[counter as usize].push_back(Pending { since });
            }
            done += cycles(line);
        }
    }
    Distances {
        load: least[Counter::Memory as usize],
        read: least[Counter::Lds as usize],
        iteration: done / 2,
    }
}

#[cfg(test)]
mod tests {
    use rocm_emulator::isa::Target;

    use super::*;
    use crate::listing::{Counted, Unit};
    use crate::loops;

    fn line(unit: Unit, counted: Counted) -> Line {
        Line {
            offset: 0,
            unit,
            slots: 1,
            matrix_cycles: 0,
            multiply_add: false,
            counted,
            branch: None,
            name: "",
        }
    }

    fn asks(counter: Counter, fetches: bool) -> Line {
        let counted = Counted {
            raises: Some(counter),
            fetches,
            ..Counted::default()
        };
        line(Unit::Memory, counted)
    }

    fn load() -> Line {
        asks(Counter::Memory, true)
    }

    fn wait(leaves: [Option<usize>; 2]) -> Line {
        let counted = Counted {
            leaves,
            ..Counted::default()
        };
        line(Unit::Wait, counted)
    }

    fn mfma() -> Line {
        Line {
            matrix_cycles: 32,
            ..line(Unit::Matrix, Counted::default())
        }
    }

    fn fma() -> Line {
        Line {
            multiply_add: true,
            ..line(Unit::Vector, Counted::default())
        }
    }

    /// The loop of these instructions, closed by a branch, after one that is not in it.
    fn distances(lines: Vec<Line>) -> Distances {
        let mut all = vec![mfma()];
        all.extend(lines);
        all.push(Line {
            branch: Some(4),
            ..line(Unit::Branch, Counted::default())
        });
        for (i, line) in all.iter_mut().enumerate() {
            line.offset = 4 * i as i64;
        }
        let listing = Listing {
            target: Target::Gfx942,
            lines: all,
        };
        let k_blocks = loops::k_blocks(&listing);
        assert_eq!(k_blocks.len(), 1);
        of(&listing, &k_blocks[0])
    }

    #[test]
    fn waits_are_in_order() {
        // The first wait leaves the second load on its way.
        let first = wait([Some(1), None]);
        let all = wait([Some(0), None]);
        let found = distances(vec![
            load(),
            mfma(),
            load(),
            mfma(),
            first,
            mfma(),
            mfma(),
            all,
        ]);
        assert_eq!(found.load, Some(64));
        assert_eq!((found.read, found.iteration), (None, 128));
    }

    #[test]
    fn the_next_iteration_waits_for_what_this_one_loads() {
        let found = distances(vec![mfma(), wait([Some(0), None]), load(), mfma(), mfma()]);
        assert_eq!(found.load, Some(96));
        // What stands after the wait in a straight line would be no distance at all.
        let found = distances(vec![mfma(), mfma(), load(), wait([Some(0), None])]);
        assert_eq!(found.load, Some(0));
    }

    #[test]
    fn counters_are_apart_and_what_fetches_nothing_only_takes_a_place() {
        let read = || asks(Counter::Lds, true);
        let write = || asks(Counter::Lds, false);
        // One operation may be on its way: the write, not the read.
        let lines = vec![
            read(),
            mfma(),
            write(),
            mfma(),
            wait([None, Some(1)]),
            mfma(),
        ];
        let found = distances(lines);
        assert_eq!((found.load, found.read), (None, Some(64)));
        let lines = vec![
            load(),
            read(),
            mfma(),
            wait([None, Some(0)]),
            mfma(),
            wait([Some(0), None]),
        ];
        let found = distances(lines);
        assert_eq!((found.load, found.read), (Some(64), Some(32)));
    }

    #[test]
    fn without_a_matrix_unit_multiply_adds_are_the_arithmetic() {
        let mut lines = vec![load(), fma(), fma(), wait([Some(0), None]), fma()];
        lines.push(line(Unit::Vector, Counted::default()));
        let found = distances(lines);
        // Four cycles each on a GPU whose wavefronts have 64 lanes.
        assert_eq!((found.load, found.iteration), (Some(8), 12));
    }

    #[test]
    fn a_loop_that_also_copies_is_none_over_panels() {
        // The second loop has more arithmetic, and an inner one without any, as loops over edges have.
        let back = |to: i64| Line {
            branch: Some(to),
            ..line(Unit::Branch, Counted::default())
        };
        let mut all = vec![mfma(), back(0)];
        all.extend([mfma(), load(), back(12), mfma(), back(8)]);
        for (i, line) in all.iter_mut().enumerate() {
            line.offset = 4 * i as i64;
        }
        let listing = Listing {
            target: Target::Gfx942,
            lines: all,
        };
        let k_blocks = loops::k_blocks(&listing);
        assert_eq!(k_blocks.len(), 1);
        assert_eq!(k_blocks[0].offsets, 0..5);
    }
}
