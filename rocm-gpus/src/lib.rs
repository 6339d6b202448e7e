#![doc = include_str!("../README.md")]

mod architectures;
mod gpus;
mod matrix;
mod targets;
mod timing;

pub use architectures::{Accumulation, Architecture, Family, MatrixUnit, Rates, Unit};
pub use gpus::{Facts, Gpu, Memory, MemoryKind, Product, UnknownGpu};
pub use targets::{CodeTarget, Generic, UnknownTarget};
pub use timing::{Level, Sustained, Timing, SUSTAINED};
