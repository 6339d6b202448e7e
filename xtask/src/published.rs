//! Candle's published packages, copied out of cargo's registry to be built on our crates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cargo::{self, cargo};

/// The crates that stand under candle-core in place of the published ones, and their folders.
pub fn replaced() -> Result<Vec<(&'static str, PathBuf)>> {
    Ok(vec![
        ("cudarc", ours("cudarc")?),
        ("candle-kernels", ours("candle-kernels")?),
    ])
}

/// The same under candle-core 0.10.
pub fn replaced_for_older() -> Result<Vec<(&'static str, PathBuf)>> {
    Ok(vec![
        ("cudarc", ours("cudarc")?),
        ("candle-kernels", ours("candle-kernels-0.10")?),
    ])
}

/// The crates that build scripts with kernels of their own ask for, and their folders.
pub fn replaced_builders() -> Result<Vec<(&'static str, PathBuf)>> {
    let builders = ["cudaforge", "bindgen_cuda"];
    builders
        .into_iter()
        .map(|name| Ok((name, ours(name)?)))
        .collect()
}

/// The folder of one of our crates to patch in.
fn ours(folder: &str) -> Result<PathBuf> {
    let path = cargo::root().join("compat").join(folder).canonicalize();
    path.with_context(|| format!("no {folder} under compat"))
}

/// A copy of the package's published source, as a workspace of its own.
pub fn source_of(package: &str) -> Result<PathBuf> {
    let source = locate(&mut cargo(&["metadata", "--locked"]), package)?;
    // The source's folder is named by package and version.
    let name = source.file_name().context("a package has a folder")?;
    let folder = cargo::target_folder().join("conformance").join(name);
    copy(&source, &folder)?;
    // The versions that the project is locked to.
    let lock = fs::read(cargo::root().join("Cargo.lock"))?;
    write_if_new(&folder.join("Cargo.lock"), &lock)?;
    Ok(folder)
}

/// The tests alone of a published package, to test ours of the same name and version: in a workspace of its own, whose
/// one package depends on ours.
///
/// It depends on the published package too, but on no platform: cargo then fetches that, checks it, and never builds
/// it. And on `clap_derive`, as candle-nn's tests do: what both need then has the same features, and is compiled once.
pub fn tests_of(package: &str) -> Result<PathBuf> {
    let folder = cargo::target_folder()
        .join("conformance")
        .join(format!("{package}-tests"));
    let ours = cargo::root().join("compat").join(package).canonicalize()?;
    let version = version_of(&ours)?;
    let mut manifest = format!(
        r#"[package]
name = "{package}-tests"
edition = "2021"

[features]
cuda = []

[dev-dependencies]
anyhow = "1"
candle = {{ package = "candle-core", version = "={version}", features = ["cuda"] }}
candle-nn = {{ version = "={version}", features = ["cuda"] }}
clap_derive = "4"
{package} = {{ path = {ours:?} }}

[target.'cfg(any())'.dev-dependencies]
published = {{ package = "{package}", version = "={version}" }}

[workspace]

[patch.crates-io]
"#
    );
    for (name, path) in replaced()? {
        manifest += &format!("{name} = {{ path = {path:?} }}\n");
    }
    fs::create_dir_all(folder.join("src"))?;
    write_if_new(&folder.join("Cargo.toml"), manifest.as_bytes())?;
    write_if_new(&folder.join("src/lib.rs"), b"//! Its tests are all.\n")?;
    // The versions that the project is locked to, to which cargo adds those of what is never built.
    let project = fs::read(cargo::root().join("Cargo.lock"))?;
    let lock = folder.join("Cargo.lock");
    if write_if_new(&folder.join("project.lock"), &project)? || !lock.exists() {
        fs::write(lock, &project)?;
    }
    let published = locate(cargo(&["metadata"]).current_dir(&folder), package)?;
    copy(&published.join("tests"), &folder.join("tests"))?;
    Ok(folder)
}

/// As [`replaced`], with the published candle-kernels in place of ours: its own source, compiled by our cudaforge, but for
/// the C functions that it links, which are ours.
pub fn upstream_kernels() -> Result<Vec<(&'static str, PathBuf)>> {
    let source = registry_source("candle-kernels")?;
    let name = source.file_name().context("a package has a folder")?;
    let folder = cargo::target_folder().join("published").join(name);
    let mut all = replaced()?;
    let ours = all.iter().find(|(name, _)| *name == "candle-kernels");
    let (_, ours) = ours.context("candle-kernels is one of ours")?.clone();
    fs::create_dir_all(folder.join("src"))?;
    for entry in fs::read_dir(source.join("src"))? {
        let entry = entry?;
        // What it links is in folders, but for one file; its build leaves that out, too.
        if entry.file_type()?.is_file() && entry.file_name() != "ffi.rs" {
            write_if_new(
                &folder.join("src").join(entry.file_name()),
                &fs::read(entry.path())?,
            )?;
        }
    }
    // By path: a lock file cannot have two packages of one name and version in folders.
    let ffi = ours.join("src/ffi/mod.rs");
    let text = format!("#[path = {ffi:?}]\nmod ours;\npub use ours::*;\n");
    write_if_new(&folder.join("src/ffi.rs"), text.as_bytes())?;
    let version = version_of(&ours)?;
    let mut manifest = format!(
        "[package]\nname = \"candle-kernels\"\nversion = \"{version}\"\nedition = \"2021\"\n\n[features]\ncutile = \
         []\n\n[build-dependencies]\ncudaforge = \"0.1.2\"\n\n[workspace]\n\n[dependencies]\n"
    );
    for (name, more) in [
        ("candle-rocm-kernels", ""),
        ("candle-rocm-runtime", ", default-features = false"),
    ] {
        let path = cargo::root().join(name).canonicalize()?;
        manifest += &format!("{name} = {{ path = {path:?}{more} }}\n");
    }
    write_if_new(&folder.join("Cargo.toml"), manifest.as_bytes())?;
    write_if_new(&folder.join("build.rs"), UPSTREAM_BUILD.as_bytes())?;
    for replaced in &mut all {
        if replaced.0 == "candle-kernels" {
            replaced.1.clone_from(&folder);
        }
    }
    all.push((
        "cudaforge",
        cargo::root().join("compat/cudaforge").canonicalize()?,
    ));
    Ok(all)
}

/// What candle-kernels' build script asks of cudaforge, without the library.
const UPSTREAM_BUILD: &str = r#"use cudaforge::{KernelBuilder, Result};

fn main() -> Result<()> {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    KernelBuilder::new()
        .source_dir("src")
        .exclude(&["moe_*.cu", "mmvq_gguf.cu", "mmq_*.cu"])
        .arg("--expt-relaxed-constexpr")
        .arg("-std=c++17")
        .arg("-O3")
        .build_ptx()?
        .write(out.join("ptx.rs"))
}
"#;

/// Where cargo unpacked the published package of one of ours, of the same name and version. It is fetched, and never built.
pub fn registry_source(package: &str) -> Result<PathBuf> {
    let ours = cargo::root().join("compat").join(package).canonicalize()?;
    fetched(package, &version_of(&ours)?)
}

/// Where cargo unpacked a published package. It is fetched, and never built.
pub fn fetched(package: &str, version: &str) -> Result<PathBuf> {
    let folder = cargo::target_folder().join("published").join(package);
    fs::create_dir_all(folder.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"published\"\nedition = \"2021\"\n\n[target.'cfg(any())'.dependencies]\n{package} = \
         \"={version}\"\n\n[workspace]\n"
    );
    write_if_new(&folder.join("Cargo.toml"), manifest.as_bytes())?;
    write_if_new(&folder.join("src/lib.rs"), b"//! Nothing.\n")?;
    locate(cargo(&["metadata"]).current_dir(&folder), package)
}

/// A copy of such a package, as a workspace of its own that starts from the versions which the project is locked to.
pub fn copy_of(package: &str, version: &str) -> Result<PathBuf> {
    let source = fetched(package, version)?;
    let name = source.file_name().context("a package has a folder")?;
    let folder = cargo::target_folder().join("published").join(name);
    copy(&source, &folder)?;
    lock_as_project(&folder)?;
    Ok(folder)
}

/// A copy of one of our own programs that stand on published crates, `tests/published/{name}`: a workspace of its own.
pub fn program(name: &str) -> Result<PathBuf> {
    let source = cargo::root().join("tests/published").join(name);
    let folder = cargo::target_folder()
        .join("published")
        .join(format!("program-{name}"));
    copy(&source, &folder)?;
    lock_as_project(&folder)?;
    Ok(folder)
}

/// Starts a workspace from the versions that the project is locked to.
pub fn lock_as_project(folder: &Path) -> Result<()> {
    let project = fs::read(cargo::root().join("Cargo.lock"))?;
    let lock = folder.join("Cargo.lock");
    // cargo adds what the project does not need.
    if write_if_new(&folder.join("project.lock"), &project)? || !lock.exists() {
        fs::write(lock, &project)?;
    }
    Ok(())
}

/// The version of the package in this folder.
fn version_of(folder: &Path) -> Result<String> {
    let mut command = cargo(&["metadata", "--no-deps", "--offline"]);
    let metadata = metadata(command.current_dir(folder))?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let manifest = folder.join("Cargo.toml");
    let here = |entry: &&Value| entry["manifest_path"].as_str().map(Path::new) == Some(&manifest);
    let package = packages
        .iter()
        .find(here)
        .and_then(|entry| entry["version"].as_str());
    let version = package.with_context(|| format!("no package in {}", folder.display()))?;
    Ok(version.to_owned())
}

/// Where the registry's package of this name lies, of those that the command tells of.
fn locate(command: &mut Command, package: &str) -> Result<PathBuf> {
    let metadata = metadata(command)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let published = |entry: &&Value| entry["name"] == package && entry["source"].is_string();
    let found = packages.iter().find(published);
    let manifest = found.and_then(|entry| entry["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("{package} is not in the graph"))?;
    let folder = Path::new(manifest).parent();
    Ok(folder.context("a manifest has a folder")?.to_owned())
}

fn metadata(command: &mut Command) -> Result<Value> {
    let text = cargo::output(command.args(["--format-version", "1"]))?;
    serde_json::from_str(&text).context("cargo's metadata")
}

/// Copies a package's folder and makes it a workspace of its own. What is there already keeps its time, so that
/// cargo does not build it again.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else if entry.file_name() == "Cargo.toml" {
            let text = fs::read_to_string(entry.path())?;
            write_if_new(&to, (text + "\n[workspace]\n").as_bytes())?;
        } else if entry.file_name() != "Cargo.lock" {
            write_if_new(&to, &fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// Writes a file that is not there with these bytes; whether it was new.
pub fn write_if_new(path: &Path, bytes: &[u8]) -> Result<bool> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
    Ok(true)
}
