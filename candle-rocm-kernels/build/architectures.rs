//! Which GPU architectures to compile for.

use std::path::Path;

/// A comma-separated list of processors, or `native`.
pub const VARIABLE: &str = "CANDLE_ROCM_ARCHS";

/// CDNA 2 and 3, RDNA 2, 3 and 4.
const DEFAULT: [&str; 8] = [
    "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201",
];
/// Those of the default that only newer compilers know: CDNA 4, with LLVM 20.
const DEFAULT_IF_KNOWN: [&str; 1] = ["gfx950"];

/// The processors that `CANDLE_ROCM_ARCHS` asks for, or the default ones, sorted.
///
/// # Errors
/// If one is not among `known`, the compiler's, or if `native` finds no GPU.
pub fn chosen(known: &[String]) -> Result<Vec<String>, String> {
    let is_known = |name: &str| known.iter().any(|processor| processor == name);
    let choice = std::env::var(VARIABLE).unwrap_or_default();
    let mut list: Vec<String> = match choice.trim() {
        "" => {
            let newer = DEFAULT_IF_KNOWN.iter().filter(|name| is_known(name));
            DEFAULT
                .iter()
                .chain(newer)
                .map(|name| name.to_string())
                .collect()
        }
        "native" => native()?,
        names => names
            .split(',')
            .map(|name| name.trim().to_string())
            .filter(|name| !name.is_empty())
            .collect(),
    };
    list.sort();
    list.dedup();
    if list.is_empty() {
        return Err(format!("{VARIABLE}={choice} names no architecture"));
    }
    if let Some(unknown) = list.iter().find(|name| !is_known(name)) {
        return Err(format!(
            "{VARIABLE}: the compiler does not know the architecture {unknown}. It knows {}. (gfx950 needs LLVM \
             20; CANDLE_ROCM_CLANG chooses another compiler.)",
            known.join(", ")
        ));
    }
    Ok(list)
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
