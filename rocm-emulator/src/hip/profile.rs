//! Counts by instruction of the kernels that a piece of work launches.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::codeobject::Kernel;
use crate::exec::{Counters, Profile};

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
