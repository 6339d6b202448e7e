//! The ladders of the book (`docs/kernels/*-ladder.md`): each step compiles, computes what plain Rust computes in f64,
//! and has the figures that its page says. Written anew with `CANDLE_ROCM_WRITE_PAGES=1`.

mod page;
mod problem;
mod run;

use std::fmt::Write as _;

use candle_rocm_testing::hip::toolchain;
use candle_rocm_testing::needs::{self, Need};
use candle_rocm_variables::WRITE_PAGES;
use page::Page;
use problem::Problem;
use rocm_emulator::isa::Target;
use run::{Figures, Run};

/// The compiler that the pages' figures are of. Others make other code.
const COMPILER: &str = "clang version 19.1.7";

/// A page, and the problems that its kernels are given.
struct Ladder {
    page: &'static str,
    /// Whose results are checked and whose figures are counted.
    checked: fn() -> Problem,
    /// Whose time is told, with their columns' heads.
    timed: &'static [(&'static str, fn() -> Problem)],
    /// By how much the last step is faster than the first on the first of `timed`, at least.
    gain: f64,
}

const GEMM: Ladder = Ladder {
    page: "gemm-ladder",
    checked: || problem::gemm([128, 128, 256]),
    timed: &[
        ("µs, 1024 x 1024 x 128", || {
            problem::gemm_unchecked([1024, 1024, 128])
        }),
        ("µs, 128 x 128 x 2048", || {
            problem::gemm_unchecked([128, 128, 2048])
        }),
    ],
    gain: 2.0,
};

const ATTENTION: Ladder = Ladder {
    page: "attention-ladder",
    checked: || problem::attention([1, 256]),
    timed: &[("µs, 16 heads of 256", || {
        problem::attention_unchecked([16, 256])
    })],
    gain: 2.0,
};

/// What is known of a step on a GPU.
struct Row {
    title: String,
    figures: Figures,
    /// By [`Ladder::timed`]; none without a clock.
    times: Vec<f64>,
}

fn rows(ladder: &Ladder, page: &Page, target: Target) -> Vec<Row> {
    let checked = (ladder.checked)();
    let timed: Vec<Problem> = match target.timing() {
        Some(_) => ladder.timed.iter().map(|(_, problem)| problem()).collect(),
        None => Vec::new(),
    };
    let row = |step| {
        let time = |problem| Run::new(target, step, problem).microseconds();
        Row {
            title: step.title.clone(),
            figures: Run::new(target, step, &checked).check(),
            times: timed.iter().filter_map(time).collect(),
        }
    };
    page.steps.iter().map(row).collect()
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
    let has_clock = rows.iter().any(|row| !row.times.is_empty());
    if has_clock {
        heads.extend(ladder.timed.iter().map(|(head, _)| *head));
    }
    let mut table = format!("| {} |\n|---|", heads.join(" | "));
    table.push_str(&"---:|".repeat(heads.len() - 1));
    for row in rows {
        let of = &row.figures;
        let numbers = [
            of.instructions,
            of.matrix,
            of.moved.global_bytes / 1024,
            of.moved.lines,
            of.moved.lds_cycles,
            of.moved.lds_conflicts,
        ];
        let _ = write!(table, "\n| {} |", row.title);
        for number in numbers {
            let _ = write!(table, " {} |", grouped(number));
        }
        let ahead = of.ahead.map_or_else(|| "none".to_owned(), grouped);
        let _ = write!(table, " {ahead} | {} |", of.vgprs);
        for time in &row.times {
            let _ = write!(table, " {time:.1} |");
        }
    }
    table
}

fn holds(ladder: &Ladder) {
    let mut page = Page::read(ladder.page);
    assert!((6..=8).contains(&page.steps.len()), "{}", ladder.page);
    let before = page.text.clone();
    for target in [Target::Gfx942, Target::Gfx1100] {
        let rows = rows(ladder, &page, target);
        if let [first, .., last] = &rows[..] {
            let times = first.times.first().zip(last.times.first());
            let gain = times.map(|(first, last)| first / last);
            assert!(gain.is_none_or(|gain| gain >= ladder.gain), "{gain:?}");
        }
        let table = table(ladder, &rows);
        println!("{target}\n{table}");
        page.set(target.name(), &table);
    }
    let compiler = &toolchain().version;
    if !needs::holds(
        Need::ResourceTables,
        compiler.contains(COMPILER),
        format!("the ladders' figures are of {COMPILER}, not of {compiler}"),
    ) {
        return;
    }
    if std::env::var_os(WRITE_PAGES.name).is_some_and(|value| !value.is_empty()) {
        page.write();
        return;
    }
    assert!(
        page.text == before,
        "docs/kernels/{}.md has other figures: write it anew with {}=1",
        ladder.page,
        WRITE_PAGES.name
    );
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
