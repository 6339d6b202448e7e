//! Models, under candle-transformers' names.

pub mod llama;
pub mod quantized_llama;
