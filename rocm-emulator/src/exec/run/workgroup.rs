//! One workgroup: its wavefronts take turns on one thread, and meet at barriers.

use std::sync::Arc;

use super::launch::Launch;
use super::launch_state::{self, Arguments};
use crate::exec::counters::Class;
use crate::exec::memory::{Context, Violation};
use crate::exec::program::{self, register_counts, Op, Program, Step, NOWHERE};
use crate::exec::scalar::{get_hwreg, set_hwreg, set_mode_bits, time};
use crate::exec::watch::{Recorder, Tracer};
use crate::exec::wave::{Row, Wave};
use crate::fault::FaultKind;

/// Instructions that a wavefront runs before another gets its turn, so that one may wait for another's store.
const QUANTUM: u64 = 1 << 16;

/// Why a wavefront stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    AtBarrier,
    Ended,
}

struct Slot {
    /// Its program counter is right whenever the wavefront does not run.
    wave: Wave,
    status: Status,
    executed: u64,
    scratch: Vec<u64>,
}

/// Buffers for one workgroup at a time, used again for the next.
pub(crate) struct Workgroup {
    slots: Vec<Slot>,
    pub lds: Vec<u64>,
}

/// A fault's place within a workgroup.
pub(crate) struct Failure {
    pub violation: Box<Violation>,
    pub pc: u64,
    pub wave: u32,
}

impl Workgroup {
    pub fn new(launch: &Launch, scratch_stride: u32) -> Workgroup {
        let kernel = &launch.kernel.kernel;
        let (vgprs, agprs) = register_counts(&kernel.descriptor);
        let lanes = kernel.wavefront_size;
        let items: u64 = launch.block.iter().map(|&size| u64::from(size)).product();
        let waves = items.div_ceil(lanes.into());
        let scratch = (scratch_stride as usize * lanes as usize) / 8;
        let mode = launch_state::mode(&kernel.descriptor);
        let slot = || Slot {
            wave: Wave::new(kernel.target, lanes, vgprs, agprs, mode),
            status: Status::Ready,
            executed: 0,
            scratch: vec![0; scratch],
        };
        Workgroup {
            slots: (0..waves).map(|_| slot()).collect(),
            lds: Vec::new(),
        }
    }

    /// Run the workgroup at `coordinates` to its end.
    pub fn run(
        &mut self,
        run: &Run,
        program: &mut Arc<Program>,
        coordinates: [u32; 3],
        cx: &mut Context,
        watchers: &mut Watchers,
    ) -> Result<(), Failure> {
        cx.counters.workgroups += 1;
        cx.counters.wavefronts += self.slots.len() as u64;
        self.lds.fill(0);
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.wave.sgpr = [0; 106];
            // Hardware leaves what was there; zero makes every run the same.
            slot.wave.vgpr.fill(Row::ZERO);
            slot.wave.agpr.fill(Row::ZERO);
            launch_state::start(
                &mut slot.wave,
                &run.launch,
                run.arguments,
                coordinates,
                index as u32,
            );
            slot.status = Status::Ready;
            slot.executed = 0;
        }
        loop {
            let mut progressed = false;
            for index in 0..self.slots.len() {
                let slot = &mut self.slots[index];
                if slot.status != Status::Ready {
                    continue;
                }
                progressed = true;
                cx.scratch = slot.scratch.as_mut_ptr().cast();
                let traced = watchers
                    .tracer
                    .filter(|tracer| tracer.wants(coordinates, index as u32));
                slot.run(run, program, cx, traced, &mut watchers.recorder)
                    .map_err(|violation| Failure {
                        violation,
                        pc: slot.wave.pc,
                        wave: index as u32,
                    })?;
            }
            if progressed && self.slots.iter().any(|slot| slot.status == Status::Ready) {
                continue;
            }
            let waiting = self.count(Status::AtBarrier);
            let ended = self.count(Status::Ended);
            if waiting == 0 {
                return Ok(());
            }
            if ended > 0 {
                let at = self
                    .slots
                    .iter()
                    .position(|slot| slot.status == Status::AtBarrier);
                let at = at.unwrap_or(0);
                let kind = FaultKind::BarrierMismatch { waiting, ended };
                return Err(Failure {
                    violation: kind.into(),
                    pc: self.slots[at].wave.pc,
                    wave: at as u32,
                });
            }
            for slot in &mut self.slots {
                slot.status = Status::Ready;
            }
        }
    }

    fn count(&self, status: Status) -> u32 {
        self.slots
            .iter()
            .filter(|slot| slot.status == status)
            .count() as u32
    }
}

/// Who looks on while a thread's workgroups run.
pub(crate) struct Watchers<'a> {
    pub tracer: Option<&'a Tracer<'a>>,
    /// Counts by instruction, if asked for.
    pub recorder: Option<Box<Recorder>>,
}

/// What is the same for every workgroup of a launch.
pub(crate) struct Run<'a> {
    pub launch: Launch<'a>,
    pub arguments: &'a Arguments,
    pub max_instructions: u64,
}

/// Where a wavefront goes on after a step.
enum Flow {
    /// At the step after it.
    Next,
    /// At a step.
    Step(u32),
    /// At an address, which may be code not seen yet.
    Address(u64),
    /// Not now.
    Stop(Status),
}

impl Slot {
    /// Run until a barrier, the end, or the turn is over.
    fn run(
        &mut self,
        run: &Run,
        shared: &mut Arc<Program>,
        cx: &mut Context,
        tracer: Option<&Tracer>,
        recorder: &mut Option<Box<Recorder>>,
    ) -> Result<(), Box<Violation>> {
        let mut program = shared.clone();
        let until = self.executed + QUANTUM;
        let wave = &mut self.wave;
        let mut at = program.at(wave.pc).unwrap_or(NOWHERE);
        while self.executed < until {
            let Some(step) = program.steps.get(at as usize) else {
                return Err(FaultKind::BadProgramCounter.into());
            };
            wave.pc = step.pc;
            if let Some(tracer) = tracer {
                tracer.before(wave, step.pc);
            }
            if let Some(recorder) = recorder {
                recorder.note(at, &step.op, wave);
            }
            self.executed += 1;
            let next = step.next;
            let flow = execute(step, wave, cx)?;
            if let Flow::Stop(status) = flow {
                self.status = status;
                return Ok(());
            }
            if let Some(tracer) = tracer {
                tracer.after(wave);
            }
            at = match flow {
                Flow::Step(to) => to,
                Flow::Address(to) => {
                    cx.count(Class::Scalar);
                    if program.at(to).is_none() {
                        extend(&mut program, to, run, cx, recorder);
                        *shared = program.clone();
                    }
                    program.at(to).ok_or_else(|| {
                        wave.pc = to;
                        FaultKind::BadProgramCounter
                    })?
                }
                Flow::Next | Flow::Stop(_) => next,
            };
            if self.executed > run.max_instructions {
                return Err(FaultKind::InstructionLimit(run.max_instructions).into());
            }
        }
        // The turn is over: the next begins at the step that would have come.
        wave.pc = program
            .steps
            .get(at as usize)
            .map_or(wave.pc, |step| step.pc);
        Ok(())
    }
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
        Op::Barrier => {
            wave.pc = after;
            return Ok(Flow::Stop(Status::AtBarrier));
        }
        Op::Trap(id) => return Err(FaultKind::Trap(*id).into()),
        Op::End => return Ok(Flow::Stop(Status::Ended)),
        Op::Broken(kind) => return Err(kind.clone().into()),
        // The arrival of GFX12 counts when the wavefront waits.
        Op::BarrierSignal | Op::Nothing => {}
    }
    Ok(Flow::Next)
}

/// Translate the code at an address too, if there is any.
#[cold]
fn extend(
    program: &mut Arc<Program>,
    to: u64,
    run: &Run,
    cx: &mut Context,
    recorder: &mut Option<Box<Recorder>>,
) {
    let Some(extended) = program::extended(run.launch.kernel, to) else {
        return;
    };
    if let Some(recorder) = recorder {
        recorder.keep(program);
    }
    *program = extended;
    cx.windows.resize(program.sites as usize, (0, 0));
    // Sites are numbered anew: what they remembered is another's.
    cx.windows.fill((0, 0));
}
