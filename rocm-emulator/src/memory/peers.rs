//! Other devices' memory that a device's kernels reach.

use std::sync::Arc;

use parking_lot::RwLock;

/// A device's peers by their memory, and what was live at the device itself and at them when a launch last began.
pub(super) struct Peers<M: 'static, S> {
    state: RwLock<State<M, S>>,
}

struct State<M: 'static, S> {
    memories: Vec<&'static M>,
    /// The device's own snapshot and its peers', and the one made of them.
    last: Option<(Vec<Arc<S>>, Arc<S>)>,
}

impl<M, S> Peers<M, S> {
    /// None.
    pub fn new() -> Self {
        Self {
            state: RwLock::new(State {
                memories: Vec::new(),
                last: None,
            }),
        }
    }

    /// Lets kernels reach a memory; false if they do already.
    pub fn add(&self, memory: &'static M) -> bool {
        let mut state = self.state.write();
        let is_new = !state.memories.iter().any(|it| std::ptr::eq(*it, memory));
        if is_new {
            state.memories.push(memory);
            state.last = None;
        }
        is_new
    }

    /// The opposite; false if they do not reach it.
    pub fn remove(&self, memory: &'static M) -> bool {
        let mut state = self.state.write();
        let before = state.memories.len();
        state.memories.retain(|it| !std::ptr::eq(*it, memory));
        state.last = None;
        state.memories.len() < before
    }

    /// The device's own snapshot, or, where it has peers, the one that `merge` makes of all of them.
    pub fn with_peers(
        &self,
        own: Arc<S>,
        of_peer: impl Fn(&M) -> Arc<S>,
        merge: impl FnOnce(&[Arc<S>]) -> S,
    ) -> Arc<S> {
        let memories = self.state.read().memories.clone();
        if memories.is_empty() {
            return own;
        }
        let peers = memories.into_iter().map(of_peer);
        let parts: Vec<Arc<S>> = std::iter::once(own).chain(peers).collect();
        let mut state = self.state.write();
        if let Some((of, all)) = &state.last {
            let is_same = |(one, other): (&Arc<S>, &Arc<S>)| Arc::ptr_eq(one, other);
            if of.len() == parts.len() && of.iter().zip(&parts).all(is_same) {
                return all.clone();
            }
        }
        let all = Arc::new(merge(&parts));
        state.last = Some((parts, all.clone()));
        all
    }
}
