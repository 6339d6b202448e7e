//! The small CUDA programs of `rocm-nvcc/tests/programs` on an NVIDIA GPU (`CANDLE_ROCM_RUNTIME=nvidia`, with the
//! feature `nvidia`): compiled by NVIDIA's compilers with NVIDIA's headers, and held to the same plain Rust. So it is what
//! CUDA means that our headers are held to.

mod common;
// By its path: the test that runs them on emulated GPUs has it, too.
#[path = "../../rocm-nvcc/tests/programs/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use candle_rocm_runtime::module::{compile_text_with, CompileOptions};
use candle_rocm_runtime::{Context, Image, LaunchConfig, PushKernelArg};
use common::on_each_device;
use rocm_toolchain::nvidia as cuda;
use table::{reference, Group, GROUPS};

/// What all sources include.
const SHARED: &str = include_str!("../../rocm-nvcc/tests/programs/program.cuh");
/// Stands for the C library's, which NVRTC does not have.
const INTEGERS: &str = "#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
";

/// NVIDIA's compiler.
fn nvcc() -> PathBuf {
    cuda::nvcc().unwrap_or_else(|| {
        panic!("no nvcc: install the CUDA toolkit, or set CUDA_HOME to where it is")
    })
}

/// Folders of its headers. cub's is a level of its own since CUDA 13.
fn headers() -> Vec<PathBuf> {
    let toolkit = cuda::toolkit().expect("headers are where nvcc is");
    ["include/cccl", "include"]
        .map(|folder| toolkit.join(folder))
        .to_vec()
}

/// By nvcc, for this processor.
fn by_nvcc(folder: &Path, group: &Group, arch: &str) -> Image {
    let [source, code] = ["cu", "cubin"].map(|kind| folder.join(format!("{}.{kind}", group.name)));
    std::fs::write(&source, group.source).unwrap();
    let nvcc = nvcc();
    let output = Command::new(&nvcc)
        .args(["-cubin", "-std=c++17", "-arch", arch, "-o"])
        .args([&code, &source])
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", nvcc.display()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", nvcc.display());
    Image::from_file(code)
}

/// By the runtime, which asks NVRTC.
fn by_nvrtc(folder: &Path, group: &Group) -> Image {
    let folders = [vec![folder.join("nvrtc"), folder.to_owned()], headers()].concat();
    let paths = folders.iter().map(|folder| folder.display().to_string());
    let options = CompileOptions {
        options: vec!["--std=c++17".to_owned()],
        include_paths: paths.collect(),
        name: Some(format!("{}.cu", group.name)),
        ..CompileOptions::default()
    };
    compile_text_with(group.source, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs what a compiler makes of each group, and says how many launches agree.
fn check(test: &str, compile: impl Fn(&Path, &Group, &str) -> Image) {
    on_each_device(test, |context| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("nvrtc")).unwrap();
        std::fs::write(folder.path().join("nvrtc/stdint.h"), INTEGERS).unwrap();
        std::fs::write(folder.path().join("program.cuh"), SHARED).unwrap();
        let (mut agree, mut failures) = (0, Vec::new());
        for group in &GROUPS {
            let image = compile(folder.path(), group, &context.info().arch);
            let (these, differ) = run(context, group, image);
            agree += these;
            failures.extend(differ);
        }
        println!(
            "{agree} of {} launches agree on {}",
            agree + failures.len(),
            context.info().name
        );
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    });
}

/// How many launches of the group did what they should, and what differs in the others.
fn run(context: &Arc<Context>, group: &Group, image: Image) -> (usize, Vec<String>) {
    let stream = context.default_stream();
    let module = context.load_module(image).unwrap();
    reference::check(group.programs, &context.info().arch, |ran| {
        let kernel = module.load_function(ran.name).unwrap();
        let input = stream.clone_htod(ran.input).unwrap();
        let mut output = stream.clone_htod(&ran.output).unwrap();
        let mut memory = stream.clone_htod(&ran.memory).unwrap();
        let config = LaunchConfig {
            grid_dim: (ran.launch.grid, 1, 1),
            block_dim: (ran.launch.block, 1, 1),
            shared_mem_bytes: 1024,
        };
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&input).arg(&mut output).arg(&mut memory);
        // SAFETY: the arguments are those that all programs have, of four words for each thread.
        unsafe { launch.launch(config) }.unwrap_or_else(|error| panic!("{}: {error}", ran.name));
        ran.output = stream.clone_dtoh(&output).unwrap();
        ran.memory = stream.clone_dtoh(&memory).unwrap();
    })
}

#[test]
#[ignore = "needs an NVIDIA GPU and nvcc"]
fn programs_that_nvcc_compiles() {
    check("programs_that_nvcc_compiles", by_nvcc);
}

#[test]
#[ignore = "needs an NVIDIA GPU, NVRTC and CUDA's headers"]
fn programs_that_nvrtc_compiles() {
    check("programs_that_nvrtc_compiles", |folder, group, _| {
        by_nvrtc(folder, group)
    });
}
