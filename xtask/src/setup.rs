//! What the build and the tests need beyond Rust: a clang that compiles for AMD GPUs.

use std::process::Command;

use anyhow::{bail, Context, Result};
use rocm_toolchain::Toolchain;

use crate::cargo::run;

/// LLVM releases to ask apt for, newest first. gfx1200 and gfx1201 need 19 or later.
const LLVM_VERSIONS: [u32; 3] = [21, 20, 19];

/// The ROCm or clang toolchain that is found; otherwise install one with apt.
pub fn ensure_toolchain() -> Result<Toolchain> {
    let missing = match Toolchain::find() {
        Ok(found) if has_llvm_tools() => {
            eprintln!("GPU compiler: {}", found.clang.display());
            return Ok(found);
        }
        Ok(_) => {
            "llvm-mc and llvm-objdump, which the tests compare with, or clang-offload-bundler, with which they \
                  compile HIP programs"
                .to_string()
        }
        Err(error) => error.to_string(),
    };
    if which::which("apt-get").is_err() {
        bail!("{missing}\nThis machine has no apt-get: install ROCm, or clang 19 or later with lld, llvm's tools and ROCm's device libraries, and try again");
    }
    eprintln!("Missing: {missing}");
    run(&mut apt(&["update", "-qq"]))?;
    let version = LLVM_VERSIONS
        .into_iter()
        .find(|version| has_package(&format!("clang-{version}")))
        .context("apt offers no clang 19 or later; see https://apt.llvm.org, or install ROCm")?;
    let packages = [
        format!("clang-{version}"),
        format!("clang-tools-{version}"),
        format!("lld-{version}"),
        format!("llvm-{version}"),
        "rocm-device-libs".to_string(),
    ];
    eprintln!("Installing with apt: {}", packages.join(" "));
    let mut install = apt(&["install", "-y", "-qq", "--no-install-recommends"]);
    run(install.args(&packages))?;
    Toolchain::find().context("apt installed the packages, and still no toolchain is found")
}

/// Nothing if `program` is found; otherwise installs the package of its name with apt.
pub fn ensure_program(program: &str) -> Result<()> {
    if which::which(program).is_ok() {
        return Ok(());
    }
    if which::which("apt-get").is_err() {
        bail!("{program} is missing, and this machine has no apt-get: install it, and try again");
    }
    eprintln!("Installing with apt: {program}");
    run(&mut apt(&["update", "-qq"]))?;
    run(apt(&["install", "-y", "-qq", "--no-install-recommends"]).arg(program))
}

/// The tests hold the emulator's disassembler against LLVM's, and compile HIP programs for several GPUs at once.
fn has_llvm_tools() -> bool {
    ["llvm-mc", "llvm-objdump", "clang-offload-bundler"]
        .iter()
        .all(|tool| {
            LLVM_VERSIONS
                .iter()
                .any(|version| which::which(format!("{tool}-{version}")).is_ok())
                || which::which(tool).is_ok()
        })
}

fn has_package(name: &str) -> bool {
    Command::new("apt-cache")
        .args(["show", "--no-all-versions", name])
        .output()
        .is_ok_and(|out| out.status.success() && !out.stdout.is_empty())
}

/// `apt-get`, through sudo unless we are root.
fn apt(args: &[&str]) -> Command {
    let root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|out| out.stdout.trim_ascii() == b"0");
    let mut command = if root {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg("apt-get");
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive").args(args);
    command
}
