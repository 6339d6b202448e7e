//! Models, under candle-transformers' names.

mod gguf;
mod hugging_face;
pub mod llama;
pub mod mistral;
mod quantized;
pub mod qwen2;
pub mod qwen3;

pub use quantized::{quantized_llama, quantized_qwen2, quantized_qwen3};
