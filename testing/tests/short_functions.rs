//! No function outside of tests is longer than a screen or two: [`MOST`] lines, from its `fn` to its brace.

use std::collections::BTreeSet;
use std::path::Path;

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

/// Calls `each` with the path below `root` and the text of each Rust file.
fn sources(root: &Path, folder: &Path, each: &mut dyn FnMut(String, String)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
                sources(root, &path, each);
            }
        } else if name.ends_with(".rs") {
            let below = path.strip_prefix(root).unwrap().display().to_string();
            each(below, std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn functions_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut files, mut long) = (0, Vec::new());
    sources(root, root, &mut |file, text| {
        files += 1;
        let found = too_long(&text).into_iter();
        long.extend(found.map(|(name, lines)| (file.clone(), name, lines)));
    });
    assert!(files > 100, "only {files} files");
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
