//! Which GPU architectures to compile for.

use std::path::Path;

use rocm_gpus::{CodeTarget, Generic, Gpu};

/// A comma-separated list of processors and generic targets, or `native`.
pub const VARIABLE: &str = "CANDLE_ROCM_ARCHS";

/// CDNA 2 and 3, RDNA 2, 3 and 4. gfx9-4-generic, which LLVM 20 knows, would lose gfx942's FP8 and cover but gfx950 besides.
const DEFAULT: [CodeTarget; 5] = [
    CodeTarget::Gpu(Gpu::Gfx90a),
    CodeTarget::Gpu(Gpu::Gfx942),
    CodeTarget::Generic(Generic::Gfx10_3),
    CodeTarget::Generic(Generic::Gfx11),
    CodeTarget::Generic(Generic::Gfx12),
];
/// Those of the default that only newer compilers know: CDNA 4, with LLVM 20.
const DEFAULT_IF_KNOWN: [CodeTarget; 1] = [CodeTarget::Gpu(Gpu::Gfx950)];

/// The processors and generic targets that `CANDLE_ROCM_ARCHS` asks for, or the default ones, sorted.
///
/// # Errors
/// If one is not among `known`, the compiler's, nor covered by a generic target that is; or if `native` finds no GPU.
pub fn chosen(known: &[String]) -> Result<Vec<String>, String> {
    let choice = std::env::var(VARIABLE).unwrap_or_default();
    let asked: Vec<String> = match choice.trim() {
        "" => default(known),
        "native" => native()?,
        names => names
            .split(',')
            .map(|name| name.trim().to_string())
            .filter(|name| !name.is_empty())
            .collect(),
    };
    if asked.is_empty() {
        return Err(format!("{VARIABLE}={choice} names no architecture"));
    }
    let mut list = Vec::new();
    for name in asked {
        let target = known_target(&name, known).ok_or_else(|| {
            format!(
                "{VARIABLE}: the compiler does not know the architecture {name}. It knows {}. (gfx950, gfx1153 and \
                 gfx9-4-generic need LLVM 20, other generic targets LLVM 19; CANDLE_ROCM_CLANG chooses another compiler.)",
                known.join(", ")
            )
        })?;
        if target != name {
            println!("cargo::warning=the compiler does not know {name}: {target} covers it");
        }
        list.push(target);
    }
    list.sort();
    list.dedup();
    Ok(list)
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

/// The processors of this machine's GPUs, as the amdgpu kernel driver lists them.
fn native() -> Result<Vec<String>, String> {
    const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";
    let found = std::fs::read_dir(NODES)
        .map(|entries| {
            entries
                .flatten()
                .filter_map(|node| node_processor(&node.path()))
                .collect::<Vec<_>>()
        })
        .unwrap_or_default();
    if found.is_empty() {
        return Err(format!(
            "{VARIABLE}=native, but the amdgpu driver lists no GPU under {NODES}; name the architectures instead, \
             as in {VARIABLE}=gfx1100,gfx942"
        ));
    }
    Ok(found)
}

/// A topology node's processor; none for a CPU's node, whose version is 0.
fn node_processor(node: &Path) -> Option<String> {
    let text = std::fs::read_to_string(node.join("properties")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("gfx_target_version "))?;
    processor_name(line.trim().parse().ok()?)
}

/// The driver's decimal major, minor, stepping (two digits each for the last two) as a name: 90010
/// is `gfx90a`, 110001 is `gfx1101`.
fn processor_name(version: u32) -> Option<String> {
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    (major != 0).then(|| format!("gfx{major}{minor:x}{stepping:x}"))
}
