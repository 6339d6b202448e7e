//! What the environment says of the emulated devices.

use crate::exec::Checks;
use crate::isa::Target;
use crate::memory::MAX_READ_PAST_END;

/// The variable that chooses the emulated devices: a comma-separated list of processors.
pub const ARCH_VARIABLE: &str = "ROCM_EMU_ARCH";
/// The variable that sets the devices' memory: bytes, or a number with KiB, MiB, GiB or TiB; one size for all devices,
/// or a comma-separated list of one for each.
pub const MEMORY_VARIABLE: &str = "ROCM_EMU_MEMORY";
/// The variable that sets how many threads run workgroups.
pub const THREADS_VARIABLE: &str = "ROCM_EMU_THREADS";
/// The variable that says whether devices reach each other's memory: 0 or 1.
pub const PEERS_VARIABLE: &str = "ROCM_EMU_PEERS";
/// The variable that sets how many instructions a wavefront may execute.
pub const INSTRUCTIONS_VARIABLE: &str = "ROCM_EMU_MAX_INSTRUCTIONS";

/// The variable that sets how many of a larger grid's workgroups are executed.
pub const WORKGROUPS_VARIABLE: &str = "ROCM_EMU_WORKGROUPS";

/// The variable that lets loads read so many bytes past an allocation's end.
pub const READ_PAST_END_VARIABLE: &str = "ROCM_EMU_READ_PAST_END";

/// The variable that chooses checks: words separated by commas.
pub const CHECK_VARIABLE: &str = "ROCM_EMU_CHECK";
/// The variable that the checks of order and of caches draw from: a number.
pub const SEED_VARIABLE: &str = "ROCM_EMU_SEED";

/// The variable that plays a fault of graphs that AMD's releases are known for.
pub const GRAPH_FAULT_VARIABLE: &str = "ROCM_EMU_GRAPH_FAULT";
/// The variable that sets which release HIP says it is.
pub const HIP_VERSION_VARIABLE: &str = "ROCM_EMU_HIP_VERSION";

/// The HIP release whose interface the emulator has: major * 10^7 + minor * 10^5 + patch.
const HIP_VERSION: i32 = 70_051_831;

const DEFAULT_ARCH: &str = "gfx1100";
const DEFAULT_MEMORY: u64 = 16 << 30;

/// Settings from the environment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Processors of the emulated devices.
    pub targets: Vec<Target>,
    /// Bytes of memory of each device, in the order of `targets`.
    pub memory: Vec<u64>,
    /// Whether devices reach each other's memory.
    pub peers: bool,
    /// Threads for workgroups; 0 means all cores.
    pub threads: usize,
    /// Instructions that one wavefront may execute.
    pub max_instructions: Option<u64>,
    /// Of a grid with more workgroups as many are executed; 0 means all.
    pub workgroups: u64,
    /// Bytes past an allocation's end that loads may read.
    pub read_past_end: u32,
    /// What is checked beside.
    pub checks: Checks,
    /// What [`Checks::ORDER`] and [`Checks::CACHES`] draw from.
    pub seed: u64,
    /// How graphs go wrong.
    pub graph_fault: Option<GraphFault>,
    /// What `hipRuntimeGetVersion` says.
    pub hip_version: i32,
}

/// What is wrong with graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphFaultKind {
    /// They read a buffer that a copy wrote since they were made as it was before (ROCm/hip 3887, 3902).
    StaleCopies,
    /// They read a buffer that a copy or a kernel wrote since they were made as it was before.
    Stale,
    /// They compute garbage (ROCm/clr 279).
    Garbage,
}

/// A fault of graphs, and the first graph of the process that has it, by the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphFault {
    /// What is wrong.
    pub kind: GraphFaultKind,
    /// Graphs that are made before this one, counted from 0, are right.
    pub first: u64,
}

impl std::str::FromStr for GraphFault {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<GraphFault, String> {
        let (kind, first) = text.trim().split_once(':').unwrap_or((text.trim(), "0"));
        let kind = match kind {
            "stale-copies" => GraphFaultKind::StaleCopies,
            "stale" => GraphFaultKind::Stale,
            "garbage" => GraphFaultKind::Garbage,
            _ => return Err("the faults are stale-copies, stale and garbage".to_owned()),
        };
        let first = first
            .parse()
            .map_err(|_| format!("{first} is no graph's number"))?;
        Ok(GraphFault { kind, first })
    }
}

impl Settings {
    /// Read the environment.
    ///
    /// # Errors
    /// A variable that makes no sense, in words.
    pub fn from_environment() -> std::result::Result<Settings, String> {
        let get = |name: &str| {
            std::env::var(name)
                .ok()
                .filter(|value| !value.trim().is_empty())
        };
        let number = |name: &str| match get(name) {
            Some(text) => text
                .trim()
                .parse::<u64>()
                .map(Some)
                .map_err(|_| format!("{name}={text}: not a number")),
            None => Ok(None),
        };
        let archs = get(ARCH_VARIABLE).unwrap_or_else(|| DEFAULT_ARCH.into());
        let targets = archs
            .split(',')
            .map(|name| name.trim().parse::<Target>())
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| format!("{ARCH_VARIABLE}={archs}: {error}"))?;
        let memory = match get(MEMORY_VARIABLE) {
            Some(text) => memory_of_each(&text, targets.len())?,
            None => vec![DEFAULT_MEMORY; targets.len()],
        };
        let checks = get(CHECK_VARIABLE).unwrap_or_default();
        let checks = checks
            .parse::<Checks>()
            .map_err(|error| format!("{CHECK_VARIABLE}={checks}: {error}"))?;
        Ok(Settings {
            checks,
            seed: number(SEED_VARIABLE)?.unwrap_or(0),
            targets,
            memory,
            peers: number(PEERS_VARIABLE)?.unwrap_or(0) != 0,
            threads: number(THREADS_VARIABLE)?.unwrap_or(0) as usize,
            max_instructions: number(INSTRUCTIONS_VARIABLE)?,
            workgroups: number(WORKGROUPS_VARIABLE)?.unwrap_or(0),
            read_past_end: read_past_end(number(READ_PAST_END_VARIABLE)?.unwrap_or(0))?,
            graph_fault: match get(GRAPH_FAULT_VARIABLE) {
                Some(text) => Some(
                    text.parse()
                        .map_err(|error| format!("{GRAPH_FAULT_VARIABLE}={text}: {error}"))?,
                ),
                None => None,
            },
            hip_version: match get(HIP_VERSION_VARIABLE) {
                Some(text) => hip_version(&text).ok_or_else(|| {
                    format!("{HIP_VERSION_VARIABLE}={text}: not a release such as 7.2.4")
                })?,
                None => HIP_VERSION,
            },
        })
    }
}

fn read_past_end(bytes: u64) -> std::result::Result<u32, String> {
    match u32::try_from(bytes) {
        Ok(bytes) if bytes <= MAX_READ_PAST_END => Ok(bytes),
        _ => Err(format!(
            "{READ_PAST_END_VARIABLE}={bytes}: at most {MAX_READ_PAST_END} bytes lie between two allocations"
        )),
    }
}

/// `7.2.4` as HIP says it.
fn hip_version(text: &str) -> Option<i32> {
    let parts: Option<Vec<i32>> = text
        .trim()
        .split('.')
        .map(|part| part.parse().ok())
        .collect();
    match parts?[..] {
        [major @ 0..=99, minor @ 0..=99] => Some(major * 10_000_000 + minor * 100_000),
        [major @ 0..=99, minor @ 0..=99, patch @ 0..=99_999] => {
            Some(major * 10_000_000 + minor * 100_000 + patch)
        }
        _ => None,
    }
}

/// One size for all devices, or one for each.
fn memory_of_each(text: &str, devices: usize) -> std::result::Result<Vec<u64>, String> {
    let sizes: Option<Vec<u64>> = text.split(',').map(parse_bytes).collect();
    let mut sizes = sizes.ok_or_else(|| {
        format!("{MEMORY_VARIABLE}={text}: not a number of bytes such as 512MiB or 16GiB")
    })?;
    if sizes.len() == 1 {
        sizes.resize(devices, sizes[0]);
    }
    match sizes.len() == devices {
        true => Ok(sizes),
        false => Err(format!(
            "{MEMORY_VARIABLE}={text}: {} sizes for {devices} devices ({ARCH_VARIABLE})",
            sizes.len()
        )),
    }
}

/// `16GiB`, `512M`, `4096`.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text
        .trim()
        .trim_end_matches(['b', 'B'])
        .trim_end_matches('i');
    let (digits, shift) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let bytes = digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (bytes > 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{hip_version, memory_of_each, parse_bytes, GraphFault, GraphFaultKind};

    #[test]
    fn releases_and_faults_of_graphs() {
        assert_eq!(hip_version("7.2.4"), Some(70_200_004));
        assert_eq!(hip_version("6.4"), Some(60_400_000));
        for bad in ["", "7", "7.x", "7.2.4.1", "7.100"] {
            assert_eq!(hip_version(bad), None, "{bad}");
        }
        let fault = |kind, first| Ok(GraphFault { kind, first });
        let parse = |text: &str| text.parse::<GraphFault>();
        assert_eq!(parse("garbage"), fault(GraphFaultKind::Garbage, 0));
        assert_eq!(parse("stale:2"), fault(GraphFaultKind::Stale, 2));
        assert_eq!(parse("stale-copies"), fault(GraphFaultKind::StaleCopies, 0));
        assert!(parse("late").is_err_and(|error| error.contains("garbage")));
        assert!(parse("stale:x").is_err());
    }

    #[test]
    fn memory_sizes() {
        assert_eq!(parse_bytes("4096"), Some(4096));
        assert_eq!(parse_bytes("16G"), Some(16 << 30));
        assert_eq!(parse_bytes(" 512MiB "), Some(512 << 20));
        assert_eq!(parse_bytes("1kb"), Some(1024));
        for bad in ["", "0", "G", "-1", "1X", "99999999T"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn memory_of_each_device() {
        assert_eq!(memory_of_each("1KiB", 3), Ok(vec![1024; 3]));
        let each = memory_of_each("512MiB, 24GiB", 2);
        assert_eq!(each, Ok(vec![512 << 20, 24 << 30]));
        let error = memory_of_each("1G,2G,3G", 2).unwrap_err();
        assert!(error.contains("3 sizes for 2 devices"), "{error}");
        let error = memory_of_each("1G,", 2).unwrap_err();
        assert!(error.contains("not a number of bytes"), "{error}");
    }
}
