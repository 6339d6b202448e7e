//! The reader of imports, on small crates laid out for it.

use std::path::Path;

use candle_rocm_testing::layers::{House, Layer, Problem};

const LAYERS: [Layer<'static>; 2] = [("low", &["low"]), ("high", &["high"])];

/// A crate of these files, read.
fn house(files: &[(&str, &str)]) -> House {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    House::read(&folder.path().join("lib.rs")).unwrap()
}

/// The (from, to) of each import that points upwards.
fn upward(house: &House) -> Vec<(String, String)> {
    let name = |path: &Path| path.display().to_string();
    let problems = house.problems(&LAYERS).into_iter();
    problems
        .filter_map(|problem| match problem {
            Problem::Upward { import, .. } => Some((name(&import.from), name(&import.to))),
            _ => None,
        })
        .collect()
}

const ROOT: (&str, &str) = ("lib.rs", "pub mod high; pub mod low; pub use high::Roof;");

#[test]
fn downward_imports_are_right() {
    let house = house(&[
        ROOT,
        (
            "high.rs",
            "use crate::low::Cellar; pub struct Roof(Cellar);",
        ),
        ("low.rs", "pub struct Cellar;"),
    ]);
    assert_eq!(house.problems(&LAYERS), []);
    assert_eq!(house.imports().filter(|i| !i.handed_on).count(), 1);
}

/// However it is written, an import of the upper layer is found.
#[test]
fn upward_imports_are_found() {
    for text in [
        "use crate::high::Roof;",
        "use crate::{high::{Roof as R}, high};",
        "use crate::high::*;",
        "use super::high::Roof;",
        "pub use crate::high::Roof;",
        // By way of the crate's root.
        "use crate::Roof;",
        "use crate::{self as root}; fn f() { root::Roof; }",
        "fn f() -> crate::high::Roof { todo!() }",
        "fn f() { use crate::high as h; }",
        "fn f() { println!(\"{:?}\", crate::high::Roof); }",
        "mod inner { fn f() { super::super::high::Roof; } }",
        "impl From<u8> for Cellar { fn from(_: u8) -> Self { let _ = vec![[crate::high::Roof]]; Cellar } } struct Cellar;",
    ] {
        let house = house(&[ROOT, ("high.rs", "pub struct Roof;"), ("low.rs", text)]);
        let found = upward(&house);
        let expected = ("low.rs".to_owned(), "high.rs".to_owned());
        assert!(found.contains(&expected), "{text}: {found:?}");
    }
}

#[test]
fn tests_and_other_crates_are_free() {
    for text in [
        "#[cfg(test)] use crate::high::Roof;",
        "#[cfg(test)] mod tests { use crate::high::Roof; }",
        "#[test] fn f() { crate::high::Roof; }",
        "use std::fmt; fn f() { fmt::Debug; high::Roof; }",
        "// crate::high::Roof\nconst TEXT: &str = \"crate::high::Roof\";",
    ] {
        let house = house(&[ROOT, ("high.rs", "pub struct Roof;"), ("low.rs", text)]);
        assert_eq!(upward(&house), [], "{text}");
    }
}

#[test]
fn circles_are_found_within_a_floor() {
    let house = house(&[
        ("lib.rs", "pub mod high; pub mod low;"),
        ("high.rs", ""),
        ("low/mod.rs", "mod one; mod two; pub use one::One;"),
        ("low/one.rs", "use super::two::Two; pub struct One(Two);"),
        ("low/two.rs", "pub struct Two; fn f(_: super::One) {}"),
    ]);
    let problems = house.problems(&LAYERS);
    let [Problem::Circle(imports)] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    // `super::One` is handed on by the module, and `one.rs` defines it.
    assert_eq!(imports.len(), 2, "{imports:?}");
    assert!(problems[0]
        .to_string()
        .contains("`super::One` of low/one.rs"));
}

/// A module may hand on what its children define; a child that takes what the module itself defines closes a circle only
/// if the module uses the child.
#[test]
fn handing_on_makes_no_circle() {
    let files = |root| {
        [
            ("lib.rs", "pub mod high; pub mod low;"),
            ("high.rs", ""),
            ("low/mod.rs", root),
            ("low/one.rs", "use super::Size; pub struct One(Size);"),
        ]
    };
    let facade = house(&files("mod one; pub use one::One; pub struct Size;"));
    assert_eq!(facade.problems(&LAYERS), []);
    let user = house(&files("mod one; use one::One; pub struct Size;"));
    assert!(matches!(user.problems(&LAYERS)[..], [Problem::Circle(_)]));
}

#[test]
fn exported_macros_are_where_they_are_written() {
    let house = house(&[
        ROOT,
        (
            "high.rs",
            "#[macro_export] macro_rules! tile { () => {} } pub struct Roof;",
        ),
        ("low.rs", "fn f() { crate::tile!(); }"),
    ]);
    assert_eq!(upward(&house).len(), 1);
}

#[test]
fn each_file_stands_on_a_floor_and_each_floor_has_files() {
    let house = house(&[
        ("lib.rs", "pub mod low; mod other;"),
        ("low.rs", ""),
        ("other.rs", ""),
    ]);
    let lines: Vec<String> = house
        .problems(&LAYERS)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        lines,
        [
            "other.rs: stands on no floor",
            "the floors name `high`, which is no module"
        ]
    );
}

/// A file that a layer names more closely than its folder stands there.
#[test]
fn the_longest_name_decides() {
    let house = house(&[
        ("lib.rs", "mod low;"),
        ("low/mod.rs", "mod roof;"),
        ("low/roof.rs", "struct Tile; fn f() { super::roof::Tile; }"),
    ]);
    let layers: [Layer; 2] = [("low", &["low"]), ("high", &["low::roof"])];
    assert_eq!(house.problems(&layers), []);
}

#[test]
fn a_missing_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lib.rs"), "mod gone;").unwrap();
    let error = House::read(&folder.path().join("lib.rs")).err().unwrap();
    assert!(error.to_string().contains("`gone`"), "{error}");
}

/// `#[path]` is relative to the folder of the file that says it, and what the file found there declares lies beside it.
#[test]
fn files_are_found_by_path() {
    let house = house(&[
        ("lib.rs", "mod one; pub struct Roof;"),
        ("one.rs", "#[path = \"other/two.rs\"] mod two;"),
        ("other/two.rs", "mod three;"),
        ("other/three.rs", "fn f() { crate::Roof; }"),
    ]);
    let imports: Vec<_> = house.imports().collect();
    assert_eq!(imports.len(), 1, "{imports:?}");
    assert_eq!(imports[0].from, Path::new("other/three.rs"));
}
