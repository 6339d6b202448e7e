//! Compiles the row kernels that reduce by a tree in LDS, as candle-rocm-kernels compiles its own.

#[path = "../../../candle-rocm-kernels/build/architectures.rs"]
mod architectures;
#[path = "../../../candle-rocm-kernels/build/compile.rs"]
#[allow(dead_code)]
mod compile;
#[path = "../../../candle-rocm-kernels/build/nvidia.rs"]
mod nvidia;
#[path = "../../../candle-rocm-kernels/build/toolchain.rs"]
#[allow(dead_code)]
mod toolchain;

use std::path::PathBuf;

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
        let known = [
            toolchain.processors.clone(),
            nvidia::processors(&toolchain.clang),
        ];
        for arch in architectures::chosen(&known.concat())? {
            let job = compile::Job {
                source: here.join("kernels").join(MODULE).with_extension("cu"),
                arch,
            };
            let object = compile::compile(&job, &kernels, &toolchain, &out)?;
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
