//! What a build script does with `.cu` files: text beside the others of cargo's output folder, and lines for cargo.

use std::path::{Path, PathBuf};

use crate::compiler::{Compiler, Source};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::text;

/// Compiles each file for all chosen architectures and writes `<stem>.ptx`, which holds code objects as text, to `out`.
/// Tells cargo which files and variables the results depend on. Returns the texts' paths, in the files' order.
///
/// # Errors
/// Two files of one name, no compiler, or a file that does not compile.
pub fn code_objects(
    files: &[PathBuf],
    options: &Options,
    out: &Path,
    threads: usize,
) -> Result<Vec<PathBuf>> {
    for variable in crate::variables() {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let texts: Vec<PathBuf> = files
        .iter()
        .map(|file| {
            out.join(file.file_stem().unwrap_or_default())
                .with_extension("ptx")
        })
        .collect();
    for (at, text) in texts.iter().enumerate() {
        println!("cargo:rerun-if-changed={}", files[at].display());
        if let Some(before) = texts[..at].iter().position(|other| other == text) {
            return Err(Error::Setup(format!(
                "{} and {} would both be {}: give one another name",
                files[before].display(),
                files[at].display(),
                text.display()
            )));
        }
    }
    let compiler = Compiler::from_environment(out)?.threads(threads);
    println!(
        "cargo:rustc-env=CUDA_INCLUDE_DIR={}",
        compiler.headers().display()
    );
    let sources: Vec<_> = files
        .iter()
        .map(|file| (Source::File(file.clone()), options.clone()))
        .collect();
    let programs = compiler.compile_all(&sources)?;
    for (program, path) in programs.iter().zip(&texts) {
        for file in &program.dependencies {
            println!("cargo:rerun-if-changed={}", file.display());
        }
        for line in program.warnings.lines() {
            println!("cargo:warning={line}");
        }
        let text = text::encode(program);
        // One that is the same keeps its time, so that cargo does not compile what embeds it again.
        if std::fs::read(path).ok().as_deref() != Some(text.as_bytes()) {
            std::fs::write(path, text).map_err(Error::file(path))?;
        }
    }
    for trouble in compiler.finish() {
        println!("cargo:warning=kernel cache: {trouble}");
    }
    Ok(texts)
}

/// Rust that embeds the texts: a constant for each, by the file's name in capitals.
pub fn constants(files: &[PathBuf]) -> String {
    let mut rust = String::new();
    for file in files {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let name = stem.to_uppercase().replace(['.', '-'], "_");
        rust += &format!(
            "pub const {name}: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/{stem}.ptx\"));\n"
        );
    }
    rust
}
