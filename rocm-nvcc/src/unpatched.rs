//! A program whose kernels are compiled for AMD GPUs, and whose cudarc is NVIDIA's: cargo's "patch was not used".

use rocm_toolchain::lock::{self, Package};

/// The crate that loads what is compiled here.
const CUDARC: &str = "cudarc";
/// Has cudarc as an optional dependency under another name, for its own runtime on NVIDIA GPUs.
const OURS: &str = "candle-rocm-runtime";

/// What is wrong with a program's cudarc.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There is none but NVIDIA's: what is compiled here cannot be loaded.
    Nothing(String),
    /// Some of the program has NVIDIA's.
    Some(String),
}

/// What is wrong with the cudarc of the program that is being built, as far as its Cargo.lock tells.
pub(crate) fn of_this_build() -> Option<Trouble> {
    let lock = lock::of_this_build()?;
    trouble(&lock::packages(&std::fs::read_to_string(lock).ok()?))
}

fn trouble(packages: &[Package]) -> Option<Trouble> {
    let all = || packages.iter().filter(|package| package.name == CUDARC);
    let used_by = |cudarc: &Package| -> Vec<String> {
        let users = packages.iter().filter(|package| package.depends_on(cudarc));
        users
            .filter(|package| package.name != OURS)
            .map(|package| format!("{} {}", package.name, package.version))
            .collect()
    };
    let published: Vec<(&Package, Vec<String>)> = all()
        .filter(|cudarc| cudarc.is_published())
        .map(|cudarc| (cudarc, used_by(cudarc)))
        .filter(|(_, users)| !users.is_empty())
        .collect();
    let named: Vec<String> = published
        .iter()
        .map(|(cudarc, users)| format!("cudarc {} (of {})", cudarc.version, users.join(", ")))
        .collect();
    if named.is_empty() {
        return None;
    }
    let sentence = format!(
        "these kernels are compiled for AMD GPUs, and {} is from the registry, for NVIDIA's driver alone: it cannot \
         load them. candle-rocm's cudarc takes its place under [patch.crates-io] for Candle 0.11 and 0.10.2; cargo's \
         \"patch was not used\" means that the project asks for another version. Move the project to one of these, and \
         patch cudarc and candle-kernels",
        named.join(", ")
    );
    Some(match all().any(|cudarc| !cudarc.is_published()) {
        true => Trouble::Some(sentence),
        false => Trouble::Nothing(sentence),
    })
}

#[cfg(test)]
mod tests {
    use super::{lock, trouble, Trouble};

    fn of(text: &str) -> Option<Trouble> {
        trouble(&lock::packages(text))
    }

    const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

    /// Candle 0.9, whose cudarc no patch fits, beside what else the lock has.
    fn candle_0_9(more: &str) -> String {
        format!(
            "version = 4\n\n[[package]]\nname = \"candle-core\"\nversion = \"0.9.2\"\nsource = \"{REGISTRY}\"\n\
             dependencies = [\n \"candle-kernels\",\n \"cudarc 0.16.6\",\n]\n\n[[package]]\nname = \"cudarc\"\n\
             version = \"0.16.6\"\nsource = \"{REGISTRY}\"\n{more}"
        )
    }

    #[test]
    fn only_nvidias_cudarc_is_an_error_that_names_who_asks_for_it() {
        let Some(Trouble::Nothing(text)) = of(&candle_0_9("")) else {
            panic!("not found");
        };
        for part in [
            "cudarc 0.16.6 (of candle-core 0.9.2)",
            "was not used",
            "0.11",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn both_are_a_warning() {
        let patched = "\n[[package]]\nname = \"cudarc\"\nversion = \"0.19.10\"\nsource = \"git+https://host/ours#1\"\n";
        assert!(matches!(of(&candle_0_9(patched)), Some(Trouble::Some(_))));
    }

    #[test]
    fn a_patched_cudarc_is_no_trouble() {
        let patched = "[[package]]\nname = \"cudarc\"\nversion = \"0.19.10\"\n";
        assert_eq!(of(patched), None);
        assert_eq!(of(""), None);
        // This workspace's own, whose runtime knows NVIDIA's under another name.
        let own = include_str!("../../Cargo.lock");
        assert_eq!(of(own), None);
    }
}
