//! The book's page of supported GPUs is the table.

use std::fmt::Write as _;
use std::path::Path;

use rocm_gpus::{Gpu, MatrixUnit};

const PAGE: &str = "../docs/user/gpus.md";

/// Asks for the page to be written anew.
const WRITE: &str = "CANDLE_ROCM_WRITE_PAGES";

/// GPUs for which the default build has an object of their own, or, with a compiler that knows it, would.
const OWN: [Gpu; 3] = [Gpu::Gfx90a, Gpu::Gfx942, Gpu::Gfx950];

/// The emulated GPUs that all tests run on.
const TESTED: [Gpu; 5] = [
    Gpu::Gfx90a,
    Gpu::Gfx942,
    Gpu::Gfx1030,
    Gpu::Gfx1100,
    Gpu::Gfx1201,
];

/// GPUs on which no test runs: their story was looked at by hand.
const BY_HAND: [Gpu; 3] = [Gpu::Gfx906, Gpu::Gfx908, Gpu::Gfx950];

/// The least ROCm that AMD made for a GPU, where it is later than 6.0.
const LEAST_ROCM: [(Gpu, &str); 5] = [
    (Gpu::Gfx1150, "7.2"),
    (Gpu::Gfx1151, "7.2"),
    (Gpu::Gfx950, "7.0"),
    (Gpu::Gfx1200, "6.4"),
    (Gpu::Gfx1201, "6.4"),
];

const HEAD: &str = "# Supported GPUs

Written from the table in the crate `rocm-gpus`, by

    CANDLE_ROCM_WRITE_PAGES=1 cargo test -p rocm-gpus --test page

No AMD GPU has run the project yet. *Executed* says what ran on the emulated GPU, with its number of compute units,
registers and LDS. *All tests*: [every test of the project](../evidence/README.md#on-the-emulator). *A story*: the
beginning of the example's story, by LLaMA's architecture, with PyTorch's tokens. *By hand*: 80 tokens and a sum as
on the CPU, which no test repeats.

The default build has kernels for two Instinct GPUs and for three generic targets, whose code runs on every GPU of
its family; [`CANDLE_ROCM_ARCHS`](environment.md#building-and-the-cache-of-compiled-kernels) asks for others, and
for a GPU's own code. By what can be counted, generic code is as fast as a GPU's own
([record](../log/2026-11-22-generic-targets.md)). HIP before about ROCm 6.4 knows no generic targets, and later
releases not every member: the code is loaded as if it were compiled for the GPU alone.

";

const TAIL: &str = "
*ROCm* is the least release for the card, 6.0 where the column is empty; [known issues](rocm-releases.md) tells what
to expect of each.

## What do I need for an RX 9070 XT?

ROCm 6.4 or later, 7.2 or later where you can choose. The card is gfx1201, which the default build serves
(gfx12-generic). Nothing is set by hand: `cargo xtask doctor` names the card, or what is in its way. If the
processor has graphics of its own, read [several GPUs](devices.md#the-integrated-gpu-is-chosen).

## Which ROCm for gfx1151?

7.2 or later: before it, `hipMalloc` ends the process. gfx1151 is the Radeon 8060S, 8050S and 8040S of Ryzen AI Max.
Its memory is the computer's own, so what a program may take is set in the firmware or by the kernel's driver.

## My GPU is not in the table

There are no kernels for it, and `HSA_OVERRIDE_GFX_VERSION` does not help: an error says that the GPU has not the
instructions of the code that would be loaded. [How to add a GPU](../contributing/gpu.md) tells what is needed.
";

/// The code object that serves a GPU.
fn object(gpu: Gpu) -> String {
    match gpu.facts().generic {
        _ if OWN.contains(&gpu) => gpu.name().to_owned(),
        // Generic targets of GFX9 are not compiled by default.
        Some(generic) if gpu.unit().wavefront == 32 => generic.name().to_owned(),
        _ => format!("when asked for: `CANDLE_ROCM_ARCHS={gpu}`"),
    }
}

fn matrix_unit(gpu: Gpu) -> &'static str {
    match gpu.unit().matrix_unit {
        MatrixUnit::Mfma => "MFMA",
        MatrixUnit::Wmma => "WMMA",
        MatrixUnit::Dot => "dot products",
    }
}

fn executed(gpu: Gpu) -> &'static str {
    match gpu {
        _ if TESTED.contains(&gpu) => "all tests",
        _ if BY_HAND.contains(&gpu) => "a story, by hand",
        _ => "a story",
    }
}

fn least_rocm(gpu: Gpu) -> &'static str {
    let found = LEAST_ROCM.iter().find(|(named, _)| *named == gpu);
    found.map_or("", |(_, release)| release)
}

/// The whole page.
fn page() -> String {
    let mut page = HEAD.to_owned();
    page += "| cards | processor | code object | matrix unit | ROCm | executed |\n|---|---|---|---|---|---|\n";
    for gpu in Gpu::all() {
        let facts = gpu.facts();
        let _ = writeln!(
            page,
            "| {} | {gpu}, {} | {} | {} | {} | {} |",
            facts.cards.join(", "),
            facts.architecture.name(),
            object(gpu),
            matrix_unit(gpu),
            least_rocm(gpu),
            executed(gpu)
        );
    }
    page + TAIL
}

#[test]
fn the_page_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = page();
    if std::env::var_os(WRITE).is_some_and(|value| !value.is_empty()) {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let there = std::fs::read_to_string(&path).expect("docs/user/gpus.md");
    assert!(
        there == page,
        "docs/user/gpus.md is not the table: write it anew with {WRITE}=1"
    );
}
