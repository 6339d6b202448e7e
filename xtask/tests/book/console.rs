//! Commands of pages: blocks of the kind `console` are run, or listed with why not; of all others the packages,
//! programs, tests and features that they name are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::house;
use crate::pages::{self, Page};

/// Commands that are run here, with what each prints.
const RUN: [(&str, &str); 1] = [("cargo xtask --help", "kernel-report")];

/// Commands that are not run here, and why.
const NOT_RUN: [(&str, &str); 0] = [];

/// This package's program, which cargo builds beside its tests.
fn program() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_xtask")).to_owned()
}

/// The commands of all such blocks: what stands behind `$`.
fn commands() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for page in pages::all() {
        for block in page.blocks("console") {
            let lines = block.lines().filter_map(|line| line.strip_prefix("$ "));
            found.extend(lines.map(|line| (page.path.clone(), line.to_owned())));
        }
    }
    found
}

#[test]
fn commands_run_or_are_listed() {
    let commands = commands();
    assert!(
        !commands.is_empty(),
        "no page has a block of the kind `console`"
    );
    for (page, command) in commands {
        let known = RUN.iter().find(|(known, _)| *known == command);
        let Some((_, printed)) = known else {
            let listed = NOT_RUN.iter().any(|(known, _)| *known == command);
            assert!(
                listed,
                "{page}: `{command}` is neither run nor listed in {}",
                file!()
            );
            continue;
        };
        let arguments = command
            .strip_prefix("cargo xtask ")
            .expect("a command of xtask's");
        let output = Command::new(program())
            .args(arguments.split(' '))
            .output()
            .expect("xtask runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{page}: `{command}` fails: {text}");
        assert!(
            text.contains(printed),
            "{page}: `{command}` does not print {printed:?}: {text}"
        );
    }
}

/// Kinds of targets, by the option that names one.
const TARGETS: [(&str, &str); 4] = [
    ("--bin", "bin"),
    ("--example", "example"),
    ("--test", "test"),
    ("--bench", "bench"),
];

/// The lines of a page's blocks of code, of whatever language.
fn code(page: &Page) -> Vec<&str> {
    let prose: BTreeSet<usize> = page.prose().iter().map(|(number, _)| *number).collect();
    let lines = page.text.lines().enumerate();
    let code =
        lines.filter(|(number, line)| !prose.contains(&(number + 1)) && !line.starts_with("```"));
    code.map(|(_, line)| line.trim()).collect()
}

/// The words of a command of cargo's, without variables before it and what follows `--` or `#`; none of another line.
fn cargo_words(line: &str) -> Option<Vec<&str>> {
    let words = line.trim_start_matches("$ ").split_whitespace();
    let mut words = words.skip_while(|word| word.contains('='));
    let command = words.next()?;
    let rest = words.take_while(|word| *word != "--" && !word.starts_with('#'));
    (command == "cargo").then(|| rest.collect())
}

/// The values of an option, by its long or short name.
fn values<'a>(words: &[&'a str], names: &[&str]) -> Vec<&'a str> {
    let pairs = words.windows(2).filter(|pair| names.contains(&pair[0]));
    // Words in capitals stand for names.
    pairs
        .map(|pair| pair[1])
        .filter(|value| value.chars().any(|c| c.is_ascii_lowercase()))
        .collect()
}

/// The commands that xtask lists.
fn xtask_commands() -> BTreeSet<String> {
    let output = Command::new(program())
        .arg("--help")
        .output()
        .expect("xtask runs");
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// What a command of cargo's names that is not there.
fn absent(words: &[&str], known: &BTreeSet<String>) -> Option<String> {
    if words.first() == Some(&"xtask") {
        let command = words
            .get(1)
            .filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))?;
        let is_there = command.starts_with('-') || known.contains(*command);
        return (!is_there).then(|| format!("cargo xtask {command}"));
    }
    let packages = values(words, &["-p", "--package"]);
    if let Some(name) = packages.iter().find(|name| house::package(name).is_none()) {
        return Some(format!("a package {name}"));
    }
    let package = house::package(packages.first()?)?;
    let targets = package["targets"].as_array().expect("targets");
    for (option, kind) in TARGETS {
        for name in values(words, &[option]) {
            let is_it =
                |target: &serde_json::Value| target["name"] == name && target["kind"][0] == kind;
            if !targets.iter().any(is_it) {
                return Some(format!("{option} {name} in {}", packages[0]));
            }
        }
    }
    let features = values(words, &["--features"]);
    let missing = features
        .iter()
        .find(|name| package["features"].get(**name).is_none());
    missing.map(|name| format!("the feature {name} of {}", packages[0]))
}

#[test]
fn commands_name_what_is_there() {
    let known = xtask_commands();
    let mut count = 0;
    let mut faults = Vec::new();
    for page in pages::all() {
        for words in code(&page).into_iter().filter_map(cargo_words) {
            count += 1;
            let absent = absent(&words, &known);
            faults.extend(absent.map(|absent| {
                format!(
                    "{}: cargo {}: there is no {absent}",
                    page.path,
                    words.join(" ")
                )
            }));
        }
    }
    assert!(count > 50, "only {count} commands");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn absent_names_are_found() {
    let known = BTreeSet::from(["demo".to_owned()]);
    for (line, is_right) in [
        ("A=1 cargo test -p xtask --test book # all", true),
        ("cargo test -p xtask --test nothing", false),
        ("cargo test -p nothing", false),
        ("cargo test -p PACKAGE --test NAME", true),
        ("cargo xtask demo --arch gfx942", true),
        ("cargo xtask nothing", false),
        (
            "cargo run -p candle-rocm-examples --features rocm --bin llama -- --bin x",
            true,
        ),
        (
            "cargo run -p candle-rocm-examples --features nothing",
            false,
        ),
    ] {
        let words = cargo_words(line).expect("a command of cargo's");
        assert_eq!(absent(&words, &known).is_none(), is_right, "{line}");
    }
}
