//! What headers of kernels say that the host must know, read strictly when kernels are built: what the reader does not know is an
//! error that names the file and the line.
//!
//! | in a header | here |
//! |---|---|
//! | lists, as macros of rows | [`lists`] |
//! | such lists by architecture, which become Rust's tables | [`tables`] |
//! | structs that kernels are told | [`structs`] |
//! | enums and constants | [`numbers`] |

pub mod lists;
pub mod numbers;
pub mod structs;
pub mod tables;
