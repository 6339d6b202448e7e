//! The order of work between streams, without the streams themselves: what names one, points in its work, which there
//! are, and what is to be done when one ends.

pub(crate) mod key;
pub(crate) mod live_streams;
pub(crate) mod raw_event;
pub(crate) mod thread_streams;
