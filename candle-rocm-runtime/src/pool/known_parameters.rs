//! Lending the blocks of parameters that are on the device already, and what the host knows of parameters.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::allocator::Pool;
use super::origin::Origin;
use super::parameters::MOST_WORDS;
use crate::order::key::StreamKey;

/// Words that were copied to the device: what the host knows of a kernel's parameters there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    number: u64,
    len: usize,
    words: [usize; MOST_WORDS],
}

thread_local! {
    /// What this thread copied last: Candle launches the kernel that reads parameters right after their copy.
    static LAST: RefCell<Copied> = const {
        RefCell::new(Copied {
            number: 0,
            len: 0,
            words: [0; MOST_WORDS],
        })
    };
}
/// The numbers of copies, which differ in all threads.
static COPIES: AtomicU64 = AtomicU64::new(1);

impl Copied {
    /// Notes a copy of these words; returns its number. There is none for more words than parameters have.
    fn note(words: &[usize]) -> u64 {
        if words.len() > MOST_WORDS {
            return 0;
        }
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        LAST.with_borrow_mut(|last| {
            (last.number, last.len) = (number, words.len());
            last.words[..words.len()].copy_from_slice(words);
        });
        number
    }

    /// The words.
    pub(crate) fn words(&self) -> &[usize] {
        &self.words[..self.len]
    }
}

/// The place of words that the pool does not keep.
const NO_PLACE: u16 = u16::MAX;

/// A buffer's claim that the words in it are known.
#[derive(Debug)]
pub(crate) struct KnownParameters {
    /// Where the pool keeps them.
    place: u16,
    /// Someone other than our kernels has the address, and may have written there.
    exposed: AtomicBool,
    /// The number of the copy.
    copied: u64,
}

impl KnownParameters {
    fn at(place: u16, words: &[usize]) -> Self {
        Self {
            place,
            exposed: AtomicBool::new(false),
            copied: Copied::note(words),
        }
    }

    /// Of words that the pool does not keep.
    pub(crate) fn kept_nowhere(words: &[usize]) -> Self {
        Self::at(NO_PLACE, words)
    }

    #[inline]
    pub(crate) fn expose(&self) {
        self.exposed.store(true, Ordering::Relaxed);
    }

    /// The words, if this thread copied them last and they are what they were.
    pub(crate) fn words(&self) -> Option<Copied> {
        let is_intact = !self.exposed.load(Ordering::Relaxed);
        let last = LAST.with_borrow(|last| *last);
        (is_intact && last.number == self.copied && self.copied != 0).then_some(last)
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
        Some((lent.ptr, KnownParameters::at(lent.place, words), lent.holds))
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
        Some(KnownParameters::at(place, words))
    }

    /// Takes memory back for the sake of its words. If they are not known for certain it is as any other, and still
    /// to be freed: then the result is false.
    pub(crate) fn return_parameters(
        &self,
        parameters: &KnownParameters,
        stream: StreamKey,
    ) -> bool {
        if parameters.place == NO_PLACE {
            return false;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_until_others_follow_or_somebody_may_write() {
        let first = KnownParameters::kept_nowhere(&[2, 3]);
        assert_eq!(first.words().unwrap().words(), [2, 3]);
        let second = KnownParameters::kept_nowhere(&[4]);
        assert!(first.words().is_none());
        assert_eq!(second.words().unwrap().words(), [4]);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(second.words().is_none()));
        });
        second.expose();
        assert!(second.words().is_none());
        let long = KnownParameters::kept_nowhere(&[1; MOST_WORDS + 1]);
        assert!(long.words().is_none());
    }
}
