//! Which packages the workspace has, and when the tests of each run: as its own Cargo.toml says, so that none is left out.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;

use crate::cargo::{self, cargo};

/// How often a package's tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tests {
    /// Once: they need no emulated GPU, or choose those that they run on by themselves.
    Once,
    /// On each emulated GPU, which `ROCM_EMU_ARCH` names.
    PerDevice,
    /// On one of them: a second would tell nothing new.
    OneDevice,
}

/// A package of the workspace.
#[derive(Debug)]
pub struct Package {
    /// Cargo's name of it.
    pub name: String,
    /// Where its Cargo.toml lies.
    pub folder: PathBuf,
    /// When its tests run.
    tests: Tests,
    /// For which one GPU is enough, of those that run on each: programs of tests, and tests of a program by a part of their
    /// names.
    one_device: Vec<(String, Option<String>)>,
}

impl Package {
    /// When a program of its tests runs.
    pub fn tests_of(&self, program: &str) -> Tests {
        let whole = |(of, part): &(String, Option<String>)| of == program && part.is_none();
        match self.one_device.iter().any(whole) {
            true => Tests::OneDevice,
            false => self.tests,
        }
    }

    /// What the names of those of a program's tests have for which one GPU is enough.
    pub fn tests_of_one_device(&self, program: &str) -> Vec<String> {
        let all = self.one_device.iter();
        let of_program = all.filter(|(of, _)| of == program);
        of_program.filter_map(|(_, part)| part.clone()).collect()
    }
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
    let one_device = &entry["metadata"]["candle-rocm"]["one-device"];
    let one_device = one_device.as_object().into_iter().flatten();
    let one_device: Vec<(String, Option<String>)> = one_device
        .map(|(named, _)| match named.split_once("::") {
            Some((program, part)) => (program.to_owned(), Some(part.to_owned())),
            None => (named.clone(), None),
        })
        .collect();
    let targets = entry["targets"].as_array().into_iter().flatten();
    let targets: Vec<&str> = targets
        .filter_map(|target| target["name"].as_str())
        .collect();
    for (program, _) in &one_device {
        ensure!(
            tests == Tests::PerDevice && targets.contains(&program.as_str()),
            "{name}: `{program}` under `one-device` is no program of tests that run on each GPU"
        );
    }
    Ok(Package {
        name: name.to_owned(),
        folder: folder.to_owned(),
        tests,
        one_device,
    })
}

#[cfg(test)]
mod tests {
    use super::{all, package, Tests};

    #[test]
    fn every_package_says_when_its_tests_run() {
        let found = all().unwrap();
        assert!(found.iter().any(|package| package.name == "xtask"));
        assert!(found.len() > 10, "{found:?}");
    }

    fn with(metadata: &str) -> anyhow::Result<super::Package> {
        let text = format!(
            r#"{{"name":"package","manifest_path":"/x/Cargo.toml","targets":[{{"name":"all"}},{{"name":"few"}}],
                "metadata":{{"candle-rocm":{metadata}}}}}"#
        );
        package(&serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn programs_for_which_one_gpu_is_enough_have_reasons() {
        let one_device = r#"{"few":"no GPU is needed","all::on_the_cpu":"the CPU computes"}"#;
        let found = with(&format!(
            r#"{{"tests":"per-device","one-device":{one_device}}}"#
        ));
        let found = found.unwrap();
        assert_eq!(
            ["all", "few"].map(|program| found.tests_of(program)),
            [Tests::PerDevice, Tests::OneDevice]
        );
        assert_eq!(found.tests_of_one_device("all"), ["on_the_cpu"]);
        assert!(found.tests_of_one_device("few").is_empty());
        for wrong in [
            r#"{"tests":"per-device","one-device":{"renamed":"no GPU is needed"}}"#,
            r#"{"tests":"once","one-device":{"few":"no GPU is needed"}}"#,
        ] {
            let error = with(wrong).unwrap_err().to_string();
            assert!(error.contains("under `one-device`"), "{error}");
        }
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
