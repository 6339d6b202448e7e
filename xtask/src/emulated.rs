//! The emulated GPUs that tests run on.

/// The GPUs that everything runs on: one of each instruction set that the emulator knows.
pub const ARCHITECTURES: [&str; 5] = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"];

/// The GPU of what runs on one alone.
pub const ONE_ARCHITECTURE: &str = "gfx1100";
