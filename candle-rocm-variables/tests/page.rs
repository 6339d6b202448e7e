//! The book's page of variables is the table.

use std::fmt::Write as _;
use std::path::Path;

use candle_rocm_variables::{find, Part, ALL, WRITE_PAGES};

const PAGE: &str = "../docs/user/environment.md";

const HEAD: &str = "# Environment variables

Written from the table in the crate `candle-rocm-variables`, by

    CANDLE_ROCM_WRITE_PAGES=1 cargo test -p candle-rocm-variables --test page

An empty variable counts as unset. A value that a variable does not take is an error that names those it takes.
Libraries never fall back to the emulator by themselves: [`CANDLE_ROCM_RUNTIME`](#the-runtime-and-amds-libraries)
asks for it.
";

/// The whole page.
fn page() -> String {
    let mut page = HEAD.to_owned();
    for part in Part::ALL {
        let _ = write!(
            page,
            "\n## {}\n\n| variable | values | default | what it does |\n|---|---|---|---|\n",
            part.title()
        );
        for variable in ALL.iter().filter(|variable| variable.part == part) {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                variable.name, variable.values, variable.default, variable.sentence
            );
        }
    }
    page
}

#[test]
fn the_page_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = page();
    if std::env::var_os(WRITE_PAGES.name).is_some_and(|value| !value.is_empty()) {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let there = std::fs::read_to_string(&path).expect("docs/user/environment.md");
    assert!(
        there == page,
        "docs/user/environment.md is not the table: write it anew with {}=1",
        WRITE_PAGES.name
    );
}

#[test]
fn names_differ_and_sentences_end() {
    for (number, variable) in ALL.iter().enumerate() {
        assert_eq!(
            find(variable.name),
            Some(&ALL[number]),
            "{} stands twice",
            variable.name
        );
        assert!(variable.sentence.ends_with('.'), "{}", variable.name);
        let cells = [variable.values, variable.default, variable.sentence];
        assert!(
            cells
                .iter()
                .all(|cell| !cell.is_empty() && !cell.contains('|')),
            "{}: an empty cell, or one that breaks the table",
            variable.name
        );
    }
}
