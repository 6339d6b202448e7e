//! Execution: grids, workgroups, wavefronts, and what each instruction does.

mod wave;

pub use wave::{Mode, Row, Wave, LANES};
