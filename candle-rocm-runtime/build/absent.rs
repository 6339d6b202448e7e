//! Features of candle-core whose crates need CUDA to be built.

use std::path::Path;
use std::process::{Command, Stdio};

use rocm_toolchain::lock;

/// A feature of candle-core, the crate that it brings, and what that stands for.
const FEATURES: [(&str, &str, &str); 1] =
    [("cutile", "cutile", "cuTile, NVIDIA's kernels in Rust")];

/// Options of `cargo build` that decide which crates it builds, and whether a value follows them.
const OPTIONS: [(&str, bool); 9] = [
    ("--features", true),
    ("-F", true),
    ("--all-features", false),
    ("--no-default-features", false),
    ("--package", true),
    ("-p", true),
    ("--workspace", false),
    ("--manifest-path", true),
    ("--config", true),
];

/// A sentence on a feature that the build asks for, if it does.
pub fn asked_for() -> Option<String> {
    // Most builds end here: a lock names each crate that some feature of the project may bring.
    let path = lock::of_this_build()?;
    let packages = lock::packages(&std::fs::read_to_string(path).ok()?);
    let brought = |name: &str| packages.iter().any(|p| p.name == name && p.is_published());
    let candidates = FEATURES.into_iter().filter(|(_, name, _)| brought(name));
    for (feature, name, library) in candidates {
        if is_built(name)? {
            return Some(sentence(feature, library));
        }
    }
    None
}

fn sentence(feature: &str, library: &str) -> String {
    format!(
        "candle-core's feature `{feature}` stands for {library}, which candle-rocm has nothing for on AMD GPUs: turn \
         off the feature that asks for it, such as `{feature}` of candle-core or of your own package"
    )
}

/// Whether the build that runs this script has the crate, by `cargo tree` with the features that were asked for; none
/// if that cannot be told.
fn is_built(name: &str) -> Option<bool> {
    let cargo = std::os::unix::process::parent_id();
    let line = std::fs::read(Path::new("/proc").join(cargo.to_string()).join("cmdline")).ok()?;
    let line: Vec<String> = line
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let output = Command::new(std::env::var_os("CARGO")?)
        .args(["tree", "--quiet", "--locked", "--offline", "--depth", "0"])
        .args(["--edges", "normal,build,dev", "--invert", name])
        .args(chosen(&line))
        .current_dir(lock::cargos_folder()?)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    // A crate that no feature brings is an error, or nothing.
    Some(output.status.success() && !output.stdout.is_empty())
}

/// The words of cargo's command line that decide which crates it builds.
fn chosen(line: &[String]) -> Vec<String> {
    let mut words = line.iter().take_while(|word| *word != "--");
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let Some((name, takes_value)) = OPTIONS.iter().find(|(name, _)| {
            word == name
                || word.strip_prefix(name).is_some_and(|rest| {
                    rest.starts_with('=') || (!name.starts_with("--") && !rest.is_empty())
                })
        }) else {
            continue;
        };
        found.push(word.clone());
        if *takes_value && word == name {
            found.extend(words.next().cloned());
        }
    }
    found
}
