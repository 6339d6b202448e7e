//! The recipes of the README and of the book's user pages: each part of a Cargo.toml that they print, made a
//! project's, with this repository's folders in place of its address and tag.
//!
//! [`resolve`] asks cargo what the project would be built of: one candle-core, of the recipe's version, and our
//! crates. [`check`] compiles it, too, with the lines of Rust that the README has beside it, without kernels.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};
use rocm_toolchain::variables;

use crate::cargo::{self, cargo};
use crate::published;

/// What `cargo xtask upstream-crates --only` calls them.
pub const NAME: &str = "recipes";

/// Where the recipes get our crates from.
const ADDRESS: &str = "git = \"https://github.com/candle-rocm/candle-rocm\"";

/// What names the release in a recipe's line.
const TAG: &str = "tag";

/// Where pages with recipes are, beside the README.
const USER_PAGES: &str = "docs/user";

/// The feature that the recipes of whole programs define.
const FEATURE: &str = "rocm";

/// One of our crates in a recipe.
#[derive(Debug, PartialEq)]
struct Ours<'a> {
    /// The key in Cargo.toml.
    key: &'a str,
    package: &'a str,
    version: Option<&'a str>,
    tag: Option<&'a str>,
}

/// Finds the folder of one of our packages, of this version if one is given, and its version.
type FolderOf = fn(&str, Option<&str>) -> Result<(PathBuf, String)>;

/// A project made of a recipe.
struct Project {
    manifest: String,
    /// `lib.rs`.
    source: String,
    /// The packages that must be ours.
    packages: Vec<String>,
    /// Which candle-core there must be.
    candle: Option<String>,
}

/// Asks cargo what each recipe is built of. An error if it is not our crates, or not on the recipe's Candle alone.
pub fn resolve() -> Result<()> {
    for (folder, project) in projects()? {
        project.is_resolved(&folder)?;
        eprintln!("\n{}: resolved as printed", folder.display());
    }
    Ok(())
}

/// [`resolve`], and compiles each.
pub fn check() -> Result<()> {
    for (folder, project) in projects()? {
        project.is_resolved(&folder)?;
        let mut command = cargo(&[
            "check",
            "--all-features",
            "--config",
            "profile.dev.debug=false",
        ]);
        command
            .arg("--target-dir")
            .arg(cargo::target_folder().join("recipes/target"))
            .env(variables::SKIP_KERNELS, "1")
            .env("CARGO_INCREMENTAL", "0");
        cargo::run(command.current_dir(folder))?;
    }
    Ok(())
}

/// The README, then the user pages by name.
fn pages() -> Result<Vec<String>> {
    let folder = cargo::root().join(USER_PAGES);
    let mut files = vec![cargo::root().join("README.md")];
    let entries: std::io::Result<Vec<_>> = fs::read_dir(&folder)?.collect();
    let paths = entries?.into_iter().map(|entry| entry.path());
    let mut user: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    user.sort();
    files.extend(user);
    files
        .iter()
        .map(|file| fs::read_to_string(file).with_context(|| file.display().to_string()))
        .collect()
}

/// A folder for each recipe, with its project.
fn projects() -> Result<Vec<(PathBuf, Project)>> {
    let pages = pages()?;
    let of = |language| pages.iter().flat_map(move |page| blocks(page, language));
    let recipes: Vec<&str> = of("toml").filter(|block| block.contains(ADDRESS)).collect();
    ensure!(
        recipes.len() > 2,
        "the README and {USER_PAGES} print {} recipes",
        recipes.len()
    );
    let program = blocks(&pages[0], "rust")
        .into_iter()
        .find(|code| code.contains("new_rocm"));
    let program = program.context("the README has no program beside its recipe")?;
    let tag = format!("v{}", env!("CARGO_PKG_VERSION"));
    let mut projects = Vec::new();
    for (number, recipe) in recipes.into_iter().enumerate() {
        let project = Project::of(recipe, program, &tag, folder_of)?;
        let folder = cargo::target_folder().join(format!("recipes/{number}"));
        project.write(&folder)?;
        projects.push((folder, project));
    }
    Ok(projects)
}

/// The text of the blocks of this language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    let parts = page.split(&begin).skip(1);
    parts
        .filter_map(|part| Some(part.split_once("\n```")?.0))
        .collect()
}

/// The value that a line has in quotes behind `key`.
fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("{key} = \""))?;
    Some(rest.split_once('"')?.0)
}

impl<'a> Ours<'a> {
    /// That of a line, if it has one.
    fn of(line: &'a str) -> Option<Self> {
        if !line.contains(ADDRESS) {
            return None;
        }
        let key = line.split_once('=')?.0.trim();
        Some(Self {
            key,
            package: quoted(line, "package").unwrap_or(key),
            version: quoted(line, "version"),
            tag: quoted(line, TAG),
        })
    }
}

/// The folder of one of our packages of this version, and the version.
fn folder_of(package: &str, version: Option<&str>) -> Result<(PathBuf, String)> {
    let root = cargo::root().canonicalize()?;
    let mut found = Vec::new();
    for parent in [root.clone(), root.join("compat")] {
        for entry in fs::read_dir(parent)? {
            let folder = entry?.path();
            let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
                continue;
            };
            let own = |key| {
                manifest
                    .lines()
                    .find_map(|line| quoted(line, key).filter(|_| line.starts_with(key)))
            };
            let version_of = own("version").unwrap_or_default();
            if own("name") == Some(package) && version.is_none_or(|version| version == version_of) {
                found.push((folder, version_of.to_owned()));
            }
        }
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        _ => bail!(
            "{} packages {package} {}",
            found.len(),
            version.unwrap_or_default()
        ),
    }
}

impl Project {
    fn of(recipe: &str, program: &str, tag: &str, folder_of: FolderOf) -> Result<Self> {
        let mut manifest =
            "[package]\nname = \"recipe\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n\n".to_owned();
        let (mut packages, mut patched, mut candle) = (Vec::new(), String::new(), None);
        for line in recipe.lines() {
            let Some(ours) = Ours::of(line) else {
                manifest += &format!("{line}\n");
                continue;
            };
            ensure!(
                ours.tag == Some(tag),
                "{line}: a recipe names the release, {TAG} = \"{tag}\""
            );
            let (folder, version) = folder_of(ours.package, ours.version)?;
            let here = line.replace(&format!(", {TAG} = \"{tag}\""), "");
            manifest += &format!("{}\n", here.replace(ADDRESS, &format!("path = {folder:?}")));
            packages.push(ours.package.to_owned());
            patched += &format!("{} = \"{version}\"\n", ours.key);
            if ours.package == "candle-kernels" {
                candle = Some(version);
            }
        }
        let source = match &candle {
            Some(version) => {
                // What the recipe's feature turns on is what the project depends on.
                let words = recipe
                    .split('"')
                    .filter_map(|word| word.strip_suffix("/cuda"));
                let crates: String = words
                    .map(|name| format!("{name} = \"{version}\"\n"))
                    .collect();
                let dependencies = "[dependencies]\n";
                ensure!(
                    manifest.contains(dependencies),
                    "a recipe without dependencies"
                );
                manifest = manifest.replace(dependencies, &format!("{dependencies}{crates}"));
                let gated = format!("#[cfg(feature = \"{FEATURE}\")]\n");
                format!("{gated}pub fn program() -> candle_core::Result<()> {{\n{program}\nOk(())\n}}\n")
            }
            None => {
                manifest += &format!("\n[build-dependencies]\n{patched}");
                String::new()
            }
        };
        Ok(Self {
            manifest,
            source,
            packages,
            candle,
        })
    }

    fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder.join("src"))?;
        published::write_if_new(&folder.join("Cargo.toml"), self.manifest.as_bytes())?;
        published::write_if_new(&folder.join("src/lib.rs"), self.source.as_bytes())?;
        if self.candle.is_none() {
            published::write_if_new(&folder.join("build.rs"), b"fn main() {}\n")?;
        }
        // Which has Candle 0.11: a recipe of 0.10 must not depend on what is locked.
        published::lock_as_project(folder)
    }

    /// Asks cargo what the project in this folder is built of.
    fn is_resolved(&self, folder: &Path) -> Result<()> {
        // Not `cargo metadata`, which names what a feature of an absent optional dependency would need, too.
        let mut command = cargo(&["tree", "--all-features", "--prefix", "none", "--no-dedupe"]);
        let tree = cargo::output(command.args(["--format", "{p}"]).current_dir(folder))?;
        self.is_built_of(&tree)
            .with_context(|| format!("the recipe in {}", folder.display()))
    }

    /// Whether the packages of a tree, each in a line with its version and, where it comes from a folder, that, are
    /// those which the recipe means.
    fn is_built_of(&self, tree: &str) -> Result<()> {
        let lines: BTreeSet<&str> = tree.lines().collect();
        let named = |name: &str| {
            let begin = format!("{name} v");
            let lines = lines.iter().filter(move |line| line.starts_with(&begin));
            lines.copied().collect::<Vec<&str>>()
        };
        for name in &self.packages {
            let found = named(name);
            ensure!(!found.is_empty(), "{name} is not used");
            for line in found {
                ensure!(line.contains(" (/"), "{line} comes from the registry");
            }
        }
        let Some(version) = &self.candle else {
            return Ok(());
        };
        let candles = named("candle-core");
        ensure!(
            candles == [format!("candle-core v{version}")],
            "built on {candles:?}, and not on candle-core {version} alone"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const PAGE: &str = "Text.\n\n```toml\n[features]\nrocm = [\"candle-core/cuda\", \"dep:b\"]\n\n[dependencies]\nb = { \
                        package = \"b-0\", git = \"https://github.com/candle-rocm/candle-rocm\", tag = \"v1\", optional = true \
                        }\n\n[patch.crates-io]\ncandle-kernels = { git = \
                        \"https://github.com/candle-rocm/candle-rocm\", tag = \"v1\", version = \"0.10.2\" }\n```\n\n```rust\nlet x = \
                        1;\n```\n";

    fn project() -> Project {
        let recipe = blocks(PAGE, "toml");
        assert_eq!(recipe.len(), 1);
        let folder = |package: &str, version: Option<&str>| {
            Ok((
                Path::new("/ours").join(package),
                version.unwrap_or("1.0.0").to_owned(),
            ))
        };
        Project::of(recipe[0], blocks(PAGE, "rust")[0], "v1", folder).unwrap()
    }

    #[test]
    fn a_recipe_becomes_a_project() {
        let project = project();
        assert_eq!(project.candle.as_deref(), Some("0.10.2"));
        assert_eq!(project.packages, ["b-0", "candle-kernels"]);
        for line in [
            "[dependencies]\ncandle-core = \"0.10.2\"\nb = { package = \"b-0\", path = \"/ours/b-0\", optional = true }",
            "candle-kernels = { path = \"/ours/candle-kernels\", version = \"0.10.2\" }",
        ] {
            assert!(project.manifest.contains(line), "{}", project.manifest);
        }
        assert!(project.source.contains("let x = 1;"), "{}", project.source);
    }

    #[test]
    fn a_recipe_of_another_release_is_an_error() {
        let folder = |_: &str, _: Option<&str>| Ok((PathBuf::from("/ours"), "1.0.0".to_owned()));
        let recipe = blocks(PAGE, "toml")[0];
        let error = Project::of(recipe, "", "v2", folder).err().unwrap();
        assert!(error.to_string().contains("tag = \"v2\""), "{error}");
    }

    #[test]
    fn what_is_not_ours_and_two_candles_are_errors() {
        let project = project();
        let ours = "b-0 v1.0.0 (/ours/b-0)\ncandle-kernels v0.10.2 (/ours/candle-kernels)\n";
        let candle = "candle-core v0.10.2\ncandle-core-derive v0.9.0\n";
        project
            .is_built_of(&format!("{ours}{candle}{ours}"))
            .unwrap();
        for (more, named) in [
            ("candle-core v0.11.1", "0.11.1"),
            ("candle-kernels v0.11.1", "comes from the registry"),
        ] {
            let error = project
                .is_built_of(&format!("{ours}{candle}{more}\n"))
                .unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        let error = project.is_built_of(candle).unwrap_err().to_string();
        assert!(error.contains("b-0 is not used"), "{error}");
    }

    /// Name, requirement, features, whether it is optional: of each dependency that is no test's; and the features.
    fn interface(manifest: &str) -> (Vec<Value>, Value) {
        let mut command = cargo(&[
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ]);
        let path = cargo::root().join(manifest);
        let text = cargo::output(command.arg("--manifest-path").arg(path)).unwrap();
        let metadata: Value = serde_json::from_str(&text).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let of_backend = |entry: &&Value| {
            entry["name"]
                .as_str()
                .unwrap()
                .starts_with("candle-rocm-backend")
        };
        let package = packages.iter().find(of_backend).unwrap();
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let dependencies = dependencies.filter(|dependency| dependency["kind"].is_null());
        let told = [
            "name",
            "req",
            "features",
            "optional",
            "uses_default_features",
            "path",
        ];
        let all = dependencies.map(|dependency| {
            let candle = ["candle-core", "candle-nn"].map(|name| dependency["name"] == name);
            let candle = candle.contains(&true);
            let told = told.iter().filter(|key| !candle || **key != "req");
            Value::from(told.map(|key| dependency[key].clone()).collect::<Vec<_>>())
        });
        (all.collect(), package["features"].clone())
    }

    #[test]
    fn the_backend_for_the_older_candle_depends_on_what_the_other_does() {
        let newer = interface("candle-rocm-backend/Cargo.toml");
        assert!(newer.0.len() > 5, "{newer:?}");
        assert_eq!(
            interface("compat/candle-rocm-backend-0.10/Cargo.toml"),
            newer
        );
    }
}
