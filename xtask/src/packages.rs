//! Which packages the workspace has, and when the tests of each run: as its own Cargo.toml says, so that none is left out.

use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use serde_json::Value;

use crate::cargo::{self, cargo};

/// How often a package's tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tests {
    /// Once: they need no emulated GPU, or choose those that they run on by themselves.
    Once,
    /// On each emulated GPU, which `ROCM_EMU_ARCH` names.
    PerDevice,
}

/// A package of the workspace.
#[derive(Debug)]
pub struct Package {
    /// Cargo's name of it.
    pub name: String,
    /// Where its Cargo.toml lies.
    pub folder: PathBuf,
    /// When its tests run.
    pub tests: Tests,
}

/// All packages of the workspace; an error if one does not say when its tests run.
pub fn all() -> Result<Vec<Package>> {
    let arguments = [
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
        "--offline",
    ];
    let metadata: Value = serde_json::from_str(&cargo::output(&mut cargo(&arguments))?)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    packages.iter().map(package).collect()
}

fn package(entry: &Value) -> Result<Package> {
    let name = entry["name"].as_str().context("a package without a name")?;
    let manifest = entry["manifest_path"].as_str().map(Path::new);
    let folder = manifest.and_then(Path::parent);
    let folder = folder.with_context(|| format!("{name}: cargo names no manifest"))?;
    let tests = &entry["metadata"]["candle-rocm"]["tests"];
    let tests = match tests.as_str() {
        Some("once") => Tests::Once,
        Some("per-device") => Tests::PerDevice,
        _ => bail!(
            "{name}: its Cargo.toml must say when its tests run, with `tests = \"once\"` or `tests = \"per-device\"` under \
             [package.metadata.candle-rocm]; it has {tests}"
        ),
    };
    Ok(Package {
        name: name.to_owned(),
        folder: folder.to_owned(),
        tests,
    })
}

#[cfg(test)]
mod tests {
    use super::{all, package};

    #[test]
    fn every_package_says_when_its_tests_run() {
        let found = all().unwrap();
        assert!(found.iter().any(|package| package.name == "xtask"));
        assert!(found.len() > 10, "{found:?}");
    }

    #[test]
    fn one_that_does_not_say_is_an_error() {
        for metadata in ["null", r#"{"candle-rocm":{"tests":"sometimes"}}"#] {
            let text = format!(
                r#"{{"name":"forgotten","manifest_path":"/x/Cargo.toml","metadata":{metadata}}}"#
            );
            let error = package(&serde_json::from_str(&text).unwrap()).unwrap_err();
            assert!(error.to_string().contains("forgotten"), "{error}");
        }
    }
}
