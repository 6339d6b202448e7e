//! A grid: its workgroups, handed out in order to threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::launch::{Launch, Options};
use super::launch_state::{scratch_size, Arguments};
use super::workgroup::{Failure, Run, Watchers, Workgroup};
use crate::exec::counters::Counters;
use crate::exec::memory::Context;
use crate::exec::program::{self, Program};
use crate::exec::watch::{coverage, Profile, Recorder, Tracer};
use crate::fault::Fault;
use crate::memory::{Memory, Snapshot};

/// A lane's scratch is a multiple of this, so that its elements are aligned.
const SCRATCH_ALIGN: u32 = 16;
/// Fewer wavefronts than this run on the calling thread: waking others would take longer.
const FEW_WAVEFRONTS: u64 = 3;

/// Run a kernel to its end.
///
/// The caller has checked the launch against the device's limits (workgroup size, LDS).
///
/// # Errors
/// The fault of the first workgroup, in the grid's order, that has one.
pub fn dispatch(
    memory: &Memory,
    launch: &Launch,
    options: &Options,
) -> Result<Counters, Box<Fault>> {
    let kernel = &launch.kernel.kernel;
    let arguments = Arguments::new(launch);
    let workgroups: u64 = launch.grid.iter().map(|&count| u64::from(count)).product();
    let grid = Grid {
        memory,
        snapshot: memory.snapshot(),
        run: Run {
            launch: *launch,
            arguments: &arguments,
            max_instructions: options.max_instructions,
        },
        program: program::of(launch.kernel),
        tracer: options.trace.map(|trace| Tracer::new(trace, launch.kernel)),
        profile: options.profile,
        start: Instant::now(),
        next: AtomicU64::new(0),
        limit: AtomicU64::new(workgroups),
        failure: Mutex::new(None),
        counters: Mutex::new(Counters {
            launches: 1,
            ..Counters::default()
        }),
    };

    let items: u64 = launch.block.iter().map(|&size| u64::from(size)).product();
    let wavefronts = workgroups.saturating_mul(items.div_ceil(kernel.wavefront_size.into()));
    let threads = match options.threads {
        0 => rayon::current_num_threads() as u64,
        threads => threads as u64,
    };
    let threads = threads.min(workgroups);
    if threads <= 1 || wavefronts < FEW_WAVEFRONTS || options.trace.is_some() {
        grid.work();
    } else {
        rayon::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|_| grid.work());
            }
            grid.work();
        });
    }
    match grid.failure.into_inner() {
        Some((_, fault)) => Err(fault),
        None => {
            coverage::note(kernel);
            Ok(grid.counters.into_inner())
        }
    }
}

/// What the threads of a launch share.
struct Grid<'a> {
    memory: &'a Memory,
    snapshot: Arc<Snapshot>,
    run: Run<'a>,
    program: Arc<Program>,
    tracer: Option<Tracer<'a>>,
    profile: Option<&'a Mutex<Profile>>,
    start: Instant,
    /// The workgroup that is taken next.
    next: AtomicU64,
    /// Workgroups from this one on need not run: there are no more, or an earlier one failed.
    limit: AtomicU64,
    failure: Mutex<Option<(u64, Box<Fault>)>>,
    counters: Mutex<Counters>,
}

impl Grid<'_> {
    /// Run workgroups until none is left, on the thread that calls.
    fn work(&self) {
        let launch = &self.run.launch;
        let kernel = &launch.kernel.kernel;
        let stride = scratch_size(launch).next_multiple_of(SCRATCH_ALIGN);
        let lds_size = kernel.group_segment_fixed_size + launch.dynamic_lds;
        let [columns, rows, _] = launch.grid.map(u64::from);
        let mut program = self.program.clone();
        let mut workgroup = Workgroup::new(launch, stride);
        workgroup.lds = vec![0; (lds_size as usize).div_ceil(8)];
        let mut cx = Context {
            memory: self.memory,
            snapshot: &self.snapshot,
            arguments: self.run.arguments.window(),
            windows: vec![(0, 0); program.sites as usize],
            lds: workgroup.lds.as_mut_ptr().cast(),
            lds_size,
            scratch: std::ptr::null_mut(),
            scratch_size: scratch_size(launch),
            scratch_stride: stride,
            counters: Counters::default(),
            start: self.start,
        };
        let mut watchers = Watchers {
            tracer: self.tracer.as_ref(),
            recorder: self
                .profile
                .map(|_| Box::new(Recorder::new(kernel.target, launch.kernel.entry))),
        };
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.limit.load(Ordering::Relaxed) {
                break;
            }
            let coordinates = [
                (index % columns) as u32,
                (index / columns % rows) as u32,
                (index / columns / rows) as u32,
            ];
            let done = workgroup.run(&self.run, &mut program, coordinates, &mut cx, &mut watchers);
            if let Err(failed) = done {
                self.limit.fetch_min(index, Ordering::Relaxed);
                let mut first = self.failure.lock();
                if first.as_ref().is_none_or(|(other, _)| index < *other) {
                    *first = Some((index, fault(launch, failed, coordinates)));
                }
            }
        }
        *self.counters.lock() += cx.counters;
        if let (Some(mut recorder), Some(profile)) = (watchers.recorder, self.profile) {
            recorder.keep(&program);
            profile.lock().add(&recorder.finish());
        }
    }
}

fn fault(launch: &Launch, failed: Failure, workgroup: [u32; 3]) -> Box<Fault> {
    let kernel = launch.kernel;
    Box::new(Fault {
        kind: failed.violation.kind,
        kernel: kernel.kernel.name.clone(),
        pc: failed.pc.wrapping_sub(kernel.entry),
        instruction: program::text_at(kernel, failed.pc),
        workgroup,
        wave: failed.wave,
        lane: failed.violation.lane,
    })
}
