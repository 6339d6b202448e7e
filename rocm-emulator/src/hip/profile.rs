//! Counts by instruction of the kernels that a piece of work launches, and their times.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::codeobject::Kernel;
use crate::exec::{Counters, Cycles, LaunchTime, Profile, Sampling, Untimed};
use crate::isa::Target;

/// What the launches of one kernel executed.
#[derive(Clone, Debug)]
pub struct KernelProfile {
    /// The kernel, with its architecture.
    pub kernel: Arc<Kernel>,
    /// Workgroups and work-items of each, of the last launch.
    pub grid: [[u32; 3]; 2],
    /// Sums over the launches that ended well.
    pub counters: Counters,
    /// The same by instruction.
    pub profile: Profile,
}

type Profiles = BTreeMap<(&'static str, String), KernelProfile>;

/// Where launches are counted while [`profiled`] runs.
static PROFILES: Mutex<Option<Profiles>> = Mutex::new(None);
/// What launches are timed with while [`timed`] runs, and their times so far.
static TIMES: Mutex<Option<(Sampling, Vec<KernelTime>)>> = Mutex::new(None);
/// Held by the one that profiles.
static PROFILING: Mutex<()> = Mutex::new(());

/// Do some work, and count what the kernels that this process launches meanwhile, on any thread, execute: by
/// architecture and name. Work that is profiled already waits here for its turn.
pub fn profiled<T>(work: impl FnOnce() -> T) -> (T, Vec<KernelProfile>) {
    /// Ends the counting also where the work panics.
    struct Counting;
    impl Drop for Counting {
        fn drop(&mut self) {
            *PROFILES.lock() = None;
        }
    }
    let _turn = PROFILING.lock();
    *PROFILES.lock() = Some(Profiles::new());
    let _counting = Counting;
    let result = work();
    let profiles = PROFILES.lock().take().unwrap_or_default();
    (result, profiles.into_values().collect())
}

/// A profile to fill, if someone asked for it.
pub(super) fn wanted() -> Option<Mutex<Profile>> {
    PROFILES.lock().is_some().then(Mutex::default)
}

pub(super) fn note(
    kernel: &Arc<Kernel>,
    grid: [[u32; 3]; 2],
    counters: Counters,
    profile: Profile,
) {
    if let Some(profiles) = &mut *PROFILES.lock() {
        let key = (kernel.target.name(), kernel.name.clone());
        let sum = profiles.entry(key).or_insert_with(|| KernelProfile {
            kernel: kernel.clone(),
            grid,
            counters: Counters::default(),
            profile: Profile::default(),
        });
        sum.grid = grid;
        sum.counters += counters;
        sum.profile.add(&profile);
    }
}

/// How long a launch would take.
#[derive(Clone, Debug)]
pub struct KernelTime {
    /// The kernel, with its architecture.
    pub kernel: Arc<Kernel>,
    /// Workgroups and work-items of each.
    pub grid: [[u32; 3]; 2],
    /// By the model of time, if there is one of the GPU.
    pub time: Result<LaunchTime, Untimed>,
}

/// Do some work, and tell how long the launches that this process does meanwhile, on any thread, would take on the GPU:
/// those that end well, in order. Work that is timed or [`profiled`] already waits here for its turn.
pub fn timed<T>(sampling: Sampling, work: impl FnOnce() -> T) -> (T, Vec<KernelTime>) {
    /// Ends it also where the work panics.
    struct Timing;
    impl Drop for Timing {
        fn drop(&mut self) {
            *TIMES.lock() = None;
        }
    }
    let _turn = PROFILING.lock();
    *TIMES.lock() = Some((sampling, Vec::new()));
    let _timing = Timing;
    let result = work();
    let times = TIMES.lock().take().map(|(_, times)| times);
    (result, times.unwrap_or_default())
}

/// What a launch on a GPU is timed with, if someone asked for it.
pub(super) fn clock(target: Target) -> Option<Result<Cycles, Untimed>> {
    let sampling = TIMES.lock().as_ref()?.0;
    Some(Cycles::new(target, sampling))
}

pub(super) fn note_time(kernel: &Arc<Kernel>, grid: [[u32; 3]; 2], clock: Result<Cycles, Untimed>) {
    let time = match clock {
        Ok(cycles) => cycles.time().map(Ok),
        Err(untimed) => Some(Err(untimed)),
    };
    if let (Some((_, times)), Some(time)) = (&mut *TIMES.lock(), time) {
        times.push(KernelTime {
            kernel: kernel.clone(),
            grid,
            time,
        });
    }
}
