//! Each error text that troubleshooting quotes is in the sources.

use std::fs;

use crate::pages::{self, Page};

const PAGE: &str = "docs/user/troubleshooting.md";

/// Others' texts that the page quotes, and whose each is.
const OTHERS: [(&str, &str); 4] = [
    (
        "no kernel image is available",
        "HIP's name of hipErrorNoBinaryForGpu",
    ),
    ("no kernel image", "the beginning of the same"),
    ("patch ... was not used in the crate graph", "cargo"),
    ("Report from a card", "the template of an issue"),
];

/// What stands between quotation marks outside of code.
fn quotations(page: &Page) -> Vec<String> {
    let mut found = Vec::new();
    for (_, line) in page.prose() {
        // Marks within code are the code's.
        let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        found.extend(outside.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    found
}

/// Sources as one text a file, in which a literal's line breaks are spaces.
fn sources() -> Vec<String> {
    let files = pages::files("", &["rs"]);
    let text = |path: &String| fs::read_to_string(pages::root().join(path)).unwrap_or_default();
    let ours = files
        .iter()
        .filter(|path| !path.starts_with("xtask/tests/book/"));
    ours.map(|path| {
        text(path)
            .replace("\\\n", "")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    })
    .collect()
}

/// The parts of a quotation that must be in one file: dots stand for names and numbers.
fn parts(quotation: &str) -> Vec<&str> {
    let parts = quotation
        .split("...")
        .map(|part| part.trim_matches(|c: char| " ,:;=`".contains(c)));
    parts.filter(|part| part.len() > 2).collect()
}

#[test]
fn quoted_errors_are_in_the_sources() {
    let page = pages::all()
        .into_iter()
        .find(|page| page.path == PAGE)
        .expect(PAGE);
    let sources = sources();
    let quotations = quotations(&page);
    assert!(
        quotations.len() > 20,
        "only {} quotations",
        quotations.len()
    );
    let is_ours = |quotation: &String| {
        let parts = parts(quotation);
        sources
            .iter()
            .any(|text| parts.iter().all(|part| text.contains(part)))
    };
    let unknown: Vec<&String> = quotations
        .iter()
        .filter(|quotation| !OTHERS.iter().any(|(text, _)| *text == quotation.as_str()))
        .filter(|quotation| !is_ours(quotation))
        .collect();
    assert!(unknown.is_empty(), "no source says {unknown:#?}");
}

#[test]
fn quotations_are_found() {
    let page = Page {
        path: String::new(),
        text: "### \"holds ... code for\"\n\nSee `\"no\"`, or \"nobody says this\".\n".to_owned(),
    };
    assert_eq!(
        quotations(&page),
        ["holds ... code for", "nobody says this"]
    );
    assert_eq!(parts("holds ... code for"), ["holds", "code for"]);
    let said = "nobody says ".to_owned() + "this";
    assert!(
        !sources().iter().any(|text| text.contains(&said)),
        "this file is no source"
    );
}
