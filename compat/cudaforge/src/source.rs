//! Which files are compiled.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Which files are compiled, and which others a build depends on.
#[derive(Debug, Clone, Default)]
pub struct SourceSelector {
    places: Vec<Place>,
    excluded: Vec<String>,
    watched: Vec<PathBuf>,
}

#[derive(Debug, Clone)]
enum Place {
    File(PathBuf),
    Folder(PathBuf),
    Pattern(String),
}

impl SourceSelector {
    /// All of `src`, as long as nothing is added.
    pub fn new() -> Self {
        Self::default()
    }

    /// The `.cu` files in a folder and below.
    pub fn add_directory<P: AsRef<Path>>(mut self, dir: P) -> Self {
        self.places.push(Place::Folder(dir.as_ref().to_owned()));
        self
    }

    /// These.
    pub fn add_files<I, P>(mut self, files: I) -> Self
    where
        I: IntoIterator<Item = P>,
        P: AsRef<Path>,
    {
        let files = files
            .into_iter()
            .map(|file| Place::File(file.as_ref().to_owned()));
        self.places.extend(files);
        self
    }

    /// The `.cu` files that fit a pattern.
    pub fn add_glob(mut self, pattern: &str) -> Self {
        self.places.push(Place::Pattern(pattern.to_owned()));
        self
    }

    /// Not those whose names or paths fit one of these.
    pub fn exclude(mut self, patterns: &[&str]) -> Self {
        self.excluded
            .extend(patterns.iter().map(|pattern| (*pattern).to_owned()));
        self
    }

    /// Files and folders that cargo watches besides.
    pub fn watch<I, P>(mut self, paths: I) -> Self
    where
        I: IntoIterator<Item = P>,
        P: AsRef<Path>,
    {
        self.watched
            .extend(paths.into_iter().map(|path| path.as_ref().to_owned()));
        self
    }

    /// The files, sorted.
    ///
    /// # Errors
    /// A file or folder is not there, or a pattern is none.
    pub fn resolve(&self) -> Result<Vec<PathBuf>> {
        let default = [Place::Pattern("src/**/*.cu".to_owned())];
        let places: &[Place] = match self.places.is_empty() {
            true => &default,
            false => &self.places,
        };
        let mut files = Vec::new();
        for place in places {
            match place {
                Place::File(path) | Place::Folder(path) if !path.exists() => {
                    return Err(Error::SourcePathNotFound(path.clone()));
                }
                Place::File(path) => files.push(path.clone()),
                Place::Folder(folder) => {
                    files.extend(found(&format!("{}/**/*.cu", folder.display()))?)
                }
                Place::Pattern(pattern) => files.extend(found(pattern)?),
            }
        }
        files.retain(|file| file.extension().is_some_and(|end| end == "cu"));
        files.retain(|file| !self.excludes(file));
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// What cargo watches besides.
    pub fn watch_paths(&self) -> &[PathBuf] {
        &self.watched
    }

    fn excludes(&self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        self.excluded.iter().any(|text| {
            glob::Pattern::new(text).is_ok_and(|pattern| pattern.matches(&name) || pattern.matches_path(file))
                // `deprecated/*` is meant of any folder of that name.
                || glob::Pattern::new(&format!("**/{text}")).is_ok_and(|pattern| pattern.matches_path(file))
        })
    }
}

fn found(pattern: &str) -> Result<Vec<PathBuf>> {
    let wrong = |error: &dyn std::fmt::Display| {
        Error::InvalidConfig(format!("the pattern {pattern}: {error}"))
    };
    let paths = glob::glob(pattern).map_err(|error| wrong(&error))?;
    paths
        .map(|path| path.map_err(|error| wrong(&error)))
        .collect()
}

/// The `.cuh` files in these folders and below, sorted. A folder that cannot be read has none.
pub fn collect_headers<P: AsRef<Path>>(dirs: &[P]) -> Vec<PathBuf> {
    let mut headers: Vec<PathBuf> = dirs
        .iter()
        .filter_map(|dir| found(&format!("{}/**/*.cuh", dir.as_ref().display())).ok())
        .flatten()
        .collect();
    headers.sort();
    headers.dedup();
    headers
}
