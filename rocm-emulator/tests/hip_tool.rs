//! The command-line tool.

use std::path::Path;
use std::process::{Command, Output};

use candle_rocm_testing::hip::{compile_to, toolchain, Compile};
use rocm_emulator::isa::Target;

const SOURCE: &str = r#"
#include "hip_min.h"
extern "C" __global__ __launch_bounds__(256) void axpy(float a, const float *x, float *y, int n) {
    int i = blockIdx_x * blockDim_x + threadIdx_x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void reverse(unsigned short *x) {
    __shared__ unsigned short lds[32];
    int i = threadIdx_x;
    lds[i] = x[i];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    x[i] = lds[31 - i];
}
"#;

fn tool(file: &Path, command: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rocm-emu"))
        .arg(command)
        .arg(file)
        .args(args)
        .output()
        .unwrap()
}

fn succeeds(file: &Path, command: &str, args: &[&str]) -> String {
    let output = tool(file, command, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {args:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn fails(file: &Path, command: &str, args: &[&str], expected: &[&str]) {
    let output = tool(file, command, args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{command} {args:?}");
    for part in expected {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

fn compiled(options: &Compile) -> tempfile::TempPath {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    compile_to(SOURCE, options, &path);
    path
}

#[test]
fn kernels_are_listed() {
    let file = compiled(&Compile::device("gfx942"));
    let listing = succeeds(&file, "kernels", &[]);
    let row = |name: &str| -> Vec<String> {
        let line = listing.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().map(String::from).collect()
    };
    let (heading, axpy, reverse) = (row("kernel "), row("axpy"), row("reverse"));
    let cell = |row: &[String], column: &str| {
        row[heading.iter().position(|name| name == column).unwrap()].clone()
    };
    assert!(
        listing.starts_with("gfx942 (code object v5, 2 kernels"),
        "{listing}"
    );
    assert_eq!(cell(&axpy, "workgroup"), "256");
    assert_eq!(cell(&axpy, "args"), "28");
    assert_eq!(cell(&axpy, "LDS"), "0");
    assert_eq!(cell(&reverse, "LDS"), "64");
    assert_ne!(cell(&axpy, "VGPRs"), "0");
}

#[test]
fn code_is_disassembled() {
    for (target, store) in [
        (Target::Gfx942, "global_store_dword "),
        (Target::Gfx1100, "global_store_b32 "),
    ] {
        let file = compiled(&Compile::device(target.name()));
        let text = succeeds(&file, "disassemble", &["--kernel", "axpy"]);
        assert!(
            text.contains("<axpy>:") && !text.contains("<reverse>:"),
            "{text}"
        );
        for part in [store, "s_endpgm", "// 0000"] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        assert!(
            !text.contains("; "),
            "an instruction was not decoded: {text}"
        );
        assert!(succeeds(&file, "disassemble", &[]).contains("<reverse>:"));
    }
}

#[test]
fn kernels_run() {
    for target in [Target::Gfx1100, Target::Gfx942] {
        let file = compiled(&Compile::device(target.name()));
        let args = ["axpy", "--grid", "2", "--block", "8"];
        let values = [
            "--arg",
            "f32=2",
            "--arg",
            "f32[12]=iota",
            "--arg",
            "f32[12]=0.5",
            "--arg",
            "u32=11",
        ];
        let printed = succeeds(&file, "run", &[&args[..], &values[..]].concat());
        assert_eq!(
            printed,
            "arg 1 f32[12]: 0 1 2 3 4 5 6 7 8 9 10 11\narg 2 f32[12]: 0.5 2.5 4.5 6.5 8.5 10.5 12.5 14.5 16.5 18.5 20.5 0.5\n"
        );
        let printed = succeeds(
            &file,
            "run",
            &[
                "rev",
                "--block",
                "32",
                "--arg",
                "u16[32]=iota",
                "--print",
                "3",
            ],
        );
        assert_eq!(printed, "arg 0 u16[32]: 31 30 29 ... (29 more)\n");
        // One element too many.
        let values = [
            "--arg",
            "f32=2",
            "--arg",
            "f32[12]=iota",
            "--arg",
            "f32[11]=1",
            "--arg",
            "u32=12",
        ];
        let broken = [&args[..], &values[..]].concat();
        fails(
            &file,
            "run",
            &broken,
            &["axpy: out-of-bounds", "workgroup (1, 0, 0)", "lane 3"],
        );
    }
}

/// Several processes append to the file that `ROCM_EMU_COVERAGE` names; a kernel that faults is not noted.
#[test]
fn what_ran_is_noted() {
    let notes = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let mut expected = String::new();
    for target in [Target::Gfx1100, Target::Gfx942] {
        let file = compiled(&Compile::device(target.name()));
        for elements in [32, 31] {
            let output = Command::new(env!("CARGO_BIN_EXE_rocm-emu"))
                .args([Path::new("run"), &file, Path::new("rev")])
                .args(["--block", "32", "--arg"])
                .arg(format!("u16[{elements}]=iota"))
                .env(rocm_emulator::exec::COVERAGE_VARIABLE, &notes)
                .output()
                .unwrap();
            assert_eq!(output.status.success(), elements == 32, "{output:?}");
        }
        expected += &format!("{}\treverse\n", target.name());
    }
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), expected);
}

#[test]
fn a_wavefront_is_traced() {
    let file = compiled(&Compile::device("gfx1100"));
    let launch = [
        "axpy",
        "--grid",
        "2",
        "--block",
        "40",
        "--arg",
        "f32=2",
        "--arg",
        "f32[80]=iota",
        "--arg",
        "f32[80]=1",
        "--arg",
        "u32=80",
        "--workgroup",
        "1",
        "--wave",
        "1",
    ];
    let text = succeeds(&file, "trace", &launch);
    for part in ["global_load_b32", "v_fmac_f32", "arg 2 f32[80]: 1 3 5"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let mut none = launch;
    none[14] = "2";
    fails(&file, "trace", &none, &["no workgroup"]);
    none[14] = "1";
    none[16] = "2";
    fails(&file, "trace", &none, &["no wavefront 2", "2"]);
}

#[test]
fn bundles_need_a_choice() {
    let file = compiled(&Compile::bundle(&["gfx942", "gfx1100"]));
    fails(&file, "kernels", &[], &["gfx942", "gfx1100", "--arch"]);
    assert!(succeeds(&file, "kernels", &["--arch", "gfx1100"]).starts_with("gfx1100"));
    fails(
        &file,
        "kernels",
        &["--arch", "gfx1030"],
        &["gfx1030", "gfx942"],
    );
    let one = compiled(&Compile::bundle(&["gfx942"]).compressed(true));
    assert!(succeeds(&one, "kernels", &[]).starts_with("gfx942"));
}

/// A library of two source files has two bundles; compressed ones are found, too.
#[test]
fn every_embedded_bundle_is_read() {
    const OTHER: &str = r#"
#include "hip_min.h"
extern "C" __global__ void negate(int *x) { x[threadIdx_x] = -x[threadIdx_x]; }
"#;
    for compressed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let object = |name: &str, source: &str, archs: &[&str]| {
            let mut options = Compile::bundle(archs).compressed(compressed);
            // Host and device.
            options
                .args
                .retain(|arg| !arg.starts_with("--cuda") && !arg.starts_with("--gpu"));
            options.args.push("-fPIC".into());
            let path = folder.path().join(name);
            compile_to(source, &options, &path);
            path
        };
        let objects = [
            object("one.o", SOURCE, &["gfx942", "gfx1100"]),
            object("two.o", OTHER, &["gfx1100"]),
        ];
        let library = folder.path().join("library.so");
        let linked = Command::new(&toolchain().clang)
            .args(["-shared", "-nostdlib", "-o"])
            .arg(&library)
            .args(&objects)
            .output()
            .unwrap();
        assert!(linked.status.success(), "{linked:?}");
        let listing = succeeds(&library, "kernels", &["--arch", "gfx1100"]);
        for kernel in ["axpy", "reverse", "negate"] {
            let rows = listing.lines().filter(|line| line.starts_with(kernel));
            assert_eq!(rows.count(), 1, "{kernel}: {listing}");
        }
        let listing = succeeds(&library, "kernels", &["--arch", "gfx942"]);
        assert!(listing.contains("reverse") && !listing.contains("negate"));
        fails(&library, "kernels", &[], &["gfx1100, gfx942", "--arch"]);
        let args = [
            "negate",
            "--arch",
            "gfx1100",
            "--block",
            "3",
            "--arg",
            "i32[3]=1,-2,3",
        ];
        let printed = succeeds(&library, "run", &args);
        assert_eq!(printed, "arg 0 i32[3]: -1 2 -3\n");
        let text = succeeds(&library, "disassemble", &["--arch", "gfx1100"]);
        assert!(text.contains("<reverse>:") && text.contains("<negate>:"));
    }
}

#[test]
fn mistakes_are_named() {
    let file = compiled(&Compile::device("gfx1100"));
    fails(Path::new("/nonexistent"), "kernels", &[], &["/nonexistent"]);
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    fails(&own, "kernels", &[], &["not a code object"]);
    fails(&file, "run", &["absent"], &["absent", "axpy, reverse"]);
    fails(
        &file,
        "run",
        &["axpy"],
        &["takes 4 arguments", "pointer", "0 are given"],
    );
    fails(
        &file,
        "run",
        &["reverse", "--arg", "u32=1"],
        &["4 bytes given", "pointer"],
    );
    fails(
        &file,
        "run",
        &["reverse", "--arg", "q7=1"],
        &["unknown type"],
    );
    fails(
        &file,
        "run",
        &["reverse", "--arg", "u16[2]=1,2,3"],
        &["3 values"],
    );
    fails(&file, "run", &["axpy", "--block", "257"], &["257", "256"]);
    fails(&file, "run", &["axpy", "--grid", "0"], &["1 or more"]);
    fails(
        &file,
        "run",
        &["axpy", "--dynamic-lds", "70000"],
        &["70000", "65536"],
    );
}
