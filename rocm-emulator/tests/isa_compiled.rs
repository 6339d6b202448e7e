//! Every instruction of compiled kernels, against `llvm-objdump`.

mod isa_support;

use std::path::Path;
use std::process::Command;

use isa_support::listing::Comparison;
use isa_support::Tools;
use rocm_emulator::isa::Target;

fn compile(
    tools: &Tools,
    source: &Path,
    target: Target,
    level: &str,
    folder: &Path,
) -> std::path::PathBuf {
    let object = folder.join(format!(
        "{}-{target}{level}.o",
        source.file_stem().unwrap_or_default().to_string_lossy()
    ));
    let bitcode = [
        "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode",
        "/opt/rocm/amdgcn/bitcode",
    ]
    .into_iter()
    .map(Path::new)
    .find(|folder| folder.join("ocml.bc").is_file())
    .expect("ocml.bc not found: install the package rocm-device-libs");
    let wave64 = if target.wavefront_size() == 64 {
        "on"
    } else {
        "off"
    };
    let isa = match target {
        Target::Gfx906 => "906",
        Target::Gfx908 => "908",
        Target::Gfx90a => "90a",
        Target::Gfx942 => "940",
        _ => "1030",
    };
    let mut command = Command::new(&tools.clang);
    command
        .args([
            "-x",
            "hip",
            "--cuda-device-only",
            "--no-gpu-bundle-output",
            "-nogpuinc",
            "-nogpulib",
            "-c",
        ])
        .args([level, "-std=c++17", "-Wno-pass-failed"])
        .arg(format!("--offload-arch={target}"))
        .arg(source)
        .arg("-o")
        .arg(&object);
    for file in [
        "ocml",
        "ockl",
        "oclc_daz_opt_off",
        "oclc_unsafe_math_off",
        "oclc_finite_only_off",
        "oclc_correctly_rounded_sqrt_on",
        &format!("oclc_wavefrontsize64_{wave64}"),
        &format!("oclc_isa_version_{isa}"),
        "oclc_abi_version_500",
    ] {
        command
            .args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang"])
            .arg(bitcode.join(format!("{file}.bc")));
    }
    let output = command.output().expect("clang starts");
    assert!(
        output.status.success(),
        "{target}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    object
}

fn check(target: Target) {
    let tools = Tools::find();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isa_support/kernels");
    let mut files: Vec<_> = std::fs::read_dir(&sources)
        .expect("the kernels are in tests/isa_support/kernels")
        .map(|entry| entry.expect("the folder can be listed").path())
        .collect();
    files.sort();
    let mut comparison = Comparison::default();
    for source in &files {
        // Unoptimized code brings spills, scratch and calls.
        for level in ["-O3", "-O0"] {
            let object = compile(&tools, source, target, level, folder.path());
            comparison.add(&tools, target, &object);
        }
    }
    comparison.check(target);
    let names = comparison.names.len();
    assert!(names > 250, "{target}: only {names} operations were seen");
}

#[test]
fn gfx906() {
    check(Target::Gfx906);
}

#[test]
fn gfx908() {
    check(Target::Gfx908);
}

#[test]
fn gfx90a() {
    check(Target::Gfx90a);
}

#[test]
fn gfx942() {
    check(Target::Gfx942);
}

#[test]
fn gfx1030() {
    check(Target::Gfx1030);
}

#[test]
fn gfx1100() {
    check(Target::Gfx1100);
}

#[test]
fn gfx1151() {
    check(Target::Gfx1151);
}

#[test]
fn gfx1201() {
    check(Target::Gfx1201);
}
