//! Code objects on a GPU, and launching the kernels in them.

pub mod attributes;
pub mod compile;
pub(crate) mod function;
pub(crate) mod handles;
pub(crate) mod image;
pub mod launch;
pub(crate) mod long_sort;
pub mod module;
mod no_code;
mod report;
mod rtc;
pub(crate) mod split_rows;
pub(crate) mod submit;
pub(crate) mod text;
