//! In no library and no program of the workspace do files import each other in a circle. Which floor a file stands on is
//! for `layers_of_crates` to say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use candle_rocm_testing::layers::{House, Problem};

/// Crates whose circles are let be, each with the reason. One that has no circle any more must go.
const WITH_CIRCLES: &[(&str, &str)] = &[];

/// The root files of a package's library and programs, by Cargo's rules of where they lie.
fn roots(package: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(package.join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let path_of = |target: &toml::Value| Some(package.join(target.get("path")?.as_str()?));
    let programs = manifest.get("bin").and_then(toml::Value::as_array);
    let named = manifest.get("lib").into_iter();
    let named = named.chain(programs.into_iter().flatten());
    let mut found: BTreeSet<PathBuf> = named.filter_map(path_of).collect();
    found.extend(["lib.rs", "main.rs"].map(|name| package.join("src").join(name)));
    if let Ok(entries) = std::fs::read_dir(package.join("src/bin")) {
        for entry in entries {
            let path = entry.unwrap().path();
            found.insert(if path.is_dir() {
                path.join("main.rs")
            } else {
                path
            });
        }
    }
    found.into_iter().filter(|path| path.is_file()).collect()
}

/// The packages of the workspace in `folder`: each one's name and folder.
fn packages(folder: &Path) -> BTreeMap<String, PathBuf> {
    let read = |folder: &Path| -> toml::Table {
        let text = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        text.parse().unwrap()
    };
    let workspace = read(folder);
    let members = workspace["workspace"]["members"].as_array().unwrap();
    members
        .iter()
        .map(|member| {
            let package = folder.join(member.as_str().unwrap());
            let name = read(&package)["package"]["name"]
                .as_str()
                .unwrap()
                .to_owned();
            (name, package)
        })
        .collect()
}

/// The circles of each package of the workspace in `folder` that has some, and how many root files were read.
fn circles(folder: &Path) -> (BTreeMap<String, Vec<Problem>>, usize) {
    let mut found: BTreeMap<String, Vec<Problem>> = BTreeMap::new();
    let mut read = 0;
    for (name, package) in packages(folder) {
        for root in roots(&package) {
            read += 1;
            let house = House::read(&root).unwrap_or_else(|error| panic!("{root:?}: {error:#}"));
            let circles = house.circles();
            if !circles.is_empty() {
                found.entry(name.clone()).or_default().extend(circles);
            }
        }
    }
    (found, read)
}

#[test]
fn no_crate_has_a_circle_of_files() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut found, read) = circles(workspace);
    assert!(read >= packages(workspace).len(), "{read} root files");
    for (name, reason) in WITH_CIRCLES {
        let circles = found.remove(*name);
        assert!(
            circles.is_some(),
            "{name} has no circle, and need not be let be: {reason}"
        );
    }
    let lines: Vec<String> = found
        .iter()
        .flat_map(|(name, circles)| {
            circles
                .iter()
                .map(move |circle| format!("{name}: {circle}"))
        })
        .collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

/// Lays out a workspace of one package, whose `low.rs` is this.
fn one_package(low: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("Cargo.toml", "[workspace]\nmembers = [\"made/up\"]"),
        (
            "made/up/Cargo.toml",
            "[package]\nname = \"made-up\"\n[[bin]]\nname = \"tool\"\npath = \"tool/main.rs\"",
        ),
        ("made/up/src/lib.rs", "pub mod high; pub mod low;"),
        (
            "made/up/src/high.rs",
            "use crate::low::Cellar; pub struct Roof(Cellar);",
        ),
        ("made/up/src/low.rs", low),
        ("made/up/src/bin/small.rs", "fn main() {}"),
        ("made/up/tool/main.rs", "mod part; fn main() {}"),
        ("made/up/tool/part.rs", ""),
    ] {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    folder
}

#[test]
fn a_use_that_is_turned_round_is_found() {
    let right = one_package("pub struct Cellar;");
    let (found, read) = circles(right.path());
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(read, 3, "the library and both programs");
    let turned = one_package("use crate::high::Roof; pub struct Cellar; fn f(_: Roof) {}");
    let (found, _) = circles(turned.path());
    assert_eq!(found["made-up"].len(), 1, "{found:?}");
    let text = found["made-up"][0].to_string();
    assert!(
        text.contains("low.rs:1: `crate::high::Roof` of high.rs"),
        "{text}"
    );
}

#[test]
fn circles_of_programs_are_found() {
    let folder = one_package("pub struct Cellar;");
    let tool = folder.path().join("made/up/tool");
    std::fs::write(
        tool.join("main.rs"),
        "mod part; const SIZE: u8 = 1; fn main() { part::run() }",
    )
    .unwrap();
    std::fs::write(
        tool.join("part.rs"),
        "pub fn run() { let _ = crate::SIZE; }",
    )
    .unwrap();
    let (found, _) = circles(folder.path());
    assert_eq!(found["made-up"].len(), 1, "{found:?}");
}
