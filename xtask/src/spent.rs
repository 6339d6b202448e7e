//! Where a run of all tests spends its time: a table of stages, and of the programs that take longest.

use std::cell::RefCell;
use std::time::{Duration, Instant};

/// How many programs the table names.
const NAMED: usize = 40;

/// The parts of a run, in their order. The table is printed when this is dropped: a run that fails has one, too.
#[derive(Default)]
pub struct Spent {
    stages: RefCell<Vec<Part>>,
    programs: RefCell<Vec<Part>>,
}

struct Part {
    name: String,
    took: Duration,
}

impl Spent {
    /// Runs a stage.
    pub fn stage<T>(&self, name: &str, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        self.stages
            .borrow_mut()
            .push(Part::new(name, start.elapsed()));
        result
    }

    /// Notes what a program of tests took, within a stage.
    pub fn program(&self, name: &str, took: Duration) {
        self.programs.borrow_mut().push(Part::new(name, took));
    }

    /// The stages in their order, and the programs, the longest first.
    fn table(&self) -> String {
        let mut programs = self.programs.borrow_mut();
        programs.sort_by_key(|part| std::cmp::Reverse(part.took));
        let mut lines = vec!["Where the time went (seconds):".to_owned()];
        lines.extend(self.stages.borrow().iter().map(Part::line));
        let stages = self.stages.borrow();
        lines.push(line_of("in all", stages.iter().map(|part| part.took).sum()));
        if !programs.is_empty() {
            let all = programs.iter().map(|part| part.took).sum();
            lines.push(format!("Of it, {} programs of tests:", programs.len()));
            lines.extend(programs.iter().take(NAMED).map(Part::line));
            lines.push(line_of("all programs", all));
        }
        lines.join("\n")
    }
}

impl Drop for Spent {
    fn drop(&mut self) {
        eprintln!("\n{}", self.table());
    }
}

impl Part {
    fn new(name: &str, took: Duration) -> Self {
        Self {
            name: name.to_owned(),
            took,
        }
    }

    fn line(&self) -> String {
        line_of(&self.name, self.took)
    }
}

fn line_of(name: &str, took: Duration) -> String {
    format!("{:8.1}  {name}", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Spent;

    #[test]
    fn stages_keep_their_order_and_programs_are_sorted() {
        let spent = Spent::default();
        spent.stage("one", || {
            spent.program("quick", Duration::ZERO);
            spent.program("slow", Duration::from_secs(1));
        });
        assert_eq!(spent.stage("another", || 7), 7);
        let table = spent.table();
        let at = |name: &str| table.find(name).unwrap();
        assert!(
            at("one") < at("another") && at("another") < at("in all"),
            "{table}"
        );
        assert!(
            at("in all") < at("slow") && at("slow") < at("quick"),
            "{table}"
        );
    }
}
