//! Models, under candle-transformers' names.

mod gguf;
mod hugging_face;
pub mod llama;
pub mod mistral;
pub mod quantized_llama;
pub mod quantized_qwen2;
pub mod quantized_qwen3;
pub mod qwen2;
pub mod qwen3;
