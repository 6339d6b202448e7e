//! Compiles the row kernels that reduce by a tree in LDS, as candle-rocm-kernels compiles its own.

#[path = "../../../candle-rocm-kernels/build/architectures.rs"]
mod architectures;
#[path = "../../../candle-rocm-kernels/build/cache.rs"]
#[allow(dead_code)]
mod cache;
#[path = "../../../candle-rocm-kernels/build/compile.rs"]
#[allow(dead_code)]
mod compile;
#[path = "../../../candle-rocm-kernels/build/key.rs"]
mod key;
#[path = "../../../candle-rocm-kernels/build/nvidia.rs"]
mod nvidia;
#[path = "../../../candle-rocm-kernels/build/toolchain.rs"]
#[allow(dead_code)]
mod toolchain;
#[path = "../../../candle-rocm-kernels/src/topology.rs"]
#[allow(dead_code)]
mod topology;
#[path = "../../../candle-rocm-kernels/src/user_cache.rs"]
#[allow(dead_code)]
mod user_cache;
#[path = "../../../candle-rocm-kernels/build/workers.rs"]
mod workers;

use std::path::{Path, PathBuf};

use cache::Cache;
use compile::{Compiler, Job, Object};
use key::Contents;
use toolchain::Toolchain;

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
    let named = [architectures::VARIABLE, "CANDLE_ROCM_SKIP_KERNELS"];
    for name in named {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let out = PathBuf::from(variable("OUT_DIR")?);
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let kernels = here.join("../../candle-rocm-kernels/kernels");
    let skip = std::env::var("CANDLE_ROCM_SKIP_KERNELS");
    let mut table = String::from("&[\n");
    if !skip.is_ok_and(|value| !matches!(value.as_str(), "" | "0")) {
        let toolchain = toolchain::find().map_err(|missing| missing.to_string())?;
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
    let known = [
        toolchain.processors.clone(),
        nvidia::processors(&toolchain.clang),
    ];
    let choice = std::env::var(architectures::VARIABLE).unwrap_or_default();
    let here = match topology::gpus(Path::new("/")) {
        Ok(gpus) if !gpus.is_empty() => Ok(gpus.into_iter().map(|gpu| gpu.processor).collect()),
        _ => Err("this machine has no AMD GPU".to_owned()),
    };
    let chosen = architectures::chosen(&choice, &known.concat(), here)?;
    let jobs = chosen.archs.into_iter().map(|arch| Job {
        source: source.to_path_buf(),
        arch,
    });
    let jobs: Vec<Job> = jobs.collect();
    let named = std::env::var_os(user_cache::KERNELS_VARIABLE);
    let (folder, _) = cache::folder(named, user_cache::kernels(), out)?;
    let limit = std::env::var(cache::SIZE_VARIABLE).unwrap_or_default();
    let cache = Cache::new(folder, cache::limit(&limit)?);
    let contents = Contents::new(vec![kernels.to_path_buf()]);
    let compiler = Compiler {
        toolchain,
        contents: &contents,
        cache: &cache,
        out,
    };
    let objects = workers::run(workers::granted_threads(), jobs.len(), |index, wait| {
        compiler.object(&jobs[index], wait)
    })?;
    Ok(jobs.into_iter().zip(objects).collect())
}
