//! The error of PTX that is not known.

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
