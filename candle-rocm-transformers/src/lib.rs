//! Language models for Candle on AMD GPUs, laid out like candle-transformers.
//!
//! They compute what candle-transformers' models do, with fewer and larger kernels: one product makes queries, keys and
//! values, one the gate and what it gates; rotary embedding writes keys into a cache that stays in place; and the step that
//! decodes a token is captured once and run by one launch after that. See [`Session`].
//!
//! ```
//! use candle_core::{DType, Tensor};
//! use candle_nn::{VarBuilder, VarMap};
//! use candle_rocm_backend::DeviceExt as _;
//! use candle_rocm_transformers::models::llama::{self, Config};
//! use candle_rocm_transformers::Session;
//!
//! # candle_rocm_backend::runtime::select(candle_rocm_backend::RuntimeKind::Emulator)?;
//! let device = candle_core::Device::new_rocm_with_stream(0)?;
//! let config = Config {
//!     hidden_size: 64,
//!     intermediate_size: 96,
//!     vocab_size: 50,
//!     num_hidden_layers: 1,
//!     num_attention_heads: 4,
//!     num_key_value_heads: 2,
//!     max_position_embeddings: 32,
//!     ..Config::config_7b_v2(false)
//! };
//! let weights = VarMap::new();
//! let model = llama::load(VarBuilder::from_varmap(&weights, DType::F32, &device), &config)?;
//! let mut session = Session::new(model, 1, 32)?;
//! let prompt = Tensor::new(&[[3u32, 1, 4]], &device)?;
//! session.prompt(&prompt)?;
//! let tokens = session.greedy(5)?;
//! assert_eq!((tokens.len(), tokens[0].len()), (1, 5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod models;

mod cache;
mod chained;
mod linear;
mod parallel;
mod pipeline;
mod ranks;
mod rotary;
mod session;
mod source;
mod transformer;
mod weights;

pub use cache::Cache;
pub use linear::Linear;
pub use pipeline::Shares;
pub use rotary::Frequencies;
pub use session::Session;
pub use source::{Checkpoint, Part, Source};
pub use transformer::Transformer;
pub use weights::{Layer, Shape};
