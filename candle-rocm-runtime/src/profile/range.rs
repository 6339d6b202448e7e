//! Parts of a program that have names.

use std::time::Instant;

use super::marks::marks;
use super::{recorder, switch};

/// A part of a program that has a name: a slice of its thread in the trace, and a range of another profiler's, from
/// [`range`] to its drop.
#[derive(Debug)]
#[must_use = "the range ends where this is dropped"]
pub struct Range {
    /// In the trace.
    name: Option<String>,
    began: Instant,
    /// The other profiler's number.
    told: Option<u64>,
}

/// Names what the calling thread does until the result is dropped, in the trace of `CANDLE_ROCM_TRACE` and to AMD's or
/// NVIDIA's profiler where one is told (`CANDLE_ROCM_RANGES`); nothing without either.
pub fn range(name: &str) -> Range {
    range_with(|| name)
}

/// [`range`] of a name that is made only where somebody is told.
pub fn range_with<S: AsRef<str>>(name: impl FnOnce() -> S) -> Range {
    let (traced, marks) = (switch::is_on(), marks());
    let name = (traced || marks.is_some()).then(name);
    let name = name.as_ref().map(AsRef::as_ref);
    Range {
        told: marks.zip(name).map(|(marks, name)| marks.start(name)),
        name: name.filter(|_| traced).map(str::to_owned),
        began: Instant::now(),
    }
}

/// Names a moment, where [`range`] names a time.
pub fn mark(name: &str) {
    if let Some(marks) = marks() {
        marks.mark(name);
    }
    if switch::is_on() {
        recorder::host_slice(name, Instant::now());
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Some((marks, number)) = marks().zip(self.told) {
            marks.stop(number);
        }
        if let Some(name) = &self.name {
            recorder::host_slice(name, self.began);
        }
    }
}
