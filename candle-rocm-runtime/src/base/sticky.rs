//! Errors that no call could return.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::error::{Error, Result};

/// An error kept for the next call that can return one.
#[derive(Default)]
pub(crate) struct StickyError {
    is_set: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl StickyError {
    /// Keeps the error, unless an earlier one (the cause, most likely) is still waiting.
    pub(crate) fn set(&self, error: Error) {
        let mut slot = self.error.lock();
        if slot.is_none() {
            *slot = Some(error);
        }
        self.is_set.store(true, Ordering::Release);
    }

    /// Returns the waiting error, once.
    #[inline]
    pub(crate) fn take(&self) -> Result<()> {
        if !self.is_set.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut slot = self.error.lock();
        self.is_set.store(false, Ordering::Release);
        slot.take().map_or(Ok(()), Err)
    }
}
