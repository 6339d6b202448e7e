//! What names a stream, to those that know no streams.

use crate::base::hip::types::{hipStream_t, STREAM_PER_THREAD};
use crate::base::thread::thread_number;

/// A stream, as far as the order of its work goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    pub(crate) raw: usize,
    /// The thread, for the handle that means another stream on each thread; else 0.
    pub(crate) thread: u64,
}

impl StreamKey {
    /// Of this handle on the calling thread.
    #[inline]
    pub(crate) fn of(raw: hipStream_t) -> Self {
        let thread = if raw == STREAM_PER_THREAD {
            thread_number()
        } else {
            0
        };
        Self {
            raw: raw as usize,
            thread,
        }
    }

    pub(crate) fn is_per_thread(self) -> bool {
        self.raw == STREAM_PER_THREAD as usize
    }

    /// HIP's handle. The per-thread one means the calling thread's stream, whichever thread this is of.
    pub(crate) fn raw(self) -> hipStream_t {
        self.raw as hipStream_t
    }
}

/// A stream and its ties to the legacy default stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamHandle {
    pub raw: hipStream_t,
    /// Whether the legacy default stream and this one wait for each other.
    pub waits_for_legacy: bool,
}

impl StreamHandle {
    /// Its name on the calling thread.
    #[inline]
    pub fn key(self) -> StreamKey {
        StreamKey::of(self.raw)
    }
}
