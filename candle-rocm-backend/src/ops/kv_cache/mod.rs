//! A cache of keys and values that is written in place, and the attention of few queries to it.

mod append;
mod attend;
mod checks;
mod heads;
mod memory;
mod scores;
mod step;

pub use heads::{HeadNorms, Pairs, Rotary};
pub use memory::KvCache;
pub use scores::Scores;
