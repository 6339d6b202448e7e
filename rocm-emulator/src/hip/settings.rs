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
    use super::{memory_of_each, parse_bytes};

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
