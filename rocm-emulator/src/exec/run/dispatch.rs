//! A grid: its workgroups, handed out in order to threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::launch_state::{scratch_size, Arguments};
use super::workgroup::{Failure, Run, Workgroup};
use crate::exec::memory::Context;
use crate::exec::program;
use crate::exec::watch::{coverage, Recorder, Tracer};
use crate::exec::{Counters, Launch, Options};
use crate::fault::Fault;
use crate::memory::Memory;

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
    let snapshot = memory.snapshot();
    let start = Instant::now();
    let [columns, rows, layers] = launch.grid.map(u64::from);
    let total = columns * rows * layers;
    let stride = scratch_size(launch).next_multiple_of(SCRATCH_ALIGN);
    let lds_size = kernel.group_segment_fixed_size + launch.dynamic_lds;
    let tracer = options.trace.map(|trace| Tracer::new(trace, launch.kernel));
    let first_program = program::of(launch.kernel);
    let run = Run {
        launch: *launch,
        arguments: &arguments,
        max_instructions: options.max_instructions,
    };

    let next = AtomicU64::new(0);
    // Workgroups from this one on need not run: an earlier one failed.
    let limit = AtomicU64::new(total);
    let failure: Mutex<Option<(u64, Box<Fault>)>> = Mutex::new(None);
    let counters = Mutex::new(Counters {
        launches: 1,
        ..Counters::default()
    });

    let work = || {
        let mut program = first_program.clone();
        let mut workgroup = Workgroup::new(launch, stride);
        workgroup.lds = vec![0; (lds_size as usize).div_ceil(8)];
        let mut cx = Context {
            memory,
            snapshot: &snapshot,
            arguments: arguments.window(),
            windows: vec![(0, 0); program.sites as usize],
            lds: workgroup.lds.as_mut_ptr().cast(),
            lds_size,
            scratch: std::ptr::null_mut(),
            scratch_size: scratch_size(launch),
            scratch_stride: stride,
            counters: Counters::default(),
            recorder: options
                .profile
                .map(|_| Box::new(Recorder::new(kernel.target, launch.kernel.entry))),
            start,
        };
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= limit.load(Ordering::Relaxed) {
                break;
            }
            let coordinates = [
                (index % columns) as u32,
                (index / columns % rows) as u32,
                (index / columns / rows) as u32,
            ];
            let done = workgroup.run(&run, &mut program, coordinates, &mut cx, tracer.as_ref());
            if let Err(failed) = done {
                limit.fetch_min(index, Ordering::Relaxed);
                let mut first = failure.lock();
                if first.as_ref().is_none_or(|(other, _)| index < *other) {
                    *first = Some((index, fault(launch, failed, coordinates)));
                }
            }
        }
        *counters.lock() += cx.counters;
        if let (Some(mut recorder), Some(profile)) = (cx.recorder, options.profile) {
            recorder.keep(&program);
            profile.lock().add(&recorder.finish());
        }
    };

    let items: u64 = launch.block.iter().map(|&size| u64::from(size)).product();
    let wavefronts = total.saturating_mul(items.div_ceil(kernel.wavefront_size.into()));
    let threads = match options.threads {
        0 => rayon::current_num_threads() as u64,
        threads => threads as u64,
    };
    let threads = threads.min(total);
    if threads <= 1 || wavefronts < FEW_WAVEFRONTS || options.trace.is_some() {
        work();
    } else {
        rayon::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|_| work());
            }
            work();
        });
    }
    match failure.into_inner() {
        Some((_, fault)) => Err(fault),
        None => {
            coverage::note(kernel);
            Ok(counters.into_inner())
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
