//! Memory of GPUs and of the host that copies use, and moving data between them.

pub(crate) mod access;
pub mod buffer;
pub mod copy;
pub mod host;
pub(crate) mod in_capture;
pub(crate) mod view;
pub mod workspace;
