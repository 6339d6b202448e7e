//! What becomes of the products of queries and keys.

use candle_core::Tensor;

use crate::ops::attention::AttentionOptions;

/// How scores become weights.
#[derive(Clone, Debug)]
pub struct Scores {
    /// What products of queries and keys are multiplied by, such as 1 / sqrt(dim).
    pub scale: f64,
    /// Scores become cap * tanh(score / cap), if there is one.
    pub softcap: Option<f64>,
    /// Only so many of the latest keys are seen, the query's own among them; all without.
    pub window: Option<usize>,
    /// ALiBi: a slope for each head, f32 of shape (heads), times which the distance to a key is subtracted.
    pub slopes: Option<Tensor>,
}

impl Scores {
    /// Scaled by `scale`, and nothing else.
    pub fn scaled(scale: f64) -> Self {
        Self {
            scale,
            softcap: None,
            window: None,
            slopes: None,
        }
    }

    /// The same of [`attention`](crate::ops::attention()), for queries the last of which stands at the last key.
    pub(super) fn options(&self) -> AttentionOptions {
        AttentionOptions {
            scale: Some(self.scale as f32),
            causal: true,
            window_left: self.window.map(|window| window - 1),
            softcap: self.softcap.map(|cap| cap as f32),
            alibi_slopes: self.slopes.clone(),
            ..AttentionOptions::default()
        }
    }
}
