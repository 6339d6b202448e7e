//! What the tests of candle-rocm's crates share.
//!
//! - [`floors`]: the order in which a crate's files may import one another.

pub mod floors;
