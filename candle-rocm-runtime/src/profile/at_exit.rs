//! The table and the trace that the environment asks for, at the end of the process.

use std::io::Write as _;
use std::sync::{Once, OnceLock};

use super::recorder;
use super::settings::{Table, Wanted};

static WANTED: OnceLock<Wanted> = OnceLock::new();

/// Has the process report at its end: at a return from `main` and at `exit`.
pub(super) fn report(wanted: Wanted) {
    if WANTED.set(wanted).is_ok() {
        register();
    }
}

/// Asks again, once the process has given a GPU work: what a driver registers then would otherwise end first, and with it the
/// events that the report reads.
pub(super) fn report_before_drivers_end() {
    static ONCE: Once = Once::new();
    if WANTED.get().is_some() {
        ONCE.call_once(register);
    }
}

fn register() {
    // SAFETY: the function does not unwind.
    let status = unsafe { libc::atexit(at_exit) };
    if status != 0 {
        tracing::error!(
            "the C library takes no more functions to call at the end: no profile will be reported"
        );
    }
}

extern "C" fn at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(write_report);
}

fn write_report() {
    // A panic here must not reach C, and there is nobody left to tell of it but its own message.
    let _ = std::panic::catch_unwind(|| {
        let report = recorder::end_process();
        let table = WANTED.get().and_then(|wanted| wanted.table.as_ref());
        let written = match table {
            None => Ok(()),
            Some(Table::StandardError) => write!(std::io::stderr(), "\n{report}"),
            Some(Table::File(path)) => std::fs::write(path, report.to_string()),
        };
        if let Err(error) = written {
            tracing::error!(%error, "the table of CANDLE_ROCM_PROFILE cannot be written");
        }
    });
}
