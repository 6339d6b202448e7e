//! A page of several files, in Markdown.

use std::fmt::Write as _;

use crate::record::{Item, Part, Record, State};

/// A record with the name of its file.
pub struct Named {
    /// The file's name, without its folder.
    pub file: String,
    /// What is in it.
    pub record: Record,
}

/// The page.
pub fn page(cards: &[Named]) -> String {
    let mut page = String::from(
        "# Cards\n\nWritten by `cargo xtask cards` of files that `candle-rocm-card` wrote.\n\n",
    );
    overview(&mut page, cards);
    trouble(&mut page, cards);
    facts(&mut page, cards);
    results(&mut page, cards);
    checks(&mut page, cards);
    figures(&mut page, cards, Part::Roofline, "What the cards can do");
    figures(&mut page, cards, Part::Speeds, "Operators and models");
    page
}

/// A row of a table.
fn row(page: &mut String, cells: impl IntoIterator<Item = String>) {
    page.push('|');
    for cell in cells {
        // What would end the cell or the row.
        let cell = cell.replace('|', "\\|").replace('\n', "; ");
        let _ = write!(page, " {cell} |");
    }
    page.push('\n');
}

fn heading(page: &mut String, names: &[String]) {
    row(page, names.iter().cloned());
    row(page, names.iter().map(|_| "---".to_owned()));
}

/// The numbers by which columns and lists name the files.
fn number(index: usize) -> String {
    format!("{}", index + 1)
}

fn overview(page: &mut String, cards: &[Named]) {
    let names = ["", "file", "card", "runtime", "wrong", "remarks"];
    heading(page, &names.map(str::to_owned));
    for (index, Named { file, record }) in cards.iter().enumerate() {
        let card = record.item(Part::Facts, "card");
        let of = |key| card.and_then(|card| card.text(key)).unwrap_or("?");
        let bad = record.items().filter(|(_, item)| item.state.is_bad());
        let mut remarks = Vec::new();
        if record.emulated {
            remarks.push("emulated: its times are the emulator's");
        }
        if record.short {
            remarks.push("short");
        }
        row(
            page,
            [
                number(index),
                file.clone(),
                record.title(),
                format!("{} {}", of("runtime"), of("release")),
                bad.count().to_string(),
                remarks.join(", "),
            ],
        );
    }
    page.push('\n');
}

fn trouble(page: &mut String, cards: &[Named]) {
    page.push_str("## What is wrong\n\n");
    let mut any = false;
    for (index, Named { record, .. }) in cards.iter().enumerate() {
        for (part, item) in record.items().filter(|(_, item)| item.state.is_bad()) {
            any = true;
            let (word, line) = (item.state.word(), item.line.replace('\n', "; "));
            let _ = writeln!(page, "- {}: {part} {word} {}: {line}", index + 1, item.name);
        }
    }
    page.push_str(if any { "\n" } else { "Nothing.\n\n" });
}

/// The names of a part's items in all files, each once, in the order of the first file that has it.
fn names(cards: &[Named], part: Part) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for item in cards.iter().flat_map(|card| card.record.part(part)) {
        if !names.contains(&item.name) {
            names.push(item.name.clone());
        }
    }
    names
}

/// A table with a column for each file.
fn table(page: &mut String, cards: &[Named], part: Part, cell: impl Fn(&Item) -> String) {
    let columns = (0..cards.len()).map(number);
    let columns: Vec<String> = std::iter::once(String::new()).chain(columns).collect();
    heading(page, &columns);
    for name in names(cards, part) {
        let cells = cards.iter().map(|card| {
            let item = card.record.item(part, &name);
            item.map(&cell).unwrap_or_default()
        });
        row(page, std::iter::once(name.clone()).chain(cells));
    }
    page.push('\n');
}

fn facts(page: &mut String, cards: &[Named]) {
    page.push_str("## Facts\n\n");
    table(page, cards, Part::Facts, |item| item.line.clone());
}

fn results(page: &mut String, cards: &[Named]) {
    page.push_str("## Results\n\nCases, of which equal bit for bit to the recorded ones, within tolerance, wrong.\n\n");
    table(page, cards, Part::Results, |item| {
        let of = |key| item.number(key).unwrap_or(0.);
        let counts = format!(
            "{}: {}, {}, {}",
            of("cases"),
            of("equal"),
            of("near"),
            of("wrong")
        );
        match item.state {
            State::Ok => counts,
            state => format!("{} {counts}", state.word()),
        }
    });
}

fn checks(page: &mut String, cards: &[Named]) {
    page.push_str("## Checks\n\n");
    table(page, cards, Part::Checks, |item| {
        format!("{}: {}", item.state.word(), item.line)
    });
}

/// Measured beside predicted: both in the same unit, and the share of the predicted that was measured.
fn figures(page: &mut String, cards: &[Named], part: Part, title: &str) {
    let _ = writeln!(
        page,
        "## {title}\n\nMeasured; in parentheses what the clock predicted, and measured / predicted.\n"
    );
    table(page, cards, part, |item| {
        let (Some(value), Some(unit)) = (item.number("value"), item.text("unit")) else {
            return match item.state {
                State::Ok => item.line.clone(),
                state => format!("{}: {}", state.word(), item.line),
            };
        };
        match item.number("predicted") {
            Some(predicted) => format!(
                "{} {unit} ({}, {:.2})",
                rounded(value),
                rounded(predicted),
                value / predicted
            ),
            None => format!("{} {unit}", rounded(value)),
        }
    });
}

/// Three digits, or all before the point.
pub fn rounded(value: f64) -> String {
    let digits = match value.abs() {
        x if x < 1. => 3,
        x if x < 10. => 2,
        x if x < 100. => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(file: &str, value: f64, predicted: Option<f64>) -> Named {
        let mut record = Record::new("0.1.0", 1, false);
        let mut item = Item::new("softmax f16", State::Ok, "fast")
            .with("value", value)
            .with("unit", "us");
        if let Some(predicted) = predicted {
            item = item.with("predicted", predicted);
        }
        record.parts.insert(Part::Speeds, vec![item]);
        let graphs = Item::new("graphs", State::Wrong, "stale | inputs\nof 5");
        record.parts.insert(Part::Checks, vec![graphs]);
        Named {
            file: file.to_owned(),
            record,
        }
    }

    #[test]
    fn predicted_stands_beside_measured() {
        let page = page(&[named("a.json", 12.5, Some(10.)), named("b.json", 9., None)]);
        assert!(
            page.contains("| softmax f16 | 12.5 us (10.0, 1.25) | 9.00 us |"),
            "{page}"
        );
        assert!(
            page.contains("- 2: checks WRONG graphs: stale | inputs; of 5"),
            "{page}"
        );
        // Every row of a table has as many cells as its heading.
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        for table in page.split("\n\n").filter(|text| text.starts_with('|')) {
            let mut lines = table.lines();
            let first = cells(lines.next().unwrap());
            assert!(lines.all(|line| cells(line) == first), "{table}");
        }
    }
}
