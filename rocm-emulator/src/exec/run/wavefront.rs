//! One wavefront: the turns it takes on a thread, and why each ends.

use super::launch_state::{self, Arguments};
use super::state::{fingerprint, Scalars};
use super::thread::{Run, Thread};
use crate::exec::check::{Checks, GroupChecks, WaveChecks};
use crate::exec::clock::WaveRecord;
use crate::exec::counters::Class;
use crate::exec::memory::{Context, Violation};
use crate::exec::program::{self, Op, Step, NOWHERE};
use crate::exec::scalar::{get_hwreg, set_hwreg, set_mode_bits, time};
use crate::exec::watch::Tracer;
use crate::exec::wave::{Row, Wave};
use crate::fault::FaultKind;

/// Instructions that a wavefront runs before another gets its turn, so that one may wait for another's store.
const QUANTUM: u64 = 1 << 16;
/// The same once a wavefront of the launch was found waiting: others probably do, too.
const SHORT_QUANTUM: u64 = 1 << 10;
/// A turn that follows one cut short begins with this many instructions under watch: a loop that only waits comes back
/// to its first instruction, with every register as it was.
const WATCHED: u64 = 1 << 12;
/// How often it may come back changed before it counts as one that works.
const MOST_RETURNS: u32 = 8;

/// Whether a wavefront can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ready,
    /// Waits for the workgroup's barrier.
    AtBarrier,
    /// Waits until the resource of the global wave sync has counted this far.
    AtGridBarrier {
        resource: u32,
        count: u64,
    },
    Ended,
}

/// What became of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It ended at a barrier, at the program's end, or with the quantum.
    Worked,
    /// The wavefront waits for someone else's store; `still` when nothing has changed for it since its last turn.
    Waits { still: bool },
}

/// Why the execution of steps ended, if not by a fault.
enum Stop {
    /// All that were allowed are done.
    Budget,
    /// The watched step comes next.
    Watched,
    /// `s_sleep`.
    Slept,
    /// The status has changed.
    Status,
}

/// A wavefront of a workgroup.
pub(super) struct Wavefront {
    /// Its program counter is right whenever the wavefront does not run.
    pub wave: Wave,
    pub status: Status,
    /// Has arrived at the barrier that the workgroup is coming to.
    pub signalled: bool,
    /// The barrier was completed, and the wavefront has not waited for it yet (GFX12 waits apart from arriving).
    pub released: bool,
    executed: u64,
    /// The last turn ended with the quantum.
    interrupted: bool,
    /// The state at the last `s_sleep`, if the last turn ended there.
    asleep: Option<u64>,
    scratch: Vec<u64>,
    /// What the checks know of it, if there are any.
    checks: Option<Box<WaveChecks>>,
    /// What it did, if that is to tell its time.
    pub record: Option<Box<WaveRecord>>,
}

/// A wavefront's workgroup, as the checks see it.
pub(super) struct Group<'g> {
    pub checks: &'g mut GroupChecks,
    /// Its place in the grid's order.
    pub number: u64,
    /// The wavefront's place in it.
    pub index: u32,
}

impl Wavefront {
    pub fn new(wave: Wave, scratch_dwords: usize, checks: Checks) -> Wavefront {
        let checks = checks
            .watch()
            .then(|| Box::new(WaveChecks::new(checks, &wave, 4 * scratch_dwords)));
        Wavefront {
            wave,
            checks,
            record: None,
            status: Status::Ready,
            signalled: false,
            released: false,
            executed: 0,
            interrupted: false,
            asleep: None,
            scratch: vec![0; scratch_dwords / 2],
        }
    }

    /// Begin anew, as wavefront `index` of a workgroup.
    pub fn start(&mut self, run: &Run, workgroup: [u32; 3], index: u32) {
        let arguments: &Arguments = run.arguments;
        self.wave.sgpr = [0; 106];
        // Hardware leaves what was there; zero makes every run the same.
        self.wave.vgpr.fill(Row::ZERO);
        self.wave.agpr.fill(Row::ZERO);
        let launch =
            |wave: &mut Wave| launch_state::start(wave, &run.launch, arguments, workgroup, index);
        launch(&mut self.wave);
        if let Some(checks) = &mut self.checks {
            checks.start(launch);
        }
        // A workgroup at the grid's edge may have fewer work-items than the others, and no use for the last wavefronts.
        self.status = match self.wave.exec() {
            0 => Status::Ended,
            _ => Status::Ready,
        };
        self.signalled = false;
        self.released = false;
        self.executed = 0;
        self.interrupted = false;
        self.asleep = None;
    }

    /// Count time spent waiting as instructions, so that a wait without end meets the limit.
    pub fn charge(&mut self, instructions: u64) {
        self.executed = self.executed.saturating_add(instructions);
    }

    /// Run until a barrier, a sleep, the end, or the turn is over. `signals`: how many other wavefronts have arrived
    /// at the coming barrier.
    pub fn turn(
        &mut self,
        thread: &mut Thread,
        traced: bool,
        signals: u32,
        group: Option<Group>,
    ) -> Result<Turn, Box<Violation>> {
        thread.cx.scratch = self.scratch.as_mut_ptr().cast();
        let run = thread.run;
        let quantum = match run.someone_waits() {
            true => SHORT_QUANTUM,
            false => QUANTUM,
        };
        let end = self.executed + quantum;
        let mut turn = Steps {
            thread,
            traced,
            signals,
            group,
        };
        let stop = match self.interrupted {
            true => self.watched(&mut turn)?,
            false => Some(self.steps(&mut turn, end, NOWHERE)?),
        };
        let stop = match stop {
            Some(Stop::Budget) if self.executed < end => self.steps(&mut turn, end, NOWHERE)?,
            Some(stop) => stop,
            None => {
                run.note_waiting();
                return Ok(Turn::Waits { still: true });
            }
        };
        self.interrupted = matches!(stop, Stop::Budget | Stop::Watched);
        if !matches!(stop, Stop::Slept) {
            self.asleep = None;
            return Ok(Turn::Worked);
        }
        run.note_waiting();
        let state = fingerprint(&self.wave);
        let before = self.asleep.replace(state);
        Ok(Turn::Waits {
            still: before == Some(state),
        })
    }

    /// The first steps of a turn that follows an interrupted one; `None` if the wavefront is in a loop that changes
    /// nothing.
    fn watched(&mut self, turn: &mut Steps) -> Result<Option<Stop>, Box<Violation>> {
        let end = self.executed + WATCHED;
        let watch = turn.thread.program.at(self.wave.pc).unwrap_or(NOWHERE);
        let scalars = Scalars::of(&self.wave);
        // Vector registers are many: they are compared when the others have been found the same.
        let mut seen = None;
        for _ in 0..MOST_RETURNS {
            match self.steps(turn, end, watch)? {
                Stop::Watched if scalars == Scalars::of(&self.wave) => {
                    let state = fingerprint(&self.wave);
                    match seen.replace(state) {
                        None => {}
                        Some(before) if before == state => return Ok(None),
                        Some(_) => return Ok(Some(Stop::Budget)),
                    }
                }
                Stop::Watched => {}
                stop => return Ok(Some(stop)),
            }
        }
        Ok(Some(Stop::Budget))
    }

    /// Execute until so many instructions are done or the step `watch` comes next.
    fn steps(&mut self, turn: &mut Steps, until: u64, watch: u32) -> Result<Stop, Box<Violation>> {
        let thread = &mut *turn.thread;
        let run = thread.run;
        let tracer = thread.tracer.filter(|_| turn.traced);
        // One test for each instruction, where nobody looks at them.
        let watched = tracer.is_some()
            || thread.recorder.is_some()
            || turn.group.is_some()
            || self.record.is_some();
        if thread.program.at(self.wave.pc).is_none() {
            // Another thread, which had the wavefront before, has met this code.
            extend(thread, self.wave.pc);
        }
        let mut program = thread.program.clone();
        let mut at = program.at(self.wave.pc).unwrap_or(NOWHERE);
        let until = until.min(run.max_instructions.saturating_add(1));
        let mut stop = Stop::Budget;
        while self.executed < until {
            let Some(step) = program.steps.get(at as usize) else {
                return Err(FaultKind::BadProgramCounter.into());
            };
            self.wave.pc = step.pc;
            if watched {
                self.look_before(thread, &mut turn.group, tracer, step, at)?;
            }
            let (wave, cx) = (&mut self.wave, &mut thread.cx);
            self.executed += 1;
            let next = step.next;
            let flow = execute(step, wave, cx)?;
            if watched {
                self.look_after(thread, &mut turn.group, tracer, step)?;
            }
            at = match flow {
                Flow::Next => next,
                Flow::Step(to) => to,
                Flow::Address(to) => {
                    thread.cx.count(Class::Scalar);
                    if program.at(to).is_none() {
                        extend(thread, to);
                        program = thread.program.clone();
                    }
                    program.at(to).ok_or_else(|| {
                        self.wave.pc = to;
                        FaultKind::BadProgramCounter
                    })?
                }
                Flow::Pause(pause) => {
                    let after = step.pc + u64::from(step.size);
                    if let Some(stopped) = self.pause(pause, run, after, turn.signals) {
                        return Ok(stopped);
                    }
                    next
                }
            };
            if at == watch {
                stop = Stop::Watched;
                break;
            }
        }
        if self.executed > run.max_instructions {
            return Err(FaultKind::InstructionLimit(run.max_instructions).into());
        }
        // The next turn begins at the step that would have come.
        let next = program.steps.get(at as usize);
        self.wave.pc = next.ok_or(FaultKind::BadProgramCounter)?.pc;
        Ok(stop)
    }

    /// Show the coming step to those that look at each. Out of the way of the loop: most launches have none of them.
    #[cold]
    fn look_before(
        &mut self,
        thread: &mut Thread,
        group: &mut Option<Group>,
        tracer: Option<&Tracer>,
        step: &Step,
        at: u32,
    ) -> Result<(), Box<Violation>> {
        let wave = &mut self.wave;
        if let Some(tracer) = tracer {
            tracer.before(wave, step.pc);
        }
        if let Some(recorder) = &mut thread.recorder {
            recorder.note(at, &step.op, wave);
        }
        if let Some(record) = &mut self.record {
            let kernel = thread.run.launch.kernel;
            record.note(kernel.kernel.target, kernel.entry, step, wave);
        }
        if let (Some(checker), Some(own), Some(group)) =
            (&mut thread.checker, &mut self.checks, group)
        {
            let of_group = (&mut *group.checks, group.index);
            checker.before(step, wave, &mut thread.cx, own, of_group, group.number)?;
        }
        Ok(())
    }

    /// Show them what it did.
    #[cold]
    fn look_after(
        &mut self,
        thread: &mut Thread,
        group: &mut Option<Group>,
        tracer: Option<&Tracer>,
        step: &Step,
    ) -> Result<(), Box<Violation>> {
        let wave = &mut self.wave;
        if let Some(tracer) = tracer {
            tracer.after(wave);
        }
        if let (Some(checker), Some(own), Some(group)) =
            (&mut thread.checker, &mut self.checks, group)
        {
            let of_group = (&mut *group.checks, group.index);
            checker.after(step, wave, &thread.cx, own, of_group, group.number)?;
        }
        Ok(())
    }

    /// What a barrier, a sleep or the end means for the wavefront; `None` when it goes on after it.
    fn pause(&mut self, pause: Pause, run: &Run, after: u64, signals: u32) -> Option<Stop> {
        match pause {
            Pause::Signal => {
                self.signalled = true;
                return None;
            }
            Pause::SignalIsFirst => {
                self.wave.scc = signals == 0 && !self.signalled;
                self.signalled = true;
                return None;
            }
            Pause::Wait if std::mem::take(&mut self.released) => return None,
            Pause::Wait => self.status = Status::AtBarrier,
            Pause::Meet => {
                self.signalled = true;
                self.status = Status::AtBarrier;
            }
            Pause::MeetGrid { resource, members } => {
                let count = run.grid_barrier.arrive(resource, members);
                self.status = Status::AtGridBarrier { resource, count };
            }
            Pause::End => {
                self.status = Status::Ended;
                return Some(Stop::Status);
            }
            Pause::Sleep => {
                self.wave.pc = after;
                return Some(Stop::Slept);
            }
        }
        self.wave.pc = after;
        Some(Stop::Status)
    }
}

/// What the steps of a turn need beside the wavefront.
struct Steps<'t, 'a> {
    thread: &'t mut Thread<'a>,
    traced: bool,
    signals: u32,
    group: Option<Group<'t>>,
}

/// Where a wavefront goes on after a step.
enum Flow {
    /// At the step after it.
    Next,
    /// At a step.
    Step(u32),
    /// At an address, which may be code not seen yet.
    Address(u64),
    /// At the step after it, perhaps later.
    Pause(Pause),
}

/// What concerns the other wavefronts.
enum Pause {
    /// Arrive at the workgroup's barrier without waiting.
    Signal,
    /// The same; SCC says whether the wavefront is the first.
    SignalIsFirst,
    /// Wait for the barrier that was arrived at.
    Wait,
    /// Arrive and wait.
    Meet,
    /// Arrive at a barrier of the whole grid, and wait.
    MeetGrid {
        resource: u32,
        members: u64,
    },
    Sleep,
    End,
}

/// Do what a step says.
#[inline(always)]
fn execute(step: &Step, wave: &mut Wave, cx: &mut Context) -> Result<Flow, Box<Violation>> {
    let after = step.pc + u64::from(step.size);
    match &step.op {
        Op::Vector(op) => {
            cx.count(Class::Vector);
            cx.counters.lane_operations += u64::from(wave.exec().count_ones());
            op.run(wave);
        }
        Op::Matrix(op) => {
            cx.count(Class::Matrix);
            cx.counters.lane_operations += u64::from(wave.exec().count_ones());
            op.run(wave);
        }
        Op::Scalar(op) => {
            cx.count(Class::Scalar);
            op.run(wave);
        }
        Op::ScalarMemory(op) => op.run(wave, cx)?,
        Op::Memory(op) => op.run(wave, cx)?,
        Op::Buffer(op) => op.run(wave, cx)?,
        Op::Lds(op) => op.run(wave, cx)?,
        Op::Branch(condition, to) => {
            cx.count(Class::Scalar);
            if condition.holds(wave) {
                return Ok(Flow::Step(*to));
            }
        }
        Op::Call(dst, to) => {
            cx.count(Class::Scalar);
            dst.write64(wave, after);
            return Ok(Flow::Step(*to));
        }
        Op::GetPc(dst) => dst.write64(wave, after),
        Op::SetPc(to) => return Ok(Flow::Address(to.read64(wave))),
        Op::SwapPc(dst, to) => {
            let to = to.read64(wave);
            dst.write64(wave, after);
            return Ok(Flow::Address(to));
        }
        Op::GetReg(dst, id) => {
            let value = get_hwreg(wave, *id, cx.start);
            dst.write32(wave, value);
        }
        Op::SetReg(id, value) => {
            let value = value.read32(wave);
            set_hwreg(wave, *id, value);
        }
        Op::ModeBits(offset, value) => set_mode_bits(wave, *offset, *value),
        Op::RealTime(dst) => dst.write64(wave, time(cx.start)),
        Op::Barrier => return Ok(Flow::Pause(Pause::Meet)),
        Op::BarrierWait => return Ok(Flow::Pause(Pause::Wait)),
        Op::BarrierSignal => return Ok(Flow::Pause(Pause::Signal)),
        Op::BarrierSignalIsFirst => return Ok(Flow::Pause(Pause::SignalIsFirst)),
        Op::GridBarrier { offset, value } => return Ok(grid_barrier(wave, *offset, *value)),
        Op::Sleep => return Ok(Flow::Pause(Pause::Sleep)),
        Op::Trap(id) => return Err(FaultKind::Trap(*id).into()),
        Op::End => return Ok(Flow::Pause(Pause::End)),
        Op::Broken(kind) => return Err(kind.clone().into()),
        Op::Nothing => {}
    }
    Ok(Flow::Next)
}

/// `ds_gws_barrier`: M0 and the offset name the resource, the first active lane's value is the number of wavefronts
/// that meet, less one.
fn grid_barrier(wave: &Wave, offset: u32, value: u16) -> Flow {
    let lane = wave.exec().trailing_zeros() as usize;
    let row = wave.vgpr.get(usize::from(value));
    match row.and_then(|row| row.0.get(lane)) {
        Some(others) => Flow::Pause(Pause::MeetGrid {
            resource: (wave.m0 >> 16).wrapping_add(offset),
            members: u64::from(*others) + 1,
        }),
        None => Flow::Next,
    }
}

/// Translate the code at an address too, if there is any.
#[cold]
fn extend(thread: &mut Thread, to: u64) {
    let Some(extended) = program::extended(thread.run.launch.kernel, to) else {
        return;
    };
    if let Some(recorder) = &mut thread.recorder {
        recorder.keep(&thread.program);
    }
    thread.program = extended;
    let windows = &mut thread.cx.windows;
    windows.resize(thread.program.sites as usize, (0, 0));
    // Sites are numbered anew: what they remembered is another's.
    windows.fill((0, 0));
}
