//! What amdgpu, the Linux driver of AMD GPUs, says of a machine's GPUs.

use std::io;
use std::path::{Path, PathBuf};

/// The driver's list of nodes, CPUs among them, under the root folder.
pub const NODES: &str = "sys/class/kfd/kfd/topology/nodes";

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The number of its folder under [`NODES`].
    pub number: u32,
    /// Its processor, such as `gfx1100`.
    pub processor: String,
    /// The name that the driver gives it, which may be empty.
    pub name: String,
    /// Compute units.
    pub compute_units: u32,
    /// The number in `/dev/dri/renderD128`, by which programs open it.
    pub render_minor: u32,
    /// Where it is, as [`pci_address`] makes it; none where the driver does not say.
    pub pci_address: Option<u32>,
}

/// A place on PCI as one number: domain (its low 16 bits), bus, device.
pub fn pci_address(domain: u32, bus: u32, device: u32) -> u32 {
    domain << 16 | (bus & 0xff) << 8 | (device & 0x1f) << 3
}

/// The GPUs of a machine, in the driver's order; `root` is `/` but for tests.
///
/// # Errors
/// The list or a node cannot be read, as where the driver is not loaded. The error names the file.
pub fn gpus(root: &Path) -> io::Result<Vec<Node>> {
    let nodes = root.join(NODES);
    let named = |file: &Path, error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", file.display()))
    };
    let entries = std::fs::read_dir(&nodes).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut numbered: Vec<(u32, PathBuf)> = entries
        .map_err(|error| named(&nodes, error))?
        .into_iter()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    numbered.sort();
    let mut found = Vec::new();
    for (number, folder) in numbered {
        let file = folder.join("properties");
        let properties = match std::fs::read_to_string(&file) {
            Ok(properties) => properties,
            // A container sees the nodes of the GPUs that it was not given, and may not read them.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(error) => return Err(named(&file, error)),
        };
        let property = |name: &str| -> u32 {
            let mut lines = properties.lines().filter_map(|line| line.split_once(' '));
            let value = lines.find(|(key, _)| *key == name);
            value.map_or(0, |(_, value)| value.trim().parse().unwrap_or(0))
        };
        if let Some(processor) = processor_name(property("gfx_target_version")) {
            let simds = property("simd_count");
            // Bus, device and function.
            let location = property("location_id");
            found.push(Node {
                number,
                processor,
                name: std::fs::read_to_string(folder.join("name"))
                    .map(|name| name.trim().to_string())
                    .unwrap_or_default(),
                compute_units: simds / property("simd_per_cu").max(1),
                render_minor: property("drm_render_minor"),
                pci_address: (location != 0)
                    .then(|| pci_address(property("domain"), location >> 8, location >> 3)),
            });
        }
    }
    Ok(found)
}

/// The driver is not loaded, or lists no GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("/{NODES} lists no AMD GPU")]
pub struct NoGpu;

/// The processors of a machine's GPUs, in the driver's order; `root` is `/` but for tests.
///
/// # Errors
/// There are none.
pub fn processors(root: &Path) -> Result<Vec<String>, NoGpu> {
    match gpus(root) {
        Ok(gpus) if !gpus.is_empty() => Ok(gpus.into_iter().map(|gpu| gpu.processor).collect()),
        _ => Err(NoGpu),
    }
}

/// The driver's decimal major, minor, stepping (two digits each for the last two) as a name: 90010
/// is `gfx90a`, 110001 is `gfx1101`. None for a CPU's node, whose version is 0.
fn processor_name(version: u32) -> Option<String> {
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    (major != 0).then(|| format!("gfx{major}{minor:x}{stepping:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_their_names() {
        let names = [90_010, 90_402, 100_300, 110_001, 110_501, 120_001]
            .map(|version| processor_name(version).unwrap_or_default());
        assert_eq!(
            names,
            ["gfx90a", "gfx942", "gfx1030", "gfx1101", "gfx1151", "gfx1201"]
        );
        assert_eq!(processor_name(0), None);
    }
}
