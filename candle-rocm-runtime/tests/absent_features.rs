//! Features of candle-core that no patch stands for end the build at once, with a sentence.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A project whose feature `cutile` brings a crate of that name, and of which a package has the runtime's build script.
/// Gives what cargo says of building it with these options.
fn build(folder: &Path, options: &[&str]) -> Result<(), String> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let package = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
    };
    write(
        "Cargo.toml",
        &package(
            "project",
            "[features]\ncutile = [\"dep:cutile\"]\n[dependencies]\nruntime = { path = \"runtime\" }\n\
             cutile = { version = \"0.1\", optional = true }\n[workspace]\n",
        ),
    );
    write("src/lib.rs", "");
    let script = ours.join("build/main.rs");
    let script = script.display();
    write(
        "runtime/Cargo.toml",
        &package(
            "runtime",
            "[build-dependencies]\nrocm-toolchain = { path = \"../rocm-toolchain\" }\n",
        )
        .replace("edition", &format!("build = \"{script}\"\nedition")),
    );
    write("runtime/src/lib.rs", "");
    // Of that crate the part that the script needs, which needs nothing else.
    let lock = ours.join("../rocm-toolchain/src/lock.rs");
    write("rocm-toolchain/Cargo.toml", &package("rocm-toolchain", ""));
    write("rocm-toolchain/src/lib.rs", "pub mod lock;\n");
    write(
        "rocm-toolchain/src/lock.rs",
        &fs::read_to_string(lock).unwrap(),
    );
    // A registry in a folder, whose crate the lock calls published.
    write("vendor/cutile/Cargo.toml", &package("cutile", ""));
    write("vendor/cutile/src/lib.rs", "");
    write("vendor/cutile/.cargo-checksum.json", "{\"files\":{}}");
    write(
        ".cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"here\"\n[source.here]\ndirectory = \"vendor\"\n",
    );
    let output = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--target-dir"])
        .arg(folder.join("target"))
        .args(options)
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn cutile_ends_a_build_that_asks_for_it_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), &[]).expect("the feature is there and off");
    for options in [
        &["--features", "cutile"][..],
        &["--features=cutile"],
        &["-Fcutile"],
        &["--all-features"],
    ] {
        // The script runs again for a build of another target folder alone.
        fs::remove_dir_all(folder.path().join("target")).unwrap();
        let said = build(folder.path(), options).expect_err("it is not there");
        for part in ["feature `cutile` stands for cuTile", "turn off the feature"] {
            assert!(said.contains(part), "{options:?}: {said}");
        }
    }
}
