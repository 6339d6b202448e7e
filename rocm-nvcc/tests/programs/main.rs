//! Small CUDA programs, one for each thing that the headers have, compiled for five GPUs and run on the emulator's engine;
//! each beside plain Rust. `candle-rocm-runtime/tests/programs.rs` runs the same on an NVIDIA GPU.
//!
//! Blocks have 40 and 96 threads: the last warp of the first has eight, and on CDNA a wavefront holds two warps.

mod run;
// By its path, as the other test has it: what it consists of is beside it.
#[path = "table.rs"]
mod table;

use rocm_emulator::isa::Target;

use run::check;
use table::GROUPS;

fn on(target: Target) {
    for group in &GROUPS {
        check(target, group);
    }
}

candle_rocm_testing::each_target! {
    on: gfx90a Gfx90a, gfx942 Gfx942, gfx1030 Gfx1030, gfx1100 Gfx1100, gfx1201 Gfx1201
}

/// A program that nobody runs would be one that nobody checks.
#[test]
fn every_program_has_a_reference() {
    for group in GROUPS {
        let lines = group.source.lines();
        let written: Vec<&str> = lines
            .filter_map(|line| line.strip_prefix("PROGRAM(")?.split(')').next())
            .collect();
        let checked: Vec<&str> = group.programs.iter().map(|(name, _)| *name).collect();
        assert_eq!(written, checked, "{}", group.name);
    }
}
