//! `cargo xtask cards`: a page of files that candle-rocm-card wrote.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use candle_rocm_card_record::page::{page, Named};
use candle_rocm_card_record::Record;

/// The files, and where the page goes.
#[derive(clap::Args)]
pub struct Args {
    /// Files that `candle-rocm-card` wrote.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write the page into a file, and not to the standard output.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Write the page.
pub fn run(args: &Args) -> Result<()> {
    let named = |path: &PathBuf| -> Result<Named> {
        Ok(Named {
            file: name(path),
            record: Record::load(path)?,
        })
    };
    let cards: Vec<Named> = args.files.iter().map(named).collect::<Result<_>>()?;
    let page = page(&cards);
    match &args.out {
        None => print!("{page}"),
        Some(out) => {
            std::fs::write(out, page).with_context(|| format!("writing {}", out.display()))?
        }
    }
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_files_are_one_page() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = ["a.json", "b.json", "c.json"]
            .map(|name| folder.path().join(name))
            .into();
        for file in &files {
            Record::new("0.1.0", 1, true).save(file).unwrap();
        }
        let out = folder.path().join("page.md");
        run(&Args {
            files,
            out: Some(out.clone()),
        })
        .unwrap();
        let page = std::fs::read_to_string(out).unwrap();
        for row in ["| 1 | a.json |", "| 2 | b.json |", "| 3 | c.json |"] {
            assert!(page.contains(row), "{page}");
        }
        let missing = run(&Args {
            files: vec![folder.path().join("none.json")],
            out: None,
        });
        assert!(missing.unwrap_err().to_string().contains("none.json"));
    }
}
