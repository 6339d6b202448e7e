//! Every link of every page resolves, and the book lists all of its pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::pages::{self, Page, BOOK};

/// Addresses of files of this repository, by which pages of the book name what lies outside of it.
const REPOSITORY: [&str; 2] = [
    "https://github.com/candle-rocm/candle-rocm/blob/main/",
    "https://github.com/candle-rocm/candle-rocm/tree/main/",
];

/// The book's list.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The path of a link from a page, from the repository's root; none where it leaves that.
fn resolved(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<Component<'_>> = Vec::new();
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let joined = folder.join(target);
    for part in joined.components() {
        match part {
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    let path: PathBuf = parts.iter().collect();
    Some(path.to_string_lossy().into_owned())
}

/// What is wrong with a link.
fn fault(
    page: &Page,
    target: &str,
    anchors: &BTreeMap<String, BTreeSet<String>>,
) -> Option<String> {
    let ours = REPOSITORY
        .iter()
        .find_map(|address| target.strip_prefix(address));
    let is_foreign = target.contains("://") || target.starts_with("mailto:");
    if is_foreign && ours.is_none() {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match (ours, path) {
        (Some(whole), _) => whole.split('#').next().unwrap_or_default().to_owned(),
        (None, "") => page.path.clone(),
        (None, path) => match resolved(&page.path, path) {
            Some(path) => path,
            None => return Some("it leaves the repository".to_owned()),
        },
    };
    if ours.is_none() && page.path.starts_with(BOOK) && !path.starts_with(BOOK) {
        return Some(format!(
            "a page of the book names what lies outside by {}",
            REPOSITORY[0]
        ));
    }
    if !pages::root().join(&path).exists() {
        return Some(format!("there is no {path}"));
    }
    let known = anchors.get(&path);
    let is_there = anchor.is_empty() || known.is_some_and(|known| known.contains(anchor));
    (!is_there).then(|| format!("{path} has no heading of that name"))
}

fn anchors(pages: &[Page]) -> BTreeMap<String, BTreeSet<String>> {
    let of = |page: &Page| {
        page.sections()
            .into_iter()
            .map(|section| section.anchor)
            .collect()
    };
    pages
        .iter()
        .map(|page| (page.path.clone(), of(page)))
        .collect()
}

#[test]
fn links_resolve() {
    let pages = pages::all();
    let anchors = anchors(&pages);
    let mut count = 0;
    let mut faults = Vec::new();
    for page in &pages {
        for target in page.links() {
            count += 1;
            let fault = fault(page, &target, &anchors);
            faults.extend(fault.map(|fault| format!("{}: {target}: {fault}", page.path)));
        }
    }
    assert!(count > 200, "only {count} links were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn faults_of_links_are_found() {
    let page = |path: &str, text: &str| Page {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let pages = [page("README.md", "# Here\n"), page("docs/a.md", "# A\n")];
    let anchors = anchors(&pages);
    let book = REPOSITORY[0].to_owned() + "README.md";
    for (page, target, is_right) in [
        (0, "#here", true),
        (0, "#there", false),
        (0, "docs/nothing.md", false),
        (0, "../elsewhere.md", false),
        (1, "../README.md", false),
        (1, &format!("{book}#here"), true),
        (1, &format!("{book}#there"), false),
        (1, "https://example.com/nothing", true),
    ] {
        assert_eq!(
            fault(&pages[page], target, &anchors).is_none(),
            is_right,
            "{target}"
        );
    }
}

#[test]
fn the_book_lists_its_pages() {
    let pages = pages::all();
    let summary = pages
        .iter()
        .find(|page| page.path == SUMMARY)
        .expect(SUMMARY);
    let mut listed: Vec<String> = summary
        .links()
        .iter()
        .filter_map(|link| resolved(SUMMARY, link))
        .collect();
    listed.sort();
    let unlisted = pages.iter().map(|page| page.path.clone());
    let expected: Vec<String> = unlisted
        .filter(|path| path.starts_with(BOOK) && path != SUMMARY)
        .collect();
    assert_eq!(
        listed, expected,
        "listed on the left, there on the right; each once"
    );
}
