//! Whether anything is recorded: one load for who launches a kernel.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Once;

use super::{at_exit, recorder};
use crate::variables;

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// What the environment asks for at the end of the process.
pub(super) struct Wanted {
    /// Where the table goes.
    pub table: Option<Table>,
    /// The trace's file.
    pub trace: Option<PathBuf>,
}

/// Where a table goes.
pub(super) enum Table {
    StandardError,
    File(PathBuf),
}

fn value(variable: &variables::Variable) -> Option<std::ffi::OsString> {
    std::env::var_os(variable.name).filter(|value| !value.is_empty())
}

impl Wanted {
    fn of_environment() -> Self {
        let table = value(&variables::PROFILE).and_then(|value| match value.to_str() {
            Some("0") => None,
            Some("1") => Some(Table::StandardError),
            _ => Some(Table::File(value.into())),
        });
        let trace = value(&variables::TRACE).map(PathBuf::from);
        Self { table, trace }
    }

    fn is_any(&self) -> bool {
        self.table.is_some() || self.trace.is_some()
    }
}

#[inline]
pub(super) fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        OFF => false,
        ON => true,
        _ => decide(),
    }
}

/// Reads the environment, once.
#[cold]
fn decide() -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let wanted = Wanted::of_environment();
        let is_any = wanted.is_any();
        if is_any {
            recorder::begin_process(&wanted);
            at_exit::report(wanted);
        }
        let state = if is_any { ON } else { OFF };
        // A section that began meanwhile stays.
        let _ = STATE.compare_exchange(UNKNOWN, state, Ordering::Relaxed, Ordering::Relaxed);
    });
    STATE.load(Ordering::Relaxed) == ON
}

/// Turns recording on or off, after the environment was read.
pub(super) fn set(on: bool) {
    is_on();
    STATE.store(if on { ON } else { OFF }, Ordering::Relaxed);
}
