//! Notes what checks found, for those who run many programs under them: with `ROCM_EMU_FINDINGS=<file>` in the
//! environment, each process appends a line of architecture, tab and text for each finding.

use std::sync::LazyLock;

use parking_lot::Mutex;

use super::notes::Notes;
use crate::fault::{Fault, FaultKind};
use crate::isa::Target;

/// Names the file to which lines are appended.
pub const FINDINGS_VARIABLE: &str = "ROCM_EMU_FINDINGS";

static FINDINGS: LazyLock<Option<Mutex<Notes>>> =
    LazyLock::new(|| Notes::open(FINDINGS_VARIABLE).map(Mutex::new));

/// Note what ended a launch, if a check did.
pub(crate) fn note(target: Target, fault: &Fault) {
    let (FaultKind::Finding { .. }, Some(findings)) = (&fault.kind, FINDINGS.as_ref()) else {
        return;
    };
    findings.lock().add(&format!("{}\t{fault}", target.name()));
}
