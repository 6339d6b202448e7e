//! Which of the machine's GPUs a process sees, and as which processor: the variables that AMD's runtime reads.

use super::settings::Settings;
use crate::isa::Target;

/// The variable by which ROCr hides GPUs.
pub const ROCR_VARIABLE: &str = "ROCR_VISIBLE_DEVICES";
/// The variables by which HIP hides GPUs of those that ROCr left. The first one that is set counts.
pub const HIP_VARIABLES: [&str; 2] = ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"];
/// The variable that makes GPUs pass for another processor; with `_` and a node's number, that node alone.
pub const OVERRIDE_VARIABLE: &str = "HSA_OVERRIDE_GFX_VERSION";

/// The number of the first GPU's node: node 0 is the host.
pub const FIRST_NODE: usize = 1;

/// The processor that a GPU passes for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// LLVM's name, such as `gfx1030`, which need not be one that the emulator knows.
    pub name: String,
    /// Major and minor version.
    pub version: (i32, i32),
    /// The same, if the emulator knows it.
    pub target: Option<Target>,
}

/// A GPU that the process sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its place among the machine's GPUs.
    pub card: usize,
    /// What it passes for, if a variable says so.
    pub passes_for: Option<Processor>,
}

/// The UUID by which the variables may name a GPU, at its place among the machine's GPUs.
pub fn uuid(card: usize) -> String {
    format!("GPU-{:016x}", 0xe000_0000 + FIRST_NODE + card)
}

/// The GPUs that the process sees, in HIP's order.
///
/// # Errors
/// A variable hides all of them, or names no version.
pub fn seen(
    settings: &Settings,
    variable: impl Fn(&str) -> Option<String>,
) -> std::result::Result<Vec<Seen>, String> {
    let mut cards: Vec<usize> = (0..settings.targets.len()).collect();
    let of_hip = HIP_VARIABLES
        .into_iter()
        .find(|name| variable(name).is_some());
    for name in [Some(ROCR_VARIABLE), of_hip].into_iter().flatten() {
        if let Some(list) = variable(name) {
            cards = listed(&list, &cards);
            if cards.is_empty() {
                return Err(format!("{name}={list} hides every GPU"));
            }
        }
    }
    let seen = |card| {
        Ok(Seen {
            card,
            passes_for: passes_for(card, &variable)?,
        })
    };
    cards.into_iter().map(seen).collect()
}

/// The GPUs, of these, that a list of numbers and UUIDs names. What follows an entry that names none does not count,
/// and neither does a second entry for the same GPU.
fn listed(list: &str, cards: &[usize]) -> Vec<usize> {
    let named = |entry: &str| match entry.starts_with("GPU-") {
        true => cards.iter().find(|card| uuid(**card) == entry).copied(),
        false => cards.get(entry.parse::<usize>().ok()?).copied(),
    };
    let mut found = Vec::new();
    for card in list.split(',').map_while(|entry| named(entry.trim())) {
        if !found.contains(&card) {
            found.push(card);
        }
    }
    found
}

fn passes_for(
    card: usize,
    variable: &impl Fn(&str) -> Option<String>,
) -> std::result::Result<Option<Processor>, String> {
    let of_node = format!("{OVERRIDE_VARIABLE}_{}", card + FIRST_NODE);
    let set = [of_node.as_str(), OVERRIDE_VARIABLE]
        .into_iter()
        .find_map(|name| Some((name, variable(name)?)));
    let Some((name, text)) = set else {
        return Ok(None);
    };
    let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[major @ 0..=63, minor @ 0..=255, stepping @ 0..=255]) => {
            let name = format!("gfx{major}{minor:x}{stepping:x}");
            Ok(Some(Processor {
                target: name.parse().ok(),
                version: (major as i32, minor as i32),
                name,
            }))
        }
        _ => Err(format!("{name}={text}: not a version such as 10.3.0")),
    }
}

#[cfg(test)]
mod tests {
    use super::{listed, uuid};

    #[test]
    fn lists_end_at_what_names_no_gpu() {
        let second = uuid(1);
        for (list, found) in [
            ("1", vec![1]),
            ("2,0", vec![2, 0]),
            ("0,0,1", vec![0, 1]),
            ("1,3,0", vec![1]),
            ("-1", vec![]),
            ("", vec![]),
            (second.as_str(), vec![1]),
            ("GPU-0000000000000000", vec![]),
        ] {
            assert_eq!(listed(list, &[0, 1, 2]), found, "{list}");
        }
        // Numbers count what an earlier variable left.
        assert_eq!(listed("1", &[0, 2]), [2]);
    }
}
