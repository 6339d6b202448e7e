//! Code objects on a GPU, and launching the kernels in them.

pub(crate) mod function;
pub(crate) mod image;
pub mod launch;
pub mod module;
pub(crate) mod split_rows;
pub(crate) mod submit;
