//! Scalar instructions: operands, the table of semantics, hardware registers.

mod hwreg;
mod lower;
mod op;
mod operand;
mod relative;
mod table;

pub(crate) use hwreg::{get as get_hwreg, set as set_hwreg, set_mode_bits, time};
pub(crate) use lower::lower;
pub(crate) use op::ScalarOp;
pub(crate) use operand::{Destination, Source};
