//! Groups: calls of a thread that are given to their streams together, at the end of the outermost group.

use std::cell::RefCell;
use std::sync::Arc;

use super::error::CommunicationError;
use super::library;
use super::own::{self, OwnRank, RankCall};
use super::sys::ncclResult_t;

#[derive(Default)]
struct Open {
    depth: usize,
    calls: Vec<RankCall>,
    /// Ranks that wait for the others at the end.
    joining: Vec<Arc<OwnRank>>,
    /// The first error, of a call that makes no sense.
    error: Option<CommunicationError>,
}

thread_local! {
    static OPEN: RefCell<Open> = RefCell::default();
}

/// Begins a group of this thread; groups nest.
///
/// # Errors
/// The library's, where its collectives run.
pub fn group_start() -> Result<ncclResult_t, CommunicationError> {
    let status = match library::chosen()? {
        // SAFETY: takes nothing.
        Some(library) => library.check("ncclGroupStart", unsafe { (library.group_start)() })?,
        None => ncclResult_t::ncclSuccess,
    };
    OPEN.with_borrow_mut(|open| open.depth += 1);
    Ok(status)
}

/// Ends the innermost group of this thread; at the end of the outermost, all calls are given to their streams.
///
/// # Errors
/// There is no group, a call made no sense, a rank is gone or does not come, or HIP refuses.
pub fn group_end() -> Result<ncclResult_t, CommunicationError> {
    let ended = OPEN.with_borrow_mut(|open| {
        open.depth = open.depth.checked_sub(1).ok_or_else(|| {
            CommunicationError::new(ncclResult_t::ncclInvalidUsage, "the end of no group")
        })?;
        Ok::<_, CommunicationError>((open.depth == 0).then(|| std::mem::take(open)))
    })?;
    let status = match library::chosen()? {
        // SAFETY: takes nothing.
        Some(library) => library.check("ncclGroupEnd", unsafe { (library.group_end)() })?,
        None => ncclResult_t::ncclSuccess,
    };
    let Some(open) = ended else {
        return Ok(status);
    };
    if let Some(error) = open.error {
        return Err(error);
    }
    if !open.joining.is_empty() {
        own::join(&open.joining)?;
    }
    // SAFETY: those who gave the calls promised it, for as long as the group is open.
    unsafe { own::run(&open.calls) }?;
    Ok(status)
}

/// Whether this thread has begun a group that has not ended.
pub(super) fn is_open() -> bool {
    OPEN.with_borrow(|open| open.depth > 0)
}

/// Keeps a rank that is to wait for the others; false outside of groups.
pub(super) fn defer_join(rank: &Arc<OwnRank>) -> bool {
    OPEN.with_borrow_mut(|open| {
        let is_open = open.depth > 0;
        if is_open {
            open.joining.push(rank.clone());
        }
        is_open
    })
}

/// Gives a call to its stream, or keeps it until the end of the group.
///
/// # Safety
/// The call's memory is there until the work is given to the stream, of the rank's GPU, and used in the stream's order.
///
/// # Errors
/// The call makes no sense, a rank is gone, or HIP refuses.
pub(super) unsafe fn give(call: RankCall) -> Result<(), CommunicationError> {
    let checked = call.call.check(call.rank.rank(), call.rank.world());
    let now = OPEN.with_borrow_mut(|open| {
        if open.depth == 0 {
            return checked.map(|()| Some(call));
        }
        if let Err(error) = &checked {
            open.error.get_or_insert_with(|| error.clone());
        }
        checked.map(|()| {
            open.calls.push(call);
            None
        })
    })?;
    match now {
        // SAFETY: the caller's promise.
        Some(call) => unsafe { own::run(&[call]) },
        None => Ok(()),
    }
}
