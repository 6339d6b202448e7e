//! The page of results.

use std::fmt::Write as _;

use candle_rocm_bench_protocol::Kind;

use crate::cases::{self, Group};
use crate::reasons::Reasons;
use crate::results::{Metric, Results, Row, OURS, STOCK, TORCH};
use crate::statistics::geometric_mean;

/// What contiguous kernels are held to: this share of a device copy of as many bytes.
const CONTIGUOUS_SHARE: f64 = 0.85;
/// What softmax and the norms are held to at 8192 x 8192 in f16.
const ROWS_SHARE: f64 = 0.75;
/// What the ratios to stock are held to, as a geometric mean.
const MEAN_RATIO: f64 = 1.3;
/// Bytes of an input from which a kernel is held to [`CONTIGUOUS_SHARE`].
const LARGE: usize = 16 << 20;

/// Whether a row is slower than stock's by more than its noise.
pub fn falls_short(row: &Row) -> bool {
    match (row.speedup(STOCK), row.noise(STOCK)) {
        (Some(ratio), Some(noise)) => ratio * (1. + noise) < 1.,
        _ => false,
    }
}

fn is_square(row: &Row) -> bool {
    row.case.dims == [8192, 8192] && row.case.dtype == "f16"
}

/// Bytes of the first input.
fn input_bytes(row: &Row) -> usize {
    let elements: usize = row.case.dims.iter().product();
    let bytes = match row.case.dtype.as_str() {
        "f64" => 8,
        "f32" => 4,
        _ => 2,
    };
    elements * bytes
}

fn is_large_contiguous(row: &Row) -> bool {
    cases::is_contiguous(&row.case.op) && is_large(row)
}

/// Kernels whose bytes a copy could bound, of 16 MiB and over.
fn is_large(row: &Row) -> bool {
    use Group::{Copies, Elementwise, Indexing, Others, Reductions, Rows};
    let moves = [Elementwise, Copies, Indexing, Reductions, Rows, Others].contains(&row.group);
    moves && row.metric == Metric::DeviceUs && input_bytes(row) >= LARGE
}

/// The share of a device copy that a row is held to and does not reach.
fn share_missed(row: &Row) -> Option<f64> {
    let asked = if is_large(row) {
        CONTIGUOUS_SHARE
    } else if row.group == Group::Rows && is_square(row) {
        ROWS_SHARE
    } else {
        return None;
    };
    (row.share_of_copy(OURS)? < asked).then_some(asked)
}

/// A number with three digits that count.
fn digits(x: f64) -> String {
    match x.abs() {
        a if a >= 99.95 => format!("{x:.0}"),
        a if a >= 9.995 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

fn or_dash<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".into(), text)
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100. * share)
}

/// The page in Markdown, whose plots are files beside it.
pub fn page(results: &Results, reasons: &Reasons, plots: &[(String, &str)]) -> String {
    let mut out = String::new();
    let Results {
        gpu, date, notes, ..
    } = results;
    let _ = writeln!(out, "# {gpu}, {date}\n");
    let _ = writeln!(
        out,
        "Ours is candle-rocm's `nvidia` runtime; stock is Candle 0.11.1's own CUDA backend. Both, and PyTorch where \
         it has the operator, were asked in turns in one run. Figures are medians of device events around operators \
         enqueued behind a long copy, so that the CPU's time is not in them; `noise` is half of the distance between \
         the quartiles, relative, of ours and stock's together. A ratio above 1 means that ours is faster. `copy` \
         is the time of a device copy that reads and writes as many bytes, over the operator's: small tensors are in \
         the cache for both. [README](../README.md) says how to repeat this.\n"
    );
    for note in notes {
        let _ = writeln!(out, "- {note}");
    }
    let _ = writeln!(out, "\n## Summary\n");
    out.push_str(&summary(results, reasons));
    if !plots.is_empty() {
        let _ = writeln!(out, "\n## Plots\n");
        for (file, title) in plots {
            let _ = writeln!(out, "![{title}]({file})\n");
        }
    }
    for group in Group::ALL {
        let rows: Vec<_> = results
            .rows
            .iter()
            .filter(|row| row.group == group)
            .collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n## {}\n", group.title());
        let table = if group.is_memory_bound() {
            memory_table(&rows, reasons)
        } else {
            plain_table(&rows, reasons)
        };
        // A long table is folded, for those who came for the summary.
        if rows.len() > 40 {
            let count = rows.len();
            let _ = writeln!(
                out,
                "<details><summary>{count} rows</summary>\n\n{table}\n</details>"
            );
        } else {
            out.push_str(&table);
        }
    }
    out
}

/// What is asked of the figures, and what they are.
fn summary(results: &Results, reasons: &Reasons) -> String {
    let mut out = Lines("| what | asked | measured |\n|---|---|---|\n".to_owned());
    of_kernels(results, &mut out);
    of_copies(results, reasons, &mut out);
    of_models_and_host(results, &mut out);
    let checked: Vec<_> = of(results, |row| {
        let once = !matches!(row.metric, Metric::Prefill | Metric::MemoryMib);
        row.agreement.is_some() && once
    });
    if !checked.is_empty() {
        let same = checked
            .iter()
            .filter(|row| row.agreement.is_some_and(|a| a.within))
            .count();
        out.add(
            "results of ours and stock that agree",
            "all",
            &format!("{same} of {}", checked.len()),
        );
    }
    out.0 + &slowest(results, reasons)
}

/// Lines of the summary's table.
struct Lines(String);

impl Lines {
    fn add(&mut self, what: &str, asked: &str, measured: &str) {
        let _ = writeln!(self.0, "| {what} | {asked} | {measured} |");
    }
}

/// Kernels beside stock's.
fn of_kernels(results: &Results, out: &mut Lines) {
    let kernels: Vec<_> = of(results, |row| row.case.kind == Kind::Device);
    let compared: Vec<_> = kernels
        .iter()
        .filter(|row| row.speedup(STOCK).is_some())
        .collect();
    let ratios = |rows: &[&Row]| geometric_mean(rows.iter().filter_map(|row| row.speedup(STOCK)));
    if compared.is_empty() {
        return;
    }
    let short = compared.iter().filter(|row| falls_short(row)).count();
    let good = compared.len() - short;
    out.add(
        "kernels at least as fast as stock's, but for noise",
        "all",
        &format!("{good} of {}", compared.len()),
    );
    out.add(
        "geometric mean of their ratios to stock",
        &format!("{MEAN_RATIO} or more"),
        &digits(ratios(&kernels)),
    );
    for group in Group::ALL {
        let rows = kernels.iter().copied().filter(|row| row.group == group);
        let mean = ratios(&rows.collect::<Vec<_>>());
        if mean.is_finite() {
            out.add(&format!("- {}", group.title()), "", &digits(mean));
        }
    }
}

/// Kernels beside copies of as many bytes.
fn of_copies(results: &Results, reasons: &Reasons, out: &mut Lines) {
    let large: Vec<_> = of(results, |row| {
        is_large_contiguous(row) && row.share_of_copy(OURS).is_some()
    });
    if !large.is_empty() {
        let enough = |row: &&&Row| share_missed(row).is_none();
        out.add(
            &format!(
                "contiguous kernels of 16 MiB and over at {} of a device copy",
                percent(CONTIGUOUS_SHARE)
            ),
            "all",
            &format!("{} of {}", large.iter().filter(enough).count(), large.len()),
        );
    }
    let missed = of(results, |row| is_large(row) && share_missed(row).is_some());
    if !missed.is_empty() {
        let unexplained = missed.iter().filter(|row| reasons.of(row).is_none());
        out.add(
            "all kernels of 16 MiB and over that reach less, and of them those without a reason",
            "none without",
            &format!("{}, {}", missed.len(), unexplained.count()),
        );
    }
    for row in of(results, |row| row.group == Group::Rows && is_square(row)) {
        let shares: Vec<_> = [OURS, STOCK, TORCH]
            .into_iter()
            .filter_map(|worker| Some(format!("{worker} {}", percent(row.share_of_copy(worker)?))))
            .collect();
        out.add(
            &format!(
                "{} in f16 at 8192 x 8192, share of a device copy",
                row.case.op
            ),
            &format!("{} or more", percent(ROWS_SHARE)),
            &shares.join(", "),
        );
    }
}

/// What is no kernel's: models, networks, and the host's time.
fn of_models_and_host(results: &Results, out: &mut Lines) {
    for row in of(results, |row| {
        row.case.kind != Kind::Device && row.metric != Metric::FinishedUs
    }) {
        let others = row.figures.keys().map(String::as_str);
        let others = others.filter(|worker| ![OURS, STOCK].contains(worker));
        let figures: Vec<_> = [OURS, STOCK]
            .into_iter()
            .chain(others)
            .filter_map(|worker| Some(format!("{worker} {}", digits(row.median(worker)?))))
            .collect();
        let ratio = row
            .speedup(STOCK)
            .map(|ratio| format!(": {}x", digits(ratio)));
        out.add(
            &format!("{} {}: {}", row.case.op, row.case.dtype, row.metric.title()),
            if row.metric == Metric::Prefill {
                "-"
            } else {
                "no worse"
            },
            &format!("{}{}", figures.join(", "), ratio.unwrap_or_default()),
        );
    }
}

/// The rows that are slower than stock's by more than noise, the slowest first.
fn slowest(results: &Results, reasons: &Reasons) -> String {
    let mut out = String::new();
    let mut short: Vec<_> = of(results, falls_short);
    if short.is_empty() {
        return out;
    }
    let unexplained = short.iter().filter(|row| reasons.of(row).is_none()).count();
    let _ = writeln!(
        out,
        "\n{} rows are slower than stock's by more than their noise, {unexplained} of them without an \
         explanation. The slowest:\n",
        short.len()
    );
    short.sort_by(|a, b| {
        a.speedup(STOCK)
            .partial_cmp(&b.speedup(STOCK))
            .expect("no NaN")
    });
    out.push_str("| row | ratio | why |\n|---|---:|---|\n");
    for row in short.iter().take(25) {
        let why = why(row, reasons);
        let ratio = or_dash(row.speedup(STOCK), digits);
        let _ = writeln!(out, "| {} | {ratio} | {why} |", row.case);
    }
    out
}

fn of(results: &Results, wanted: impl Fn(&Row) -> bool) -> Vec<&Row> {
    results.rows.iter().filter(|row| wanted(row)).collect()
}

fn why<'a>(row: &Row, reasons: &'a Reasons) -> &'a str {
    reasons.of(row).unwrap_or("not explained yet")
}

/// What is odd about a row.
fn note(row: &Row, reasons: &Reasons) -> String {
    let mut notes = Vec::new();
    if falls_short(row) {
        notes.push(format!("**slower**: {}", why(row, reasons)));
    }
    if let Some(least) = share_missed(row) {
        let why = why(row, reasons);
        notes.push(format!("**under {}**: {why}", percent(least)));
    }
    if let Some(agreement) = row.agreement.filter(|agreement| !agreement.within) {
        notes.push(if row.case.kind == Kind::Model {
            format!("{} of the tokens are not stock's", percent(agreement.worst))
        } else {
            format!("results differ by {:.1e}", agreement.worst)
        });
    }
    for (worker, figure) in &row.figures {
        if figure.starved {
            notes.push(format!("{worker}: with some of the CPU's time"));
        }
    }
    for (worker, wrong) in &row.wrong {
        notes.push(format!("{worker}, beside the CPU in f32: {wrong}"));
    }
    for (worker, error) in &row.errors {
        let line = error.lines().next().unwrap_or_default().replace('|', "/");
        let short: String = line.chars().take(120).collect();
        notes.push(format!("{worker}: {short}"));
    }
    notes.join("; ")
}

fn memory_table(rows: &[&Row], reasons: &Reasons) -> String {
    let mut out = String::from(
        "| operator | dtype | shape | us | GB/s | copy | stock us | ratio | noise | torch us | note |\n\
         |---|---|---|---:|---:|---:|---:|---:|---:|---:|---|\n",
    );
    for row in rows {
        let case = &row.case;
        let us = |worker| or_dash(row.median(worker), digits);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            case.op,
            case.dtype,
            case.shape(),
            us(OURS),
            or_dash(row.bandwidth(OURS), |x| format!("{x:.0}")),
            or_dash(row.share_of_copy(OURS), percent),
            us(STOCK),
            or_dash(row.speedup(STOCK), digits),
            or_dash(row.noise(STOCK), |x| format!("{:.1}%", 100. * x)),
            us(TORCH),
            note(row, reasons)
        );
    }
    out
}

/// The workers of some rows, ours and stock first.
fn workers(rows: &[&Row]) -> Vec<String> {
    let mut names = vec![OURS.to_owned(), STOCK.to_owned()];
    for name in rows.iter().flat_map(|row| row.figures.keys()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn plain_table(rows: &[&Row], reasons: &Reasons) -> String {
    let workers = workers(rows);
    let products = rows.iter().any(|row| row.flops > 0);
    let rate = if products { " TFLOP/s | GB/s |" } else { "" };
    let mut out = format!(
        "| what | figure | {} | ratio | noise |{rate} note |\n",
        workers.join(" | ")
    );
    let columns = 5 + workers.len() + if products { 2 } else { 0 };
    let _ = writeln!(out, "|---|---|{}---|", "---:|".repeat(columns - 3));
    for row in rows {
        let _ = write!(out, "| {} | {} |", row.case, row.metric.title());
        for worker in &workers {
            let _ = write!(out, " {} |", or_dash(row.median(worker), digits));
        }
        let _ = write!(
            out,
            " {} | {} |",
            or_dash(row.speedup(STOCK), digits),
            or_dash(row.noise(STOCK), |x| format!("{:.1}%", 100. * x)),
        );
        if products {
            let tera = row.median(OURS).map(|us| row.flops as f64 / us / 1e6);
            let _ = write!(
                out,
                " {} | {} |",
                or_dash(tera.filter(|_| row.flops > 0), digits),
                or_dash(row.bandwidth(OURS), |x| format!("{x:.0}"))
            );
        }
        let _ = writeln!(out, " {} |", note(row, reasons));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{results, row};

    fn some() -> Results {
        let fast = row(
            "exp",
            Group::Elementwise,
            Metric::DeviceUs,
            &[(OURS, 60.), (STOCK, 90.)],
        );
        let slow = row(
            "add",
            Group::Elementwise,
            Metric::DeviceUs,
            &[(OURS, 100.), (STOCK, 50.)],
        );
        let softmax = [(OURS, 62.5), (STOCK, 125.), (TORCH, 200.)];
        let softmax = row("softmax", Group::Rows, Metric::DeviceUs, &softmax);
        let mut model = row(
            "llama-1b",
            Group::Models,
            Metric::Decode,
            &[(OURS, 110.), (STOCK, 100.)],
        );
        model.case.kind = Kind::Model;
        model.case.dims.clear();
        results(vec![fast, slow, softmax, model])
    }

    #[test]
    fn the_page_says_which_rows_fall_short_and_why() {
        let reasons = Reasons::parse("[[reason]]\nrows = '^add'\ntext = 'it adds twice'").unwrap();
        let page = page(&some(), &reasons, &[("plot.svg".into(), "a plot")]);
        assert!(page.starts_with("# Some GPU, 2025-01-31\n"));
        assert!(
            page.contains("| kernels at least as fast as stock's, but for noise | all | 2 of 3 |")
        );
        // 1.5, 0.5 and 2.
        assert!(
            page.contains("ratios to stock | 1.3 or more | 1.14 |"),
            "{page}"
        );
        assert!(page.contains("**slower**: it adds twice"));
        assert!(page.contains("![a plot](plot.svg)"));
        assert!(page.contains("ours 80%, stock 40%, torch 25%"));
        assert!(page.contains(
            "| llama-1b f16: decode, tokens/s | no worse | ours 110, stock 100: 1.10x |"
        ));
    }

    #[test]
    fn a_row_without_a_reason_says_so() {
        let page = page(&some(), &Reasons::default(), &[]);
        assert!(page.contains("| add f16 8192x8192 | 0.50 | not explained yet |"));
        assert!(page.contains("**slower**: not explained yet"));
    }

    #[test]
    fn noise_excuses_a_little() {
        let near = |ours| {
            row(
                "exp",
                Group::Elementwise,
                Metric::DeviceUs,
                &[(OURS, ours), (STOCK, 100.)],
            )
        };
        // Both have a noise of 1%: 1.4% together.
        assert!(!falls_short(&near(101.)));
        assert!(falls_short(&near(102.)));
    }

    #[test]
    fn tables_have_as_many_columns_as_their_heads() {
        let page = page(&some(), &Reasons::default(), &[]);
        let mut columns = None;
        for line in page.lines() {
            let cells = line.starts_with('|').then(|| line.matches('|').count());
            if let (Some(cells), Some(columns)) = (cells, columns) {
                assert_eq!(cells, columns, "{line}");
            }
            columns = cells;
        }
    }
}
