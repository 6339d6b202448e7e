//! Parameters of kernels that are on the device already.
//!
//! For each operator on a tensor that is not contiguous, and for each reduction, Candle copies a few dimensions and
//! strides to the device, launches one kernel that reads them, and frees them. A chain of operators copies the same
//! words again and again, and such a copy costs the host more than half of what a launch does. So freed parameters
//! keep their block and what is in it, for the next request of the same words on the same stream.

use std::mem::size_of_val;

use crate::order::key::StreamKey;

/// Words of the longest parameters kept: dimensions and three lots of strides of six dimensions each.
pub(super) const MOST_WORDS: usize = 24;
/// Parameters kept at once, of a block each; those that fall on the same place share it by turns.
const PLACES: usize = 256;

/// One place.
#[derive(Clone)]
struct Kept {
    stream: StreamKey,
    len: usize,
    words: [usize; MOST_WORDS],
    /// 0 where nothing is kept.
    ptr: u64,
    size: usize,
    /// In use by a buffer.
    lent: bool,
}

/// A block of parameters that no buffer uses any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freed {
    pub ptr: u64,
    pub stream: StreamKey,
}

/// A block given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lent {
    pub ptr: u64,
    pub size: usize,
    pub place: u16,
    /// The words are there; else they must be copied.
    pub holds: bool,
}

/// What a pool keeps of parameters. Elsewhere their blocks count as in use.
#[derive(Default)]
pub(super) struct Parameters {
    places: Vec<Kept>,
}

impl Kept {
    const EMPTY: Self = Self {
        stream: StreamKey { raw: 0, thread: 0 },
        len: 0,
        words: [0; MOST_WORDS],
        ptr: 0,
        size: 0,
        lent: false,
    };

    fn is_free(&self) -> bool {
        self.ptr != 0 && !self.lent
    }

    fn clear(&mut self) -> Freed {
        self.lent = false;
        Freed {
            ptr: std::mem::take(&mut self.ptr),
            stream: self.stream,
        }
    }
}

/// Which words share a place does not depend on the stream's address, and so is the same in every run.
fn place_of(words: &[usize], stream: StreamKey) -> usize {
    // Any odd number with bits all over will do: the upper bits depend on each bit of each word.
    let mix =
        |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let of_stream = mix(stream.raw as u64, stream.thread);
    let of_words = words
        .iter()
        .fold(words.len() as u64, |hash, &word| mix(hash, word as u64));
    ((of_stream >> 32) + (of_words >> 32)) as usize % PLACES
}

impl Parameters {
    /// The block kept at the place of these words, to hold them from now on.
    #[inline]
    pub(super) fn lend(&mut self, words: &[usize], stream: StreamKey) -> Option<Lent> {
        let place = place_of(words, stream);
        let kept = self.places.get_mut(place)?;
        if !kept.is_free() || kept.stream != stream || size_of_val(words) > kept.size {
            return None;
        }
        let holds = kept.words.get(..kept.len) == Some(words);
        if !holds {
            kept.words.get_mut(..words.len())?.copy_from_slice(words);
            kept.len = words.len();
        }
        kept.lent = true;
        Some(Lent {
            ptr: kept.ptr,
            size: kept.size,
            place: place as u16,
            holds,
        })
    }

    /// Notes that a block in use holds these words; returns its place, and what was there. `None` if that place is in
    /// use.
    pub(super) fn note(
        &mut self,
        words: &[usize],
        stream: StreamKey,
        ptr: u64,
        size: usize,
    ) -> Option<(u16, Option<Freed>)> {
        if self.places.is_empty() {
            self.places.resize(PLACES, Kept::EMPTY);
        }
        let place = place_of(words, stream);
        let kept = &mut self.places[place];
        if kept.lent || words.len() > MOST_WORDS {
            return None;
        }
        let before = kept.is_free().then(|| kept.clear());
        kept.words[..words.len()].copy_from_slice(words);
        (kept.len, kept.stream) = (words.len(), stream);
        (kept.ptr, kept.size, kept.lent) = (ptr, size, true);
        Some((place as u16, before))
    }

    /// A buffer is done with a place. If the words are what they were, and no other stream's order counts from now on,
    /// the block is kept, and its size is returned; else it is the caller's to free.
    #[inline]
    pub(super) fn take_back(
        &mut self,
        place: u16,
        stream: StreamKey,
        intact: bool,
    ) -> Option<usize> {
        let kept = self.places.get_mut(usize::from(place))?;
        if intact && kept.stream == stream {
            kept.lent = false;
            return Some(kept.size);
        }
        kept.clear();
        None
    }

    /// Gives up what is kept for the streams that `of` names.
    pub(super) fn give_up(&mut self, of: impl Fn(StreamKey) -> bool) -> Vec<Freed> {
        self.places
            .iter_mut()
            .filter(|kept| kept.is_free() && of(kept.stream))
            .map(Kept::clear)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamKey = StreamKey { raw: 16, thread: 0 };
    const OTHER: StreamKey = StreamKey { raw: 32, thread: 0 };

    #[test]
    fn the_same_words_of_the_same_stream_are_lent_to_one_at_a_time() {
        let mut kept = Parameters::default();
        assert_eq!(kept.lend(&[4, 1], STREAM), None);
        let (place, before) = kept.note(&[4, 1], STREAM, 512, 1024).unwrap();
        assert_eq!(before, None);
        assert_eq!(kept.lend(&[4, 1], STREAM), None);
        assert_eq!(kept.note(&[4, 1], STREAM, 4096, 1024), None);
        assert_eq!(kept.take_back(place, STREAM, true), Some(1024));
        assert_eq!(kept.lend(&[4, 1], OTHER), None);
        let lent = |holds| Lent {
            ptr: 512,
            size: 1024,
            place,
            holds,
        };
        assert_eq!(kept.lend(&[4, 1], STREAM), Some(lent(true)));
        assert_eq!(kept.lend(&[4, 1], STREAM), None);
        kept.take_back(place, STREAM, true);
        // Words that fall on the same place take the block over.
        let same = |n: &usize| place_of(&[*n], STREAM) == usize::from(place);
        let other = (0..).find(same).unwrap();
        assert_eq!(kept.lend(&[other], STREAM), Some(lent(false)));
        kept.take_back(place, STREAM, true);
        assert_eq!(kept.lend(&[other], STREAM), Some(lent(true)));
    }

    #[test]
    fn changed_words_and_blocks_freed_elsewhere_are_not_kept() {
        for (stream, intact) in [(STREAM, false), (OTHER, true)] {
            let mut kept = Parameters::default();
            let (place, _) = kept.note(&[4, 1], STREAM, 512, 1024).unwrap();
            assert_eq!(kept.take_back(place, stream, intact), None);
            assert_eq!(kept.lend(&[4, 1], STREAM), None);
        }
    }

    #[test]
    fn a_place_is_used_by_turns_and_given_up() {
        let mut kept = Parameters::default();
        let mut noted = 0;
        let mut freed = Vec::new();
        for n in 0..10 * PLACES {
            let (place, before) = kept.note(&[n], STREAM, 512 * (n as u64 + 1), 512).unwrap();
            kept.take_back(place, STREAM, true).unwrap();
            freed.extend(before);
            noted += 1;
        }
        assert!(kept.give_up(|stream| stream == OTHER).is_empty());
        freed.extend(kept.give_up(|stream| stream == STREAM));
        assert_eq!(freed.len(), noted);
        assert_eq!(kept.give_up(|_| true), []);
    }
}
