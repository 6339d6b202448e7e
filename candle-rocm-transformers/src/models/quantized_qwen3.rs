//! Qwen 3 from GGUF files: the model of `candle_transformers::models::quantized_qwen3`.

use std::io::{Read, Seek};

use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Result};
use candle_rocm_backend::ops::Pairs;

use super::gguf::{self, Architecture};
use crate::transformer::Transformer;

const ARCHITECTURE: Architecture = Architecture {
    name: "qwen3",
    pairs: Pairs::Halves,
    head_dim: Some("attention.key_length"),
    biases: false,
    head_norms: true,
};

/// Reads a model whose activations are f32, as Candle's are.
///
/// # Errors
/// The file is of another architecture or has experts, a tensor is missing, or the device has not the memory.
pub fn from_gguf<R: Read + Seek>(
    content: &Content,
    reader: &mut R,
    device: &Device,
) -> Result<Transformer> {
    gguf::load(&ARCHITECTURE, content, reader, device)
}
