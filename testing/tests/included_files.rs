//! A file belongs to one crate: what several need is a crate. Tests alone take files of other tests by `#[path]`.

use std::path::{Component, Path, PathBuf};

use candle_rocm_testing::sources;

/// Files that take what is no test's, or are none themselves, each with the file that they take, and the reason.
const MAY: &[(&str, &str, &str)] = &[(
    "tests/parity/src/lib.rs",
    "tests/src/training.rs",
    "built on stock Candle, too, whose workspace cannot have the tests' crate",
)];

/// Folders that are not read: what builds leave, and what is built on stock Candle.
const SKIPPED: [&str; 3] = ["target", "stock", "published"];

/// The files that a source takes by `#[path = "..."]`, and the lines.
fn taken(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(number, line)| {
            let name = line.trim_start().strip_prefix("#[path = \"")?;
            Some((number + 1, name.split('"').next()?))
        })
        .collect()
}

/// Whether a file belongs to tests or benchmarks of a crate: below such a folder, and in no `src` there.
fn is_of_tests(file: &Path) -> bool {
    let folders = file.parent().into_iter().flat_map(Path::components).rev();
    let kinds = ["tests", "benches", "src"];
    let names = folders.map(|folder| folder.as_os_str().to_string_lossy().into_owned());
    let kind = names
        .into_iter()
        .find(|name| kinds.contains(&name.as_str()));
    kind.is_some_and(|kind| kind != "src")
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn files_are_taken_between_tests_alone() {
    let root = sources::root();
    let files = sources::below(&root, &["rs"], |_, name| {
        !name.starts_with('.') && !SKIPPED.contains(&name)
    });
    assert!(files.len() > 500, "{} files", files.len());
    let (mut wrong, mut seen, mut used) = (Vec::new(), 0, vec![false; MAY.len()]);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let short = file.strip_prefix(&root).unwrap();
        let folder = short.parent().unwrap_or(Path::new(""));
        for (line, name) in taken(&text) {
            seen += 1;
            let from = plain(&folder.join(name));
            let may = MAY
                .iter()
                .position(|(file, taken, _)| short == Path::new(file) && from == Path::new(taken));
            match may {
                Some(may) => used[may] = true,
                None if is_of_tests(short) && is_of_tests(&from) => {}
                None => wrong.push(format!(
                    "{}:{line}: takes {}, which is no test's",
                    short.display(),
                    from.display()
                )),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 10, "{seen} such lines: are they written otherwise?");
    for ((file, ..), used) in MAY.iter().zip(used) {
        assert!(used, "{file} takes no file any more, and need not be let");
    }
}

#[test]
fn a_file_of_a_build_is_found() {
    let text = "mod a;\n#[path = \"../../other/build/key.rs\"]\nmod key;\n";
    let [(2, name)] = taken(text)[..] else {
        panic!("{:?}", taken(text));
    };
    let here = Path::new("one/tests/keys.rs");
    assert!(is_of_tests(here));
    assert!(!is_of_tests(&plain(&here.parent().unwrap().join(name))));
    assert!(is_of_tests(Path::new("one/tests/common/mod.rs")));
    assert!(!is_of_tests(Path::new("tests.rs")));
    assert!(!is_of_tests(Path::new("tests/parity/src/lib.rs")));
}
