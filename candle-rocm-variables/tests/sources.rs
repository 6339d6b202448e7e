//! Every variable that the workspace's sources name is in the table, and every one of the table is named there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use candle_rocm_testing::sources;
use candle_rocm_variables::{find, Part, ALL, BETWEEN_PROCESSES, MACROS};

/// Kinds of files that read or set variables. C++ is not among them: its names of this form are macros.
const EXTENSIONS: [&str; 5] = ["rs", "sh", "toml", "yml", "py"];

/// Folders that hold no sources of the project.
const NOT_OURS: [&str; 2] = ["target", ".git"];

/// The repository's files, but for this crate's, which is the table.
fn files() -> Vec<PathBuf> {
    sources::below(&sources::root(), &EXTENSIONS, |path, name| {
        let own = name == env!("CARGO_PKG_NAME");
        !own && !NOT_OURS.contains(&name) && !sources::is_of_builds(path)
    })
}

/// The names of our variables in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.split(|c: char| !is_word(c) && !c.is_ascii_lowercase())
        .filter(|word| word.starts_with("CANDLE_ROCM_") || word.starts_with("ROCM_EMU_"))
        .filter(|word| word.chars().all(is_word))
        .map(|word| word.trim_end_matches('_'))
        .filter(|word| !matches!(*word, "CANDLE_ROCM" | "ROCM_EMU"))
        .collect()
}

/// Each name of the sources, with the first file that has it.
fn of_sources() -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        for name in names(&text) {
            found.entry(name.to_owned()).or_insert_with(|| path.clone());
        }
    }
    found
}

#[test]
fn the_table_has_every_variable_of_the_sources() {
    let between = BETWEEN_PROCESSES.trim_end_matches('_');
    let unknown: Vec<String> = of_sources()
        .into_iter()
        .filter(|(name, _)| find(name).is_none() && !MACROS.contains(&name.as_str()))
        .filter(|(name, _)| !name.starts_with(between))
        .map(|(name, path)| format!("{name} in {}", path.display()))
        .collect();
    assert!(
        unknown.is_empty(),
        "not in candle-rocm-variables/src/lib.rs:\n{}",
        unknown.join("\n")
    );
}

/// The constant of a variable's name.
fn constant(name: &str) -> &str {
    name.strip_prefix("CANDLE_ROCM_")
        .or(name.strip_prefix("ROCM_"))
        .unwrap_or(name)
}

/// Whether a source takes the variable's name from the table.
fn is_taken(sources: &[String], name: &str) -> bool {
    let (path, value) = (
        format!("variables::{}", constant(name)),
        format!("{}.name", constant(name)),
    );
    sources
        .iter()
        .any(|text| text.contains(&path) || text.contains(&value))
}

#[test]
fn the_sources_name_every_variable_of_the_table() {
    let found = of_sources();
    let sources: Vec<String> = files()
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .filter(|text| text.contains("_variables::") || text.contains("::variables::"))
        .collect();
    let unused: Vec<&str> = ALL
        .iter()
        .filter(|variable| variable.part != Part::Others)
        .map(|variable| variable.name)
        .filter(|name| !found.contains_key(*name) && !is_taken(&sources, name))
        .collect();
    assert!(unused.is_empty(), "nothing reads {}", unused.join(", "));
}

#[test]
fn a_name_is_found_in_its_text() {
    let text = "env(\"CANDLE_ROCM_POOL\") and `ROCM_EMU_ARCH=gfx1100`, not xCANDLE_ROCM_NO nor CANDLE_ROCM_";
    let expected = BTreeSet::from(["CANDLE_ROCM_POOL", "ROCM_EMU_ARCH"]);
    assert_eq!(names(text), expected);
}
