//! What one of a launch's threads works with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::grid_barrier::GridBarrier;
use super::launch::Launch;
use super::launch_state::Arguments;
use crate::exec::memory::Context;
use crate::exec::program::Program;
use crate::exec::watch::{Recorder, Tracer};

/// What is the same for every workgroup of a launch.
pub(super) struct Run<'a> {
    pub launch: Launch<'a>,
    pub arguments: &'a Arguments,
    pub max_instructions: u64,
    /// For `ds_gws_barrier`.
    pub grid_barrier: GridBarrier,
    /// A wavefront was found waiting.
    pub waiting: AtomicBool,
}

impl Run<'_> {
    /// A wavefront was found waiting.
    pub fn note_waiting(&self) {
        self.waiting.store(true, Ordering::Relaxed);
    }

    /// Whether a wavefront of the launch was ever found waiting.
    pub fn someone_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A thread's own.
pub(super) struct Thread<'a> {
    pub run: &'a Run<'a>,
    pub cx: Context<'a>,
    pub program: Arc<Program>,
    pub tracer: Option<&'a Tracer<'a>>,
    /// Counts by instruction, if asked for.
    pub recorder: Option<Box<Recorder>>,
}
