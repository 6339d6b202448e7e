#![doc = include_str!("../README.md")]

mod architectures;
pub mod costs;
mod generic;
mod gpus;
mod matrix;
mod releases;
mod targets;
mod timing;

pub use architectures::{Accumulation, Architecture, Family, MatrixUnit, Rates, Unit};
pub use generic::Generic;
pub use gpus::{Facts, Gpu, Memory, MemoryKind, Product, UnknownGpu};
pub use releases::LeastRelease;
pub use targets::{CodeTarget, UnknownTarget};
pub use timing::{ArrayCache, LaunchCost, Level, Pace, Sustained, Timing, SUSTAINED};
