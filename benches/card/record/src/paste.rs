//! The lines to paste.

use crate::record::{Item, Part, Record, State};

/// The most lines.
pub const LINES: usize = 60;
/// The most characters of a line.
const WIDTH: usize = 160;

/// How many lines a part may take: together with the head and a line for what is left out, [`LINES`].
fn room(part: Part) -> usize {
    match part {
        Part::Facts => 12,
        Part::Results => 8,
        Part::Checks => 8,
        Part::Roofline => 14,
        Part::Speeds => 15,
    }
}

/// The record in at most [`LINES`] lines, what is wrong first in each part.
pub fn paste(record: &Record) -> String {
    let mut lines = vec![head(record)];
    for part in Part::ALL {
        let of_part = match part {
            Part::Results => results(record.part(part)),
            _ => record.part(part).iter().map(line).collect(),
        };
        lines.extend(within(part, of_part));
    }
    let cut = |line: String| match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    };
    let lines: Vec<String> = lines.into_iter().map(cut).collect();
    lines.join("\n")
}

fn head(record: &Record) -> String {
    let bad = record.items().filter(|(_, item)| item.state.is_bad());
    let verdict = match bad.count() {
        0 => "nothing wrong".to_owned(),
        1 => "1 THING WRONG".to_owned(),
        count => format!("{count} THINGS WRONG"),
    };
    let short = if record.short { ", short" } else { "" };
    let times = if record.emulated {
        "; times are the emulator's and say nothing of a card"
    } else {
        ""
    };
    format!(
        "candle-rocm-card {}{short}: {}: {verdict}{times}",
        record.version,
        record.title()
    )
}

/// A line of text, with the state where it is not good.
struct Line {
    state: State,
    text: String,
}

fn line(item: &Item) -> Line {
    Line {
        state: item.state,
        text: format!("{}: {}", item.name, item.line.replace('\n', "; ")),
    }
}

/// One line of counts for all operators whose results are right, then each that is not.
fn results(items: &[Item]) -> Vec<Line> {
    if items.is_empty() {
        return vec![];
    }
    let sum = |key: &str| {
        items
            .iter()
            .filter_map(|item| item.number(key))
            .sum::<f64>()
    };
    let text = format!(
        "{} operators, {} cases: {} equal bit for bit, {} within tolerance, {} wrong, {} refused, {} not compared",
        items.len(),
        sum("cases"),
        sum("equal"),
        sum("near"),
        sum("wrong"),
        sum("refused"),
        sum("unheld"),
    );
    let counts = Line {
        state: State::Ok,
        text,
    };
    let others = items.iter().filter(|item| item.state != State::Ok);
    std::iter::once(counts).chain(others.map(line)).collect()
}

/// As many as there is room for, the worst first, and how many there is none for.
fn within(part: Part, mut lines: Vec<Line>) -> Vec<String> {
    let room = room(part);
    if lines.len() > room {
        // A stable sort: what is equally bad stays in order.
        lines.sort_by_key(|line| std::cmp::Reverse(line.state));
    }
    let left_out = lines.len().saturating_sub(room);
    let kept = lines.into_iter().take(room - usize::from(left_out > 0));
    let mut kept: Vec<String> = kept
        .map(|line| match line.state {
            State::Ok => format!("{part:<9}{}", line.text),
            state => format!("{part:<9}{} {}", state.word(), line.text),
        })
        .collect();
    if left_out > 0 {
        kept.push(format!("{part:<9}and {} more in the file", left_out + 1));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(items: usize, state: State) -> Record {
        let mut record = Record::new("0.1.0", 1, false);
        for part in Part::ALL {
            let item = |i| Item::new(format!("item {i}"), state, "a line\nof two");
            record.parts.insert(part, (0..items).map(item).collect());
        }
        record
    }

    #[test]
    fn never_more_than_sixty_lines() {
        for items in [0, 1, 8, 100] {
            for state in [State::Ok, State::Wrong] {
                let text = paste(&record(items, state));
                assert!(text.lines().count() <= LINES, "{text}");
                assert!(text.lines().all(|line| line.chars().count() <= WIDTH + 3));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_kept() {
        let mut record = record(100, State::Ok);
        for items in record.parts.values_mut() {
            items.last_mut().unwrap().state = State::Fault;
        }
        let text = paste(&record);
        assert_eq!(text.matches("FAULT item 99").count(), 5, "{text}");
        assert!(text.starts_with("candle-rocm-card 0.1.0: ? (?): 5 THINGS WRONG"));
        assert!(text.contains("and 89 more in the file"), "{text}");
    }
}
