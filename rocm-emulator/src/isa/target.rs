//! The GPUs the emulator can be: those of the table in `rocm-gpus`.

pub use rocm_gpus::{Family, Gpu as Target};
