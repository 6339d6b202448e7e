//! What `candle-rocm-card` found on a GPU.
//!
//! - [`record`]: the JSON file.
//! - [`paste`]: the lines to paste.
//! - [`page`]: a page of several files.

pub mod page;
pub mod paste;
pub mod record;

pub use record::{Item, Part, Record, State};
