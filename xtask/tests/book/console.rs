//! Blocks of the kind `console`: the cheap ones are run, and the others are listed with why not.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pages;

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
