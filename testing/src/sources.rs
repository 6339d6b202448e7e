//! The files of the repository, for tests that read them.

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.parent().expect("the package is in the repository");
    root.to_owned()
}

/// The files below `folder` whose names end in one of `extensions`, sorted; of the folders below it those that `enters` says
/// by path and name.
///
/// # Panics
/// A folder cannot be read.
pub fn below(
    folder: &Path,
    extensions: &[&str],
    enters: impl Fn(&Path, &str) -> bool,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder);
        let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("an entry of the folder").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let end = path.extension().unwrap_or_default();
            if path.is_dir() {
                if enters(&path, &name) {
                    folders.push(path);
                }
            } else if extensions.iter().any(|known| end == *known) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Whether what builds leave lies in a folder: cargo puts a tag there.
pub fn is_of_builds(folder: &Path) -> bool {
    folder.join("CACHEDIR.TAG").exists()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_of_the_folders_that_are_entered_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "b.rs",
            "a.md",
            "in/c.rs",
            "out/d.rs",
            "in/rs",
            "target/e.rs",
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(folder.path().join("target/CACHEDIR.TAG"), "").unwrap();
        let found = below(folder.path(), &["rs", "txt"], |path, name| {
            name != "out" && !is_of_builds(path)
        });
        assert_eq!(
            found,
            ["b.rs", "in/c.rs"].map(|name| folder.path().join(name))
        );
        assert!(root().join("Cargo.lock").is_file());
    }
}
