//! HIP without a GPU: a library in libamdhip64's place whose functions do nothing and are counted, and what the host takes above it.

use std::collections::BTreeMap;
use std::ffi::{c_char, CStr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The processor that the library says it is.
pub const ARCHITECTURE: &str = "gfx1100";

/// Compiles the library in this folder.
///
/// # Panics
/// There is no C compiler.
pub fn library(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("libraries/no_gpu.c");
    let path = folder.join("libno_gpu.so");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
        .args([&path, &source])
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "compiling {}", source.display());
    path
}

/// How often each of HIP's functions was called.
pub struct HipCalls(&'static libloading::Library);

#[repr(C)]
struct Count {
    name: *const c_char,
    calls: u64,
}

impl HipCalls {
    /// Of the library at this path, which the process has loaded or will.
    ///
    /// # Panics
    /// It is not there.
    pub fn of(path: &str) -> Self {
        // SAFETY: the library has no initialisers.
        let library = unsafe { libloading::Library::new(path) }.unwrap();
        Self(Box::leak(Box::new(library)))
    }

    /// The functions called so far, and how often.
    ///
    /// # Panics
    /// It is another library.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        // SAFETY: the library's variable of this name, of this layout; names are C's literals.
        unsafe {
            let counts: *const [Count; 64] = *self.0.get(b"no_gpu_calls").unwrap();
            (*counts)
                .iter()
                .filter(|count| !count.name.is_null())
                .map(|count| {
                    let name = CStr::from_ptr(count.name);
                    (name.to_str().unwrap().to_owned(), count.calls)
                })
                .collect()
        }
    }

    /// The calls that a body makes.
    pub fn during(&self, body: impl FnOnce()) -> BTreeMap<String, u64> {
        let before = self.counts();
        body();
        self.counts()
            .into_iter()
            .map(|(name, calls)| {
                let earlier = before.get(&name).copied().unwrap_or(0);
                (name, calls - earlier)
            })
            .filter(|(_, calls)| *calls != 0)
            .collect()
    }

    /// Runs a step [`LENGTH`] times, [`RUNS`] times over, prints a line, and returns the median in nanoseconds.
    pub fn measure(&self, what: &str, mut step: impl FnMut(usize)) -> f64 {
        let mut run = || {
            let start = Instant::now();
            for i in 0..LENGTH {
                step(i);
            }
            start.elapsed().as_nanos() as f64 / LENGTH as f64
        };
        run();
        let mut times: Vec<f64> = (0..RUNS).map(|_| run()).collect();
        times.sort_by(f64::total_cmp);
        let counted = self.during(|| {
            run();
        });
        let counted: Vec<String> = counted
            .iter()
            .map(|(name, calls)| format!("{name} {:.2}", *calls as f64 / LENGTH as f64))
            .collect();
        let median = times[RUNS / 2];
        let (least, calls) = (times[0], counted.join(", "));
        println!("{what:<44} {median:8.1} ns (least {least:.1})   {calls}");
        median
    }

    /// As [`HipCalls::measure`], beside the operator that took so many nanoseconds.
    pub fn measure_beside(&self, operator: f64, what: &str, step: impl FnMut(usize)) {
        let time = self.measure(what, step);
        println!("{:<44} {:8.2} times an operator", "", time / operator);
    }
}

/// Runs, of whose times the median counts.
pub const RUNS: usize = 21;
/// Steps of a run.
pub const LENGTH: usize = 1000;
