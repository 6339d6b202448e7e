//! What a build's Cargo.lock says of the crates that the program is made of.

use std::path::{Path, PathBuf};

/// A package of Cargo.lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it is from: `registry+...`, `git+...`, or nothing for a folder.
    pub source: String,
    /// What it depends on: a name, with the version where there are several.
    pub dependencies: Vec<String>,
}

impl Package {
    /// Whether it is from a registry, as what is patched is not.
    pub fn is_published(&self) -> bool {
        self.source.starts_with("registry+") || self.source.starts_with("sparse+")
    }

    /// Whether it depends on this package, of those of the same lock.
    pub fn depends_on(&self, other: &Package) -> bool {
        let is_other = |dependency: &String| {
            let mut words = dependency.split(' ');
            words.next() == Some(&other.name) && words.next().is_none_or(|v| v == other.version)
        };
        self.dependencies.iter().any(is_other)
    }
}

/// The packages of a Cargo.lock's text.
pub fn packages(text: &str) -> Vec<Package> {
    let mut found: Vec<Package> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line == "[[package]]" {
            found.push(Package::default());
        }
        let Some(package) = found.last_mut() else {
            continue;
        };
        let unquoted = |text: &str| text.trim_matches(|c| matches!(c, '"' | ',')).to_owned();
        match line.split_once(" = ") {
            Some(("name", value)) => package.name = unquoted(value),
            Some(("version", value)) => package.version = unquoted(value),
            Some(("source", value)) => package.source = unquoted(value),
            // A line of the list of dependencies.
            None if line.starts_with('"') => package.dependencies.push(unquoted(line)),
            _ => {}
        }
    }
    found
}

/// The Cargo.lock of the build that this build script is part of: above its output folder, or above the folder in which
/// cargo was started, where target folders are elsewhere. It must have the package that is being built.
pub fn of_this_build() -> Option<PathBuf> {
    let (name, version) = (
        std::env::var("CARGO_PKG_NAME").ok()?,
        std::env::var("CARGO_PKG_VERSION").ok()?,
    );
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let folders = [out, cargos_folder()];
    let candidates = folders
        .iter()
        .flatten()
        .flat_map(|folder| folder.ancestors());
    candidates
        .map(|folder| folder.join("Cargo.lock"))
        .find(|path| {
            let all = packages(&std::fs::read_to_string(path).unwrap_or_default());
            all.iter()
                .any(|package| package.name == name && package.version == version)
        })
}

/// The folder in which cargo, which started this build script, runs.
pub fn cargos_folder() -> Option<PathBuf> {
    let cargo = std::os::unix::process::parent_id();
    std::fs::read_link(Path::new("/proc").join(cargo.to_string()).join("cwd")).ok()
}
