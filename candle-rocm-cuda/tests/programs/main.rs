//! Small CUDA programs, one for each thing that the headers have, compiled for five GPUs and run on the emulator's engine;
//! each beside plain Rust.
//!
//! Blocks have 40 and 96 threads: the last warp of the first has eight, and on CDNA a wavefront holds two warps.

mod atomics;
mod floats;
mod groups;
mod integers;
mod matrices;
mod ptx;
mod run;
mod warps;

use rocm_emulator::isa::Target;

use run::{check, Group};

/// All of them. One file of CUDA each.
const GROUPS: [Group; 7] = [
    ("atomics", atomics::PROGRAMS),
    ("floats", floats::PROGRAMS),
    ("groups", groups::PROGRAMS),
    ("integers", integers::PROGRAMS),
    ("matrices", matrices::PROGRAMS),
    ("ptx", ptx::PROGRAMS),
    ("warps", warps::PROGRAMS),
];

fn on(target: Target) {
    for group in GROUPS {
        check(target, group);
    }
}

candle_rocm_testing::each_target! {
    on: gfx90a Gfx90a, gfx942 Gfx942, gfx1030 Gfx1030, gfx1100 Gfx1100, gfx1201 Gfx1201
}

/// A program that nobody runs would be one that nobody checks.
#[test]
fn every_program_has_a_reference() {
    for (name, programs) in GROUPS {
        let path = run::folder().join(format!("{name}.cu"));
        let source = std::fs::read_to_string(&path).expect("the file is there");
        let written: Vec<&str> = source
            .lines()
            .filter_map(|line| line.strip_prefix("PROGRAM(")?.split(')').next())
            .collect();
        let checked: Vec<&str> = programs.iter().map(|(name, _)| *name).collect();
        assert_eq!(written, checked, "{name}");
    }
}
