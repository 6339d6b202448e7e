//! A kernel's code, decoded and lowered once into steps with resolved operands and branch targets.

mod cache;
mod code;
mod lower;
mod registers;
mod step;
mod translate;

pub(crate) use cache::{extended, of};
pub use cache::{unload, unsupported};
pub(crate) use code::{placed_at, text_at};
pub(crate) use registers::RegisterFile;
pub(crate) use step::{Op, Step, NOWHERE};
pub(crate) use translate::Program;
