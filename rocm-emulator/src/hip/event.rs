//! Events: points in a stream's work, with the time when it got there.

use std::sync::{LazyLock, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::error::{Code, HipError, Result};
use super::handles::{Kind, Table};

/// Records no time.
pub const DISABLE_TIMING: u32 = 2;

/// An event.
pub struct Event {
    /// The device that it was created on.
    pub device: usize,
    /// `hipEventCreateWithFlags`.
    pub flags: u32,
    /// What was recorded last.
    pub state: Mutex<Record>,
    /// The life of the stream that it was recorded on, if the program created that.
    pub stream: Mutex<Option<Weak<()>>>,
}

/// Events.
pub static EVENTS: LazyLock<Table<Event>> = LazyLock::new(|| Table::new(Kind::Event));

/// What an event holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Never recorded: complete, as HIP has it.
    Never,
    /// Reached at this time.
    Reached(Instant),
    /// Recorded, and not reached yet: the number of the late work that does it.
    Pending(u64),
    /// Recorded in a capture: the capture's id, and the nodes before it.
    Captured {
        /// The capture's number.
        capture: u64,
        /// Indices of the nodes that the event waits for.
        nodes: Vec<usize>,
    },
}

impl Event {
    /// Whether it is complete.
    ///
    /// # Errors
    /// `hipErrorCapturedEvent` for one last recorded in a capture; `hipErrorContextIsDestroyed` for one whose stream was
    /// destroyed: AMD's HIP asks that stream.
    pub fn wait(&self) -> Result {
        if let Record::Captured { .. } = *self.state.lock() {
            return Err(Code::CapturedEvent.into());
        }
        let gone = |life: &Weak<()>| life.strong_count() == 0;
        match self.stream.lock().as_ref().is_some_and(gone) {
            false => Ok(()),
            true => Err(HipError::new(
                Code::ContextIsDestroyed,
                "the stream that the event was recorded on is destroyed",
            )),
        }
    }

    /// When it was reached.
    ///
    /// # Errors
    /// `hipErrorInvalidHandle` for an event that was never recorded or records no time, `hipErrorNotReady` for one that
    /// is not reached.
    pub fn time(&self) -> Result<Instant> {
        match *self.state.lock() {
            Record::Reached(time) if self.flags & DISABLE_TIMING == 0 => Ok(time),
            Record::Captured { .. } => Err(Code::CapturedEvent.into()),
            Record::Pending(_) => Err(Code::NotReady.into()),
            _ => Err(Code::InvalidHandle.into()),
        }
    }
}
