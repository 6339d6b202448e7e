//! Functions without types of their own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

pub use super::safe::{mark, name_category};
use crate::profile;

/// Ranges of the process that have begun, by their numbers.
static STARTED: Mutex<BTreeMap<u64, profile::Range>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// Ranges of this thread that have begun, the last one innermost.
    static PUSHED: RefCell<Vec<profile::Range>> = const { RefCell::new(Vec::new()) };
}

/// Begins a range of the process, which any thread may end. Returns its number.
pub fn range_start<S: AsRef<str>>(message: S) -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let range = profile::range(message.as_ref());
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    STARTED.lock().insert(number, range);
    number
}

/// Ends a range that [`range_start`] began. Of a number that has ended, or never began, nothing comes.
///
/// # Safety
/// There is nothing to uphold; cudarc's function is unsafe.
pub unsafe fn range_end(id: u64) {
    let range = STARTED.lock().remove(&id);
    drop(range);
}

/// Begins a range within the calling thread's others. Returns how many of these are open.
pub fn range_push<S: AsRef<str>>(message: S) -> c_int {
    let range = profile::range(message.as_ref());
    PUSHED.with_borrow_mut(|pushed| {
        pushed.push(range);
        pushed.len() as c_int - 1
    })
}

/// Ends the calling thread's last range. Returns how many stay open, or less than 0 if there was none.
pub fn range_pop() -> c_int {
    let (range, open) = PUSHED.with_borrow_mut(|pushed| {
        let range = pushed.pop();
        let open = match range {
            Some(_) => pushed.len() as c_int,
            None => -1,
        };
        (range, open)
    });
    drop(range);
    open
}

/// Names an operating system's thread, for nobody: profilers of AMD's take a thread's name from the system.
pub fn name_os_thread<S: AsRef<str>>(_thread_id: u32, _name: S) {}
