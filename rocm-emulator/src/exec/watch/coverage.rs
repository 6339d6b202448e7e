//! Notes which kernels ran, for those who test them: with `ROCM_EMU_COVERAGE=<file>` in the environment, each
//! process appends a line of architecture, tab and kernel for each kernel that it ran to its end.

use std::collections::HashSet;
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::notes::Notes;
use crate::codeobject::Kernel;
use crate::isa::Target;

/// Names the file to which lines are appended.
pub const COVERAGE_VARIABLE: &str = "ROCM_EMU_COVERAGE";

struct Coverage {
    notes: Notes,
    noted: HashSet<(Target, String)>,
}

static COVERAGE: LazyLock<Option<Mutex<Coverage>>> = LazyLock::new(|| {
    let notes = Notes::open(COVERAGE_VARIABLE)?;
    let noted = HashSet::new();
    Some(Mutex::new(Coverage { notes, noted }))
});

/// Note that a kernel ended well.
pub(crate) fn note(kernel: &Kernel) {
    let Some(coverage) = COVERAGE.as_ref() else {
        return;
    };
    let mut coverage = coverage.lock();
    if coverage.noted.insert((kernel.target, kernel.name.clone())) {
        let line = format!("{}\t{}", kernel.target.name(), kernel.name);
        coverage.notes.add(&line);
    }
}
