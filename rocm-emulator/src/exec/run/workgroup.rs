//! One workgroup: its wavefronts take turns on one thread, and meet at barriers.

use std::time::Instant;

use super::launch_state;
use super::thread::{Run, Thread};
use super::wavefront::{Group, Status, Turn, Wavefront};
use crate::exec::check::{Checks, Draw, GroupChecks};
use crate::exec::clock::Sample;
use crate::exec::memory::Violation;
use crate::exec::program::RegisterFile;
use crate::exec::wave::Wave;
use crate::fault::FaultKind;

/// Rounds of turns after which a workgroup that has not ended lets another have the thread: it may wait in a way that
/// does not show.
const MOST_ROUNDS: u32 = 256;
/// The same once that has happened in the launch.
const FEW_ROUNDS: u32 = 4;
/// Sets the draws of workgroups apart.
const DRAWS: u64 = 0x9e37_79b9_7f4a_7c15;
/// Time that counts as one instruction of a wavefront that waits.
const NANOSECONDS_OF_INSTRUCTION: u64 = 8;

/// How far a workgroup got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Ended,
    /// Every wavefront waits for something outside; `still` when nothing has changed for any of them.
    Waits {
        still: bool,
    },
    /// It has had its share of time.
    Interrupted,
}

/// A workgroup that runs, or the buffers for one.
pub(super) struct Workgroup {
    /// Its place in the grid's order.
    pub number: u64,
    pub coordinates: [u32; 3],
    wavefronts: Vec<Wavefront>,
    lds: Vec<u64>,
    /// Wavefronts that have not ended.
    running: u32,
    /// Of those, how many have arrived at the coming barrier.
    signals: u32,
    /// How far the launch was, and when, as the workgroup was found waiting.
    waits_since: Option<(u64, Instant)>,
    /// What the checks know of it, if there are any.
    checks: Option<Box<GroupChecks>>,
    /// In which order its wavefronts run, and what draws the next one.
    order: Vec<usize>,
    draw: Option<Draw>,
}

/// A fault's place within a workgroup.
pub(super) struct Failure {
    pub violation: Box<Violation>,
    pub pc: u64,
    pub wave: u32,
}

impl Workgroup {
    /// Buffers for the workgroups of a launch.
    pub fn new(run: &Run, scratch_stride: u32, lds_size: u32) -> Workgroup {
        let launch = &run.launch;
        let kernel = &launch.kernel.kernel;
        let file = RegisterFile::of(&kernel.descriptor);
        let lanes = kernel.wavefront_size;
        let items: u64 = launch.block.iter().map(|&size| u64::from(size)).product();
        let waves = items.div_ceil(lanes.into());
        let scratch = (scratch_stride as usize * lanes as usize) / 4;
        let mode = launch_state::mode(&kernel.descriptor);
        let wavefront = || {
            let mut wave = Wave::new(kernel.target, lanes, file.vgprs, file.agprs, mode);
            wave.accum_offset = file.accum_offset;
            Wavefront::new(wave, scratch, run.checks)
        };
        Workgroup {
            number: 0,
            coordinates: [0; 3],
            wavefronts: (0..waves).map(|_| wavefront()).collect(),
            lds: vec![0; (lds_size as usize).div_ceil(8)],
            running: 0,
            signals: 0,
            waits_since: None,
            checks: run.checks.watch().then(Box::default),
            order: (0..waves as usize).collect(),
            draw: None,
        }
    }

    /// Begin the workgroup of a number.
    pub fn begin(&mut self, thread: &mut Thread, number: u64) {
        let run: &Run = thread.run;
        let [columns, rows, _] = run.launch.grid.map(u64::from);
        self.number = number;
        self.coordinates = [
            (number % columns) as u32,
            (number / columns % rows) as u32,
            (number / columns / rows) as u32,
        ];
        thread.cx.counters.workgroups += 1;
        self.lds.fill(0);
        if let Some(checks) = &mut self.checks {
            checks.start(run.checks, thread.cx.lds_size);
        }
        let draw = || Draw::new(run.seed ^ number.wrapping_mul(DRAWS));
        self.draw = run.checks.has(Checks::ORDER).then(draw);
        for (index, wavefront) in self.wavefronts.iter_mut().enumerate() {
            wavefront.start(run, self.coordinates, index as u32);
            let wanted = run.sample.as_ref().is_some_and(|it| it.wants(number));
            wavefront.record = wanted.then(Box::default);
        }
        let runs = |wavefront: &&Wavefront| wavefront.status != Status::Ended;
        self.running = self.wavefronts.iter().filter(runs).count() as u32;
        thread.cx.counters.wavefronts += u64::from(self.running);
        self.signals = 0;
        self.waits_since = None;
    }

    /// Give what was written down of it, if it was, to the launch's sample.
    pub fn hand_over(&mut self, sample: &Sample) {
        if sample.wants(self.number) {
            let records = self.wavefronts.iter_mut().map(|it| it.record.take());
            let records = records.map(|it| *it.unwrap_or_default());
            sample.keep(self.number, records.collect());
        }
    }

    /// Run to the end, or until nothing can be done but wait.
    pub fn advance(&mut self, thread: &mut Thread) -> Result<Progress, Failure> {
        thread.cx.lds = self.lds.as_mut_ptr().cast();
        let mut still = true;
        let rounds = match thread.run.someone_was_interrupted() {
            true => FEW_ROUNDS,
            false => MOST_ROUNDS,
        };
        for _ in 0..rounds {
            let mut worked = false;
            if let Some(draw) = &mut self.draw {
                draw.shuffle(&mut self.order);
            }
            for at in 0..self.order.len() {
                match self.turn(thread, self.order[at])? {
                    None => {}
                    Some(Turn::Worked) => worked = true,
                    Some(Turn::Waits { still: unchanged }) => still &= unchanged,
                }
            }
            if self.running == 0 {
                return Ok(Progress::Ended);
            }
            if !worked && self.is_stuck() {
                return Err(self.mismatch());
            }
            if !worked {
                return Ok(Progress::Waits { still });
            }
            still = false;
        }
        thread.run.note_interrupted();
        Ok(Progress::Interrupted)
    }

    /// Give a wavefront its turn, if it can run, and see what that means for the barrier.
    fn turn(&mut self, thread: &mut Thread, index: usize) -> Result<Option<Turn>, Failure> {
        let wavefront = &mut self.wavefronts[index];
        match wavefront.status {
            Status::Ready => {}
            Status::AtGridBarrier { resource, count }
                if thread.run.grid_barrier.has_counted(resource, count) =>
            {
                wavefront.status = Status::Ready;
            }
            _ => return Ok(None),
        }
        let signalled = wavefront.signalled;
        let traced = thread
            .tracer
            .is_some_and(|tracer| tracer.wants(self.coordinates, index as u32));
        let group = self.checks.as_deref_mut().map(|checks| Group {
            checks,
            number: self.number,
            index: index as u32,
        });
        let turn = wavefront
            .turn(thread, traced, self.signals, group)
            .map_err(|violation| Failure {
                violation,
                pc: wavefront.wave.pc,
                wave: index as u32,
            })?;
        // A wavefront that has ended takes no part in barriers any more.
        let ended = wavefront.status == Status::Ended;
        self.running -= u32::from(ended);
        self.signals -= u32::from(signalled);
        self.signals += u32::from(wavefront.signalled && !ended);
        if self.signals == self.running {
            self.release();
        }
        Ok(Some(turn))
    }

    /// All that still run have arrived at the barrier.
    fn release(&mut self) {
        self.signals = 0;
        for wavefront in &mut self.wavefronts {
            wavefront.signalled = false;
            match wavefront.status {
                Status::AtBarrier => wavefront.status = Status::Ready,
                _ => wavefront.released = true,
            }
        }
    }

    /// Whether all that still run wait at a barrier that cannot be completed: of GFX12, whose wavefronts can wait
    /// without having arrived.
    fn is_stuck(&self) -> bool {
        self.wavefronts
            .iter()
            .all(|wavefront| matches!(wavefront.status, Status::AtBarrier | Status::Ended))
    }

    fn mismatch(&self) -> Failure {
        let waits = |wavefront: &Wavefront| wavefront.status == Status::AtBarrier;
        let at = self.wavefronts.iter().position(waits).unwrap_or(0);
        let kind = FaultKind::BarrierMismatch {
            waiting: self.running,
            ended: self.wavefronts.len() as u32 - self.running,
        };
        Failure {
            violation: kind.into(),
            pc: self.wavefronts[at].wave.pc,
            wave: at as u32,
        }
    }

    /// The place of the first wavefront that has not ended, as a fault's that concerns the whole workgroup.
    pub fn place(&self, kind: FaultKind) -> Failure {
        let running = |wavefront: &Wavefront| wavefront.status != Status::Ended;
        let at = self.wavefronts.iter().position(running).unwrap_or(0);
        Failure {
            violation: kind.into(),
            pc: self.wavefronts[at].wave.pc,
            wave: at as u32,
        }
    }

    /// It was found waiting; while the whole launch does (`all`), time counts as instructions.
    pub fn note_waiting(&mut self, progress: u64, all: bool) {
        let now = Instant::now();
        let before = self.waits_since.replace((progress, now));
        let Some((_, since)) = before.filter(|before| all && before.0 == progress) else {
            return;
        };
        let waited = now.duration_since(since).as_nanos() as u64;
        for wavefront in &mut self.wavefronts {
            wavefront.charge(waited / NANOSECONDS_OF_INSTRUCTION);
        }
    }
}
