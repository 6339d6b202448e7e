//! What a page says beside its tables: that its figures are theirs, that a slower step is called so, and that the names
//! of ours exist.

use candle_rocm_testing::sources;

use crate::page::{table_rows, Page, Step};

/// The section that says where ours has each step, and where its links lead.
const OURS: &str = "\n## Where ours has each\n";
const REPOSITORY: &str = "https://github.com/candle-rocm/candle-rocm/blob/main/";

/// What a step's section says, and what its tables do.
pub struct Told {
    step: String,
    prose: String,
    /// Of its rows on all GPUs.
    cells: Vec<String>,
    times: Vec<f64>,
}

impl Told {
    /// A step's, without figures.
    pub fn of(step: &Step) -> Told {
        Told {
            step: step.title.clone(),
            prose: step.prose.clone(),
            cells: Vec::new(),
            times: Vec::new(),
        }
    }

    /// With those of a GPU.
    pub fn add(&mut self, cells: Vec<String>, times: &[f64]) {
        self.cells.extend(cells);
        self.times.extend(times);
    }

    /// Whether some time is more than the step's before.
    fn is_slower(&self, before: &Told) -> bool {
        self.times
            .iter()
            .zip(&before.times)
            .any(|(now, then)| now > then)
    }
}

/// The counts (1,024) and times (7.5) that a text quotes.
fn quoted(text: &str) -> Vec<&str> {
    let words = text.split_whitespace();
    let numbers = words.map(|word| word.trim_matches(|c: char| !c.is_ascii_digit()));
    let is_number = |word: &&str| word.chars().all(|c| c.is_ascii_digit() || ",.".contains(c));
    let is_marked =
        |word: &&str| word.contains(',') || word.parse::<f64>().is_ok_and(|_| word.contains('.'));
    numbers.filter(is_number).filter(is_marked).collect()
}

/// Each figure that a section quotes is in the tables' rows of its step or the one before; and it says "slower" where the
/// step is that by the clock, and nowhere else.
pub fn holds(steps: &[Told]) {
    for (at, of) in steps.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &steps[before]);
        let known = || {
            of.cells
                .iter()
                .chain(before.iter().flat_map(|step| &step.cells))
        };
        for figure in quoted(&of.prose) {
            let is_known = known().any(|cell| cell == figure);
            assert!(is_known, "{}: {figure} is in no table", of.step);
        }
        let is_slower = before.is_some_and(|before| of.is_slower(before));
        let says = of.prose.contains("slower");
        assert_eq!(says, is_slower, "{}: says that it is slower", of.step);
    }
}

/// The files that the page's last table links to have the names that stand beside them.
pub fn ours_is_there(page: &Page) {
    let (_, ours) = page
        .text
        .split_once(OURS)
        .expect("a section says where ours has each");
    let mut names_found = 0;
    for row in table_rows(ours) {
        let [_, files, names, ..] = &row[..] else {
            panic!("{row:?} has too few columns")
        };
        let texts = files.split(REPOSITORY).skip(1).map(|rest| {
            let (file, _) = rest.split_once(')').expect("a link ends");
            let path = sources::root().join(file);
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
        });
        let text: String = texts.collect();
        for name in names
            .split('`')
            .skip(1)
            .step_by(2)
            .flat_map(|name| name.split("::"))
        {
            assert!(text.contains(name), "{files} have no {name}");
            names_found += 1;
        }
    }
    assert!(names_found > 0, "the page names nothing of ours");
}

#[test]
fn counts_and_times_are_quoted() {
    let text = "From 1,024 to 512 (and 7.5 µs), clang 19.1.7, 16 x 16, `f16`; 0.5.";
    assert_eq!(quoted(text), ["1,024", "7.5", "0.5"]);
}

#[test]
#[should_panic(expected = "says that it is slower")]
fn what_is_slower_must_be_called_so() {
    let told = |time| Told {
        step: "2. Two".to_owned(),
        prose: "It gains.".to_owned(),
        cells: Vec::new(),
        times: vec![time],
    };
    holds(&[told(1.0), told(2.0)]);
}
