//! Code objects on a GPU, and launching the kernels in them.

pub mod launch;
pub mod module;
pub(crate) mod split_rows;
