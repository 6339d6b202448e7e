//! What is asked of Fourier transforms.

/// The longest transform.
pub(super) const MOST: usize = 1 << 16;

/// Transforms of one length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) batch: usize,
    pub(super) length: usize,
    /// The source has real numbers, or the first half of the complex ones and one more; the others are 0.
    pub(super) real_source: bool,
    pub(super) half_source: bool,
    /// Only real parts are wanted, or only that half.
    pub(super) real_result: bool,
    pub(super) half_result: bool,
    pub(super) inverse: bool,
    /// Numbers that have a mirrored one count twice.
    pub(super) load_doubled: bool,
    pub(super) store_doubled: bool,
    pub(super) scale: f64,
}

impl Call {
    /// Numbers of a sequence in the source.
    pub(super) fn there(&self) -> usize {
        match self.half_source {
            true => self.length / 2 + 1,
            false => self.length,
        }
    }

    /// Numbers of a sequence in the result.
    pub(super) fn kept(&self) -> usize {
        match self.half_result {
            true => self.length / 2 + 1,
            false => self.length,
        }
    }
}
