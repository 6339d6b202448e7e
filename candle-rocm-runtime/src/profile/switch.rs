//! Whether anything is recorded: one load for who launches a kernel.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Once;

use super::settings::Wanted;
use super::work::Work;
use super::{at_exit, recorder};
use crate::stream::queue::Stream;

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Runs `give`, which gives `work` to the stream, between two events, if anybody asks. The stream's GPU is current.
#[inline]
pub(crate) fn timed<'w, R>(
    stream: &Stream,
    work: impl FnOnce() -> Work<'w>,
    give: impl FnOnce() -> R,
) -> R {
    if !is_on() {
        return give();
    }
    let given = recorder::record(stream, &work(), give);
    at_exit::report_before_drivers_end();
    given
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
