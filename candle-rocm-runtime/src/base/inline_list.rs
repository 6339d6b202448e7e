//! A short list without an allocation.

use std::mem::MaybeUninit;

/// A list whose first `N` elements need no memory of their own.
///
/// Unlike the inline vectors of other crates it has no destructor, so that what its elements borrow may end before
/// the list does: a launch borrows its arguments, and cudarc's ends them at the launch.
pub(crate) struct InlineList<T: Copy, const N: usize> {
    inline: [MaybeUninit<T>; N],
    /// Elements of `inline` that are set, while there are no others.
    len: usize,
    /// All elements, once there are more than `N`.
    spilled: Vec<T>,
}

impl<T: Copy, const N: usize> InlineList<T, N> {
    #[inline]
    pub fn new() -> Self {
        Self {
            inline: [const { MaybeUninit::uninit() }; N],
            len: 0,
            spilled: Vec::new(),
        }
    }

    #[inline]
    pub fn push(&mut self, element: T) {
        if self.spilled.is_empty() && self.len < N {
            self.inline[self.len].write(element);
            self.len += 1;
        } else {
            self.spill(element);
        }
    }

    #[cold]
    fn spill(&mut self, element: T) {
        if self.spilled.is_empty() {
            self.spilled = self.as_slice().to_vec();
        }
        self.spilled.push(element);
    }

    #[inline]
    pub fn as_slice(&self) -> &[T] {
        if !self.spilled.is_empty() {
            return &self.spilled;
        }
        // SAFETY: the first `len` elements are set, and `MaybeUninit<T>` is laid out as `T`.
        unsafe { std::slice::from_raw_parts(self.inline.as_ptr().cast(), self.len) }
    }

    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        if self.spilled.is_empty() {
            self.inline.as_mut_ptr().cast()
        } else {
            self.spilled.as_mut_ptr()
        }
    }
}

impl<T: Copy, const N: usize> Extend<T> for InlineList<T, N> {
    #[inline]
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

impl<T: Copy + std::fmt::Debug, const N: usize> std::fmt::Debug for InlineList<T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_in_order_beyond_the_inline_ones() {
        let mut list = InlineList::<usize, 3>::new();
        for n in 0..8 {
            assert_eq!(list.as_slice(), (0..n).collect::<Vec<_>>());
            // SAFETY: as many elements as were pushed.
            let raw = unsafe { std::slice::from_raw_parts(list.as_mut_ptr(), n) };
            assert_eq!(raw, list.as_slice());
            list.push(n);
        }
        list.extend([8, 9]);
        assert_eq!(list.as_slice(), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_borrow_may_end_before_the_list() {
        let mut list = InlineList::<&str, 2>::new();
        let text = "lent".to_owned();
        list.push(&text);
        assert_eq!(list.as_slice(), ["lent"]);
        drop(text);
    }
}
