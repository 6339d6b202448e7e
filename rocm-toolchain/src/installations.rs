//! Where ROCm is installed: named by a variable, as wheels of a Python environment, or in the usual folders.

use std::path::{Path, PathBuf};

use crate::variables;

/// The folder of AMD's packages, below the root folder.
const USUAL: &str = "opt/rocm";
/// AMD's wheels in a folder of Python packages: compiler and headers, then libraries.
const WHEELS: [&str; 2] = ["_rocm_sdk_devel", "_rocm_sdk_core"];

/// The folders of this machine in which ROCm is, or may be, the preferred one first.
pub fn here() -> Vec<PathBuf> {
    let variable = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    folders(Path::new("/"), &variable)
}

/// As [`here`], elsewhere: `root` is `/` but for tests, and variables are folders.
///
/// What a variable names comes first, then the wheels of the active Python environment, then releases in folders of their
/// own (ROCm 7.14 and later), newest first, and the folder that packages link one of them to, or are in (ROCm 6 and 7).
pub fn folders(root: &Path, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = variables::ROCM.into_iter().filter_map(variable).collect();
    if let Some(environment) = variable(variables::VIRTUAL_ENV) {
        found.extend(wheels(&environment));
    }
    let usual = root.join(USUAL);
    found.extend(by_version(&usual, "core-"));
    // The first that has a folder for each release has one without a number, too.
    found.extend(Some(usual.join("core")).filter(|core| core.is_dir()));
    found.push(usual);
    found.extend(by_version(&root.join("opt"), "rocm-"));
    let mut seen = Vec::new();
    found.retain(|folder| {
        let is_new = !seen.contains(folder);
        seen.push(folder.clone());
        is_new
    });
    found
}

/// Those of AMD's wheels that are in a Python environment.
fn wheels(environment: &Path) -> Vec<PathBuf> {
    let libraries = by_version(&environment.join("lib"), "python");
    let packages = libraries
        .into_iter()
        .map(|folder| folder.join("site-packages"));
    let wheels = packages.flat_map(|packages| WHEELS.map(|wheel| packages.join(wheel)));
    wheels.filter(|wheel| wheel.is_dir()).collect()
}

/// The folders whose names are `prefix` and a version, newest first.
fn by_version(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix(prefix)?.split(['.', '-']);
            let version: Option<Vec<u32>> = version.map(|part| part.parse().ok()).collect();
            Some((version?, entry.path()))
        })
        .filter(|(_, path)| path.is_dir())
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}
