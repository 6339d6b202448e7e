//! What a test cannot run without. Where that is missing the test fails, so that nobody takes a test that did not run
//! for one that passed; unless [`VARIABLE`] says that it may be missing.
//!
//! The compiler, LLVM's tools and a C compiler, which `cargo xtask setup` installs, are needed by so many tests that they
//! may not be missing.

use std::fmt::Display;

/// Names, separated by commas, of what may be missing: see [`Need`].
pub const VARIABLE: &str = "CANDLE_ROCM_TESTS_WITHOUT";

/// What may be missing.
#[derive(Clone, Copy, Debug)]
pub enum Need<'a> {
    /// Kernels for this GPU, which builds for other GPUs (`CANDLE_ROCM_ARCHS`) lack: its name, or `architectures` for
    /// whichever the build lacks.
    Architecture(&'a str),
    /// A table of the resources that the present compiler gives each kernel: `resource-tables`.
    ResourceTables,
    /// That ROCm is *not* installed, for tests of what a machine without it says: `machine-without-rocm`.
    MachineWithoutRocm,
}

impl Need<'_> {
    /// The names that allow it to be missing.
    fn names(&self) -> Vec<&str> {
        match self {
            Need::Architecture(name) => vec![*name, "architectures"],
            Need::ResourceTables => vec!["resource-tables"],
            Need::MachineWithoutRocm => vec!["machine-without-rocm"],
        }
    }
}

/// What was found, or `None` (and a line on standard error) if it may be missing.
///
/// # Panics
/// It was not found, and [`VARIABLE`] does not name it; or that names what nothing asks for.
pub fn found<T>(need: Need<'_>, what: Result<T, impl Display>) -> Option<T> {
    let listed = std::env::var(VARIABLE).unwrap_or_default();
    decide(need, what.map_err(|why| why.to_string()), &listed).unwrap_or_else(|why| panic!("{why}"))
}

/// As [`found`], of what is there or not.
///
/// # Panics
/// As [`found`].
pub fn holds(need: Need<'_>, is_there: bool, otherwise: impl Display) -> bool {
    found(need, is_there.then_some(()).ok_or(otherwise)).is_some()
}

/// The GPUs that tests of kernels run on: one of each instruction set that builds have kernels for by default.
pub const BY_DEFAULT: [&str; 5] = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"];
/// Those that tests run on where the build was asked for them.
pub const ON_REQUEST: [&str; 3] = ["gfx906", "gfx908", "gfx950"];

/// Names the GPUs, separated by commas, that tests of kernels run on: all that the build has kernels for, if it is not set.
pub const ON_VARIABLE: &str = "CANDLE_ROCM_TESTS_ON";

/// Whether the build has kernels for this GPU, as `serves` says. It must, unless it has them on request alone, or they may
/// be missing.
///
/// # Panics
/// It has none and must.
pub fn serves(arch: &str, serves: impl Fn(&str) -> bool) -> bool {
    let there = serves(arch);
    if ON_REQUEST.contains(&arch) {
        return there;
    }
    let otherwise = format!("the build embeds no kernels for {arch}");
    holds(Need::Architecture(arch), there, otherwise)
}

/// The GPUs to test kernels on, of [`BY_DEFAULT`] and [`ON_REQUEST`].
///
/// # Panics
/// The build has no kernels for one of the first, which may not be missing, or for none at all; or [`ON_VARIABLE`] names
/// none of them.
pub fn architectures(serves: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let chosen = std::env::var(ON_VARIABLE).unwrap_or_default();
    let chosen: Vec<&str> = chosen.split(',').map(str::trim).collect();
    let wanted = |arch: &&str| chosen == [""] || chosen.contains(arch);
    let all = BY_DEFAULT.into_iter().chain(ON_REQUEST).filter(wanted);
    let found: Vec<&str> = all.filter(|arch| self::serves(arch, &serves)).collect();
    assert!(
        !found.is_empty(),
        "the build embeds kernels for none of the GPUs, or for none that {ON_VARIABLE} names"
    );
    found
}

fn decide<T>(need: Need<'_>, what: Result<T, String>, listed: &str) -> Result<Option<T>, String> {
    let listed: Vec<&str> = listed
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    for name in &listed {
        let known = ["architectures", "resource-tables", "machine-without-rocm"].contains(name);
        if !known && !name.starts_with("gfx") {
            return Err(format!(
                "{VARIABLE} names \"{name}\", which no test asks for"
            ));
        }
    }
    let names = need.names();
    match what {
        Ok(found) => Ok(Some(found)),
        Err(why) if names.iter().any(|name| listed.contains(name)) => {
            eprintln!("not tested, as {VARIABLE} allows: {why}");
            Ok(None)
        }
        Err(why) => Err(format!(
            "{why}\nThis test needs it. To run the others without it: {VARIABLE}={}",
            names[0]
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{decide, Need};

    const GFX942: Need = Need::Architecture("gfx942");

    fn missing() -> Result<(), String> {
        Err("no kernels for gfx942".to_owned())
    }

    #[test]
    fn what_is_there_is_tested_whatever_is_listed() {
        for listed in ["", "gfx942", "architectures"] {
            assert_eq!(decide(GFX942, Ok(7), listed), Ok(Some(7)));
        }
    }

    #[test]
    fn what_is_missing_fails_unless_it_is_listed() {
        for listed in ["", "gfx90a", "resource-tables, gfx1100"] {
            let error = decide(GFX942, missing(), listed).unwrap_err();
            assert!(error.contains("no kernels for gfx942"), "{error}");
            assert!(
                error.contains("CANDLE_ROCM_TESTS_WITHOUT=gfx942"),
                "{error}"
            );
        }
        for listed in ["gfx942", "gfx90a, gfx942", "architectures,"] {
            assert_eq!(decide(GFX942, missing(), listed), Ok(None));
        }
    }

    #[test]
    fn a_misspelt_name_is_an_error() {
        let error = decide(GFX942, Ok(()), "gfx942,resource-table").unwrap_err();
        assert!(error.contains("\"resource-table\""), "{error}");
    }
}
