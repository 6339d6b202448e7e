//! What one of a launch's threads works with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::grid_barrier::GridBarrier;
use super::launch::{Launch, Options};
use super::launch_state::Arguments;
use crate::exec::check::{Checker, Checks};
use crate::exec::clock::Sample;
use crate::exec::memory::Context;
use crate::exec::program::Program;
use crate::exec::watch::{Recorder, Tracer};

/// What is the same for every workgroup of a launch.
pub(super) struct Run<'a> {
    pub launch: Launch<'a>,
    pub arguments: &'a Arguments,
    pub max_instructions: u64,
    pub checks: Checks,
    /// What orders are drawn from, with [`Checks::ORDER`].
    pub seed: u64,
    /// What of it is written down, to tell its time.
    pub sample: Option<Sample<'a>>,
    /// For `ds_gws_barrier`.
    pub grid_barrier: GridBarrier,
    waiting: AtomicBool,
    interrupted: AtomicBool,
}

impl<'a> Run<'a> {
    pub fn new(
        launch: Launch<'a>,
        arguments: &'a Arguments,
        options: &Options,
        sample: Option<Sample<'a>>,
    ) -> Run<'a> {
        Run {
            launch,
            arguments,
            max_instructions: options.max_instructions,
            checks: options.checks,
            seed: options.seed,
            sample,
            grid_barrier: GridBarrier::new(),
            waiting: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
        }
    }

    /// A wavefront was found waiting.
    pub fn note_waiting(&self) {
        self.waiting.store(true, Ordering::Relaxed);
    }

    /// Whether a wavefront of the launch was ever found waiting.
    pub fn someone_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// A workgroup had to let another have its thread.
    pub fn note_interrupted(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    /// Whether a workgroup of the launch ever had to let another have its thread.
    pub fn someone_was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
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
    /// What looks at every instruction, if asked for.
    pub checker: Option<Box<Checker<'a>>>,
}
