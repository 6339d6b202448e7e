//! Nobody but the tables compares mnemonics: what the code asks of an operation is a column of
//! `src/isa/tables/operations.txt`. A search of the sources holds this.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What may name instructions: the readers of the columns, and the tables of what each computes.
const TABLES: [&str; 6] = [
    "isa/columns.rs",
    "isa/matrix.rs",
    "isa/table.rs",
    "exec/scalar/table.rs",
    "exec/memory/atomics.rs",
    "exec/valu/tables/",
];

/// What compares texts, with the literal behind it.
const COMPARISONS: [&str; 10] = [
    "contains(",
    "starts_with(",
    "ends_with(",
    "strip_prefix(",
    "strip_suffix(",
    "split_once(",
    "rsplit_once(",
    "find(",
    "==",
    "!=",
];

/// Every mnemonic of the emulator's tables.
fn mnemonics() -> BTreeSet<&'static str> {
    let tables = [
        include_str!("../src/isa/tables/gfx9.txt"),
        include_str!("../src/isa/tables/rdna2.txt"),
        include_str!("../src/isa/tables/rdna3.txt"),
        include_str!("../src/isa/tables/rdna4.txt"),
    ];
    let lines = tables.into_iter().flat_map(str::lines);
    let words = lines.filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (owners, kind) = (words.next()?, words.next()?);
        let opcodes = owners != "#"
            && kind
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
        opcodes.then(|| words.nth(1)).flatten()
    });
    words.collect()
}

/// The lines of code of a file, without comments and without its tests.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    lines
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(at, line)| (at + 1, line))
}

/// The string literals of a line, each with what stands before it.
fn literals(line: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = line.split('"').collect();
    let mut before = 0;
    let mut found = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        if index % 2 == 1 && index + 1 < parts.len() {
            found.push((&line[..before - 1], *part));
        }
        before += part.len() + 1;
    }
    found
}

/// Lines that compare a mnemonic, or where `parts` a part of one, which elsewhere may be anything.
fn comparisons(text: &str, names: &BTreeSet<&str>, parts: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut held: Vec<String> = Vec::new();
    for (number, line) in code(text) {
        let is_named = |(before, literal): &(&str, &str)| {
            let begins = literal.contains('_') && names.iter().any(|it| it.starts_with(literal));
            let compared = COMPARISONS.iter().any(|it| before.trim_end().ends_with(it));
            let part = parts
                && compared
                && !literal.is_empty()
                && names.iter().any(|it| it.contains(literal));
            begins || part
        };
        // The name itself, and variables that hold it, are shown and handed on, and not asked anything.
        if let Some(variable) = line.trim().strip_prefix("let ") {
            if let Some((variable, "inst.op.name;")) = variable.split_once(" = ") {
                held.push(variable.into());
            }
        }
        let packed: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        let asked = |name: &str| {
            ["match", "matches!("]
                .iter()
                .any(|it| packed.contains(&format!("{it}{name}")))
                || [
                    ".contains(",
                    ".starts_with(",
                    ".ends_with(",
                    ".strip",
                    ".split",
                    ".find(",
                    "==",
                    "!=",
                ]
                .iter()
                .any(|it| packed.contains(&format!("{name}{it}")))
        };
        let asks = asked("inst.op.name") || asked("op.name") || held.iter().any(|it| asked(it));
        if asks || literals(line).iter().any(is_named) {
            found.push(format!("{number}: {}", line.trim()));
        }
    }
    found
}

fn sources(folder: &Path, to: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the crate's sources") {
        let path = entry.expect("an entry of a folder").path();
        match path.is_dir() {
            true => sources(&path, to),
            false if path.extension().is_some_and(|it| it == "rs") => to.push(path),
            false => {}
        }
    }
}

#[test]
fn nobody_but_the_tables_compares_mnemonics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names = mnemonics();
    assert!(names.len() > 1900, "{} mnemonics", names.len());
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 150, "{} files", files.len());
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).expect("below src");
        let name = name.to_string_lossy().replace('\\', "/");
        if !TABLES.iter().any(|table| name.starts_with(table)) {
            let text = std::fs::read_to_string(&file).expect("text");
            let parts = name.starts_with("isa/") || name.starts_with("exec/");
            let lines = comparisons(&text, &names, parts);
            found.extend(lines.iter().map(|line| format!("{name}:{line}")));
        }
    }
    assert!(
        found.is_empty(),
        "make these columns of src/isa/tables/operations.txt:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_comparison_that_is_put_back_is_found() {
    let names = mnemonics();
    for line in [
        r#"if self.entry.op.name.starts_with("v_cmpx_") {"#,
        r#"inst.mem.lds = lds || entry.op.name.contains("_lds_");"#,
        r#"let loads = name.contains("_load");"#,
        r#"if op.name == "v_ldexp_f16" {"#,
        r#"    "s_endpgm" | "s_endpgm_saved" => Op::End,"#,
        r#"const NAMES: [&str; 1] = ["buffer_wbl2"];"#,
        r#"let suffix = name.strip_prefix("load_")?;"#,
        "    match inst.op.name {",
        "let name = inst.op.name;\n    if name.starts_with(prefix) {",
    ] {
        assert_eq!(comparisons(line, &names, true).len(), 1, "{line}");
    }
    for line in [
        r#"/// As "s_nop" is."#,
        r#"Unimplemented::new(format!("{}: no semantics", inst.op.name))"#,
        r#"Special::FlatScratchLo => ("flat_scratch_lo", "flat_scratch"),"#,
        "    if inst.op.columns.has(Traits::BLOCK) {",
        "#[cfg(test)]\nconst NAME: &str = \"s_nop\";",
    ] {
        assert_eq!(
            comparisons(line, &names, true),
            Vec::<String>::new(),
            "{line}"
        );
    }
}
