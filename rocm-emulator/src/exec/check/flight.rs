//! Stores on their way: they have arrived for others when a wait of their wavefront says so.

use std::collections::{HashMap, VecDeque};

/// What a wavefront's counter of stores counts, each by when it was issued; 0 for what is no store to memory.
#[derive(Default)]
pub(super) struct Flight(VecDeque<u32>);

impl Flight {
    /// Another one; the counter holds so many.
    pub fn issue(&mut self, when: u32, most: usize) -> Option<u32> {
        self.0.push_back(when);
        self.wait(most)
    }

    /// A wait until so many are left at most: the last store that it was for, if any.
    pub fn wait(&mut self, left: usize) -> Option<u32> {
        let done = self.0.len().saturating_sub(left);
        self.0.drain(..done).max().filter(|when| *when > 0)
    }
}

/// When wavefronts knew that stores had arrived: pairs of that and of the last such store, by wavefront.
#[derive(Default)]
pub(super) struct Arrivals(HashMap<u32, Vec<(u32, u32)>>);

impl Arrivals {
    pub fn note(&mut self, wave: u32, now: u32, store: u32) {
        self.0.entry(wave).or_default().push((now, store));
    }

    /// Whether a wavefront knew before `by` that its store had arrived.
    pub fn had_arrived(&self, wave: u32, store: u32, by: u32) -> bool {
        let Some(known) = self.0.get(&wave) else {
            return false;
        };
        let count = known.partition_point(|(now, _)| *now < by);
        count
            .checked_sub(1)
            .is_some_and(|last| known[last].1 >= store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_arrive_in_their_order() {
        let mut flight = Flight::default();
        assert_eq!(flight.issue(3, 63), None);
        assert_eq!(flight.issue(0, 63), None);
        assert_eq!(flight.issue(5, 63), None);
        assert_eq!(flight.wait(1), Some(3));
        assert_eq!(flight.wait(1), None);
        assert_eq!(flight.issue(6, 1), Some(5), "there is no room for two");
        let mut arrivals = Arrivals::default();
        arrivals.note(1, 4, 3);
        arrivals.note(1, 8, 6);
        assert!(arrivals.had_arrived(1, 3, 5) && arrivals.had_arrived(1, 5, 9));
        assert!(!arrivals.had_arrived(1, 3, 4), "not before the wait");
        assert!(!arrivals.had_arrived(1, 5, 8) && !arrivals.had_arrived(2, 1, 9));
    }
}
