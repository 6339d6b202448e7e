//! The HIP runtime API over the emulator.
