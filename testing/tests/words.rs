//! Names in the kernels, in products' host code and in the operators are the field's words: of `words.tsv`, which has ours
//! beside them, none is left but by an allowance with its reason. An allowance that nothing needs must go.

use std::collections::{BTreeMap, BTreeSet};

use candle_rocm_testing::sources;

/// Folders by the names that the table has for them.
const FOLDERS: [(&str, &str); 3] = [
    ("kernels", "candle-rocm-kernels/kernels"),
    ("gemm", "candle-rocm-runtime/src/gemm"),
    ("ops", "candle-rocm-backend/src/ops"),
];

/// Names of so many parts are sentences: those of tests.
const SENTENCE: usize = 5;

/// A row of the table.
struct Word<'a> {
    ours: &'a str,
    field: &'a str,
    folders: Vec<String>,
    /// Names that may have it.
    allowed: Vec<&'a str>,
}

fn table(text: &str) -> Vec<Word<'_>> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let mut cells = line.split('\t');
        let mut cell = || cells.next().unwrap_or_default();
        let (ours, field, folders) = (cell(), cell(), cell());
        let allowances = cell().split("; ").filter(|one| !one.is_empty());
        let allowed = allowances.map(|one| {
            let (name, reason) = one.split_once(": ").expect("an allowance has a reason");
            assert!(!reason.is_empty(), "{name}");
            name
        });
        Word {
            ours,
            field,
            folders: folders.split(' ').map(folder).collect(),
            allowed: allowed.collect(),
        }
    })
    .collect()
}

/// The path of a folder of the table, such as `kernels/rows`.
fn folder(named: &str) -> String {
    let (first, below) = named.split_once('/').unwrap_or((named, ""));
    let known = FOLDERS.iter().find(|(name, _)| *name == first);
    let (_, path) = known.unwrap_or_else(|| panic!("{named} is no folder of the table"));
    format!("{path}/{below}")
}

/// A source without comments and strings.
fn bare(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    for line in text.lines() {
        let mut in_string = false;
        let mut before = ' ';
        for (at, c) in line.char_indices() {
            if !in_string && line[at..].starts_with("//") {
                break;
            }
            if c == '"' && before != '\\' && before != '\'' {
                in_string = !in_string;
            } else if !in_string {
                bare.push(c);
            }
            before = if before == '\\' { ' ' } else { c };
        }
        bare.push('\n');
    }
    bare
}

/// The names in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    names.filter(|name| !name.is_empty()).collect()
}

/// What a name is made of: `Fp8Tile` of `Fp8` and `Tile`.
fn parts(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for word in name.split('_').filter(|word| !word.is_empty()) {
        let bytes = word.as_bytes();
        let mut first = 0;
        for at in 1..bytes.len() {
            let begins = bytes[at].is_ascii_uppercase() && !bytes[at - 1].is_ascii_uppercase();
            if begins {
                parts.push(&word[first..at]);
                first = at;
            }
        }
        parts.push(&word[first..]);
    }
    parts
}

/// Whether a name has a word.
fn has(name: &str, word: &str) -> bool {
    if word.contains('_') || (word != word.to_lowercase() && parts(word).len() > 1) {
        return name == word;
    }
    let parts = parts(name);
    let small = word == word.to_lowercase();
    let is = |part: &&str| match small {
        true => part.to_lowercase() == word,
        false => **part == *word,
    };
    parts.len() < SENTENCE && parts.iter().any(is)
}

#[test]
fn names_are_the_fields_words() {
    let root = sources::root();
    let tests = root.join("testing/tests/words.tsv");
    let text = std::fs::read_to_string(tests).expect("the table");
    let words = table(&text);
    let mut faults = Vec::new();
    let mut files = BTreeMap::new();
    for (_, path) in FOLDERS {
        for file in sources::below(&root.join(path), &["rs", "cu", "cuh"], |_, _| true) {
            let name = file.strip_prefix(&root).unwrap().display().to_string();
            files.insert(name, bare(&std::fs::read_to_string(&file).unwrap()));
        }
    }
    assert!(files.len() > 150, "only {} files", files.len());
    for word in &words {
        let mut unused: BTreeSet<&str> = word.allowed.iter().copied().collect();
        for (file, text) in &files {
            if !word
                .folders
                .iter()
                .any(|folder| file.starts_with(folder.as_str()))
            {
                continue;
            }
            let stem = file
                .rsplit('/')
                .next()
                .and_then(|name| name.split('.').next());
            for name in names(text).into_iter().chain(stem) {
                if has(name, word.ours) && !unused.remove(name) && !word.allowed.contains(&name) {
                    faults.push(format!("{file}: `{name}`: {} is {}", word.ours, word.field));
                }
            }
        }
        for name in unused {
            faults.push(format!("{}: no `{name}` needs an allowance", word.ours));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn words_are_found_in_names() {
    for (name, word, found) in [
        ("FewProduct", "few", true),
        ("FEW_UNIT", "few", true),
        ("fewer", "few", false),
        ("AHEAD", "AHEAD", true),
        ("ahead", "AHEAD", false),
        ("in_order", "in_order", true),
        ("in_order_of", "in_order", false),
        ("QuantizedVector", "QuantizedVector", true),
        ("few_columns_take_kernels_of_their_own", "few", false),
        ("return", "turn", false),
    ] {
        assert_eq!(has(name, word), found, "{name}, {word}");
    }
    let text = "let few = 1; // panel\nstatic_assert(a, \"a slice\"); turn();";
    let found = names(&bare(text)).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(found, "1 a few let static_assert turn");
    let words = table("# ours\nfew\tskinny\tkernels/rows gemm\tFEW_SCORES: an adjective");
    assert_eq!(words[0].allowed, ["FEW_SCORES"]);
    assert_eq!(words[0].folders[0], "candle-rocm-kernels/kernels/rows");
}
