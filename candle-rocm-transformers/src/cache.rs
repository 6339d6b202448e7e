//! What a model keeps of the tokens that it read.

use candle_rocm_backend::ops::{CompletionCounters, KvCache, Rotary};

/// Keys and values of each layer, and the angles of the positions that they have room for.
#[derive(Clone, Debug)]
pub struct Cache {
    pub(crate) layers: Vec<KvCache>,
    pub(crate) rotary: Rotary,
    pub(crate) completion: CompletionCounters,
}
