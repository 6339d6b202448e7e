//! A launch's time: which workgroups are sampled, and what follows from them for all.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;
use rocm_gpus::{LaunchCost, Timing};

use super::geometry::Geometry;
use super::places::Places;
use super::record::WaveRecord;
use super::xcd::{Played, Xcd};
use crate::codeobject::LoadedKernel;
use crate::isa::Target;
use crate::memory::Snapshot;

/// How a launch is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// What the launch touches lies in the Infinity Cache, as when a launch is repeated on data that fit.
    pub warm: bool,
    /// The instruction caches hold what they have room for of the kernel's code, as an earlier launch left it. Whether
    /// hardware keeps code between launches of several kernels was not published.
    pub code_kept: bool,
    /// Workgroups that are not sampled are left out: quick, and the launch's results are wrong.
    pub alone: bool,
    /// So many times the workgroups that an XCD holds at once are sampled, at least 3; all, where there are fewer.
    pub rounds: u32,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            warm: false,
            code_kept: false,
            alone: false,
            rounds: 4,
        }
    }
}

/// Nobody published enough of a GPU to tell times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untimed(pub Target);

impl fmt::Display for Untimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timed: Vec<_> = Target::all()
            .filter(|gpu| gpu.timing().is_some())
            .map(Target::name)
            .collect();
        let (last, others) = timed.split_last().ok_or(fmt::Error)?;
        write!(
            f,
            "there are no latencies and bandwidths of {} to tell times by; there are of {} and {last}",
            self.0,
            others.join(", ")
        )
    }
}

impl std::error::Error for Untimed {}

/// How long a launch would take, by the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchTime {
    /// Cycles of the engine clock, from the first workgroup's beginning until all that was written is where it belongs.
    pub cycles: u64,
    /// The same, at the product's highest engine clock.
    pub microseconds: f64,
    /// Workgroups of the launch, and of them those of one XCD that were played back.
    pub workgroups: u64,
    /// See `workgroups`.
    pub sampled: u64,
    /// Workgroups that a unit holds at once.
    pub held: u32,
    /// What the launch takes by itself, which is in none of the others, where that was published.
    pub launch: Option<LaunchCost>,
    /// Share of the sampled time for which the busiest SIMD's matrix unit was busy.
    pub matrix: f64,
    /// The same of the busiest SIMD's vector unit.
    pub vector: f64,
    /// Of the busiest unit's LDS.
    pub lds: f64,
    /// Of the busiest unit's way to its first-level cache.
    pub first_level: f64,
    /// Of the second-level cache.
    pub second_level: f64,
    /// Of memory, or the Infinity Cache if that was busier.
    pub memory: f64,
}

/// Asks for a launch's time.
pub struct Cycles {
    sampling: Sampling,
    timing: &'static Timing,
    time: Mutex<Option<LaunchTime>>,
}

impl Cycles {
    /// For a launch on a GPU.
    ///
    /// # Errors
    /// Its latencies and bandwidths are not known.
    pub fn new(target: Target, sampling: Sampling) -> Result<Cycles, Untimed> {
        Ok(Cycles {
            sampling,
            timing: target.timing().ok_or(Untimed(target))?,
            time: Mutex::new(None),
        })
    }

    /// The time of the last launch that was run with this and ended well.
    pub fn time(&self) -> Option<LaunchTime> {
        *self.time.lock()
    }
}

/// What a launch's sampled workgroups did.
pub(crate) struct Sample<'a> {
    cycles: &'a Cycles,
    geometry: Geometry,
    most: u64,
    groups: Mutex<BTreeMap<u64, Vec<WaveRecord>>>,
}

impl<'a> Sample<'a> {
    pub fn new(cycles: &'a Cycles, geometry: Geometry) -> Sample<'a> {
        *cycles.time.lock() = None;
        let rounds = u64::from(cycles.sampling.rounds.max(3));
        Sample {
            cycles,
            most: geometry.of_xcd().min(rounds * geometry.at_once()),
            geometry,
            groups: Mutex::default(),
        }
    }

    /// Whether the workgroup of this number is sampled.
    pub fn wants(&self, number: u64) -> bool {
        let xcds = self.geometry.xcds();
        number.is_multiple_of(xcds) && number / xcds < self.most
    }

    /// Whether it need not be executed.
    pub fn skips(&self, number: u64) -> bool {
        self.cycles.sampling.alone && !self.wants(number)
    }

    pub fn keep(&self, number: u64, waves: Vec<WaveRecord>) {
        self.groups.lock().insert(number, waves);
    }

    /// The launch, for which so much memory was live, has ended.
    pub fn finish(self, kernel: &LoadedKernel, snapshot: &Snapshot) {
        let mut groups: Vec<_> = self.groups.into_inner().into_values().collect();
        if groups.is_empty() {
            return;
        }
        let geometry = &self.geometry;
        let mut places = Places::new(snapshot, geometry.target.unit().line_bytes);
        groups
            .iter_mut()
            .flatten()
            .for_each(|record| places.place(record));
        let Sampling {
            warm, code_kept, ..
        } = self.cycles.sampling;
        let mut xcd = Xcd::new(kernel, self.cycles.timing, geometry, warm);
        if code_kept {
            xcd.keep_code(&groups);
        }
        let played = xcd.play(&groups, geometry.held);
        *self.cycles.time.lock() = Some(whole(geometry, &played));
    }
}

/// Workgroups that were not played back follow at the rate at which the XCD took new ones from its second round on. (The
/// first is another: nothing is written while its loads are on their way.)
fn whole(geometry: &Geometry, played: &Played) -> LaunchTime {
    let starts = &played.starts;
    let (sampled, round) = (starts.len() as u64, geometry.at_once());
    let left = geometry.of_xcd() - sampled;
    let following = match (sampled / round).checked_sub(2) {
        Some(rounds @ 1..) if left > 0 => {
            let taken = rounds * round;
            let [first, last] = [sampled - 1 - taken, sampled - 1].map(|at| starts[at as usize]);
            left * (last - first) / taken
        }
        _ => 0,
    };
    // What the sample wrote may not have come to memory at that rate.
    let busy = played.memory.memory.max(played.memory.second);
    let least = busy * geometry.of_xcd() / sampled;
    let cycles = (played.end + following).max(least);
    let share = |busy: u64| busy as f64 / played.end.max(1) as f64;
    let megahertz = geometry.target.facts().product.clock_mhz;
    LaunchTime {
        cycles,
        microseconds: cycles as f64 / f64::from(megahertz),
        workgroups: geometry.workgroups,
        sampled,
        held: geometry.held,
        launch: geometry.target.timing().and_then(|timing| timing.launch),
        matrix: share(played.matrix),
        vector: share(played.vector),
        lds: share(played.lds),
        first_level: share(played.memory.first),
        second_level: share(played.memory.second),
        memory: share(played.memory.memory),
    }
}
