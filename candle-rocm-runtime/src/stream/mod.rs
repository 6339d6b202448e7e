//! Where work runs and in which order: contexts, their streams, and events.

pub mod context;
pub mod event;
pub(crate) mod queue;

pub use queue::Stream;
