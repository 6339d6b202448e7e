//! The loop in which a product's kernel spends its time, and how much of it is matrix arithmetic.

use std::collections::BTreeMap;
use std::ops::Range;

use rocm_emulator::exec::{InstructionProfile, Profile};

use crate::listing::{Line, Listing, Unit};

/// Instructions of a loop, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// By [`Unit`]: instructions of one iteration.
    pub units: [f64; Unit::COUNT],
    /// Cycles of the matrix unit.
    pub matrix_cycles: f64,
    /// Multiply-adds of the vector unit.
    pub multiply_adds: f64,
    /// Issue slots of everything but matrix instructions and waits.
    pub slots: f64,
    /// Issue slots of waits.
    pub wait_slots: f64,
}

impl Counts {
    /// Instructions issued to a unit.
    pub fn of(&self, unit: Unit) -> f64 {
        self.units[unit as usize]
    }

    fn add(&mut self, line: &Line, times: f64) {
        self.units[line.unit as usize] += times;
        self.matrix_cycles += line.matrix_cycles as f64 * times;
        self.multiply_adds += f64::from(u8::from(line.multiply_add)) * times;
        match line.unit {
            Unit::Matrix => {}
            Unit::Wait => self.wait_slots += line.slots as f64 * times,
            _ => self.slots += line.slots as f64 * times,
        }
    }
}

/// A backward branch and what lies between it and its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// Offsets in bytes from the kernel's first instruction, the branch included.
    pub offsets: Range<i64>,
    /// The loops within it.
    pub inner: Vec<Range<i64>>,
    /// Instructions as they stand in the code: what is skipped now and then counts in full.
    pub counts: Counts,
    slot_cycles: f64,
}

/// How much of a loop's time is arithmetic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// `M / (M + s * (O + W))`: nothing overlaps.
    pub all: f64,
    /// `M / (M + s * O)`: waits cost nothing.
    pub without_waits: f64,
}

impl Loop {
    /// For kernels with matrix instructions, M is their cycles, and the fill is of the matrix unit's time; without them
    /// M is the multiply-adds' issue slots, and the fill is of all issue slots.
    pub fn fill(&self) -> Fill {
        fill(&self.counts, self.slot_cycles)
    }

    /// Its instructions, those of inner loops left out.
    pub fn lines<'a>(&'a self, listing: &'a Listing) -> impl Iterator<Item = &'a Line> {
        let outside = |at: &i64| !self.inner.iter().any(|inner| inner.contains(at));
        listing
            .lines
            .iter()
            .filter(move |line| self.offsets.contains(&line.offset) && outside(&line.offset))
    }
}

/// What a kernel's hot loop executed.
pub struct LoopFigures {
    /// Sums over the loop's instructions.
    pub total: InstructionProfile,
    /// Of an average iteration.
    pub counts: Counts,
    /// By those counts.
    pub fill: Fill,
}

impl LoopFigures {
    /// Of the hottest loop, if the kernel has one.
    pub fn hottest(listing: &Listing, profile: &Profile) -> Option<Self> {
        let hot = hottest(listing, profile);
        if hot.is_empty() {
            return None;
        }
        let executed = executed(&hot, listing, profile);
        let lines = hot.iter().flat_map(|of| of.lines(listing));
        Some(Self::of(lines, executed, profile))
    }

    /// Of these lines, with what an iteration is counted to have.
    pub fn of<'a>(
        lines: impl IntoIterator<Item = &'a Line>,
        (counts, fill): (Counts, Fill),
        profile: &Profile,
    ) -> Self {
        let each = lines.into_iter().map(|line| profile.at(line.offset));
        Self {
            total: each.fold(InstructionProfile::default(), |sum, line| sum + line),
            counts,
            fill,
        }
    }
}

/// What some loops executed in all, divided by the iterations of their most frequent instructions; and the fill.
fn executed(loops: &[Loop], listing: &Listing, profile: &Profile) -> (Counts, Fill) {
    let executions = |line: &Line| profile.at(line.offset).executions;
    let most = |of: &Loop| of.lines(listing).map(executions).max().unwrap_or(0);
    let iterations = loops.iter().map(most).sum::<u64>().max(1) as f64;
    let mut counts = Counts::default();
    for line in loops.iter().flat_map(|of| of.lines(listing)) {
        counts.add(line, executions(line) as f64 / iterations);
    }
    let fill = fill(&counts, f64::from(listing.target.unit().issue_cycles));
    (counts, fill)
}

fn fill(counts: &Counts, slot_cycles: f64) -> Fill {
    let (arithmetic, others) = if counts.matrix_cycles > 0.0 {
        (counts.matrix_cycles, slot_cycles * counts.slots)
    } else {
        let multiply_adds = slot_cycles * counts.multiply_adds;
        (multiply_adds, slot_cycles * counts.slots - multiply_adds)
    };
    let share = |others: f64| match arithmetic + others {
        0.0 => 0.0,
        all => arithmetic / all,
    };
    Fill {
        all: share(others + slot_cycles * counts.wait_slots),
        without_waits: share(others),
    }
}

/// All loops, in order of their first instructions. Of an outer loop only what is in none of its inner ones counts.
pub fn all(listing: &Listing) -> Vec<Loop> {
    // First and last instruction; branches back to the same place are one loop.
    let mut ranges: BTreeMap<i64, i64> = BTreeMap::new();
    for line in &listing.lines {
        if let Some(first) = line.branch.filter(|&first| first <= line.offset) {
            let last = ranges.entry(first).or_insert(line.offset);
            *last = line.offset.max(*last);
        }
    }
    let loops = ranges.iter().map(|(&first, &last)| {
        let inner: Vec<Range<i64>> = ranges
            .iter()
            .filter(|&(&a, &b)| (a, b) != (first, last) && a >= first && b <= last)
            .map(|(&a, &b)| a..b + 1)
            .collect();
        let mut of = Loop {
            offsets: first..last + 1,
            inner,
            counts: Counts::default(),
            slot_cycles: f64::from(listing.target.unit().issue_cycles),
        };
        let mut counts = Counts::default();
        of.lines(listing).for_each(|line| counts.add(line, 1.0));
        of.counts = counts;
        of
    });
    loops.collect()
}

/// The loop in which a kernel should spend its time, as it stands in the code: that with the most matrix cycles, or
/// without any, the one that is most densely filled with multiply-adds of those that have many. `None` where no loop has
/// any.
pub fn hot(listing: &Listing) -> Option<Loop> {
    let loops = all(listing);
    let most = |work: fn(&Counts) -> f64| {
        let of_all = loops.iter().map(|of| work(&of.counts));
        of_all.fold(0.0, f64::max)
    };
    let cycles = most(|counts| counts.matrix_cycles);
    let multiply_adds = most(|counts| counts.multiply_adds);
    let candidates = loops.iter().filter(|of| {
        if cycles > 0.0 {
            of.counts.matrix_cycles == cycles
        } else {
            // Loops over edges and results have some too, thinly.
            multiply_adds > 0.0 && of.counts.multiply_adds >= multiply_adds / 8.0
        }
    });
    candidates
        .max_by(|a, b| a.fill().all.total_cmp(&b.fill().all))
        .cloned()
}

/// The loop that executed the most arithmetic, with all loops around and within it; and those that executed as much, as
/// where halves of a workgroup have loops of their own. Empty where none did any.
fn hottest(listing: &Listing, profile: &Profile) -> Vec<Loop> {
    let work = |of: &Loop| {
        let mut executed = Counts::default();
        for line in of.lines(listing) {
            executed.add(line, profile.at(line.offset).executions as f64);
        }
        (executed.matrix_cycles, executed.multiply_adds)
    };
    let mut hottest: Vec<Loop> = Vec::new();
    let mut most = (0.0, 0.0);
    for of in all(listing) {
        let work = work(&of);
        if work == (0.0, 0.0) || work < most {
            continue;
        }
        if work > most {
            hottest.clear();
            most = work;
        }
        let nest = nest(listing, &of);
        if !hottest.contains(&nest) {
            hottest.push(nest);
        }
    }
    hottest
}

/// The instructions of a loop of so many iterations, wherever its blocks stand, with the loops within it: those that were
/// executed in at least half of them. And their sums by iteration, and the fill.
pub fn repeated<'a>(
    listing: &'a Listing,
    profile: &Profile,
    iterations: u64,
) -> (Vec<&'a Line>, Counts, Fill) {
    let executions = |line: &Line| profile.at(line.offset).executions;
    let lines = listing.lines.iter();
    let often: Vec<_> = lines
        .filter(|line| 2 * executions(line) >= iterations)
        .collect();
    let mut counts = Counts::default();
    for line in &often {
        counts.add(line, executions(line) as f64 / iterations as f64);
    }
    let fill = fill(&counts, f64::from(listing.target.unit().issue_cycles));
    (often, counts, fill)
}

/// The loops over K-blocks of a product, each with all loops within it: those with the most arithmetic, or nearly, that
/// contain no loop without any, as edges' loops contain loops that copy. Several where halves of a workgroup have their own.
pub fn k_blocks(listing: &Listing) -> Vec<Loop> {
    let loops = all(listing);
    let has_matrix = loops.iter().any(|of| of.counts.matrix_cycles > 0.0);
    // Addresses have multiply-adds, too.
    let work = |of: &Loop| match has_matrix {
        true => of.counts.matrix_cycles,
        false => of.counts.multiply_adds,
    };
    let outermost = loops
        .iter()
        .filter(|of| !loops.iter().any(|other| other.inner.contains(&of.offsets)));
    let mut nests: Vec<Loop> = outermost.map(|of| nest(listing, of)).collect();
    nests.retain(|nest| {
        let within = |of: &&Loop| {
            nest.offsets.start <= of.offsets.start && of.offsets.end <= nest.offsets.end
        };
        let mut innermost = loops.iter().filter(within).filter(|of| of.inner.is_empty());
        innermost.all(|of| work(of) > 0.0)
    });
    let most = nests.iter().map(work).fold(0.0, f64::max);
    nests.retain(|nest| 2.0 * work(nest) > most);
    nests
}

/// The outermost loop around one, with everything in it.
fn nest(listing: &Listing, of: &Loop) -> Loop {
    let around = |other: &Loop| {
        other.offsets.start <= of.offsets.start && other.offsets.end >= of.offsets.end
    };
    let outermost = all(listing)
        .into_iter()
        .filter(around)
        .max_by_key(|other| other.offsets.end - other.offsets.start);
    let mut nest = outermost.unwrap_or_else(|| of.clone());
    nest.inner.clear();
    let mut counts = Counts::default();
    nest.lines(listing).for_each(|line| counts.add(line, 1.0));
    nest.counts = counts;
    nest
}

#[cfg(test)]
mod tests {
    use rocm_emulator::isa::Target;

    use super::*;
    use crate::listing::Counted;

    /// Instructions of 4 bytes each: (unit, cycles of the matrix unit, multiply-add, where a branch goes).
    fn listing(target: Target, lines: &[(Unit, u64, bool, Option<i64>)]) -> Listing {
        let line = |(i, &(unit, matrix_cycles, multiply_add, branch)): (usize, &_)| Line {
            offset: 4 * i as i64,
            unit,
            slots: 1,
            matrix_cycles,
            multiply_add,
            counted: Counted::default(),
            branch,
            name: "",
        };
        Listing {
            target,
            lines: lines.iter().enumerate().map(line).collect(),
        }
    }

    const VECTOR: (Unit, u64, bool, Option<i64>) = (Unit::Vector, 0, false, None);
    const FMA: (Unit, u64, bool, Option<i64>) = (Unit::Vector, 0, true, None);
    const WAIT: (Unit, u64, bool, Option<i64>) = (Unit::Wait, 0, false, None);
    const MFMA: (Unit, u64, bool, Option<i64>) = (Unit::Matrix, 32, false, None);

    fn back(to: i64) -> (Unit, u64, bool, Option<i64>) {
        (Unit::Branch, 0, false, Some(to))
    }

    #[test]
    fn fill_is_the_formula_of_the_page() {
        let lines = [VECTOR, MFMA, WAIT, MFMA, VECTOR, back(4)];
        let hot = hot(&listing(Target::Gfx942, &lines)).expect("a loop");
        assert_eq!(hot.offsets, 4..21);
        assert_eq!(hot.counts.of(Unit::Matrix), 2.0);
        // 64 cycles of the matrix unit; a vector instruction and the branch, 4 each, and the wait, 4.
        assert_eq!(hot.fill().all, 64.0 / 76.0);
        assert_eq!(hot.fill().without_waits, 64.0 / 72.0);
        // A slot of RDNA is a cycle.
        let hot = super::hot(&listing(Target::Gfx1100, &lines)).expect("a loop");
        assert_eq!(hot.fill().all, 64.0 / 67.0);
        let lines = [FMA, FMA, FMA, VECTOR, WAIT, back(0)];
        let hot = super::hot(&listing(Target::Gfx90a, &lines)).expect("a loop");
        assert_eq!((hot.fill().all, hot.fill().without_waits), (0.5, 0.6));
    }

    #[test]
    fn outer_loops_do_not_count_inner_ones() {
        // An inner loop without arithmetic in the loop that has it, and two ways back to its beginning.
        let lines = [MFMA, VECTOR, back(4), back(0), MFMA, back(0)];
        let listing = listing(Target::Gfx942, &lines);
        let loops = all(&listing);
        assert_eq!(loops.len(), 2);
        assert_eq!(
            (loops[0].offsets.clone(), loops[1].offsets.clone()),
            (0..21, 4..9)
        );
        let hot = hot(&listing).expect("a loop");
        assert_eq!(hot.offsets, 0..21);
        assert_eq!(hot.counts.of(Unit::Matrix), 2.0);
        assert_eq!(hot.counts.of(Unit::Vector), 0.0);
        assert_eq!(hot.counts.of(Unit::Branch), 2.0);
    }

    #[test]
    fn straight_code_has_no_loop() {
        let forward = (Unit::Branch, 0, false, Some(8));
        assert_eq!(hot(&listing(Target::Gfx942, &[MFMA, forward, MFMA])), None);
    }
}
