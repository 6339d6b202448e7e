//! The GPUs of a machine, as HIP and as the driver name them: which of them a program can use, and what to do about the
//! others.

use candle_rocm_kernels::{buildable_target, served_by};
use candle_rocm_variables::{
    ARCHS, CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, HSA_OVERRIDE_GFX_VERSION,
    ROCR_VISIBLE_DEVICES,
};
use rocm_gpus::{Gpu, MemoryKind};
use rocm_toolchain::topology::Node;

/// The variable by which ROCr hides GPUs from HIP.
pub const ROCR_VARIABLE: &str = ROCR_VISIBLE_DEVICES.name;
/// The variables by which HIP hides GPUs. The first one that is set counts.
pub const HIP_VARIABLES: [&str; 2] = [HIP_VISIBLE_DEVICES.name, CUDA_VISIBLE_DEVICES.name];
/// The variable that makes GPUs pass for another processor; with `_` and a node's number, that node alone.
pub const OVERRIDE_VARIABLE: &str = HSA_OVERRIDE_GFX_VERSION.name;

/// Below this many bytes, a GPU that shares the computer's memory shows what the firmware set aside for it.
const FIRMWARES_SHARE: usize = 4 << 30;

/// A GPU that HIP lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Marketing name.
    pub name: String,
    /// Processor by HIP, such as `gfx1100`.
    pub arch: String,
    /// Bytes of its memory.
    pub memory: usize,
    /// Where it is, as [`Node::pci_address`] says it; none if that is not known.
    pub pci_address: Option<u32>,
}

/// The GPUs of a machine, and what the environment says of them.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What HIP lists, in its order; none where HIP cannot describe a GPU.
    pub listed: Vec<Option<Listed>>,
    /// What the driver lists; none where it is not known.
    pub nodes: Vec<Node>,
    /// The variables that are set, of those above, with their values.
    pub variables: Vec<(String, String)>,
}

impl Machine {
    /// The variables that count among these, each given by its name, for GPUs of these nodes.
    pub fn variables(
        nodes: &[Node],
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<(String, String)> {
        let hiding = [ROCR_VARIABLE].into_iter().chain(HIP_VARIABLES);
        let names = hiding
            .chain([OVERRIDE_VARIABLE])
            .map(str::to_owned)
            .chain(nodes.iter().map(override_variable));
        names
            .filter_map(|name| variable(&name).map(|value| (name, value)))
            .collect()
    }

    /// The driver's node of a GPU that HIP lists: the one at the same place, or where places are not known, of the same
    /// number if nothing is hidden.
    pub fn node(&self, ordinal: usize) -> Option<&Node> {
        let address = self.listed.get(ordinal)?.as_ref()?.pci_address;
        let at = |node: &&Node| node.pci_address.is_some() && node.pci_address == address;
        self.nodes.iter().find(at).or_else(|| {
            let unknown = address.is_none() || self.nodes.iter().any(|n| n.pci_address.is_none());
            (unknown && self.nodes.len() == self.listed.len()).then(|| &self.nodes[ordinal])
        })
    }

    /// The nodes that HIP does not list, as far as that can be known.
    pub fn hidden(&self) -> Vec<&Node> {
        let places = (0..self.listed.len()).map(|ordinal| self.node(ordinal));
        let Some(shown): Option<Vec<&Node>> = places.collect() else {
            return Vec::new();
        };
        let is_hidden = |node: &&Node| !shown.contains(node);
        self.nodes.iter().filter(is_hidden).collect()
    }

    /// A GPU that HIP lists, by its number and its names.
    pub fn describe(&self, ordinal: usize) -> String {
        match self.names(ordinal) {
            Some(names) => format!("GPU {ordinal}, {names}"),
            None => format!("GPU {ordinal}"),
        }
    }

    /// The name and the processor of a GPU that HIP lists: both processors, where the driver and HIP name two. None
    /// where HIP cannot describe it.
    pub fn names(&self, ordinal: usize) -> Option<String> {
        let gpu = self.listed.get(ordinal)?.as_ref()?;
        Some(match self.override_of(ordinal) {
            Some((node, set)) => format!(
                "{} ({}, which passes for {} by {set})",
                gpu.name, node.processor, gpu.arch
            ),
            None => format!("{} ({})", gpu.name, gpu.arch),
        })
    }

    /// All GPUs and variables in a sentence.
    pub fn summary(&self) -> String {
        let listed = (0..self.listed.len()).map(|ordinal| self.describe(ordinal));
        let hidden = self.hidden();
        let hidden = hidden.iter().map(|node| {
            format!(
                "hidden from HIP, {} (the driver's node {})",
                node.processor, node.number
            )
        });
        let gpus: Vec<String> = listed.chain(hidden).collect();
        match self.variables.is_empty() {
            true => format!("the machine has {}", gpus.join("; ")),
            false => format!(
                "the machine has {}; {} is set",
                gpus.join("; "),
                self.assignments()
            ),
        }
    }

    /// The variables as a shell sets them.
    pub fn assignments(&self) -> String {
        let set: Vec<String> = self.variables.iter().map(assignment).collect();
        set.join(" ")
    }

    /// The node of a GPU that passes for another processor, and the assignment that makes it do so.
    pub fn override_of(&self, ordinal: usize) -> Option<(&Node, String)> {
        let node = self.node(ordinal)?;
        let gpu = self.listed[ordinal].as_ref()?;
        if node.processor == gpu.arch {
            return None;
        }
        let set = [override_variable(node), OVERRIDE_VARIABLE.to_owned()]
            .iter()
            .find_map(|name| self.variables.iter().find(|(set, _)| set == name))
            .map_or_else(|| "HIP".to_owned(), assignment);
        Some((node, set))
    }

    /// Whether a GPU runs code for one of these targets, and has the instructions of what it passes for.
    pub fn works(&self, ordinal: usize, targets: &[&str]) -> bool {
        let Some(Some(gpu)) = self.listed.get(ordinal) else {
            return false;
        };
        served_by(&gpu.arch, targets) && self.has_the_instructions(ordinal)
    }

    /// Whether a GPU has the instructions of what it passes for.
    pub fn has_the_instructions(&self, ordinal: usize) -> bool {
        let family = |name: &str| name.parse::<Gpu>().map(|gpu| gpu.family()).ok();
        let (Some((node, _)), Some(Some(gpu))) =
            (self.override_of(ordinal), self.listed.get(ordinal))
        else {
            return true;
        };
        family(&node.processor) == family(&gpu.arch)
    }

    /// The best GPU that runs code for one of these targets: a card before one that shares the computer's memory, then
    /// the one with most memory, then the first.
    pub fn best(&self, targets: &[&str]) -> Option<usize> {
        let working = (0..self.listed.len()).filter(|ordinal| self.works(*ordinal, targets));
        // Of equals, `max_by_key` takes the last.
        working.rev().max_by_key(|ordinal| self.rank(*ordinal))
    }

    fn rank(&self, ordinal: usize) -> (bool, usize) {
        let Some(gpu) = &self.listed[ordinal] else {
            return (false, 0);
        };
        (!shares_memory(self.own_processor(ordinal, gpu)), gpu.memory)
    }

    /// The processor of a GPU, whatever it passes for.
    fn own_processor<'a>(&'a self, ordinal: usize, gpu: &'a Listed) -> &'a str {
        self.override_of(ordinal)
            .map_or(&gpu.arch, |(node, _)| &node.processor)
    }

    /// The one thing to do about a machine on which a GPU does not run code for these targets.
    pub fn advice(&self, targets: &[&str]) -> String {
        if let Some(best) = self.best(targets) {
            return format!("use {}: {}", self.describe(best), self.choosing(best));
        }
        let mut by_rank: Vec<usize> = (0..self.listed.len()).collect();
        by_rank.sort_by_key(|ordinal| std::cmp::Reverse(self.rank(*ordinal)));
        let overrides = by_rank
            .iter()
            .filter_map(|ordinal| self.override_of(*ordinal));
        if let Some((node, set)) = overrides
            .clone()
            .find(|(node, _)| served_by(&node.processor, targets))
        {
            return format!(
                "unset {}: the GPU is a {}, which has code here",
                variable_of(&set),
                node.processor
            );
        }
        let hidden = self.hidden();
        if let Some(node) = hidden
            .iter()
            .find(|node| served_by(&node.processor, targets))
        {
            return self.showing(node);
        }
        let processor = |ordinal: &usize| -> Option<&str> {
            let gpu = self.listed[*ordinal].as_ref()?;
            buildable_target(self.own_processor(*ordinal, gpu))
        };
        match by_rank.iter().find_map(processor) {
            Some(target) => {
                let unset = overrides
                    .clone()
                    .next()
                    .map_or_else(String::new, |(_, set)| {
                        format!(", and unset {}", variable_of(&set))
                    });
                format!("build again with {}={target}{unset}", ARCHS.name)
            }
            None => {
                let known: Vec<&str> = Gpu::all().map(Gpu::name).collect();
                format!(
                    "no build has kernels for this GPU; there are kernels for {}",
                    known.join(", ")
                )
            }
        }
    }

    /// What makes a GPU the first that HIP lists.
    fn choosing(&self, ordinal: usize) -> String {
        if ordinal == 0 {
            return "it is the first".to_owned();
        }
        let gpu = self.listed[ordinal].as_ref();
        // CUDA's driver reads its own variable alone.
        let first = match gpu.is_some_and(|gpu| gpu.arch.starts_with("sm_")) {
            true => HIP_VARIABLES[1],
            false => HIP_VARIABLES[0],
        };
        let set = HIP_VARIABLES
            .into_iter()
            .find_map(|name| self.variables.iter().find(|(set, _)| set == name));
        let entry = match set {
            Some((_, list)) => list.split(',').nth(ordinal).map(str::trim),
            None => None,
        };
        let entry = entry.map_or_else(|| ordinal.to_string(), str::to_owned);
        format!("{first}={entry} makes it GPU 0")
    }

    /// What makes HIP list a hidden GPU.
    fn showing(&self, node: &Node) -> String {
        let hiding = [ROCR_VARIABLE].into_iter().chain(HIP_VARIABLES);
        let set: Vec<&str> = hiding
            .filter(|name| self.variables.iter().any(|(set, _)| set == name))
            .collect();
        let what = format!(
            "{} (the driver's node {}), which has code here",
            node.processor, node.number
        );
        match set[..] {
            [] => format!("HIP does not list {what}: check that this user may open it"),
            [one] => format!("unset {one}: it hides {what}"),
            _ => format!("unset {}: they hide {what}", set.join(" and ")),
        }
    }

    /// Where HIP lists no GPU: what the driver lists and what hides it; none if the driver lists none either.
    pub fn nothing_listed(&self) -> Option<String> {
        let nodes: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("{} (node {})", node.processor, node.number))
            .collect();
        match (nodes.is_empty(), self.variables.is_empty()) {
            (true, _) => None,
            (false, true) => Some(format!(
                "the driver lists {}: check that this user may open it (groups render and video)",
                nodes.join(", ")
            )),
            (false, false) => Some(format!(
                "the driver lists {}; {} is set: unset it",
                nodes.join(", "),
                self.assignments()
            )),
        }
    }
}

/// A variable of this process, if it says something.
pub fn of_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What to know of a GPU that shows so little memory that it must be the firmware's share; none for others.
pub fn word_on_shared_memory(arch: &str, memory: usize) -> Option<String> {
    (shares_memory(arch) && memory < FIRMWARES_SHARE).then(|| {
        format!(
            "{arch} shares the computer's memory, and HIP shows what the firmware set aside for it ({} MiB): from \
             Linux 6.10 on it gets more through GTT, half of all memory unless ttm.pages_limit says otherwise; with an \
             older kernel, set aside more in the firmware's settings (UMA frame buffer)",
            memory >> 20
        )
    })
}

/// Whether the processor is that of GPUs without memory of their own.
fn shares_memory(arch: &str) -> bool {
    let gpu = arch.parse::<Gpu>();
    gpu.is_ok_and(|gpu| gpu.facts().product.memory.kind == MemoryKind::Shared)
}

/// The variable that makes this node alone pass for another processor.
fn override_variable(node: &Node) -> String {
    format!("{OVERRIDE_VARIABLE}_{}", node.number)
}

/// A variable as a shell sets it.
fn assignment((name, value): &(String, String)) -> String {
    format!("{name}={value}")
}

/// The variable of an assignment.
fn variable_of(assignment: &str) -> &str {
    assignment.split('=').next().unwrap_or(assignment)
}
