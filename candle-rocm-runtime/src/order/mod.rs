//! The order of work between streams, without the streams themselves.

pub(crate) mod live_streams;
