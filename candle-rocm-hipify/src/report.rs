//! Sources tried, file by file and GPU by GPU.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use rayon::prelude::*;
use rocm_nvcc::{Compiler, Notices, Options, Side, Source};
use walkdir::WalkDir;

use crate::reason::{self, Reason};

/// How to try.
pub struct Trial {
    /// The GPUs.
    pub archs: Vec<String>,
    /// Read and check only, which is quick, and does not find what code generation would.
    pub syntax_only: bool,
    /// nvcc's options.
    pub options: Options,
}

/// A file, and what stands in its way on each side.
pub struct Outcome {
    /// The file.
    pub file: PathBuf,
    /// For each GPU, and then for the host.
    pub sides: Vec<Vec<Reason>>,
}

impl Outcome {
    /// Whether it compiles for all.
    pub fn compiles(&self) -> bool {
        self.sides.iter().all(Vec::is_empty)
    }
}

/// The `.cu` files that paths name: files themselves, and those in folders and below.
///
/// # Errors
/// A path is not there, or none of them has such a file.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry = entry.with_context(|| format!("reading {}", path.display()))?;
            let is_source = entry.path().extension().is_some_and(|end| end == "cu");
            if entry.file_type().is_file() && (is_source || entry.depth() == 0) {
                files.push(entry.into_path());
            }
        }
    }
    ensure!(
        !files.is_empty(),
        "there is no .cu file in {}",
        paths
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok(files)
}

/// Tries each file on each side. What the user should hear of the compilers comes with it.
///
/// # Errors
/// There is no compiler, or it does not know an architecture.
pub fn try_all(files: &[PathBuf], trial: &Trial) -> Result<(Vec<Outcome>, Notices)> {
    let scratch = tempfile::tempdir()?;
    let compilers: Vec<Compiler> = trial
        .archs
        .iter()
        .map(|arch| Compiler::new(scratch.path(), arch).map(|compiler| compiler.threads(1)))
        .collect::<Result<_, _>>()?;
    let host = compilers.first().context("no architecture to try")?;
    let sides = compilers.len() + 1;
    let tried: Vec<Vec<Reason>> = (0..files.len() * sides)
        .into_par_iter()
        .map(|index| {
            let source = Source::File(files[index / sides].clone());
            let tried = match compilers.get(index % sides) {
                None => host.check(&source, &trial.options, Side::Host),
                Some(compiler) if trial.syntax_only => {
                    let arch = Side::Device(&trial.archs[index % sides]);
                    compiler.check(&source, &trial.options, arch)
                }
                Some(compiler) => compiler.compile(&source, &trial.options).map(|_| ()),
            };
            tried
                .err()
                .map_or_else(Vec::new, |error| reason::of(&error))
        })
        .collect();
    let mut tried = tried.into_iter();
    let outcomes = files.iter().map(|file| Outcome {
        file: file.clone(),
        sides: tried.by_ref().take(sides).collect(),
    });
    let notices = compilers.iter().flat_map(Compiler::finish);
    Ok((outcomes.collect(), notices.collect()))
}

/// The report: a table, the reasons by file, and how often each kind is met. `most` reasons of a file are told.
pub fn text(outcomes: &[Outcome], archs: &[String], most: usize) -> String {
    let mut text = format!("| file | {} | host |\n", archs.join(" | "));
    text += &format!("|---|{}---|\n", "---|".repeat(archs.len()));
    let root = common_folder(outcomes);
    let name = |outcome: &Outcome| {
        let inside = outcome.file.strip_prefix(&root).unwrap_or(&outcome.file);
        inside.display().to_string()
    };
    for outcome in outcomes {
        let mark = |side: &Vec<Reason>| if side.is_empty() { "yes" } else { "no" };
        let marks: Vec<&str> = outcome.sides.iter().map(mark).collect();
        text += &format!("| {} | {} |\n", name(outcome), marks.join(" | "));
    }
    let compile = outcomes.iter().filter(|one| one.compiles()).count();
    text += &format!("\n{compile} of {} files compile for all.\n", outcomes.len());
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|one| !one.compiles()) {
        text += &format!("\n{}\n", name(outcome));
        // What is in the way on several sides is told once.
        let mut reasons: Vec<(&Reason, Vec<&str>)> = Vec::new();
        let names = archs.iter().map(String::as_str).chain(["host"]);
        for (side, reason) in names
            .zip(&outcome.sides)
            .flat_map(|(side, reasons)| reasons.iter().map(move |reason| (side, reason)))
        {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, sides)) => sides.push(side),
                None => reasons.push((reason, vec![side])),
            }
        }
        let mut met: Vec<&str> = reasons.iter().map(|(one, _)| one.kind.name()).collect();
        met.sort_unstable();
        met.dedup();
        for kind in met {
            *kinds.entry(kind).or_default() += 1;
        }
        for (reason, sides) in reasons.iter().take(most) {
            text += &format!("  {reason} ({})\n", sides.join(", "));
        }
        if reasons.len() > most {
            text += &format!("  and {} more\n", reasons.len() - most);
        }
    }
    if !kinds.is_empty() {
        text += "\nFiles by what stands in the way:\n";
        for (kind, files) in kinds {
            text += &format!("  {kind}: {files}\n");
        }
    }
    text
}

/// The folder that all files are in.
fn common_folder(outcomes: &[Outcome]) -> PathBuf {
    let mut folders = outcomes
        .iter()
        .map(|one| one.file.parent().unwrap_or(Path::new("")));
    let first = folders.next().unwrap_or(Path::new(""));
    let folder = folders.fold(first, |common, folder| {
        let shared = common.ancestors().find(|one| folder.starts_with(one));
        shared.unwrap_or(Path::new(""))
    });
    folder.to_owned()
}
