//! Where ROCm is looked for, on folders laid out as AMD's packages, tarballs and wheels lay them out.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use candle_rocm_testing::needs::{self, Need};
use candle_rocm_testing::process::alone;
use rocm_toolchain::installations::folders;
use rocm_toolchain::Toolchain;

/// A folder that stands for `/`, with these folders.
fn machine(folders: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for folder in folders {
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    root
}

/// What is found below a root, with these variables, as paths below it.
fn found(root: &Path, variables: &[(&str, &str)]) -> Vec<String> {
    let variable = |name: &str| -> Option<PathBuf> {
        let set = variables.iter().find(|(set, _)| *set == name)?;
        Some(root.join(set.1))
    };
    let below = |path: PathBuf| path.strip_prefix(root).unwrap().display().to_string();
    folders(root, &variable).into_iter().map(below).collect()
}

#[test]
fn newer_releases_come_first_by_their_numbers() {
    let root = machine(&[
        "opt/rocm/core-7.14",
        "opt/rocm/core-10.2",
        "opt/rocm/core-10.10",
        "opt/rocm/core-10.2.1",
        "opt/rocm/core",
        "opt/rocm/core-next",
        "opt/rocm/lib",
        "opt/rocm-6.4.1",
        "opt/rocm-7.2.0",
    ]);
    assert_eq!(
        found(root.path(), &[]),
        [
            "opt/rocm/core-10.10",
            "opt/rocm/core-10.2.1",
            "opt/rocm/core-10.2",
            "opt/rocm/core-7.14",
            "opt/rocm/core",
            "opt/rocm",
            "opt/rocm-7.2.0",
            "opt/rocm-6.4.1",
        ]
    );
}

#[test]
fn a_variable_goes_before_all_and_wheels_before_packages() {
    let root = machine(&[
        "opt/rocm/core-10.2",
        "venv/lib/python3.9/site-packages/_rocm_sdk_core/lib",
        "venv/lib/python3.12/site-packages/_rocm_sdk_core/lib",
        "venv/lib/python3.12/site-packages/_rocm_sdk_devel/bin",
        "venv/lib/pkgconfig",
    ]);
    let wheels = [
        "venv/lib/python3.12/site-packages/_rocm_sdk_devel",
        "venv/lib/python3.12/site-packages/_rocm_sdk_core",
        "venv/lib/python3.9/site-packages/_rocm_sdk_core",
    ];
    let usual = ["opt/rocm/core-10.2", "opt/rocm"];
    assert_eq!(
        found(root.path(), &[("VIRTUAL_ENV", "venv")]),
        [&wheels[..], &usual].concat()
    );
    let named = [
        ("ROCM_PATH", "mine"),
        ("VIRTUAL_ENV", "venv"),
        ("HIP_PATH", "hip"),
    ];
    assert_eq!(
        found(root.path(), &named),
        [&["mine", "hip"][..], &wheels, &usual].concat()
    );
    // An environment without ROCm's wheels, and a variable that names a folder twice.
    let plain = [("VIRTUAL_ENV", "opt"), ("ROCM_PATH", "opt/rocm")];
    assert_eq!(
        found(root.path(), &plain),
        ["opt/rocm", "opt/rocm/core-10.2"]
    );
}

#[test]
fn a_machine_without_rocm_has_the_usual_folder_alone() {
    assert_eq!(found(machine(&[]).path(), &[]), ["opt/rocm"]);
}

/// What answers as clang does, and compiles nothing.
const CLANG: &str = r#"#!/bin/sh
for word in "$@"; do
    case "$word" in
        --version) echo "AMD clang version 24.0.0"; exit ;;
        --print-supported-cpus) echo gfx1100; exit ;;
        -print-prog-name=ld.lld) echo "$0"; exit ;;
        -print-resource-dir) echo /nonexistent; exit ;;
    esac
done
exit 1
"#;

#[test]
fn the_compiler_of_wheels_is_found_with_its_device_libraries() {
    const DEVEL: &str = "lib/python3.12/site-packages/_rocm_sdk_devel";
    let bin = format!("{DEVEL}/lib/llvm/bin");
    let bitcode = format!("{DEVEL}/lib/llvm/lib/clang/24/lib/amdgcn/bitcode");
    let root = machine(&[&bin, &bitcode]);
    let clang = root.path().join(&bin).join("clang++");
    std::fs::write(&clang, CLANG).unwrap();
    std::fs::set_permissions(&clang, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(root.path().join(&bitcode).join("ocml.bc"), "").unwrap();
    let variables = [
        ("VIRTUAL_ENV", root.path().to_str().unwrap()),
        ("ROCM_PATH", ""),
        ("HIP_PATH", ""),
        ("CANDLE_ROCM_CLANG", ""),
        ("CANDLE_ROCM_DEVICE_LIBS", ""),
    ];
    let test = "the_compiler_of_wheels_is_found_with_its_device_libraries";
    alone(test, &variables, || {
        let found = Toolchain::find().unwrap();
        assert!(found.clang.ends_with(format!("{bin}/clang++")), "{found:?}");
        assert!(found.device_libs.ends_with(&bitcode), "{found:?}");
        assert_eq!(found.version, "AMD clang version 24.0.0");
    });
}

#[test]
fn folders_without_a_compiler_are_named() {
    let root = machine(&["lib/python3.12/site-packages/_rocm_sdk_core"]);
    let variables = [
        ("VIRTUAL_ENV", root.path().to_str().unwrap()),
        ("ROCM_PATH", "/nonexistent/rocm"),
        ("CANDLE_ROCM_CLANG", ""),
        ("PATH", ""),
    ];
    alone("folders_without_a_compiler_are_named", &variables, || {
        let missing = Toolchain::find()
            .err()
            .ok_or("this machine has ROCm's compiler");
        let Some(missing) = needs::found(Need::MachineWithoutRocm, missing) else {
            return;
        };
        let text = missing.to_string();
        for part in [
            "/nonexistent/rocm: no amdclang++ nor clang++ there",
            "site-packages/_rocm_sdk_core: no amdclang++",
            "/opt/rocm: no amdclang++",
            "no clang in PATH",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    });
}
