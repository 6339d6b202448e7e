//! `cargo xtask rocm --rccl`: AMD's RCCL over its own HIP, on two emulated GPUs of one process.

use anyhow::Result;

use super::packages::COLLECTIVES;
use super::parts::Parts;
use super::programs::{Programs, Runner, COMMUNICATION};
use super::root::Root;
use crate::cargo;

/// The ways that RCCL takes between GPUs: as it chooses, and through the host's memory.
const WAYS: [(&str, &str); 2] = [
    ("through the GPUs' memory", "0"),
    ("through the host's", "1"),
];

/// Protocols of RCCL's: packets of 8 bytes, lines of 128 bytes, pieces with flags.
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "Simple"];

/// The tests of collectives on two GPUs of one architecture: by each way as RCCL chooses protocols, then by each protocol.
pub fn run(
    root: &Root,
    programs: &Programs,
    runner: &Runner,
    arch: &str,
    parts: &mut Parts,
) -> Result<()> {
    let mut part = |what: &str, variable: (&str, &str), tests: &str| -> Result<()> {
        let mut command = programs.test(runner, COMMUNICATION, &format!("{arch},{arch}"))?;
        command
            .args([tests, "--ignored", "--test-threads=1"])
            .env("CANDLE_ROCM_COMM", "library")
            .env(
                "CANDLE_ROCM_COMM_LIBRARY",
                root.libraries(&COLLECTIVES).join("librccl.so.1"),
            )
            // RCCL asks for it where it does not know the version of the GPU's firmware.
            .env("HSA_NO_SCRATCH_RECLAIM", "1")
            .env(variable.0, variable.1);
        parts.run(&format!("librccl.so.1 {what} on two {arch}"), || {
            cargo::run_quietly(&mut command)
        });
        Ok(())
    };
    for (way, disabled) in WAYS {
        part(way, ("NCCL_P2P_DISABLE", disabled), "rccl::")?;
    }
    for protocol in PROTOCOLS {
        part(
            &format!("by {protocol}"),
            ("NCCL_PROTO", protocol),
            "rccl::sums_again_and_again",
        )?;
    }
    Ok(())
}
