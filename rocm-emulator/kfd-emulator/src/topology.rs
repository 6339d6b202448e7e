//! What the kernel says of its nodes, under `/sys/devices/virtual/kfd/kfd/topology`: the host, and the GPUs as the table
//! of `rocm-gpus` has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rocm_gpus::Gpu as Facts;

/// Where it is found: by libhsakmt, and by RCCL.
const FOLDERS: [&str; 2] = [
    "/sys/devices/virtual/kfd/kfd/topology",
    "/sys/class/kfd/kfd/topology",
];
/// Number of the first GPU's device for drawing (`/dev/dri/renderD128`).
pub const FIRST_RENDER: u32 = 128;

/// AMD's number among vendors of PCI.
const VENDOR: u32 = 0x1002;
/// Compute units of an array of them, at most: data sheets do not say how they are arranged.
const ARRAY: u32 = 10;
/// The first number of a GPU's SIMDs.
const SIMD_BASE: u32 = 1 << 31;
/// Bits of `capability`: doorbells of 64 bits, ECC of registers and LDS, ranges shared with the host. That of debuggers
/// is not among them.
const DOORBELL_64: u32 = 2 << 12;
const SRAM_ECC: u32 = 1 << 26;
const SHARED_RANGES: u32 = 1 << 27;
/// Kinds of memory (`HSA_HEAPTYPE_*`): the host's, the GPU's, which the host reaches, too.
const HEAP_SYSTEM: u32 = 0;
const HEAP_PUBLIC: u32 = 1;
/// `HSA_CACHE_TYPE_DATA` and `_HSACU`.
const DATA_OF_GPU: u32 = 1 | 8;
/// `HSA_IOLINKTYPE_PCIEXPRESS`.
const PCI_EXPRESS: u32 = 2;
/// Barriers of a whole grid that are kept at once.
const GRID_BARRIERS: u32 = 64;

/// The part of a path that says which file of the topology it is; `None` for all other files.
pub fn inside(path: &str) -> Option<&str> {
    FOLDERS.iter().find_map(|folder| path.strip_prefix(folder))
}

/// The files, by path below [`FOLDERS`].
pub struct Topology {
    files: BTreeMap<String, Box<[u8]>>,
}

impl Topology {
    /// Of a host and these GPUs, each with so many bytes of memory.
    pub fn new(gpus: &[Facts], memory: &[u64]) -> Topology {
        let mut topology = Topology {
            files: BTreeMap::new(),
        };
        topology.file("generation_id", "1\n".into());
        let system = [("platform_oem", 0), ("platform_id", 0), ("platform_rev", 1)];
        topology.properties("system_properties", &system);
        topology.host(gpus.len() as u64);
        for (index, (gpu, bytes)) in gpus.iter().zip(memory).enumerate() {
            topology.gpu(index as u64, *gpu, gpus.len() as u64, *bytes);
        }
        topology
    }

    /// What is in a file.
    pub fn contents(&self, path: &str) -> Option<&[u8]> {
        Some(self.files.get(&normal(path))?)
    }

    /// What is in a folder; `None` if there is none.
    pub fn names(&self, path: &str) -> Option<Vec<&str>> {
        let folder = normal(path) + "/";
        let inside = self
            .files
            .keys()
            .filter_map(|file| file.strip_prefix(&folder));
        let names: BTreeSet<&str> = inside.filter_map(|rest| rest.split('/').next()).collect();
        (!names.is_empty()).then(|| names.into_iter().collect())
    }

    fn file(&mut self, path: &str, text: String) {
        let text = text.into_bytes().into_boxed_slice();
        self.files.insert(path.to_owned(), text);
    }

    fn properties(&mut self, path: &str, properties: &[(&str, u64)]) {
        let mut text = String::new();
        for (name, value) in properties {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {value}");
        }
        self.file(path, text);
    }

    fn host(&mut self, gpus: u64) {
        // SAFETY: takes a number alone.
        let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as u64;
        // SAFETY: as above.
        let (pages, page) = unsafe {
            (
                libc::sysconf(libc::_SC_PHYS_PAGES),
                libc::sysconf(libc::_SC_PAGESIZE),
            )
        };
        self.file("nodes/0/gpu_id", "0\n".into());
        self.file("nodes/0/name", "\n".into());
        let properties = [
            ("cpu_cores_count", cores),
            ("mem_banks_count", 1),
            ("io_links_count", gpus),
            ("max_engine_clk_ccompute", 0),
        ];
        self.properties("nodes/0/properties", &properties);
        let bytes = pages.max(0) as u64 * page.max(0) as u64;
        self.bank(0, HEAP_SYSTEM, bytes, 64, 0);
        for gpu in 0..gpus {
            self.link(0, gpu, gpu + 1);
        }
    }

    fn gpu(&mut self, index: u64, gpu: Facts, gpus: u64, memory: u64) {
        let node = index + 1;
        let (facts, unit) = (gpu.facts(), gpu.unit());
        let product = &facts.product;
        let caches = [
            (1, unit.vector_cache_kib),
            (2, product.l2_kib),
            (3, product.infinity_cache_mib << 10),
        ];
        let caches = caches.into_iter().filter(|(_, kib)| *kib != 0);
        let caches: Vec<(u64, u32)> = caches.collect();
        self.file(&format!("nodes/{node}/gpu_id"), format!("{}\n", node + 1));
        self.file(&format!("nodes/{node}/name"), format!("{}\n", facts.name));
        let properties = properties_of(gpu, index, caches.len() as u64, gpus);
        self.properties(&format!("nodes/{node}/properties"), &properties);
        let clock = product.memory.clock_mhz;
        self.bank(node, HEAP_PUBLIC, memory, product.memory.bus_bits, clock);
        for (number, (level, kib)) in caches.into_iter().enumerate() {
            let properties = [
                ("processor_id_low", SIMD_BASE.into()),
                ("level", level),
                ("size", kib.into()),
                ("cache_line_size", unit.line_bytes.into()),
                ("cache_lines_per_tag", 1),
                ("association", 16),
                ("latency", 0),
                ("type", DATA_OF_GPU.into()),
            ];
            self.properties(
                &format!("nodes/{node}/caches/{number}/properties"),
                &properties,
            );
        }
        let others = (0..=gpus).filter(|other| *other != node);
        for (number, other) in others.enumerate() {
            self.link(node, number as u64, other);
        }
    }

    fn bank(&mut self, node: u64, heap: u32, bytes: u64, bits: u32, clock: u32) {
        let properties = [
            ("heap_type", heap.into()),
            ("size_in_bytes", bytes),
            ("flags", 0),
            ("width", bits.into()),
            ("mem_clk_max", clock.into()),
        ];
        self.properties(&format!("nodes/{node}/mem_banks/0/properties"), &properties);
    }

    fn link(&mut self, node: u64, number: u64, to: u64) {
        let weight = if node == 0 || to == 0 { 20 } else { 40 };
        let properties = [
            ("type", PCI_EXPRESS.into()),
            ("node_from", node),
            ("node_to", to),
            ("weight", weight),
            ("min_bandwidth", 64_000),
            ("max_bandwidth", 64_000),
            ("flags", 1),
        ];
        self.properties(
            &format!("nodes/{node}/io_links/{number}/properties"),
            &properties,
        );
    }
}

/// What the driver says of a GPU that has so many caches, among so many GPUs.
fn properties_of(gpu: Facts, index: u64, caches: u64, gpus: u64) -> Vec<(&'static str, u64)> {
    let node = index + 1;
    let (facts, unit) = (gpu.facts(), gpu.unit());
    let product = &facts.product;
    let (major, minor, stepping) = gpu.version();
    let simds = unit.simds / unit.compute_units;
    let of_xcd = product.compute_units / product.xcds;
    let arrays = of_xcd.div_ceil(ARRAY) * product.xcds;
    let ecc = match facts.qualifiers.contains("sramecc+") {
        true => SRAM_ECC,
        false => 0,
    };
    vec![
        ("simd_count", u64::from(product.compute_units * simds)),
        ("mem_banks_count", 1),
        ("caches_count", caches),
        ("io_links_count", gpus),
        ("simd_id_base", SIMD_BASE.into()),
        ("max_waves_per_simd", unit.waves_per_simd.into()),
        (
            "lds_size_in_kb",
            u64::from(unit.lds_bytes_of_workgroup >> 10),
        ),
        ("num_gws", GRID_BARRIERS.into()),
        ("wave_front_size", unit.wavefront.into()),
        ("array_count", arrays.into()),
        ("simd_arrays_per_engine", 1),
        (
            "cu_per_simd_array",
            product.compute_units.div_ceil(arrays).into(),
        ),
        ("simd_per_cu", simds.into()),
        ("max_slots_scratch_cu", 32),
        (
            "gfx_target_version",
            u64::from(major * 10_000 + minor * 100 + stepping),
        ),
        ("vendor_id", VENDOR.into()),
        ("device_id", product.pci_id.into()),
        ("location_id", node << 8),
        ("domain", 0),
        ("drm_render_minor", u64::from(FIRST_RENDER) + index),
        ("num_cp_queues", 24),
        ("max_engine_clk_fcompute", product.clock_mhz.into()),
        ("capability", u64::from(DOORBELL_64 | ecc | SHARED_RANGES)),
        ("fw_version", 100),
        ("sdma_fw_version", 100),
        // AMD's runtime divides by it on gfx942. Their queues are refused, and so it copies with kernels.
        ("num_sdma_engines", 2),
        ("num_sdma_queues_per_engine", 2),
        ("unique_id", 0xe000_0000 + node),
        ("num_xcc", product.xcds.into()),
    ]
}

/// Without what does not change a path.
fn normal(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{inside, Topology, FOLDERS};
    use rocm_gpus::Gpu;

    fn topology(names: &[&str]) -> Topology {
        let gpus: Vec<Gpu> = names.iter().map(|name| name.parse().unwrap()).collect();
        Topology::new(&gpus, &vec![1 << 30; gpus.len()])
    }

    fn value(topology: &Topology, path: &str, name: &str) -> u64 {
        let text = std::str::from_utf8(topology.contents(path).unwrap()).unwrap();
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines
            .find(|line| line.0 == name)
            .unwrap_or_else(|| panic!("{path}: {name}"));
        found.1.parse().unwrap()
    }

    #[test]
    fn a_gpu_is_as_in_the_table() {
        let topology = topology(&["gfx90a"]);
        let of = |name: &str| value(&topology, "nodes/1/properties", name);
        assert_eq!(of("gfx_target_version"), 90_010);
        assert_eq!((of("simd_count"), of("simd_per_cu")), (440, 4));
        assert_eq!((of("array_count"), of("cu_per_simd_array")), (11, 10));
        assert_eq!(of("capability"), 0x2000 | 1 << 26 | 1 << 27);
        assert_eq!(
            value(&topology, "nodes/1/mem_banks/0/properties", "size_in_bytes"),
            1 << 30
        );
        assert_eq!(topology.contents("nodes/1/gpu_id").unwrap(), b"2\n");
    }

    #[test]
    fn arrays_hold_all_compute_units() {
        for gpu in Gpu::all() {
            let topology = topology(&[gpu.name()]);
            let of = |name: &str| value(&topology, "nodes/1/properties", name);
            assert_ne!(
                of("num_sdma_engines"),
                0,
                "{gpu}: AMD's runtime divides by it"
            );
            let units = of("simd_count") / of("simd_per_cu");
            assert_eq!(units, u64::from(gpu.facts().product.compute_units), "{gpu}");
            assert!(
                of("array_count") * of("cu_per_simd_array") >= units,
                "{gpu}"
            );
        }
    }

    #[test]
    fn both_folders_are_the_topology() {
        for folder in FOLDERS {
            let path = format!("{folder}/nodes/1/gpu_id");
            assert_eq!(inside(&path), Some("/nodes/1/gpu_id"));
        }
        assert_eq!(inside("/sys/class/kfd/kfd/dev"), None);
    }

    #[test]
    fn nodes_are_linked_with_each_other() {
        let topology = topology(&["gfx1100", "gfx942"]);
        assert_eq!(topology.names("/nodes/").unwrap(), ["0", "1", "2"]);
        assert!(topology.names("nodes/3").is_none());
        for (node, others) in [(0, [1, 2]), (1, [0, 2]), (2, [0, 1])] {
            for (number, other) in others.into_iter().enumerate() {
                let path = format!("nodes/{node}/io_links/{number}/properties");
                assert_eq!(value(&topology, &path, "node_to"), other);
            }
        }
    }
}
