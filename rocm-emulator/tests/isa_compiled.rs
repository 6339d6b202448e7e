//! Every instruction of compiled kernels, against `llvm-objdump`.

mod isa_support;

use std::path::Path;
use std::process::Command;

use isa_support::{bare, Tools};
use rocm_emulator::isa::{self, Target};

/// One line of the listing: address, words, text.
fn listing(output: &str) -> Vec<(u64, Vec<u32>, String)> {
    // `	s_endpgm            // 000000001A00: BFB00000`
    output
        .lines()
        .filter_map(|line| {
            let (text, comment) = line.split_once("//")?;
            let (address, words) = comment.split_once(':')?;
            let address = u64::from_str_radix(address.trim(), 16).ok()?;
            let words = words
                .split_whitespace()
                .map_while(|word| u32::from_str_radix(word, 16).ok())
                .collect();
            Some((address, words, text.to_string()))
        })
        .collect()
}

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
    let mut total = 0;
    let mut names = std::collections::BTreeSet::new();
    let mut wrong = Vec::new();
    for source in &files {
        // Unoptimized code brings spills, scratch and calls.
        for level in ["-O3", "-O0"] {
            let object = compile(&tools, source, target, level, folder.path());
            let output = Command::new(&tools.llvm_objdump)
                .arg("-d")
                .arg(format!("--mcpu={target}"))
                .arg(&object)
                .output()
                .expect("llvm-objdump starts");
            let lines = listing(&String::from_utf8_lossy(&output.stdout));
            assert!(
                !lines.is_empty(),
                "{target}: no code in {}",
                source.display()
            );
            // The decoder sees what follows, as it does in a launch.
            let code: Vec<u32> = lines.iter().flat_map(|line| line.1.clone()).collect();
            let mut at = 0;
            for (address, words, text) in &lines {
                let ours = match isa::decode(target, &code[at..]) {
                    Ok(inst) if usize::from(inst.size) == 4 * words.len() => {
                        names.insert(inst.op.name);
                        isa::disassemble(target, &inst, *address)
                    }
                    Ok(inst) => format!("{} bytes: {inst:?}", inst.size),
                    Err(error) => error.to_string(),
                };
                at += words.len();
                total += 1;
                if bare(&ours) != bare(text) {
                    wrong.push(format!("{words:08x?}\n  llvm {text}\n  ours {ours}"));
                }
            }
        }
    }
    println!(
        "{target}: {total} instructions of {} operations, {} differ",
        names.len(),
        wrong.len()
    );
    for line in wrong.iter().take(20) {
        println!("{line}");
    }
    assert!(
        wrong.is_empty(),
        "{target}: {} of {total} instructions differ",
        wrong.len()
    );
    assert!(
        names.len() > 250,
        "{target}: only {} operations were seen",
        names.len()
    );
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
fn gfx1201() {
    check(Target::Gfx1201);
}
