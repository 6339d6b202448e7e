//! Other people's headers, which build scripts fetch with git.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};

/// A repository at a commit, and the folders in it that sources include from.
#[derive(Debug, Clone)]
pub struct ExternalDependency {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub repo_url: String,
    /// The commit.
    pub commit: String,
    /// Folders to include from, below its root.
    pub include_paths: Vec<String>,
    /// Other folders that are needed.
    pub extra_paths: Vec<String>,
    /// Whether its submodules are needed.
    pub recurse_submodules: bool,
}

impl ExternalDependency {
    /// CUTLASS, at a commit or at the version 3.9.2. Its kernels are written for NVIDIA's matrix units: most do not compile
    /// for AMD GPUs.
    pub fn cutlass(commit: Option<&str>) -> Self {
        Self::git(
            "cutlass",
            "https://github.com/NVIDIA/cutlass.git",
            commit.unwrap_or("v3.9.2"),
            vec!["include", "tools/util/include"],
            Vec::new(),
            false,
        )
    }

    /// Another one.
    pub fn git(
        name: &str,
        repo_url: &str,
        commit: &str,
        include_paths: Vec<&str>,
        extra_paths: Vec<&str>,
        recurse_submodules: bool,
    ) -> Self {
        let owned = |paths: Vec<&str>| paths.into_iter().map(str::to_owned).collect();
        Self {
            name: name.to_owned(),
            repo_url: repo_url.to_owned(),
            commit: commit.to_owned(),
            include_paths: owned(include_paths),
            extra_paths: owned(extra_paths),
            recurse_submodules,
        }
    }

    /// Fetches it to a folder below `out_dir`, unless it is there; the folder.
    ///
    /// # Errors
    /// git fails.
    pub fn fetch(&self, out_dir: &Path) -> Result<PathBuf> {
        let folder = out_dir.join(format!("{}-{}", self.name, self.commit));
        // Written last.
        let complete = folder.join(".candle-rocm-complete");
        if complete.is_file() {
            return Ok(folder);
        }
        std::fs::create_dir_all(&folder)?;
        let git = |arguments: &[&str]| -> Result<()> {
            let command = || format!("git {} in {}", arguments.join(" "), folder.display());
            let output = Command::new("git")
                .args(arguments)
                .current_dir(&folder)
                .output();
            let output = output
                .map_err(|error| Error::GitOperationFailed(format!("{}: {error}", command())))?;
            match output.status.success() {
                true => Ok(()),
                false => Err(Error::GitOperationFailed(format!(
                    "{}: {}",
                    command(),
                    String::from_utf8_lossy(&output.stderr).trim()
                ))),
            }
        };
        git(&["init", "--quiet"])?;
        git(&[
            "fetch",
            "--quiet",
            "--depth",
            "1",
            &self.repo_url,
            &self.commit,
        ])?;
        git(&["checkout", "--quiet", "--force", "FETCH_HEAD"])?;
        if self.recurse_submodules {
            git(&[
                "submodule",
                "update",
                "--quiet",
                "--init",
                "--recursive",
                "--depth",
                "1",
            ])?;
        }
        std::fs::write(complete, "")?;
        Ok(folder)
    }

    /// `-I` for each of its folders, of what lies in `base_dir`.
    pub fn include_args(&self, base_dir: &Path) -> Vec<String> {
        let folders = self.include_paths.iter();
        folders
            .map(|path| format!("-I{}", base_dir.join(path).display()))
            .collect()
    }
}

/// All that a build script's sources include from elsewhere.
#[derive(Debug, Clone, Default)]
pub struct DependencyManager {
    dependencies: Vec<ExternalDependency>,
    include: Vec<PathBuf>,
}

impl DependencyManager {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// And CUTLASS.
    pub fn with_cutlass(mut self, commit: Option<&str>) -> Self {
        self.dependencies.push(ExternalDependency::cutlass(commit));
        self
    }

    /// And another repository.
    pub fn with_git_dependency(
        mut self,
        name: &str,
        repo: &str,
        commit: &str,
        include_paths: Vec<&str>,
        extra_paths: Vec<&str>,
        recurse_submodules: bool,
    ) -> Self {
        let one = ExternalDependency::git(
            name,
            repo,
            commit,
            include_paths,
            extra_paths,
            recurse_submodules,
        );
        self.dependencies.push(one);
        self
    }

    /// And a folder.
    pub fn with_local_include<P: Into<PathBuf>>(mut self, path: P) -> Self {
        self.include.push(path.into());
        self
    }

    /// Fetches all; `-I` for each folder.
    ///
    /// # Errors
    /// git fails.
    pub fn fetch_all(&self, out_dir: &Path) -> Result<Vec<String>> {
        let mut arguments = Vec::new();
        for dependency in &self.dependencies {
            let folder = dependency.fetch(out_dir)?;
            arguments.extend(dependency.include_args(&folder));
        }
        arguments.extend(
            self.include
                .iter()
                .map(|path| format!("-I{}", path.display())),
        );
        Ok(arguments)
    }

    /// Fetches one; its folder.
    ///
    /// # Errors
    /// None has this name, or git fails.
    pub fn fetch_dependency(&self, name: &str, out_dir: &Path) -> Result<PathBuf> {
        let found = self
            .dependencies
            .iter()
            .find(|dependency| dependency.name == name);
        found
            .ok_or_else(|| Error::InvalidConfig(format!("no dependency is called {name}")))?
            .fetch(out_dir)
    }

    /// Whether CUTLASS is one of them.
    pub fn has_cutlass(&self) -> bool {
        self.dependencies
            .iter()
            .any(|dependency| dependency.name == "cutlass")
    }
}

/// CUTLASS in cargo's folder of repositories, if it is there.
pub fn resolve_cutlass_from_cargo_checkouts() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))?;
    let pattern = home.join("git/checkouts/*cutlass*/*/include/cutlass/cutlass.h");
    let header = glob::glob(pattern.to_str()?).ok()?.flatten().next()?;
    header.ancestors().nth(3).map(Path::to_owned)
}
