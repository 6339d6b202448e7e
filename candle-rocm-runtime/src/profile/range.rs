//! Parts of a program that have names.

use std::time::Instant;

use super::{recorder, switch};

/// A part of a program that has a name: a slice of its thread in the trace, from [`range`] to its drop.
#[derive(Debug)]
#[must_use = "the range ends where this is dropped"]
pub struct Range {
    name: Option<String>,
    began: Instant,
}

/// Names what the calling thread does until the result is dropped, in the trace of `CANDLE_ROCM_TRACE`; nothing without one.
pub fn range(name: &str) -> Range {
    Range {
        name: switch::is_on().then(|| name.to_owned()),
        began: Instant::now(),
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            recorder::host_slice(name, self.began);
        }
    }
}
