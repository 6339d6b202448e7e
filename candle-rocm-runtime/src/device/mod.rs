//! The GPUs of the process, and what is known about each.
//!
//! A [`Device`] knows nothing of what stands above it. Memory pools, loaded modules, streams, libraries of matrix
//! products: each owner keeps what it has for a GPU in a `PerDevice` of its own, and adds its method to [`Device`] in
//! its own file. Every [`Context`](crate::context::Context) on the same GPU shares these, so that memory freed by one is
//! found by another and a kernel is loaded once.

mod attributes;
pub(crate) mod gpu;
pub(crate) mod info;
pub(crate) mod machine;
pub(crate) mod per_device;
mod registry;

pub use attributes::{count, read_attribute};
pub use gpu::Device;
pub use info::DeviceInfo;
pub use machine::nodes;
