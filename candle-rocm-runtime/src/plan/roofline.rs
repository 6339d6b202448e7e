//! The time of a launch: rounds of workgroups beside what memory passes, and what adds partial sums up.

use rocm_gpus::costs;

/// What a family says of a launch, in the unit of time of its figures: cycles of a compute unit, or microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roofline {
    /// Workgroups of the grid.
    pub workgroups: u64,
    /// Compute units that they are dealt out to.
    pub units: u64,
    /// Workgroups that a compute unit holds at once.
    pub resident: u64,
    /// Whether a round of fewer takes as long as a full one.
    pub whole_rounds: bool,
    /// Before the first round.
    pub first: f64,
    /// Of memory, meanwhile.
    pub memory: f64,
    /// Afterwards: adding partial sums up.
    pub reduction: f64,
}

impl Roofline {
    /// The time, if a round of so many workgroups on a compute unit takes what `round` says.
    pub fn time(&self, round: impl Fn(u64) -> f64) -> f64 {
        let of_unit = self.workgroups.div_ceil(self.units);
        let rounds = match self.whole_rounds {
            true => of_unit.div_ceil(self.resident) as f64 * round(self.resident),
            false => {
                let rest = match of_unit % self.resident {
                    0 => 0.0,
                    rest => round(rest),
                };
                (of_unit / self.resident) as f64 * round(self.resident) + rest
            }
        };
        overlapped(self.first + rounds, self.memory) + self.reduction
    }
}

/// Cycles in which memory passes so many bytes to so many compute units.
pub(crate) fn memory_cycles(bytes: f64, units: f64) -> f64 {
    bytes / (costs::MEMORY_RATE.value * units)
}

/// The time of two things that pass together.
pub(crate) fn overlapped(one: f64, other: f64) -> f64 {
    one.max(other) + costs::NOT_HIDDEN.value * one.min(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAUNCH: Roofline = Roofline {
        workgroups: 25,
        units: 4,
        resident: 2,
        whole_rounds: false,
        first: 0.0,
        memory: 0.0,
        reduction: 0.0,
    };

    /// One workgroup takes 3, two together 4.
    fn time(launch: Roofline) -> f64 {
        launch.time(|workgroups| 2.0 + workgroups as f64)
    }

    #[test]
    fn rounds_are_those_of_the_unit_with_the_most_workgroups() {
        // Seven on one unit: three rounds of two, and one alone.
        assert_eq!(time(LAUNCH), 3.0 * 4.0 + 3.0);
        let whole_rounds = Roofline {
            whole_rounds: true,
            ..LAUNCH
        };
        assert_eq!(time(whole_rounds), 4.0 * 4.0);
        let none = Roofline {
            workgroups: 0,
            ..LAUNCH
        };
        assert_eq!(time(none), 0.0);
    }

    #[test]
    fn the_longer_of_computing_and_memory_counts_and_part_of_the_other() {
        let hidden = costs::NOT_HIDDEN.value;
        let memory = |memory| time(Roofline { memory, ..LAUNCH });
        assert_eq!(memory(10.0), 15.0 + hidden * 10.0);
        assert_eq!(memory(100.0), 100.0 + hidden * 15.0);
        let after = Roofline {
            first: 1.0,
            reduction: 5.0,
            ..LAUNCH
        };
        assert_eq!(time(after), 16.0 + 5.0);
    }
}
