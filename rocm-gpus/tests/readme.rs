//! The workspace's README lists every GPU of the table, with the names of its products in shops.

use std::path::Path;

use rocm_gpus::Gpu;

/// GPUs for which the default build has an object of their own, or, with a compiler that knows it, would.
const OWN: [Gpu; 3] = [Gpu::Gfx90a, Gpu::Gfx942, Gpu::Gfx950];

/// The first columns of a GPU's row: cards, processor, architecture, object.
fn row(gpu: Gpu) -> String {
    let facts = gpu.facts();
    let object = match facts.generic {
        _ if OWN.contains(&gpu) => gpu.name().to_owned(),
        // Generic targets of GFX9 are not compiled by default.
        Some(generic) if gpu.unit().wavefront == 32 => generic.name().to_owned(),
        _ => format!("when asked for: `CANDLE_ROCM_ARCHS={gpu}`"),
    };
    format!(
        "| {} | {gpu}, {} | {object} |",
        facts.cards.join(", "),
        facts.architecture.name()
    )
}

#[test]
fn the_readme_lists_the_cards() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(path).expect("the workspace's README");
    let missing: Vec<_> = Gpu::all()
        .map(row)
        .filter(|row| !readme.lines().any(|line| line.starts_with(row)))
        .collect();
    assert!(missing.is_empty(), "missing:\n{}", missing.join("\n"));
}
