//! What a build script does with `.cu` files: text or a library in cargo's output folder, and lines for cargo.

use std::path::{Path, PathBuf};

use rocm_toolchain::{stand_ins, variables};

use crate::compiler::Compiler;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::program::{Program, Source};
use crate::text;
use crate::unpatched::{self, Trouble};

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
    let texts: Vec<PathBuf> = files
        .iter()
        .map(|file| {
            out.join(file.file_stem().unwrap_or_default())
                .with_extension("ptx")
        })
        .collect();
    for (at, text) in texts.iter().enumerate() {
        if let Some(before) = texts[..at].iter().position(|other| other == text) {
            return Err(Error::Setup(format!(
                "{} and {} would both be {}: give one another name",
                files[before].display(),
                files[at].display(),
                text.display()
            )));
        }
    }
    let Some((compiler, sources)) = begin(files, options, out, threads)? else {
        for path in &texts {
            std::fs::write(path, text::encode(&Program::default())).map_err(Error::file(path))?;
        }
        return Ok(texts);
    };
    let programs = compiler.compile_all(&sources)?;
    for (program, path) in programs.iter().zip(&texts) {
        tell(&program.dependencies, &program.warnings);
        let text = text::encode(program);
        // One that is the same keeps its time, so that cargo does not compile what embeds it again.
        if std::fs::read(path).ok().as_deref() != Some(text.as_bytes()) {
            std::fs::write(path, text).map_err(Error::file(path))?;
        }
    }
    finish(&compiler);
    Ok(texts)
}

/// Compiles both sides of each file, for all chosen architectures and for the host, to one static library. Puts what
/// `-lcudart` finds beside it, and tells cargo of both folder and dependencies.
///
/// # Errors
/// No compiler, no archiver, or a file that does not compile.
pub fn static_library(
    files: &[PathBuf],
    options: &Options,
    out: &Path,
    library: &Path,
    threads: usize,
) -> Result<()> {
    let folder = library.parent().unwrap_or(Path::new("."));
    stand_ins::write(folder).map_err(Error::file(folder))?;
    println!("cargo:rustc-link-search=native={}", folder.display());
    let Some((compiler, sources)) = begin(files, options, out, threads)? else {
        return stand_ins::empty(library).map_err(Error::file(library));
    };
    let mut objects = Vec::new();
    for object in compiler.compile_objects(&sources)? {
        tell(&object.dependencies, &object.warnings);
        // By number as well: several folders may have files of one name.
        let path = out.join(format!("{}-{}.o", object.name, objects.len()));
        std::fs::write(&path, &object.object).map_err(Error::file(&path))?;
        objects.push(path);
    }
    compiler.archive(&objects, library)?;
    finish(&compiler);
    Ok(())
}

/// Sources, and how each is compiled.
type Sources = Vec<(Source, Options)>;

/// The compiler and its sources; tells cargo of what results depend on, whichever they are. `None` where nothing is to be
/// compiled, nor a compiler needed.
fn begin(
    files: &[PathBuf],
    options: &Options,
    out: &Path,
    threads: usize,
) -> Result<Option<(Compiler, Sources)>> {
    for variable in crate::variables()
        .into_iter()
        .chain([variables::SKIP_KERNELS])
    {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    for file in files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    if variables::skip_kernels() {
        return Ok(None);
    }
    match unpatched::of_this_build() {
        Some(Trouble::Nothing(why)) => return Err(Error::Setup(why)),
        Some(Trouble::Some(why)) => println!("cargo:warning={why}"),
        None => {}
    }
    let compiler = Compiler::from_environment(out)?.threads(threads);
    println!(
        "cargo:rustc-env=CUDA_INCLUDE_DIR={}",
        compiler.headers().display()
    );
    let sources = files
        .iter()
        .map(|file| (Source::File(file.clone()), options.clone()))
        .collect();
    Ok(Some((compiler, sources)))
}

/// Tells cargo of one result.
fn tell(dependencies: &[PathBuf], warnings: &str) {
    for file in dependencies {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    for line in warnings.lines() {
        println!("cargo:warning={line}");
    }
}

fn finish(compiler: &Compiler) {
    for notice in compiler.finish() {
        println!("cargo:warning={notice}");
    }
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
