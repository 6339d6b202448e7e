//! What a thread, a workgroup and a wavefront keep for the checks, and which check looks at what.

use std::sync::Arc;

use super::caches::{Caches, WaveCaches};
use super::known::{Code, Instruction};
use super::races::{GroupRaces, Known, RaceFacts, Races, WaveRaces};
use super::uninitialised::{self, Twin};
use super::waits::{GroupWaits, Waits};
use super::{Checks, Place};
use crate::codeobject::LoadedKernel;
use crate::exec::memory::{Context, Footprint, Outcome, Violation};
use crate::exec::program::{Op, Step};
use crate::exec::wave::Wave;
use crate::fault::FaultKind;

/// A thread's.
pub(crate) struct Checker<'a> {
    kernel: &'a LoadedKernel,
    code: Arc<Code>,
    races: Option<Races>,
    caches: Option<Box<Caches>>,
    /// Barriers of the whole grid that some wavefront has passed.
    grid_barriers: u32,
}

/// A workgroup's.
#[derive(Default)]
pub(crate) struct GroupChecks {
    waits: GroupWaits,
    races: GroupRaces,
    /// What its wavefronts have learnt of others, as of the last barrier.
    known: Known,
    /// The same for the check of caches, which knows it by other rules.
    known_to_caches: Known,
    /// The twins' LDS.
    lds: Vec<u64>,
}

/// A wavefront's.
pub(crate) struct WaveChecks {
    waits: Option<Waits>,
    races: Option<WaveRaces>,
    caches: Option<Box<WaveCaches>>,
    twin: Option<Box<Twin>>,
    checks: Checks,
    /// It goes on after the workgroup's barrier, or the grid's, with its next instruction.
    passes: bool,
    passes_grid: bool,
    grid_barriers: u32,
}

impl GroupChecks {
    /// Begin anew, as another workgroup with so many bytes of LDS.
    pub fn start(&mut self, checks: Checks, lds_bytes: u32) {
        let mut lds = std::mem::take(&mut self.lds);
        if checks.has(Checks::UNINITIALISED) {
            lds.resize((lds_bytes as usize).div_ceil(8), 0);
            uninitialised::fill(&mut lds);
        }
        *self = GroupChecks {
            lds,
            ..GroupChecks::default()
        };
    }
}

impl WaveChecks {
    /// For a wavefront with so many bytes of scratch.
    pub fn new(checks: Checks, wave: &Wave, scratch: usize) -> WaveChecks {
        WaveChecks {
            waits: None,
            races: None,
            caches: None,
            twin: checks
                .has(Checks::UNINITIALISED)
                .then(|| Box::new(Twin::new(wave, scratch))),
            checks,
            passes: false,
            passes_grid: false,
            grid_barriers: 0,
        }
    }

    /// Begin anew; `launch` sets a wavefront's registers as the hardware does.
    pub fn start(&mut self, launch: impl FnOnce(&mut Wave)) {
        self.waits = self.checks.has(Checks::WAITS).then(Waits::new);
        self.races = self.checks.has(Checks::RACES).then(WaveRaces::default);
        self.caches = self.checks.has(Checks::CACHES).then(Box::default);
        self.passes = false;
        self.passes_grid = false;
        self.grid_barriers = 0;
        if let Some(twin) = &mut self.twin {
            twin.start(launch);
        }
    }
}

/// A finding as what ends the launch.
fn finding(check: &'static str, (what, lane): (String, Option<u32>)) -> Box<Violation> {
    Box::new(Violation {
        kind: FaultKind::Finding { check, what },
        lane,
    })
}

impl<'a> Checker<'a> {
    /// For a launch with so many wavefronts in a workgroup; the seed is what is drawn from.
    pub fn new(
        checks: Checks,
        kernel: &'a LoadedKernel,
        waves_of_group: u32,
        seed: u64,
    ) -> Checker<'a> {
        Checker {
            kernel,
            code: Code::of(kernel),
            races: checks
                .has(Checks::RACES)
                .then(|| Races::new(waves_of_group)),
            caches: checks
                .has(Checks::CACHES)
                .then(|| Box::new(Caches::new(kernel, waves_of_group, seed))),
            grid_barriers: 0,
        }
    }

    fn known(&self, pc: u64) -> Option<Arc<Instruction>> {
        self.code.at(self.kernel, pc).cloned()
    }

    /// Look at an instruction that wavefront `index` of workgroup `group` is about to execute.
    ///
    /// # Errors
    /// A finding.
    pub fn before(
        &mut self,
        step: &Step,
        wave: &Wave,
        cx: &mut Context,
        own: &mut WaveChecks,
        (group, index): (&mut GroupChecks, u32),
        number: u64,
    ) -> Outcome {
        let Some(known) = self.known(step.pc) else {
            return Ok(());
        };
        let place = Place {
            kernel: self.kernel,
            pc: step.pc,
            wave: index,
            group: number,
        };
        self.pass(own, group);
        if let Some(waits) = &mut own.waits {
            let lds = match &step.op {
                Op::Lds(op) => Some(op),
                _ => None,
            };
            let mut flat_in_lds = false;
            if let Op::Memory(op) = &step.op {
                op.lds_footprint(wave, |_| flat_in_lds = true);
            }
            let wrong = waits.before(
                &mut group.waits,
                &place,
                (&known.facts, known.roles),
                (lds, flat_in_lds),
                wave,
            );
            if let Some(what) = wrong {
                return Err(finding("waits", (what, None)));
            }
        }
        if let (Some(caches), Some(own)) = (&mut self.caches, &mut own.caches) {
            if let Some(found) = caches.before(step, wave, cx, own, &place, &known) {
                return Err(finding("caches", found));
            }
        }
        if own.races.is_some() {
            self.races(step, wave, cx, own, group, &place, &known.races)?;
        }
        if let Some(twin) = &mut own.twin {
            twin.passes_caches = known.races.coherent;
            let found = twin.before(step, &known.facts, wave, cx, &mut group.lds);
            if let Some(found) = found {
                return Err(finding("uninitialised", found));
            }
        }
        self.arrive(step, own, group, index);
        Ok(())
    }

    /// Look at what the instruction did.
    ///
    /// # Errors
    /// A finding.
    pub fn after(
        &mut self,
        step: &Step,
        wave: &Wave,
        cx: &Context,
        own: &mut WaveChecks,
        (group, index): (&mut GroupChecks, u32),
        number: u64,
    ) -> Outcome {
        let place = Place {
            kernel: self.kernel,
            pc: step.pc,
            wave: index,
            group: number,
        };
        if let Some(found) = self.races.as_mut().and_then(|races| races.after(&place)) {
            return Err(finding("races", found));
        }
        if own.twin.is_some() {
            let known = self.known(step.pc);
            if let (Some(twin), Some(known)) = (&mut own.twin, known) {
                if let Some(found) = twin.after(step, &known.facts, wave, cx, &mut group.lds) {
                    return Err(finding("uninitialised", found));
                }
            }
        }
        if let Some(caches) = &mut self.caches {
            caches.after();
        }
        Ok(())
    }

    /// Barriers that the wavefront has passed since its last instruction.
    fn pass(&mut self, own: &mut WaveChecks, group: &GroupChecks) {
        if std::mem::take(&mut own.passes) {
            if let Some(races) = &mut own.races {
                races.pass();
                races.learn(&group.known);
            }
            if let Some(caches) = &mut own.caches {
                caches.order.pass();
                caches.order.learn(&group.known_to_caches);
            }
        }
        if std::mem::take(&mut own.passes_grid) {
            own.grid_barriers += 1;
            if own.grid_barriers > self.grid_barriers {
                self.grid_barriers = own.grid_barriers;
                if let Some(races) = &mut self.races {
                    races.forget();
                }
                if let Some(caches) = &mut self.caches {
                    caches.note_barrier();
                }
            }
            if let (Some(caches), Some(own_caches)) = (&self.caches, &mut own.caches) {
                caches.pass_barrier(own_caches, own.grid_barriers);
            }
        }
    }

    /// What a barrier instruction means for the checks.
    fn arrive(&self, step: &Step, own: &mut WaveChecks, group: &mut GroupChecks, index: u32) {
        let (arrives, waits) = match step.op {
            Op::Barrier => (true, true),
            Op::BarrierSignal | Op::BarrierSignalIsFirst => (true, false),
            Op::BarrierWait => (false, true),
            Op::GridBarrier { .. } => {
                own.passes_grid = true;
                return;
            }
            _ => return,
        };
        own.passes |= waits;
        if !arrives {
            return;
        }
        if let Some(waits) = &mut own.waits {
            waits.arrive(&mut group.waits, index);
        }
        if let Some(races) = &mut own.races {
            races.arrive();
            races.share(&mut group.known);
        }
        if let Some(caches) = &mut own.caches {
            caches.order.arrive();
            caches.order.share(&mut group.known_to_caches);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn races(
        &mut self,
        step: &Step,
        wave: &Wave,
        cx: &Context,
        own: &mut WaveChecks,
        group: &mut GroupChecks,
        place: &Place,
        facts: &RaceFacts,
    ) -> Outcome {
        let (Some(races), Some(own)) = (&mut self.races, &mut own.races) else {
            return Ok(());
        };
        let lds = (cx.lds as u64, cx.lds_size.into());
        let mut found = None;
        let mut memory = |footprint: Footprint| {
            // An access that is out of bounds is a fault of its own.
            let inside = |lane: usize| cx.holds(footprint.places[lane], footprint.bytes.into());
            if found.is_none() && footprint.active(u64::MAX).all(inside) {
                found = races.memory(own, place, facts, &footprint);
            }
        };
        match &step.op {
            Op::Memory(op) => {
                op.footprint(wave, &mut memory);
                op.lds_footprint(wave, |footprint| {
                    found = races.lds(&mut group.races, own, place, facts, &footprint, lds);
                });
            }
            Op::Buffer(op) => op.footprints(wave, memory),
            Op::ScalarMemory(op) => {
                if let Some((first, bytes, access)) = op.footprint(wave) {
                    let mut places = [0; crate::exec::wave::LANES];
                    places[0] = first;
                    memory(Footprint {
                        access,
                        bytes,
                        places: &places,
                        lanes: 1,
                    });
                }
            }
            Op::Lds(op) => op.footprints(wave, |footprint| {
                if found.is_none() {
                    found = races.lds(&mut group.races, own, place, facts, &footprint, lds);
                }
            }),
            _ => {}
        }
        match found {
            Some(found) => Err(finding("races", found)),
            None => Ok(()),
        }
    }
}
