//! The ladders of the book (`docs/kernels/*-ladder.md`): each step compiles, computes what plain Rust computes in f64,
//! and has the figures that its page says. Written anew with `CANDLE_ROCM_WRITE_PAGES=1`.

mod page;
mod problem;
mod prose;
mod run;

use std::fmt::Write as _;

use candle_rocm_kernel_report::page::is_one_die;
use candle_rocm_testing::hip::toolchain;
use candle_rocm_testing::needs::{self, Need};
use candle_rocm_variables::WRITE_PAGES;
use page::{Page, Step};
use problem::Problem;
use prose::Told;
use rocm_emulator::isa::Target;
use run::{Figures, Run};

/// The compiler that the pages' figures are of. Others make other code.
const COMPILER: &str = "clang version 19.1.7";

/// A problem whose time is told.
struct Timed {
    /// The column's head.
    head: &'static str,
    problem: fn() -> Problem,
    /// By how much the fastest step is faster than the first, at least: what the clock says, rounded down.
    gain: f64,
}

/// A page, and the problems that its kernels are given.
struct Ladder {
    page: &'static str,
    /// Whose results are checked and whose figures are counted.
    checked: fn() -> Problem,
    timed: &'static [Timed],
}

const GEMM: Ladder = Ladder {
    page: "gemm-ladder",
    checked: || problem::gemm([128, 128, 128]),
    timed: &[
        Timed {
            head: "µs, 2048 x 2048 x 128",
            problem: || problem::gemm_unchecked([2048, 2048, 128]),
            gain: 35.0,
        },
        Timed {
            head: "µs, 128 x 128 x 2048",
            problem: || problem::gemm_unchecked([128, 128, 2048]),
            gain: 11.0,
        },
    ],
};

const ATTENTION: Ladder = Ladder {
    page: "attention-ladder",
    checked: || problem::attention([1, 256]),
    timed: &[
        Timed {
            head: "µs, 16 heads of 256",
            problem: || problem::attention_unchecked([16, 256]),
            gain: 21.0,
        },
        Timed {
            head: "µs, 304 heads of 128",
            problem: || problem::attention_unchecked([304, 128]),
            gain: 27.0,
        },
    ],
};

/// What is known of a step on a GPU.
struct Row {
    title: String,
    figures: Figures,
    /// By [`Ladder::timed`]; none without a clock.
    times: Vec<f64>,
}

fn row(target: Target, step: &Step, checked: &Problem, timed: &[Problem]) -> Row {
    let times = timed
        .iter()
        .filter_map(|problem| Run::new(target, step, problem).microseconds());
    Row {
        title: step.title.clone(),
        figures: Run::new(target, step, checked).check(),
        times: times.collect(),
    }
}

fn rows(ladder: &Ladder, page: &Page, target: Target) -> Vec<Row> {
    let checked = (ladder.checked)();
    // To play all of a GPU back takes long.
    let timed: Vec<Problem> = match is_one_die(target) {
        true => Vec::new(),
        false => ladder.timed.iter().map(|of| (of.problem)()).collect(),
    };
    let each = page.steps.iter();
    each.map(|step| row(target, step, &checked, &timed))
        .collect()
}

/// 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Row {
    /// Of the table, after the step's name.
    fn cells(&self) -> Vec<String> {
        let of = &self.figures;
        let numbers = [
            of.instructions,
            of.matrix,
            of.moved.global_bytes / 1024,
            of.moved.lines,
            of.moved.lds_cycles,
            of.moved.lds_conflicts,
        ];
        let mut cells: Vec<String> = numbers.into_iter().map(grouped).collect();
        cells.push(of.ahead.map_or_else(|| "none".to_owned(), grouped));
        cells.push(of.vgprs.to_string());
        cells.extend(self.times.iter().map(|time| format!("{time:.1}")));
        cells
    }
}

fn table(ladder: &Ladder, rows: &[Row]) -> String {
    let mut heads = vec![
        "step",
        "instructions",
        "of them matrix",
        "global KiB",
        "lines",
        "LDS cycles",
        "of them conflicts",
        "load ahead of its wait, cycles",
        "VGPRs",
    ];
    if rows.iter().any(|row| !row.times.is_empty()) {
        heads.extend(ladder.timed.iter().map(|of| of.head));
    }
    let mut table = format!("| {} |\n|---|", heads.join(" | "));
    table.push_str(&"---:|".repeat(heads.len() - 1));
    for row in rows {
        let _ = write!(table, "\n| {} | {} |", row.title, row.cells().join(" | "));
    }
    table
}

/// Whether a step is as much faster than the first as [`Timed::gain`] says.
fn gains(ladder: &Ladder, rows: &[Row]) {
    let [first, rest @ ..] = rows else {
        panic!("{} has no steps", ladder.page)
    };
    for (of, (at, first)) in ladder.timed.iter().zip(first.times.iter().enumerate()) {
        let least = rest
            .iter()
            .map(|row| row.times[at])
            .fold(f64::INFINITY, f64::min);
        assert!(first / least >= of.gain, "{}: {first} to {least}", of.head);
    }
}

/// The compiler is the pages'; or, where other figures are allowed, it is not.
fn is_of_the_pages() -> bool {
    let compiler = &toolchain().version;
    needs::holds(
        Need::ResourceTables,
        compiler.contains(COMPILER),
        format!("the ladders' figures are of {COMPILER}, not of {compiler}"),
    )
}

fn holds(ladder: &Ladder) {
    let mut page = Page::read(ladder.page);
    assert!((6..=8).contains(&page.steps.len()), "{}", ladder.page);
    prose::ours_is_there(&page);
    let before = page.text.clone();
    let mut told: Vec<Told> = page.steps.iter().map(Told::of).collect();
    let mut all = Vec::new();
    for target in [Target::Gfx942, Target::Gfx1100] {
        let rows = rows(ladder, &page, target);
        let table = table(ladder, &rows);
        println!("{target}\n{table}");
        page.set(target.name(), &table);
        for (told, row) in told.iter_mut().zip(&rows) {
            told.add(row.cells(), &row.times);
        }
        all.push(rows);
    }
    if !is_of_the_pages() {
        return;
    }
    if std::env::var_os(WRITE_PAGES.name).is_some_and(|value| !value.is_empty()) {
        page.write();
    } else {
        assert!(
            page.text == before,
            "docs/kernels/{}.md has other figures: write it anew with {}=1",
            ladder.page,
            WRITE_PAGES.name
        );
    }
    all.iter().for_each(|rows| gains(ladder, rows));
    prose::holds(&told);
}

#[test]
fn the_ladder_to_gemm_has_its_figures() {
    holds(&GEMM);
}

#[test]
fn the_ladder_to_attention_has_its_figures() {
    holds(&ATTENTION);
}

#[test]
fn numbers_are_grouped_by_thousands() {
    assert_eq!(
        [0, 999, 1000, 1_234_567].map(grouped),
        ["0", "999", "1,000", "1,234,567"]
    );
}
