//! Telling threads apart.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that no other live or past thread of the process has.
pub(crate) fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    // While the thread is being torn down its number is gone; 0 then equals no owner.
    NUMBER.try_with(|n| *n).unwrap_or(0)
}
