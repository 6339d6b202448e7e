//! Gives the exported functions the symbol versions that they have in AMD's library, without which `ld` and `ld.so`
//! refuse libraries that were linked to that.
//!
//! rustc hands the linker a list of exports without versions, and only LLD takes a second list beside it. So the
//! functions are defined as assembly (see `src/lib.rs`), which is not in rustc's list, and the library is linked with the LLD
//! that comes with Rust.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The functions that the emulator has.
const FUNCTIONS: &str = "../src/hip/abi/list.rs";
/// Their versions in AMD's library.
const VERSIONS: &str = "versions.txt";
/// The version of functions that AMD's library has not.
const OWN_VERSION: &str = "rocm_emulator";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(versioned)");
    for file in ["build.rs", FUNCTIONS, VERSIONS] {
        println!("cargo::rerun-if-changed={file}");
    }
    let Some(lld) = lld() else {
        println!("cargo::warning=Rust's LLD was not found: the library gets no symbol versions");
        return;
    };
    let functions = fs::read_to_string(FUNCTIONS).expect("the list of functions");
    let versions = fs::read_to_string(VERSIONS).expect("the table of versions");
    let script = script(&exported(&functions), &versions);
    let path = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("versions.map");
    fs::write(&path, script).expect("the output folder can be written");
    println!("cargo::rustc-cfg=versioned");
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
    println!("cargo::rustc-cdylib-link-arg=-B{}", lld.display());
    println!(
        "cargo::rustc-cdylib-link-arg=-Wl,--version-script={}",
        path.display()
    );
}

/// The folder of the `ld.lld` that comes with Rust; `None` for targets that are not linked by it here, or whose
/// assembly `src/lib.rs` does not have.
fn lld() -> Option<PathBuf> {
    let target = env::var("TARGET").ok()?;
    let known =
        ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"].contains(&target.as_str());
    let rustc = env::var_os("RUSTC").filter(|_| known)?;
    let printed = Command::new(rustc)
        .args(["--print", "sysroot"])
        .output()
        .ok()?;
    let sysroot = String::from_utf8(printed.stdout).ok()?;
    let folder = Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(env::var("HOST").ok()?)
        .join("bin/gcc-ld");
    folder.join("ld.lld").is_file().then_some(folder)
}

/// The names in the list of functions: what stands between `::` and `(`.
fn exported(list: &str) -> BTreeSet<&str> {
    let rows = list.lines().map(str::trim).filter(|row| row.ends_with(';'));
    rows.filter_map(|row| row.split_once("::")?.1.split_once('(').map(|row| row.0))
        .collect()
}

/// The linker's script: a node for each version, each after the one before.
fn script(exported: &BTreeSet<&str>, versions: &str) -> String {
    let mut script = String::new();
    let mut left = exported.clone();
    let mut before = None;
    let lines = versions.lines().filter(|line| !line.starts_with('#'));
    let mut lines = lines.peekable();
    while let Some(version) = lines.next() {
        if version.is_empty() {
            continue;
        }
        let mut names = Vec::new();
        while let Some(more) = lines.next_if(|line| line.starts_with(' ')) {
            names.extend(more.split_whitespace().filter(|name| left.remove(name)));
        }
        script += &node(version, &names, before.replace(version));
    }
    let rest: Vec<&str> = left.into_iter().collect();
    script + &node(OWN_VERSION, &rest, None)
}

/// One version with its names, after another one.
fn node(version: &str, names: &[&str], before: Option<&str>) -> String {
    let names: String = names.iter().map(|name| format!("    {name};\n")).collect();
    let global = if names.is_empty() { "" } else { "  global:\n" };
    let before = before.map_or(String::new(), |before| format!(" {before}"));
    format!("{version} {{\n{global}{names}}}{before};\n")
}
