//! Inline PTX in preprocessed CUDA, rewritten to calls of the functions in `candle_rocm/ptx.h`.
//!
//! [`source`] finds the `asm` statements, [`statement`] takes one apart, [`instruction`] does so with the PTX in it,
//! [`translate`] writes C++, by the tables of [`table`].

mod instruction;
mod source;
mod statement;
mod table;
mod translate;

pub use source::rewrite;

/// PTX that nothing here knows, where it stands and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The file, as the compiler was told of it.
    pub file: String,
    /// The line, from 1, on which the `asm` begins.
    pub line: usize,
    /// The instruction, or the whole statement where that could not be read.
    pub instruction: String,
    /// What is wrong.
    pub reason: String,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            file,
            line,
            instruction,
            reason,
        } = self;
        write!(f, "{file}:{line}: PTX `{instruction}`: {reason}")
    }
}
