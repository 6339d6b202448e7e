//! No function outside of tests is longer than a screen or two: [`MOST`] lines, from its `fn` to its brace.

use std::collections::BTreeSet;

use candle_rocm_testing::sources;

const MOST: usize = 80;

/// Functions that are let be: file, name, reason. One that is short by now must go.
const LONG: &[(&str, &str, &str)] = &[
    (
        "rocm-emulator/src/exec/valu/tables/bits.rs",
        "add",
        "a table: a row for each instruction",
    ),
    (
        "rocm-emulator/src/exec/valu/tables/integer.rs",
        "add",
        "a table: a row for each instruction",
    ),
];

/// Folders that are not read: tests, what builds leave, and what is built on stock Candle.
const SKIPPED: [&str; 3] = ["tests", "stock", "target"];

/// The name of a function whose definition begins on this line.
fn function(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = match after.strip_prefix('(') {
            Some(scope) => scope.split_once(") ")?.1,
            None => after.strip_prefix(' ')?,
        };
    }
    loop {
        let words = ["const ", "async ", "unsafe "];
        if let Some(after) = words.iter().find_map(|word| rest.strip_prefix(word)) {
            rest = after;
        } else if let Some(abi) = rest.strip_prefix("extern \"") {
            rest = abi.split_once("\" ")?.1;
        } else {
            break;
        }
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

/// Names and lines of the functions of a source that are too long.
fn too_long(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let Some(rest) = lines[first + 1..].iter().position(|line| *line == end) else {
            continue;
        };
        let length = rest + 2;
        if length > MOST {
            found.push((name.to_owned(), length));
        }
    }
    found
}

#[test]
fn functions_are_short() {
    let root = sources::root();
    let files = sources::below(&root, &["rs"], |_, name| {
        !name.starts_with('.') && !SKIPPED.contains(&name)
    });
    assert!(files.len() > 100, "only {} files", files.len());
    let mut long = Vec::new();
    for path in files {
        let file = path.strip_prefix(&root).unwrap().display().to_string();
        let found = too_long(&std::fs::read_to_string(&path).unwrap());
        long.extend(
            found
                .into_iter()
                .map(|(name, lines)| (file.clone(), name, lines)),
        );
    }
    let listed: BTreeSet<(&str, &str)> =
        LONG.iter().map(|(file, name, _)| (*file, *name)).collect();
    let mut lines = Vec::new();
    for (file, name, length) in &long {
        if !listed.contains(&(file.as_str(), name.as_str())) {
            lines.push(format!(
                "{file}: `{name}` has {length} lines, more than {MOST}"
            ));
        }
    }
    for (file, name, reason) in LONG {
        if !long.iter().any(|(f, n, _)| f == file && n == name) {
            lines.push(format!(
                "{file}: `{name}` is short, and need not be let be: {reason}"
            ));
        }
    }
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn long_functions_are_found() {
    let function = |head: &str, lines: usize| {
        let body = "        work();\n".repeat(lines - 2);
        format!("impl Of {{\n    {head} {{\n{body}    }}\n}}\n")
    };
    for head in [
        "fn f()",
        "pub fn f<'a>(&'a self)",
        "pub(in crate::a) const unsafe fn f(&self) -> u8",
        "unsafe extern \"C\" fn f()",
        "async fn f()",
    ] {
        assert_eq!(too_long(&function(head, MOST)), [], "{head}");
        let found = too_long(&function(head, MOST + 1));
        assert_eq!(found, [("f".to_owned(), MOST + 1)], "{head}");
    }
    assert_eq!(too_long(&function("let f = |x|", MOST + 1)), []);
}
