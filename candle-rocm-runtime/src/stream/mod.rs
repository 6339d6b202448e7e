//! Where work runs and in which order: contexts, their streams, captures, and events.

pub(crate) mod capture;
pub mod context;
pub mod event;
pub(crate) mod per_stream;
pub(crate) mod queue;

pub use queue::Stream;
