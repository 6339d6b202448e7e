//! Compiles the row kernels that reduce by a tree in LDS, as candle-rocm-kernels compiles its own.

use std::path::{Path, PathBuf};

use rocm_toolchain::cache::Cache;
use rocm_toolchain::compile::{Compiler, Job, Object};
use rocm_toolchain::key::Contents;
use rocm_toolchain::{architectures, variables, workers, Toolchain};

const MODULE: &str = "rows_tree";

fn main() {
    if let Err(message) = run() {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let variable = |name: &str| std::env::var(name).map_err(|error| format!("{name}: {error}"));
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=../../candle-rocm-kernels/kernels/portable");
    for name in variables::of_kernels() {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let out = PathBuf::from(variable("OUT_DIR")?);
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let kernels = here.join("../../candle-rocm-kernels/kernels");
    let mut table = String::from("&[\n");
    if !variables::skip_kernels() {
        let toolchain = Toolchain::find().map_err(|missing| missing.to_string())?;
        let source = here.join("kernels").join(MODULE).with_extension("cu");
        for (job, object) in objects(&source, &kernels, &toolchain, &out)? {
            for line in object.warnings.lines() {
                println!("cargo::warning={MODULE} for {}: {line}", job.arch);
            }
            // Debug formatting quotes and escapes the path.
            table += &format!("    ({:?}, include_bytes!({:?})),\n", job.arch, object.path);
        }
    }
    table += "]\n";
    let file = out.join("rows_tree.rs");
    std::fs::write(&file, table).map_err(|error| format!("{}: {error}", file.display()))
}

/// The module, compiled for each chosen architecture.
fn objects(
    source: &Path,
    kernels: &Path,
    toolchain: &Toolchain,
    out: &Path,
) -> Result<Vec<(Job, Object)>, String> {
    let chosen = architectures::of_environment(&toolchain.targets());
    let chosen = chosen.map_err(|error| error.to_string())?;
    for notice in &chosen.notices {
        println!("cargo::warning={notice}");
    }
    let jobs = chosen.archs.into_iter().map(|arch| Job {
        source: source.to_path_buf(),
        arch,
    });
    let jobs: Vec<Job> = jobs.collect();
    let cache = Cache::of_environment(out).map_err(|error| error.to_string())?;
    let contents = Contents::new(vec![kernels.to_path_buf()]);
    let compiler = Compiler {
        toolchain,
        contents: &contents,
        cache: &cache,
        out,
    };
    let objects = workers::run(workers::granted_threads(), jobs.len(), |index, wait| {
        compiler.object(&jobs[index], wait)
    });
    let objects = objects.map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join("\n")
    })?;
    for notice in cache.notices() {
        println!("cargo::warning={notice}");
    }
    Ok(jobs.into_iter().zip(objects).collect())
}
