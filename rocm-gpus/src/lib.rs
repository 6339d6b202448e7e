#![doc = include_str!("../README.md")]

mod architectures;
mod gpus;
mod matrix;
mod targets;

pub use architectures::{Accumulation, Architecture, Family, MatrixUnit, Rates, Unit};
pub use gpus::{Facts, Gpu, Memory, MemoryKind, Product, UnknownGpu};
pub use targets::{CodeTarget, Generic, UnknownTarget};
