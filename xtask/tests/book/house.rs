//! Which package may depend on which, what each tells of itself, and that the tests which invariants name exist.

use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::pages;

/// Candle's own packages.
const CANDLES: [&str; 4] = [
    "candle-core",
    "candle-nn",
    "candle-transformers",
    "candle-flash-attn",
];

/// Packages below candle-core.
const BELOW_CANDLE: [&str; 4] = [
    "rocm-gpus",
    "candle-rocm-variables",
    "candle-rocm-kernels",
    "candle-rocm-runtime",
];

/// What cargo prints in the repository's root.
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(pages::root());
    let output = command.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// The workspace's packages, as cargo describes them.
fn packages() -> &'static Vec<Value> {
    static PACKAGES: OnceLock<Vec<Value>> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let described = cargo(&[
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ]);
        let metadata: Value = serde_json::from_str(&described).expect("JSON");
        metadata["packages"].as_array().expect("packages").clone()
    })
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap_or_default()
}

/// The workspace's package of this name.
pub fn package(wanted: &str) -> Option<&'static Value> {
    packages().iter().find(|package| name(package) == wanted)
}

fn find(wanted: &str) -> &'static Value {
    package(wanted).unwrap_or_else(|| panic!("no package {wanted}"))
}

/// What a package is built of: not its tests' nor its build script's.
fn normal(package: &Value) -> impl Iterator<Item = &Value> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    all.filter(|dependency| dependency["kind"].is_null())
}

fn dependencies(package: &Value) -> Vec<&str> {
    normal(package).map(name).collect()
}

/// Of those, the workspace's: a registry's package may have the name of one of ours.
fn own_dependencies(package: &Value) -> Vec<&str> {
    let own = normal(package).filter(|dependency| dependency["path"].is_string());
    own.map(name).collect()
}

#[test]
fn below_candle_nothing_knows_candle() {
    for package in BELOW_CANDLE {
        let known: Vec<&str> = dependencies(find(package))
            .into_iter()
            .filter(|name| CANDLES.contains(name))
            .collect();
        assert!(known.is_empty(), "{package} depends on {known:?}");
    }
    assert!(dependencies(find("candle-rocm-backend")).contains(&"candle-core"));
}

#[test]
fn kernels_are_data_and_the_emulator_knows_none() {
    let of_kernels = own_dependencies(find("candle-rocm-kernels"));
    assert!(
        !of_kernels.contains(&"candle-rocm-runtime"),
        "candle-rocm-kernels calls a GPU: {of_kernels:?}"
    );
    assert_eq!(own_dependencies(find("rocm-emulator")), ["rocm-gpus"]);
    assert!(
        own_dependencies(find("rocm-gpus")).is_empty()
            && own_dependencies(find("candle-rocm-variables")).is_empty()
    );
}

#[test]
fn models_have_no_kernels() {
    let kernels = pages::files("candle-rocm-transformers", &["cu", "cuh", "hip"]);
    assert!(kernels.is_empty(), "{kernels:?}");
}

#[test]
fn packages_say_when_their_tests_run() {
    for package in packages() {
        let said = package["metadata"]["candle-rocm"]["tests"].as_str();
        assert!(
            matches!(said, Some("once" | "per-device" | "none")),
            "{}: [package.metadata.candle-rocm] says {said:?}",
            name(package)
        );
    }
}

/// Packages that could be published.
fn publishable() -> impl Iterator<Item = &'static Value> {
    packages()
        .iter()
        .filter(|package| package["publish"].is_null())
}

#[test]
fn what_could_be_published_describes_itself() {
    let mut faults = Vec::new();
    let mut count = 0;
    for package in publishable() {
        count += 1;
        for key in [
            "description",
            "license",
            "repository",
            "readme",
            "rust_version",
        ] {
            if package[key].as_str().is_none_or(str::is_empty) {
                faults.push(format!("{}: no {key}", name(package)));
            }
        }
        for needed in own_dependencies(package) {
            if !find(needed)["publish"].is_null() {
                faults.push(format!("{}: {needed} is not published", name(package)));
            }
        }
    }
    assert!(count > 5, "only {count} packages could be published");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn tests_of_invariants_exist() {
    let page = pages::read("docs/architecture/invariants.md");
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| invariant"));
    let mut count = 0;
    for row in rows {
        let held_by = row.rsplit('|').nth(1).unwrap_or_default();
        let tests: Vec<&str> = held_by.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "nothing holds: {row}");
        for test in tests {
            count += 1;
            assert!(
                pages::root().join(test).exists(),
                "there is no {test}: {row}"
            );
        }
    }
    assert!(count > 20, "only {count} tests are named");
}

/// Packing them together resolves each against the others, as publishing would. What stands on Candle needs crates.io for that,
/// whose Candle asks for other crates than those of the patches: the workflow packs these, too. That what is packed compiles
/// is not tried: it would compile Candle and all kernels anew.
#[test]
fn what_could_be_published_is_packed_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = folder.path().to_str().expect("a folder with a plain name");
    let below_candle =
        publishable().filter(|package| !dependencies(package).contains(&"candle-core"));
    let mut arguments = vec!["package", "--no-verify", "--allow-dirty", "--offline"];
    arguments.extend(["--target-dir", target]);
    arguments.extend(below_candle.flat_map(|package| ["--package", name(package)]));
    cargo(&arguments);
    for package in publishable() {
        let options = ["--list", "--allow-dirty", "--offline"];
        let list = cargo(&[&["package"], &options[..], &["--package", name(package)]].concat());
        for file in ["Cargo.toml", "README.md", "src/lib.rs"] {
            assert!(
                list.lines().any(|line| line == file),
                "{}: {file} is not packed",
                name(package)
            );
        }
    }
}
