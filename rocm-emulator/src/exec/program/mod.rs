//! A kernel's code, translated into steps.

mod translate;

pub(crate) use translate::{extended, of, text_at, Lowering, Op, Program, Registers, NOWHERE};
pub use translate::{unload, unsupported};
