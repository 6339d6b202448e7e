//! Code objects on a GPU, and launching the kernels in them.

pub mod attributes;
pub mod compile;
pub mod compile_options;
pub(crate) mod function;
pub(crate) mod handles;
#[cfg(feature = "rtc")]
mod hiprtc;
pub(crate) mod image;
pub mod launch;
pub mod module;
mod no_code;
#[cfg(not(feature = "rtc"))]
mod no_rtc;
pub mod radix_sort;
pub mod ready;
mod report;
mod rtc;
#[cfg(feature = "rtc")]
mod rtc_amd;
pub(crate) mod split_rows;
pub(crate) mod submit;
pub(crate) mod text;
