//! What kernels said before they trapped, GPU by GPU.
//!
//! A report is read when an error is made of a status that a trap leaves, and no sooner: calls that succeed do nothing
//! for it. A GPU whose kernel has trapped fails every later call, and each error says why.

use candle_rocm_kernels::report::Report;
use parking_lot::Mutex;

/// Where the kernels of a module write.
struct Place {
    device: usize,
    report: *const Report,
}

// SAFETY: a report is memory that any thread may read; what changes in it is atomic or written before that is.
unsafe impl Send for Place {}

/// The modules' places, and what has been read from them, with the GPU's number.
struct Reports {
    places: Vec<Place>,
    said: Vec<(usize, String)>,
}

static REPORTS: Mutex<Reports> = Mutex::new(Reports {
    places: Vec::new(),
    said: Vec::new(),
});

/// Has a report of a module on this GPU read, until it is removed.
///
/// # Safety
/// `report` is initialised, and lives until [`remove`] has returned. Kernels of that module alone write to it.
pub(crate) unsafe fn add(device: usize, report: *const Report) {
    REPORTS.lock().places.push(Place { device, report });
}

/// Forgets a module's report; what it says is kept.
pub(crate) fn remove(report: *const Report) {
    let mut reports = REPORTS.lock();
    reports.read();
    reports.places.retain(|place| place.report != report);
}

/// What kernels on this GPU said before they trapped.
pub(crate) fn of_device(device: usize) -> Option<String> {
    said(|on| on == device)
}

/// What kernels on any GPU said before they trapped.
pub(crate) fn of_all_devices() -> Option<String> {
    said(|_| true)
}

/// What kernels said on the GPUs whose numbers are asked for, one sentence after the other.
fn said(is_asked_for: impl Fn(usize) -> bool) -> Option<String> {
    let mut reports = REPORTS.lock();
    reports.read();
    let said: Vec<&str> = reports
        .said
        .iter()
        .filter(|(on, _)| is_asked_for(*on))
        .map(|(_, said)| said.as_str())
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

impl Reports {
    /// Takes what is new in the places.
    fn read(&mut self) {
        for place in &self.places {
            // SAFETY: whoever added it promises that it lives, and that none but kernels write to it. The lock keeps
            // others from reading.
            if let Some(reported) = unsafe { Report::take(place.report) } {
                self.said.push((place.device, reported.to_string()));
            }
        }
    }
}
