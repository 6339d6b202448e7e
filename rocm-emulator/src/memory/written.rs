//! Which bytes of an allocation something has written.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each byte of an allocation: set once it was written with something that is known.
pub(super) struct Written {
    base: u64,
    words: Box<[AtomicU64]>,
}

impl Written {
    /// Nothing yet. The host maps the bits of large allocations as they are touched.
    pub fn new(base: u64, bytes: u64) -> Written {
        let words = vec![0u64; bytes.div_ceil(64) as usize].into_boxed_slice();
        // SAFETY: an AtomicU64 has the size and bits of a u64 and, on 64-bit hosts, its alignment; the box is not used
        // otherwise.
        let words = unsafe { Box::from_raw(Box::into_raw(words) as *mut [AtomicU64]) };
        Written { base, words }
    }

    /// The words of a range, each with the bits that belong to it.
    fn each(&self, first: u64, end: u64, mut each: impl FnMut(u64, &AtomicU64, u64)) {
        let (mut at, end) = (first - self.base, end - self.base);
        while at < end {
            let (word, bit) = (at / 64, at % 64);
            let count = (64 - bit).min(end - at);
            let mask = u64::MAX >> (64 - count) << bit;
            if let Some(bits) = self.words.get(word as usize) {
                each(at - bit, bits, mask);
            }
            at += count;
        }
    }

    /// The range, which is inside, was written with what is `known`, or is not.
    pub fn mark(&self, first: u64, end: u64, known: bool) {
        self.each(first, end, |_, bits, mask| {
            match known {
                true => bits.fetch_or(mask, Ordering::Relaxed),
                false => bits.fetch_and(!mask, Ordering::Relaxed),
            };
        });
    }

    /// Visit the addresses of a range, which is inside, that nothing has written.
    pub fn unknown(&self, first: u64, end: u64, mut visit: impl FnMut(u64)) {
        self.each(first, end, |start, bits, mask| {
            let mut unknown = !bits.load(Ordering::Relaxed) & mask;
            while unknown != 0 {
                visit(self.base + start + u64::from(unknown.trailing_zeros()));
                unknown &= unknown - 1;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Written;

    #[test]
    fn ranges_across_words() {
        let written = Written::new(4096, 300);
        written.mark(4096 + 60, 4096 + 200, true);
        written.mark(4096 + 70, 4096 + 72, false);
        let mut unknown = Vec::new();
        written.unknown(4096 + 58, 4096 + 202, |at| unknown.push(at - 4096));
        assert_eq!(unknown, [58, 59, 70, 71, 200, 201]);
    }
}
