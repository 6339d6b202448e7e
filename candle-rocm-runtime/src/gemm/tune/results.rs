//! The file in which results are kept for later processes.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// The variable that names the file of results.
pub const FILE_VARIABLE: &str = candle_rocm_variables::GEMM_TUNE_FILE.name;

/// First line of the file. The number is that of its format.
const HEADER: &str = "# candle-rocm: fastest matrix products, 1";

/// The file in which results are kept: the one that the user names, or one in the user's cache. None where the user has
/// no home.
pub fn results_path() -> Option<PathBuf> {
    match std::env::var_os(FILE_VARIABLE).filter(|value| !value.is_empty()) {
        Some(file) => Some(file.into()),
        None => rocm_toolchain::user_cache::folder().map(|folder| folder.join("gemm.tsv")),
    }
}

/// The file of results. A line is a GPU, a shape, a choice and its microseconds, with tabs between them.
pub(super) struct ResultsFile {
    pub path: PathBuf,
    /// All that the timings hold for.
    pub gpu: String,
}

/// (GPU, shape) to (choice, microseconds).
type Results = BTreeMap<(String, String), (String, String)>;

impl ResultsFile {
    /// The choices for this GPU, by shape.
    pub fn read(&self) -> HashMap<String, String> {
        let mine = |((gpu, shape), (choice, _))| (gpu == self.gpu).then_some((shape, choice));
        self.read_all()
            .unwrap_or_default()
            .into_iter()
            .filter_map(mine)
            .collect()
    }

    /// All that is in the file; nothing if there is none, and `None` if it is no such file.
    fn read_all(&self) -> Option<Results> {
        let path = self.path.display();
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Some(Results::new())
            }
            Err(error) => {
                tracing::warn!(%path, %error, "timings of matrix products cannot be read");
                return None;
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            tracing::warn!(%path, "not a file of timings of matrix products, or one of another release");
            return None;
        }
        let (mut results, mut damaged) = (Results::new(), 0);
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                [gpu, shape, choice, time] if time.parse::<f32>().is_ok_and(f32::is_finite) => {
                    results.insert(
                        (gpu.to_owned(), shape.to_owned()),
                        (choice.to_owned(), time.to_owned()),
                    );
                }
                _ => damaged += 1,
            }
        }
        if damaged != 0 {
            tracing::warn!(%path, damaged, "timings of matrix products: lines that make no sense are left out");
        }
        Some(results)
    }

    /// Adds a result to those that are there. Processes that do so at once may lose one, which is timed again.
    pub fn add(&self, shape: &str, choice: &str, microseconds: f32) {
        let added = self.try_add(shape, choice, microseconds);
        if let Err(error) = added {
            let path = self.path.display();
            tracing::warn!(%path, %error, "timings of matrix products cannot be kept");
        }
    }

    fn try_add(&self, shape: &str, choice: &str, microseconds: f32) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent().filter(|f| !f.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)?;
        }
        let mut results = match self.read_all() {
            Some(results) => results,
            None => {
                // Perhaps it is somebody's, and the variable is wrong.
                std::fs::rename(&self.path, beside(&self.path, "damaged"))?;
                Results::new()
            }
        };
        results.insert(
            (self.gpu.clone(), shape.to_owned()),
            (choice.to_owned(), format!("{microseconds:.2}")),
        );
        let mut text = format!("{HEADER}\n");
        for ((gpu, shape), (choice, time)) in results {
            text += &format!("{gpu}\t{shape}\t{choice}\t{time}\n");
        }
        // Written aside and renamed, so that nobody ever reads half a file.
        let aside = beside(&self.path, &std::process::id().to_string());
        std::fs::write(&aside, text)?;
        std::fs::rename(&aside, &self.path)
    }
}

/// The path with another ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::{beside, ResultsFile};

    #[test]
    fn the_file_keeps_others_results_and_survives_damage() {
        let folder = tempfile::tempdir().unwrap();
        let file = |gpu: &str| ResultsFile {
            path: folder.path().join("sub").join("gemm.tsv"),
            gpu: gpu.to_owned(),
        };
        let (one, other) = (file("one"), file("other"));
        assert!(one.read().is_empty());
        one.add("shape", "library", 1.5);
        other.add("shape", "kernel splits 2", 2.5);
        one.add("shape", "kernel splits 1", 1.25);
        assert_eq!(one.read()["shape"], "kernel splits 1");
        assert_eq!(other.read()["shape"], "kernel splits 2");
        // Lines that make no sense are left out, and gone with the next result.
        let text = std::fs::read_to_string(&one.path).unwrap();
        assert_eq!(text.lines().count(), 3);
        let damaged = format!("{text}one\tanother\tkernel\tfast\nrubbish\n");
        std::fs::write(&one.path, damaged).unwrap();
        assert_eq!(one.read().len(), 1);
        one.add("third", "library", 3.0);
        let text = std::fs::read_to_string(&one.path).unwrap();
        assert_eq!(text.lines().count(), 4, "{text}");
        // What is no such file is moved aside.
        std::fs::write(&one.path, [0xff, 0, 10]).unwrap();
        assert!(one.read().is_empty());
        one.add("shape", "library", 1.0);
        assert_eq!(one.read()["shape"], "library");
        let aside = std::fs::read(beside(&one.path, "damaged")).unwrap();
        assert_eq!(aside, [0xff, 0, 10]);
        let left = std::fs::read_dir(one.path.parent().unwrap())
            .unwrap()
            .count();
        assert_eq!(left, 2, "no temporary file is left");
    }
}
