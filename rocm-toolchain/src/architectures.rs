//! Which GPU architectures to compile for.

use std::path::Path;

use rocm_gpus::{CodeTarget, Generic, Gpu};

use crate::error::{Error, Result};
use crate::notice::{Notice, Notices};
use crate::topology::{self, NoGpu};
use crate::variables::ARCHS;

/// CDNA 2 and 3, RDNA 2, 3 and 4. gfx9-4-generic, which LLVM 20 knows, would lose gfx942's FP8 and cover but gfx950
/// besides.
const DEFAULT: [CodeTarget; 5] = [
    CodeTarget::Gpu(Gpu::Gfx90a),
    CodeTarget::Gpu(Gpu::Gfx942),
    CodeTarget::Generic(Generic::Gfx10_3),
    CodeTarget::Generic(Generic::Gfx11),
    CodeTarget::Generic(Generic::Gfx12),
];
/// Those of the default that only newer compilers know: CDNA 4, with LLVM 20.
const DEFAULT_IF_KNOWN: [CodeTarget; 1] = [CodeTarget::Gpu(Gpu::Gfx950)];

/// The architectures of a build, and why these.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chosen {
    /// Processors and generic targets, sorted, each once.
    pub archs: Vec<String>,
    /// In words, for people.
    pub reason: String,
    /// Whether the build chose, as against the user.
    pub by_itself: bool,
    /// What the user should hear of it.
    pub notices: Notices,
}

/// The architectures that the environment asks for ([`ARCHS`]), or those of this machine's GPUs.
///
/// # Errors
/// As [`chosen`].
pub fn of_environment(known: &[String]) -> Result<Chosen> {
    of_machine(&std::env::var(ARCHS).unwrap_or_default(), known)
}

/// The architectures that `choice` asks for, on this machine.
///
/// # Errors
/// As [`chosen`].
pub fn of_machine(choice: &str, known: &[String]) -> Result<Chosen> {
    chosen(choice, known, topology::processors(Path::new("/")))
}

/// The processors and generic targets that `choice`, the value of [`ARCHS`], asks for. Where it is empty, those of
/// the default that serve this machine's GPUs, whose processors are `found`; and the whole default where there are
/// none.
///
/// # Errors
/// If one is not among `known`, the compiler's, nor covered by a generic target that is; or if `native` finds no GPU.
pub fn chosen(
    choice: &str,
    known: &[String],
    found: std::result::Result<Vec<String>, NoGpu>,
) -> Result<Chosen> {
    let choice = choice.trim();
    let mut reason = format!("named by {ARCHS}");
    let asked: Vec<String> = match choice {
        "" => {
            let (asked, why) = match found.map_err(|none| none.to_string()) {
                Ok(found) => for_gpus(&found, known),
                Err(none) => (default(known), format!("all of the default, as {none}")),
            };
            reason = format!("{why}; {ARCHS} names others");
            asked
        }
        "default" => default(known),
        "native" => {
            reason = "the GPUs of this machine".to_string();
            found?
        }
        names => names
            .split(',')
            .map(|name| name.trim().to_string())
            .filter(|name| !name.is_empty())
            .collect(),
    };
    if asked.is_empty() {
        return Err(Error::NoArchitecture(choice.to_owned()));
    }
    let mut notices = Notices::new();
    let mut list = Vec::new();
    for name in asked {
        let Some(target) = known_target(&name, known) else {
            let known = known.to_vec();
            return Err(Error::UnknownArchitecture { name, known });
        };
        if target != name {
            let target = target.clone();
            notices.push(Notice::Covered { name, target });
        }
        list.push(target);
    }
    list.sort();
    list.dedup();
    Ok(Chosen {
        archs: list,
        reason,
        by_itself: choice.is_empty(),
        notices,
    })
}

/// What serves these GPUs of a machine, and why these, in words.
fn for_gpus(found: &[String], known: &[String]) -> (Vec<String>, String) {
    let served: Vec<String> = found
        .iter()
        .filter_map(|name| serving(name, known))
        .collect();
    match served.is_empty() {
        true => {
            let gpus = found.join(", ");
            let why = format!("all of the default, as no kernel serves this machine's {gpus}");
            (default(known), why)
        }
        false => (served, "for the GPUs of this machine".to_string()),
    }
}

/// The target of the default that serves a processor, or else its own where the kernels are written for it; none if the
/// compiler knows neither.
pub fn serving(processor: &str, known: &[String]) -> Option<String> {
    let gpu = processor.parse::<Gpu>().ok()?;
    let covers = |name: &String| {
        name.parse::<CodeTarget>()
            .is_ok_and(|target| target.covers(gpu))
    };
    let of_default = default(known).into_iter().find(covers);
    of_default.or_else(|| known_target(processor, known))
}

/// The default, of targets that the compiler knows: where it is too old for a generic one, its members.
fn default(known: &[String]) -> Vec<String> {
    let is_known = |target: &CodeTarget| known.iter().any(|name| name == target.name());
    let members = |target: CodeTarget| -> Vec<CodeTarget> {
        match target {
            CodeTarget::Generic(generic) if !is_known(&target) => {
                let members = generic.members().map(CodeTarget::Gpu);
                members.filter(is_known).collect()
            }
            _ => vec![target],
        }
    };
    let newer = DEFAULT_IF_KNOWN.into_iter().filter(is_known);
    let targets = DEFAULT.into_iter().flat_map(members).chain(newer);
    targets.map(|target| target.name().to_owned()).collect()
}

/// `name`, or the generic target that covers it, as the compiler knows them.
fn known_target(name: &str, known: &[String]) -> Option<String> {
    let is_known = |name: &str| known.iter().any(|processor| processor == name);
    if is_known(name) {
        return Some(name.to_owned());
    }
    let generic = name.parse::<Gpu>().ok()?.facts().generic?;
    is_known(generic.name()).then(|| generic.name().to_owned())
}
