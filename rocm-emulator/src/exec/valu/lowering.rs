//! What lowering an instruction gives beside a table's operation.

use crate::exec::wave::Wave;

/// What an instruction does to a wavefront.
pub(super) type Run = Box<dyn Fn(&mut Wave) + Send + Sync>;

/// An instruction that has no semantics here, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unimplemented {
    /// What is missing, in words.
    pub reason: String,
}

impl Unimplemented {
    pub(super) fn new(reason: impl Into<String>) -> Unimplemented {
        Unimplemented {
            reason: reason.into(),
        }
    }
}
