//! What is done with scores.

use candle_core::Tensor;
use candle_rocm_backend::ops::AttentionOptions;

/// Scale, windows, ALiBi and softcap of attention, and Candle's custom operator of q, k and v that
/// [`flash_attn`](crate::flash_attn()) and its kin for a batch stand for.
///
/// The functions read operands where they are. Applied by hand (`q.apply_op3(&k, &v, op)`) it copies operands and
/// result, as Candle hands a custom operator memory that it can only borrow; and it has no gradients then.
#[derive(Clone, Debug)]
pub struct FlashAttn {
    /// What products of queries and keys are multiplied by.
    pub softmax_scale: f32,
    /// ALiBi's slopes, f32 of (heads) or (batch, heads).
    pub alibi_slopes: Option<Tensor>,
    /// How many keys before its place a query sees; all, if not set.
    pub window_size_left: Option<usize>,
    /// How many keys after its place a query sees; all, if not set.
    pub window_size_right: Option<usize>,
    /// The softcap of scores; none, if not above 0.
    pub softcap: Option<f32>,
}

impl FlashAttn {
    pub(crate) fn new(softmax_scale: f32) -> Self {
        Self {
            softmax_scale,
            alibi_slopes: None,
            window_size_left: None,
            window_size_right: None,
            softcap: None,
        }
    }

    pub(crate) fn causal(self, causal: bool) -> Self {
        self.windows(None, causal.then_some(0))
    }

    pub(crate) fn windows(self, left: Option<usize>, right: Option<usize>) -> Self {
        Self {
            window_size_left: left,
            window_size_right: right,
            ..self
        }
    }

    pub(crate) fn alibi(self, slopes: Option<&Tensor>) -> Self {
        Self {
            alibi_slopes: slopes.cloned(),
            ..self
        }
    }

    pub(crate) fn softcap(self, softcap: Option<f32>) -> Self {
        Self { softcap, ..self }
    }

    /// The same to our operators, where the longest sequence has so many keys.
    pub(crate) fn options(&self, keys: usize) -> AttentionOptions {
        let narrows = |side: Option<usize>| side.filter(|&reach| reach <= keys);
        let left = narrows(self.window_size_left);
        // Published: a left window alone comes with a right one of all keys, which queries far before the first key
        // notice.
        let right = narrows(self.window_size_right).or(left.map(|_| keys));
        AttentionOptions {
            scale: Some(self.softmax_scale),
            window_left: left,
            window_right: right,
            softcap: self.softcap.filter(|&softcap| softcap > 0.0),
            alibi_slopes: self.alibi_slopes.clone(),
            ..AttentionOptions::default()
        }
    }
}
