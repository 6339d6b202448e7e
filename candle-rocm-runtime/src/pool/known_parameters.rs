//! Lending the blocks of parameters that are on the device already.

use std::sync::atomic::{AtomicBool, Ordering};

use super::allocator::Pool;
use super::origin::Origin;
use super::parameters::MOST_WORDS;
use crate::order::key::StreamKey;

/// A buffer's claim that the pool knows the words in it.
#[derive(Debug)]
pub(crate) struct KnownParameters {
    place: u16,
    /// Someone other than our kernels has the address, and may have written there.
    exposed: AtomicBool,
}

impl KnownParameters {
    fn at(place: u16) -> Self {
        Self {
            place,
            exposed: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn expose(&self) {
        self.exposed.store(true, Ordering::Relaxed);
    }
}

impl Pool {
    /// The address of a block for these words, for work given to `stream` from now on, and whether it holds them.
    pub(crate) fn lend_parameters(
        &self,
        words: &[usize],
        stream: StreamKey,
    ) -> Option<(u64, KnownParameters, bool)> {
        if !self.knows_parameters(words) {
            return None;
        }
        let mut state = self.state.lock();
        let lent = state.parameters.lend(words, stream)?;
        state.statistics.cached -= lent.size;
        state.note_allocation(lent.size);
        Some((lent.ptr, KnownParameters::at(lent.place), lent.holds))
    }

    /// Notes that these words were copied to an allocation of `stream`'s.
    pub(crate) fn know_parameters(
        &self,
        words: &[usize],
        ptr: u64,
        stream: StreamKey,
    ) -> Option<KnownParameters> {
        if !self.knows_parameters(words) {
            return None;
        }
        let mut state = self.state.lock();
        // What was allocated in a capture is the graph's.
        let (size, None) = state.blocks.size_and_graph(ptr)? else {
            return None;
        };
        let (place, before) = state.parameters.note(words, stream, ptr, size)?;
        if let Some(before) = before {
            state
                .blocks
                .give_back(before.ptr, Origin::Stream(before.stream));
        }
        Some(KnownParameters::at(place))
    }

    /// Takes memory back for the sake of its words. If they are not known for certain it is as any other, and still
    /// to be freed: then the result is false.
    pub(crate) fn return_parameters(
        &self,
        parameters: &KnownParameters,
        stream: StreamKey,
    ) -> bool {
        // What is freed during a capture may be the graph's.
        let intact = !parameters.exposed.load(Ordering::Relaxed) && !self.is_any_capturing();
        let mut state = self.state.lock();
        let kept = state.parameters.take_back(parameters.place, stream, intact);
        let Some(size) = kept else {
            return false;
        };
        state.statistics.in_use -= size;
        state.statistics.cached += size;
        true
    }

    fn knows_parameters(&self, words: &[usize]) -> bool {
        self.caching && (1..=MOST_WORDS).contains(&words.len()) && !self.is_any_capturing()
    }
}
