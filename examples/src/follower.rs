//! A rank of a model over several GPUs, in a thread that does what rank 0 is told.

use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use anyhow::Result;

/// What a rank is told.
pub(crate) enum Call {
    Forward(Vec<u32>, usize),
    Reset,
}

/// Another rank, in its thread.
pub(crate) struct Follower {
    number: usize,
    calls: Sender<Call>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Follower {
    /// A rank whose thread does what it is told.
    pub(crate) fn new(number: usize, calls: Sender<Call>, thread: JoinHandle<Result<()>>) -> Self {
        Self {
            number,
            calls,
            thread: Some(thread),
        }
    }

    pub(crate) fn forward(&self, tokens: &[u32], position: usize) {
        self.tell(Call::Forward(tokens.to_vec(), position));
    }

    pub(crate) fn reset(&self) {
        self.tell(Call::Reset);
    }

    /// A rank that ended hears nothing: the next collective says that it is gone, and [`first_error`] why.
    fn tell(&self, call: Call) {
        drop(self.calls.send(call));
    }
}

/// Why a rank ended, where one did; else `error`, which is rank 0's.
pub(crate) fn first_error(followers: &mut [Follower], error: anyhow::Error) -> anyhow::Error {
    let ended = |follower: &&mut Follower| {
        let thread = follower.thread.as_ref();
        thread.is_some_and(JoinHandle::is_finished)
    };
    for follower in followers.iter_mut().filter(ended) {
        let ended = follower.thread.take().map(JoinHandle::join);
        if let Some(Ok(Err(reason))) = ended {
            return reason.context(format!("rank {}", follower.number));
        }
    }
    error
}
