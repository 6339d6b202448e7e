//! What is cast, and how.

use candle_core::Tensor;

use crate::fp8::matrix::{ScaleFormat, Share};

/// What is cast of x.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    AsItIs,
    Gated,
    Scattered {
        place: &'a Tensor,
        source: &'a Tensor,
        top: usize,
    },
}

/// A cast that passed its checks.
pub(super) struct Cast<'a> {
    pub name: &'static str,
    /// Of the result.
    pub dims: &'a [usize],
    pub of_rows: Share,
    pub of_k: Share,
    pub format: ScaleFormat,
    pub source: Source<'a>,
}
