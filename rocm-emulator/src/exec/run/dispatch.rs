//! A grid: its workgroups, handed out in order to threads.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::crew;
use super::launch::{Launch, Options};
use super::launch_state::{scratch_size, Arguments};
use super::occupancy::{workgroups_in_mode, workgroups_per_multiprocessor};
use super::schedule::{Next, Schedule};
use super::thread::{Run, Thread};
use super::workgroup::{Failure, Progress, Workgroup};
use crate::codeobject::Kernel;
use crate::exec::check::{Checker, Checks, Draw};
use crate::exec::clock::{Geometry, Sample};
use crate::exec::counters::Counters;
use crate::exec::memory::Context;
use crate::exec::program::{self, Program};
use crate::exec::services::{Services, Wanted};
use crate::exec::watch::{coverage, findings, Profile, Recorder, Tracer};
use crate::fault::{Fault, FaultKind};
use crate::memory::{Memory, Snapshot};

/// A lane's scratch is a multiple of this, so that its elements are aligned.
const SCRATCH_ALIGN: u32 = 16;
/// Fewer wavefronts than this run on the calling thread: waking others would take longer.
const FEW_WAVEFRONTS: u64 = 3;
/// A workgroup that waits is asked this often before another gets the thread, if something has changed for it.
const MOST_ASKED: u32 = 64;
/// How long a thread rests when all workgroups wait, for memory that another launch or the host may write.
const REST: Duration = Duration::from_micros(20);
/// One launch of so many finds a crowded GPU, under the check of order.
const CROWDED: usize = 4;

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
    let workgroups: u64 = launch.grid.iter().map(|&count| u64::from(count)).product();
    let items: u64 = launch.block.iter().map(|&size| u64::from(size)).product();
    let lds_size = kernel.group_segment_fixed_size + launch.dynamic_lds;
    let threads = threads(options).min(workgroups);
    let held = workgroups_per_multiprocessor(kernel, items as u32, lds_size).max(1);
    let capacity = u64::from(held * kernel.target.multiprocessors()).max(threads);

    let wavefronts = items.div_ceil(kernel.wavefront_size.into());
    let resident = wavefronts.saturating_mul(workgroups.min(capacity));
    let wanted = Wanted {
        formats: options.formats,
        output: options.output,
        cooperative: options
            .cooperative
            .then(|| (workgroups, workgroups.saturating_mul(items))),
        wavefronts: resident,
    };
    let services =
        Services::new(memory, kernel, wanted).map_err(|kind| fault_of_launch(launch, kind))?;
    let arguments = match options.packet {
        None => Arguments::new(launch, &services),
        Some(packet) => Arguments::of_packet(launch, memory, packet)
            .map_err(|kind| fault_of_launch(launch, kind))?,
    };
    let geometry = || Geometry {
        target: kernel.target,
        workgroups,
        held: workgroups_in_mode(kernel, items as u32, lds_size).max(1),
    };
    let sample = options.cycles.map(|cycles| Sample::new(cycles, geometry()));
    let grid = Grid {
        memory,
        snapshot: memory.snapshot(),
        run: Run::new(*launch, &arguments, options, sample),
        schedule: schedule(kernel, (workgroups, capacity), options),
        workgroups,
        executed: options.workgroups,
        lds_size,
        read_past_end: options.read_past_end,
        services: &services,
        program: program::of(launch.kernel),
        tracer: options.trace.map(|trace| Tracer::new(trace, launch.kernel)),
        profile: options.profile,
        start: Instant::now(),
        failure: Mutex::new(None),
        counters: Mutex::new(Counters {
            launches: 1,
            ..Counters::default()
        }),
    };
    let few = wavefronts.saturating_mul(workgroups) < FEW_WAVEFRONTS;
    if threads <= 1 || few || options.trace.is_some() {
        grid.work();
    } else {
        crew::share(threads as usize - 1, &|| grid.work());
    }
    services.finish();
    grid.finish()
}

/// Who begins when. Under the check of order that is drawn among XCDs, and some launches find a GPU that has room for
/// one workgroup of each XCD alone, as others hold the rest: none may wait for a later one but in cooperative launches.
fn schedule(kernel: &Kernel, (workgroups, capacity): (u64, u64), options: &Options) -> Schedule {
    if !options.checks.has(Checks::ORDER) {
        return Schedule::new(workgroups, capacity);
    }
    let mut draw =
        Draw::new(options.seed ^ workgroups.wrapping_mul(kernel.descriptor.rsrc1.into()));
    let crowded = !options.cooperative && draw.below(CROWDED) == 0;
    let room = if crowded { 1 } else { capacity };
    Schedule::new(workgroups, room).among(kernel.target.facts().product.xcds, draw)
}

/// Whether `number` is among `wanted` of `all` numbers from 0 on, spread evenly from the first to the last; 0 means all.
fn is_among(wanted: u64, number: u64, all: u64) -> bool {
    if wanted == 0 || wanted >= all {
        return true;
    }
    let [number, steps, last] = [number, wanted - 1, all - 1].map(u128::from);
    // The wanted ones are k * last / steps, rounded down, for k from 0 to `steps`.
    match steps {
        0 => number == 0,
        _ => (number * steps).div_ceil(last) * last / steps == number,
    }
}

/// Threads that a launch may have.
fn threads(options: &Options) -> u64 {
    let apart = [Checks::RACES, Checks::UNINITIALISED, Checks::CACHES];
    match options.threads {
        // What workgroups do to each other's memory is known in one place.
        _ if apart.iter().any(|check| options.checks.has(*check)) => 1,
        0 => cores() as u64,
        threads => threads as u64,
    }
}

/// Threads that can run at the same time.
fn cores() -> usize {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    *CORES
}

/// What the threads of a launch share.
struct Grid<'a> {
    memory: &'a Memory,
    snapshot: Arc<Snapshot>,
    run: Run<'a>,
    schedule: Schedule,
    workgroups: u64,
    /// As many of them are executed; 0 means all.
    executed: u64,
    lds_size: u32,
    read_past_end: u32,
    services: &'a Services<'a>,
    program: Arc<Program>,
    tracer: Option<Tracer<'a>>,
    profile: Option<&'a Mutex<Profile>>,
    start: Instant,
    failure: Mutex<Option<(u64, Box<Fault>)>>,
    counters: Mutex<Counters>,
}

impl Grid<'_> {
    /// Run workgroups until none is left, on the thread that calls.
    fn work(&self) {
        let launch = &self.run.launch;
        let schedule = &self.schedule;
        let stride = scratch_size(launch).next_multiple_of(SCRATCH_ALIGN);
        let mut thread = self.thread(stride);
        let mut idle: Vec<Workgroup> = Vec::new();
        // Workgroups found waiting one after the other, while the launch stood at `seen`.
        let (mut waits, mut seen, mut noted) = (0, 0, None);
        schedule.enter();
        loop {
            let mut workgroup = match schedule.next(waits > 0) {
                Next::Resume(workgroup) if !schedule.wants(workgroup.number) => {
                    schedule.ended(workgroup.number);
                    continue;
                }
                Next::Resume(workgroup) => workgroup,
                Next::Begin(number) if self.leaves_out(number) => {
                    schedule.ended(number);
                    continue;
                }
                Next::Begin(number) => {
                    let buffers = idle.pop();
                    let mut workgroup =
                        buffers.unwrap_or_else(|| Workgroup::new(&self.run, stride, self.lds_size));
                    workgroup.begin(&mut thread, number);
                    workgroup
                }
                Next::Later => {
                    std::thread::sleep(REST);
                    continue;
                }
                Next::Finished => break,
            };
            match self.advance(&mut workgroup, &mut thread) {
                Ok(Progress::Ended) => {
                    if let Some(sample) = &self.run.sample {
                        workgroup.hand_over(sample);
                    }
                    schedule.ended(workgroup.number);
                    idle.push(workgroup);
                    waits = 0;
                }
                Ok(Progress::Waits { still: true }) if self.failure.lock().is_some() => {
                    // What it waits for may never come.
                    schedule.ended(workgroup.number);
                }
                Ok(progress) => {
                    let (still, now) = (
                        progress == Progress::Waits { still: true },
                        schedule.progress(),
                    );
                    waits = if still && now == seen { waits + 1 } else { 1 };
                    seen = now;
                    // All the others were asked meanwhile, and none has got on.
                    let all_asked = waits > schedule.aside();
                    let idle = all_asked && schedule.note_idle(now, &mut noted);
                    workgroup.note_waiting(now, idle);
                    schedule.lay_aside(workgroup);
                    if all_asked {
                        std::thread::sleep(REST);
                    }
                }
                Err(failed) => {
                    self.fail(&workgroup, failed);
                    idle.push(workgroup);
                }
            }
        }
        schedule.leave();
        *self.counters.lock() += thread.cx.counters;
        if let (Some(mut recorder), Some(profile)) = (thread.recorder, self.profile) {
            recorder.keep(&thread.program);
            profile.lock().add(&recorder.finish());
        }
    }

    /// What became of the launch, for the caller and for those who keep count.
    fn finish(self) -> Result<Counters, Box<Fault>> {
        let kernel = self.run.launch.kernel;
        match self.failure.into_inner() {
            Some((_, fault)) => {
                findings::note(kernel.kernel.target, &fault);
                Err(fault)
            }
            None => {
                if let Some(sample) = self.run.sample {
                    sample.finish(kernel, &self.snapshot);
                }
                coverage::note(&kernel.kernel);
                Ok(self.counters.into_inner())
            }
        }
    }

    /// Whether a workgroup is not run because others are enough for who asked, or tell the launch's time.
    fn leaves_out(&self, number: u64) -> bool {
        let sample = self.run.sample.as_ref();
        !is_among(self.executed, number, self.workgroups)
            || sample.is_some_and(|sample| sample.skips(number))
    }

    fn thread(&self, scratch_stride: u32) -> Thread<'_> {
        let kernel = self.run.launch.kernel;
        Thread {
            run: &self.run,
            cx: Context {
                memory: self.memory,
                snapshot: &self.snapshot,
                arguments: self.run.arguments.window(),
                windows: vec![(0, 0); self.program.sites as usize],
                lds: std::ptr::null_mut(),
                lds_size: self.lds_size,
                scratch: std::ptr::null_mut(),
                scratch_size: scratch_size(&self.run.launch),
                scratch_stride,
                read_past_end: self.read_past_end.into(),
                counters: Counters::default(),
                start: self.start,
            },
            program: self.program.clone(),
            tracer: self.tracer.as_ref(),
            checker: self.run.checks.watch().then(|| {
                let items: u64 = self
                    .run
                    .launch
                    .block
                    .iter()
                    .map(|&it| u64::from(it))
                    .product();
                let waves = items.div_ceil(kernel.kernel.wavefront_size.into()) as u32;
                let seed = self.run.seed;
                Box::new(Checker::new(self.run.checks, kernel, waves, seed))
            }),
            recorder: self
                .profile
                .map(|_| Box::new(Recorder::new(kernel.kernel.target, kernel.entry))),
        }
    }

    /// Run a workgroup as far as it gets now.
    fn advance(&self, workgroup: &mut Workgroup, thread: &mut Thread) -> Result<Progress, Failure> {
        let schedule = &self.schedule;
        for _ in 0..MOST_ASKED {
            let progress = workgroup.advance(thread)?;
            let Progress::Waits { still } = progress else {
                schedule.got_on();
                return Ok(progress);
            };
            if !still {
                schedule.got_on();
            }
            let served = self
                .services
                .serve()
                .map_err(|kind| workgroup.place(kind))?;
            if still && !served {
                return Ok(progress);
            }
        }
        schedule.got_on();
        Ok(Progress::Interrupted)
    }

    /// Keep the fault of the first workgroup that fails.
    fn fail(&self, workgroup: &Workgroup, failed: Failure) {
        let number = workgroup.number;
        self.schedule.failed(number);
        self.schedule.ended(number);
        let mut first = self.failure.lock();
        if first.as_ref().is_none_or(|(other, _)| number < *other) {
            let fault = fault(&self.run.launch, failed, workgroup.coordinates);
            *first = Some((number, fault));
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

/// A fault before the first instruction.
fn fault_of_launch(launch: &Launch, kind: FaultKind) -> Box<Fault> {
    let failed = Failure {
        violation: kind.into(),
        pc: launch.kernel.entry,
        wave: 0,
    };
    fault(launch, failed, [0; 3])
}

#[cfg(test)]
mod tests {
    use super::is_among;

    #[test]
    fn workgroups_are_spread_evenly() {
        let chosen = |wanted, all| {
            (0..all)
                .filter(|number| is_among(wanted, *number, all))
                .collect::<Vec<_>>()
        };
        assert_eq!(chosen(0, 3), [0, 1, 2]);
        assert_eq!(chosen(1, 3), [0]);
        assert_eq!(chosen(2, 1536), [0, 1535]);
        assert_eq!(chosen(3, 1536), [0, 767, 1535]);
        for all in [5, 64, 1000, 1001] {
            for wanted in [2, 3, 4, 5, 63] {
                let chosen = chosen(wanted, all);
                assert_eq!(chosen.len() as u64, wanted.min(all), "{wanted} of {all}");
                assert_eq!((chosen[0], chosen[chosen.len() - 1]), (0, all - 1));
            }
        }
    }
}
