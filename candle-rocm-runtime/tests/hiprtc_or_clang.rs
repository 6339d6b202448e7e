//! Which compiles CUDA source at run time, hiprtc or clang, and what each says of errors: with a library in hiprtc's
//! place that has no headers but those that it is given. `cargo xtask rocm --libraries` runs `compiled` with AMD's own.

mod common;

use std::path::{Path, PathBuf};

use candle_rocm_runtime::module::{compile_text, compile_text_with, CompileOptions};
use candle_rocm_runtime::runtime::{self, RuntimeKind};
use candle_rocm_runtime::{Image, LaunchConfig, PushKernelArg};
use candle_rocm_testing::hip;
use candle_rocm_testing::process::is_child;
use common::{context, in_process, shared_library};

const ADD: &str =
    "extern \"C\" __global__ void add(float *x, float by) { x[threadIdx.x] += by; }\n";
/// Its third line has a name that is nobody's.
const WRONG: &str = "__device__ int f() {\n\n    return undeclared;\n}\n";

/// Runs a body in a process with the stand-in, a cache of its own and these variables; the body gets the file that has
/// a line for each source that the stand-in compiled.
fn with_library(test: &str, variables: &[(&str, &str)], body: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| std::env::var(name).map(PathBuf::from);
    let log = named("STAND_IN_LOG").unwrap_or_else(|_| folder.path().join("log"));
    let library = match is_child() {
        true => named("CANDLE_ROCM_HIPRTC_LIBRARY").unwrap(),
        false => shared_library(folder.path(), "hiprtc.c", "-DSTAND_IN"),
    };
    // Of the GPU that `ROCM_EMU_ARCH` names, or that is emulated without it.
    let arch = std::env::var("ROCM_EMU_ARCH").unwrap_or_default();
    let arch = arch.split(',').next().filter(|arch| !arch.is_empty());
    let arch = arch.unwrap_or("gfx1100");
    // The child may be told of a clang that is not there.
    let (clang, options) = match is_child() {
        true => (String::new(), String::new()),
        false => (
            hip::toolchain().clang.display().to_string(),
            hip::device_library(arch).join(" "),
        ),
    };
    let cache = folder.path().join("cache");
    let mut all = vec![
        ("CANDLE_ROCM_HIPRTC_LIBRARY", library.to_str().unwrap()),
        ("CANDLE_ROCM_KERNEL_CACHE", cache.to_str().unwrap()),
        ("CANDLE_ROCM_CUDA_COMPILER", ""),
        ("STAND_IN_CLANG", &clang),
        ("STAND_IN_OPTIONS", &options),
        ("STAND_IN_LOG", log.to_str().unwrap()),
        ("ROCM_EMU_ARCH", arch),
    ];
    all.extend(variables);
    in_process(test, &all, || {
        runtime::select(RuntimeKind::Emulator).unwrap();
        body(&log);
    });
}

/// How many sources the stand-in compiled.
fn compiled(log: &Path) -> usize {
    std::fs::read_to_string(log).map_or(0, |text| text.lines().count())
}

fn added(image: Image) -> Vec<f32> {
    let context = context();
    let stream = context.default_stream();
    let kernel = context.load_module(image).unwrap();
    let kernel = kernel.load_function("add").unwrap();
    let mut x = stream.clone_htod(&[1f32, 2., 3.]).unwrap();
    let config = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (3, 1, 1),
        shared_mem_bytes: 0,
    };
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut x).arg(&0.5f32);
    // SAFETY: the arguments are the kernel's, which has a thread for each number.
    unsafe { launch.launch(config) }.unwrap();
    stream.clone_dtoh(&x).unwrap()
}

fn including(folder: &Path, options: &[&str]) -> CompileOptions {
    CompileOptions {
        name: Some("mine.cu".to_owned()),
        include_paths: vec![folder.display().to_string()],
        options: options.iter().map(ToString::to_string).collect(),
        ..CompileOptions::default()
    }
}

#[test]
fn hiprtc_compiles_where_it_loads_and_once() {
    with_library("hiprtc_compiles_where_it_loads_and_once", &[], |log| {
        assert_eq!(added(compile_text(ADD).unwrap()), [1.5, 2.5, 3.5]);
        assert_eq!(compiled(log), 1);
        assert_eq!(added(compile_text(ADD).unwrap()), [1.5, 2.5, 3.5]);
        assert_eq!(compiled(log), 1, "the second comes from the cache");
        // By its options, and by the headers that it includes.
        let folder = tempfile::tempdir().unwrap();
        let header = folder.path().join("more.cuh");
        let source = format!(
            "#include \"more.cuh\"\n{}",
            ADD.replace("+= by", "+= by * MORE")
        );
        let with = |more: &str, options: &[&str]| {
            std::fs::write(&header, more).unwrap();
            added(compile_text_with(&source, including(folder.path(), options)).unwrap())
        };
        assert_eq!(with("#define MORE 2\n", &[]), [2., 3., 4.]);
        assert_eq!(with("#define MORE 4\n", &[]), [3., 4., 5.]);
        assert_eq!(with("#define MORE (4 * TWO)\n", &["-DTWO=2"]), [5., 6., 7.]);
        assert_eq!(compiled(log), 4);
        assert_eq!(with("#define MORE 2\n", &[]), [2., 3., 4.]);
        assert_eq!(compiled(log), 4);
    });
}

#[test]
fn what_hiprtc_refuses_clang_compiles() {
    with_library("what_hiprtc_refuses_clang_compiles", &[], |log| {
        // A header of C++'s that hiprtc has not.
        let source = format!("#include <vector>\n{ADD}");
        assert_eq!(added(compile_text(source).unwrap()), [1.5, 2.5, 3.5]);
        assert_eq!(compiled(log), 1);
        // PTX in a macro, which is not looked for there.
        let ptx = "#define LANE(x) asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(x))\n";
        let kernel = "extern \"C\" __global__ void add(float *x, float by) {\n    int lane;\n    LANE(lane);\n\
                      \x20   x[lane] += by;\n}\n";
        assert_eq!(
            added(compile_text(format!("{ptx}{kernel}")).unwrap()),
            [1.5, 2.5, 3.5]
        );
        assert_eq!(compiled(log), 1, "it is not asked");
        // Outside of macros it is.
        let plain = kernel.replace(
            "LANE(lane)",
            "asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(lane))",
        );
        assert_eq!(added(compile_text(plain).unwrap()), [1.5, 2.5, 3.5]);
        assert_eq!(compiled(log), 2);
    });
}

#[test]
fn errors_have_the_sources_lines_from_hiprtc() {
    let test = "errors_have_the_sources_lines_from_hiprtc";
    with_library(test, &[("CANDLE_ROCM_CUDA_COMPILER", "hiprtc")], |log| {
        let error = compile_text_with(WRONG, including(Path::new("/"), &[]));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("mine.cu:3:12: error: use of undeclared"),
            "{error}"
        );
        assert_eq!(compiled(log), 1);
    });
}

#[test]
fn errors_have_the_sources_lines_where_both_refuse() {
    let test = "errors_have_the_sources_lines_where_both_refuse";
    with_library(test, &[], |log| {
        let error = compile_text_with(WRONG, including(Path::new("/"), &[]));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("mine.cu:3:12: error: use of undeclared"),
            "{error}"
        );
        assert_eq!(compiled(log), 1);
    });
}

#[test]
fn clang_compiles_where_it_is_asked_for() {
    let test = "clang_compiles_where_it_is_asked_for";
    with_library(test, &[("CANDLE_ROCM_CUDA_COMPILER", "clang")], |log| {
        assert_eq!(added(compile_text(ADD).unwrap()), [1.5, 2.5, 3.5]);
        assert_eq!(compiled(log), 0);
    });
}

#[test]
fn clang_compiles_where_there_is_no_hiprtc() {
    let test = "clang_compiles_where_there_is_no_hiprtc";
    let none = [("CANDLE_ROCM_HIPRTC_LIBRARY", "/nonexistent/libhiprtc.so")];
    with_library(test, &none, |log| {
        assert_eq!(added(compile_text(ADD).unwrap()), [1.5, 2.5, 3.5]);
        assert_eq!(compiled(log), 0);
    });
}

#[test]
fn where_neither_is_both_are_named() {
    let none = [
        ("CANDLE_ROCM_HIPRTC_LIBRARY", "/nonexistent/libhiprtc.so"),
        ("CANDLE_ROCM_CLANG", "/nonexistent/clang++"),
    ];
    with_library("where_neither_is_both_are_named", &none, |_| {
        let error = compile_text(ADD).unwrap_err().to_string();
        for named in [
            "no compiler for AMD GPUs",
            "hiprtc",
            "/nonexistent/libhiprtc.so: ",
        ] {
            assert!(error.contains(named), "{named}: {error}");
        }
    });
}

#[test]
fn without_clang_hiprtcs_word_is_the_last() {
    let none = [("CANDLE_ROCM_CLANG", "/nonexistent/clang++")];
    with_library("without_clang_hiprtcs_word_is_the_last", &none, |_| {
        assert_eq!(added(compile_text(ADD).unwrap()), [1.5, 2.5, 3.5]);
        let error = compile_text(WRONG).unwrap_err().to_string();
        assert!(error.contains("default_program:3:12: error:"), "{error}");
    });
}

#[test]
fn ptx_and_another_word_for_the_compiler_are_refused() {
    let test = "ptx_and_another_word_for_the_compiler_are_refused";
    with_library(test, &[("CANDLE_ROCM_CUDA_COMPILER", "gcc")], |_| {
        let error = compile_text(".version 8.0\n.target sm_80\n.address_size 64\n").unwrap_err();
        assert!(error.to_string().contains("this is PTX"), "{error}");
        let error = compile_text(ADD).unwrap_err().to_string();
        assert!(error.contains("CANDLE_ROCM_CUDA_COMPILER=gcc"), "{error}");
    });
}
