//! What CONTRIBUTING says of pages and C++: lengths, tables, and the tag that pages name.

use std::collections::BTreeSet;

use crate::pages::{self, Page, GENERATED};

/// Columns of a line.
const COLUMNS: usize = 120;

/// Bytes of the README.
const README: usize = 8_192;

/// Kinds of files in the kernels' language.
const CPP: [&str; 5] = ["cu", "cuh", "hip", "h", "cpp"];

/// Folders whose C++ is no kernel that ships: inputs of tests, which have lines of their own.
const INPUTS: [&str; 3] = ["tests/", "benches/", "testing/"];

/// Pages that hold what programs printed.
const RESULTS: &str = "benches/results/";

/// Whether a line of prose may be longer: a row of a table, a heading, or what holds an address that cannot be broken.
fn may_be_long(line: &str) -> bool {
    line.starts_with(['|', '#', '!']) || line.split_whitespace().any(|word| word.len() > 60)
}

fn is_written_by_a_program(page: &Page) -> bool {
    GENERATED.iter().any(|(path, _)| *path == page.path) || page.path.starts_with(RESULTS)
}

fn columns(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn the_readme_is_short() {
    let bytes = pages::read("README.md").len();
    assert!(
        bytes <= README,
        "the README has {bytes} bytes, more than {README}"
    );
}

#[test]
fn lines_have_120_columns() {
    let mut long = Vec::new();
    for page in pages::all() {
        if is_written_by_a_program(&page) {
            continue;
        }
        let lines = page
            .prose()
            .into_iter()
            .filter(|(_, line)| columns(line) > COLUMNS && !may_be_long(line));
        long.extend(lines.map(|(number, _)| format!("{}:{number}", page.path)));
    }
    for path in pages::files("", &CPP) {
        if INPUTS.iter().any(|folder| path.contains(folder)) {
            continue;
        }
        let text = pages::read(&path);
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| columns(line) > COLUMNS);
        long.extend(lines.map(|(number, _)| format!("{path}:{}", number + 1)));
    }
    assert!(
        long.is_empty(),
        "longer than {COLUMNS} columns:\n{}",
        long.join("\n")
    );
}

/// What a merge leaves where both sides changed.
#[test]
fn no_page_has_a_mark_of_a_merge() {
    let marked = pages::all().into_iter().filter(|page| {
        let text = pages::read(&page.path);
        let is_mark = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
        text.lines().any(is_mark)
    });
    let marked: Vec<_> = marked.map(|page| page.path.clone()).collect();
    assert!(marked.is_empty(), "half merged: {}", marked.join(", "));
}

/// The faults of a page's tables: rows with other cells than the head has, rows that stand twice.
fn table_faults(page: &Page) -> Vec<String> {
    let mut faults = Vec::new();
    let mut table: Option<(usize, BTreeSet<&str>)> = None;
    let cells = |row: &str| row.replace("\\|", "").matches('|').count();
    for (number, line) in page.prose() {
        if !line.starts_with('|') {
            table = None;
            continue;
        }
        let (width, rows) = table.get_or_insert_with(|| (cells(line), BTreeSet::new()));
        if cells(line) != *width {
            faults.push(format!("{}:{number}: other cells than its head", page.path));
        }
        if !rows.insert(line) {
            faults.push(format!("{}:{number}: the row stands twice", page.path));
        }
    }
    faults
}

#[test]
fn tables_have_rows_of_their_own() {
    let pages = pages::all().into_iter();
    let ours = pages.filter(|page| !page.path.starts_with(RESULTS));
    let faults: Vec<String> = ours.flat_map(|page| table_faults(&page)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let page = Page {
        path: "a.md".to_owned(),
        text: "| a | b |\n|---|---|\n| 1 | 2 |\n| 1 | 2 |\n| 1 |\n".to_owned(),
    };
    assert_eq!(table_faults(&page).len(), 2);
}

#[test]
fn pages_name_this_release() {
    let tag = format!("v{}", env!("CARGO_PKG_VERSION"));
    for page in pages::all() {
        for (number, line) in page.text.lines().enumerate() {
            let named = line
                .split("tag = \"")
                .skip(1)
                .chain(line.split("--branch ").skip(1));
            for rest in named {
                let name = rest.split(['"', ' ']).next().unwrap_or_default();
                assert_eq!(name, tag, "{}:{}", page.path, number + 1);
            }
        }
    }
    let changelog = pages::read("CHANGELOG.md");
    let heading = format!("\n## [{}]", env!("CARGO_PKG_VERSION"));
    assert!(
        changelog.contains(&heading),
        "CHANGELOG.md has no part of {tag}"
    );
}
