//! What was found of the cases of an item.

use parity::case::{Case, Input};

use super::judge::{Judged, Verdict};

/// The smallest case that failed.
pub struct Smallest {
    /// Elements of its inputs.
    pub elements: usize,
    /// The case's name.
    pub name: String,
    /// Its inputs.
    pub inputs: Vec<Input>,
    /// Its result.
    pub judged: Judged,
    /// What is wrong.
    pub what: String,
}

/// What was found of the cases of an item.
#[derive(Default)]
pub struct Tally {
    /// All.
    pub cases: usize,
    /// Equal bit for bit.
    pub equal: usize,
    /// Within the tolerance.
    pub near: usize,
    /// With nothing to compare with.
    pub unheld: usize,
    /// Wrong.
    pub wrong: usize,
    /// An error in place of a result.
    pub refused: usize,
    /// The largest difference, in shares of the tolerance.
    pub largest: f64,
    /// The smallest that failed.
    pub smallest: Option<Smallest>,
}

impl Tally {
    /// Counts a case.
    pub fn add(&mut self, case: &Case, judged: Judged) {
        self.cases += 1;
        match &judged.verdict {
            Verdict::Equal => self.equal += 1,
            Verdict::Near(share) => {
                self.near += 1;
                self.largest = self.largest.max(*share);
            }
            Verdict::Unheld => self.unheld += 1,
            Verdict::Wrong(_) => self.wrong += 1,
            Verdict::Refused(_) => self.refused += 1,
        }
        self.smaller(case, judged);
    }

    /// Keeps a case that failed, if it is smaller than the one that is kept.
    pub fn smaller(&mut self, case: &Case, judged: Judged) {
        let what = match &judged.verdict {
            Verdict::Wrong(what) => what.clone(),
            Verdict::Refused(error) => format!("refused: {error}"),
            _ => return,
        };
        let elements = case
            .inputs
            .iter()
            .map(|input| input.tensor().elem_count())
            .sum();
        if self
            .smallest
            .as_ref()
            .is_none_or(|smallest| elements < smallest.elements)
        {
            self.smallest = Some(Smallest {
                elements,
                name: case.name.clone(),
                inputs: case.inputs.clone(),
                judged,
                what,
            });
        }
    }
}
