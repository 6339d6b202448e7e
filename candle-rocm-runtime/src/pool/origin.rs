//! After which work a free block may be used.

use std::sync::Arc;

use crate::order::key::StreamKey;
use crate::order::raw_event::RawEvent;

/// The work after which a free block may be used.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// None: the block is fresh from the driver.
    Idle,
    /// What this stream had been given when the block was freed.
    Stream(StreamKey),
    /// What the event stands for; its stream is gone.
    Event(Arc<RawEvent>),
    /// All of these, none of which is `Idle` or `All`: the block was joined of several.
    All(Arc<[Origin]>),
}

impl Origin {
    /// The single origins.
    pub fn each(&self) -> &[Origin] {
        match self {
            Origin::Idle => &[],
            Origin::All(all) => all,
            one => std::slice::from_ref(one),
        }
    }

    /// Whether the stream may use the block without waiting for another.
    pub fn is_ready(&self, stream: StreamKey) -> bool {
        match self {
            Origin::Idle => true,
            Origin::Stream(key) => *key == stream,
            Origin::Event(_) | Origin::All(_) => false,
        }
    }

    /// Whether the block waits for the work of a stream of which `is` is true.
    pub fn waits_for(&self, is: impl Fn(StreamKey) -> bool) -> bool {
        self.each()
            .iter()
            .any(|one| matches!(one, Origin::Stream(key) if is(*key)))
    }

    /// The origin of two blocks joined.
    pub fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Origin::Idle, any) | (any, Origin::Idle) => return any.clone(),
            (a, b) if a.is(b) => return a.clone(),
            _ => {}
        }
        let mut all = self.each().to_vec();
        for one in other.each() {
            if !all.iter().any(|known| known.is(one)) {
                all.push(one.clone());
            }
        }
        Origin::All(all.into())
    }

    /// The same with `event` in the place of the stream.
    pub fn replaced(&self, stream: StreamKey, event: &Arc<RawEvent>) -> Self {
        let put = |one: &Origin| match one {
            Origin::Stream(key) if *key == stream => Origin::Event(event.clone()),
            other => other.clone(),
        };
        match self {
            Origin::All(all) => Origin::All(all.iter().map(put).collect()),
            one => put(one),
        }
    }

    /// Whether both are the same work.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Origin::Idle, Origin::Idle) => true,
            (Origin::Stream(a), Origin::Stream(b)) => a == b,
            (Origin::Event(a), Origin::Event(b)) => Arc::ptr_eq(a, b),
            (Origin::All(a), Origin::All(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}
