//! Calls of one or several ranks of a thread, given to their streams so that none waits for one that comes later.

use std::collections::VecDeque;
use std::sync::Arc;

use super::rank::OwnRank;
use super::steps::{Channel, Step};
use crate::communication::call::Call;
use crate::communication::error::CommunicationError;
use crate::stream::queue::Stream;

/// A call of a rank, on a stream.
pub(in crate::communication) struct RankCall {
    /// The rank.
    pub rank: Arc<OwnRank>,
    /// The stream, of the rank's GPU.
    pub stream: Arc<Stream>,
    /// What is asked for.
    pub call: Call,
}

/// The steps of a rank. Those of a phase wait for no other of that phase, at any rank.
struct Phases {
    rank: Arc<OwnRank>,
    stream: Arc<Stream>,
    collective: VecDeque<Step>,
    /// What goes to, or comes from, each rank, in its order.
    messages: Vec<(Channel, VecDeque<Step>)>,
    /// Whether what is received is next.
    receives: bool,
}

impl Phases {
    fn of(first: &RankCall) -> Self {
        Self {
            rank: first.rank.clone(),
            stream: first.stream.clone(),
            collective: VecDeque::new(),
            messages: Vec::new(),
            receives: false,
        }
    }

    fn add(&mut self, call: &Call, is_alone: bool) -> Result<(), CommunicationError> {
        let steps = self.rank.place(is_alone)?.steps(call)?;
        self.collective.extend(steps.collective);
        for step in steps.message {
            match self.messages.iter_mut().find(|(of, _)| *of == step.channel) {
                Some((_, steps)) => steps.push_back(step),
                None => self.messages.push((step.channel, [step].into())),
            }
        }
        Ok(())
    }

    /// The steps of the next phase; `None` after the last.
    fn next(&mut self) -> Option<Vec<Step>> {
        if let Some(step) = self.collective.pop_front() {
            return Some(vec![step]);
        }
        let receives = self.receives;
        self.receives = !receives;
        if self.messages.iter().all(|(_, steps)| steps.is_empty()) {
            return None;
        }
        let of_phase = |channel: &Channel| matches!(channel, Channel::From(_)) == receives;
        let now = self.messages.iter_mut().filter(|(of, _)| of_phase(of));
        Some(now.filter_map(|(_, steps)| steps.pop_front()).collect())
    }
}

/// Gives calls to their streams: those of a rank in their order, of the ranks phase by phase.
///
/// # Safety
/// The calls' memory is there, of the ranks' GPUs, and used in the streams' order.
///
/// # Errors
/// A call makes no sense, a rank is gone, or HIP refuses; then none of these ranks is of use any more.
pub(in crate::communication) unsafe fn run(calls: &[RankCall]) -> Result<(), CommunicationError> {
    let mut all: Vec<Phases> = Vec::new();
    let is_alone = calls
        .iter()
        .all(|other| Arc::ptr_eq(&other.rank, &calls[0].rank));
    for RankCall { rank, stream, call } in calls {
        call.check(rank.rank(), rank.world())?;
        rank.check()?;
        let known = all
            .iter()
            .position(|phases| Arc::ptr_eq(&phases.rank, rank) && phases.stream == *stream);
        let at = known.unwrap_or_else(|| {
            all.push(Phases::of(&RankCall {
                rank: rank.clone(),
                stream: stream.clone(),
                call: *call,
            }));
            all.len() - 1
        });
        all[at].add(call, is_alone)?;
    }
    // SAFETY: the caller's promise.
    let given = unsafe { give(&mut all) };
    if let Err(error) = &given {
        for phases in &all {
            let watched = &phases.rank.watched;
            watched.fail(watched.rank, error.error().clone());
        }
    }
    for phases in &all {
        phases.rank.check()?;
    }
    given
}

/// # Safety
/// As [`run`].
unsafe fn give(all: &mut [Phases]) -> Result<(), CommunicationError> {
    for phases in all.iter() {
        phases.rank.follow(&phases.stream)?;
    }
    loop {
        let mut is_over = true;
        for phases in all.iter_mut() {
            let Some(steps) = phases.next() else {
                continue;
            };
            is_over = false;
            for step in steps {
                // SAFETY: the caller's promise.
                unsafe { phases.rank.launch(&phases.stream, &step) }?;
            }
        }
        if is_over {
            return Ok(());
        }
    }
}
