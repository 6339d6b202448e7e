//! Marks for a profiler, under cudarc's names. AMD's profilers do not listen to HIP's, so that they mark nothing.

use crate::base::error::Result;
use crate::runtime;

/// What a profiler would record from here on.
///
/// # Errors
/// The runtime cannot start.
pub fn profiler_start() -> Result<()> {
    runtime::current().map(drop)
}

/// What a profiler would record up to here.
///
/// # Errors
/// The runtime cannot start.
pub fn profiler_stop() -> Result<()> {
    runtime::current().map(drop)
}

/// [`profiler_start`], and [`profiler_stop`] when it is dropped.
#[derive(Debug, Default)]
pub struct Profiler;

impl Profiler {
    /// Starts.
    ///
    /// # Errors
    /// As [`profiler_start`].
    pub fn new() -> Result<Self> {
        profiler_start()?;
        Ok(Self)
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        // Nothing can fail that did not before.
        let _ = profiler_stop();
    }
}
