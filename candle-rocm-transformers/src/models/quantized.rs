//! The architectures of GGUF files, a module for each, under candle-transformers' names.

use candle_rocm_backend::ops::Pairs;

use super::gguf::Architecture;

macro_rules! architectures {
    ($($(#[$what:meta])* $module:ident: $architecture:expr;)+) => {$(
        $(#[$what])*
        pub mod $module {
            use std::io::{Read, Seek};
            use std::sync::Arc;

            use candle_core::quantized::gguf_file::Content;
            use candle_core::{Device, Result};
            use candle_rocm_backend::communication::Rank;

            use crate::models::gguf;
            use crate::pipeline::Shares;
            use crate::transformer::Transformer;

            /// Reads a model whose activations are f32, as Candle's are.
            ///
            /// # Errors
            /// The file is of another architecture or has experts, a tensor is missing, or the device has not the memory.
            pub fn from_gguf<R: Read + Seek>(
                content: &Content,
                reader: &mut R,
                device: &Device,
            ) -> Result<Transformer> {
                use super::*;
                gguf::load(&$architecture, content, reader, device)
            }

            /// Reads the part of the weights that a rank has, and nothing else of the file's tensors.
            ///
            /// # Errors
            /// As [`from_gguf`]; the model cannot be divided among so many ranks, whose columns end with the formats' blocks.
            pub fn rank_from_gguf<R: Read + Seek>(
                content: &Content,
                reader: &mut R,
                rank: &Arc<Rank>,
            ) -> Result<Transformer> {
                use super::*;
                gguf::load_rank(&$architecture, content, reader, rank)
            }

            /// Reads the layers that a stage of a pipeline has, the embedding if it is the first and the head if it is the
            /// last, and nothing else of the file's tensors.
            ///
            /// # Errors
            /// As [`from_gguf`]; the shares are not of this model and these ranks, or ranks are given different ones.
            pub fn stage_from_gguf<R: Read + Seek>(
                content: &Content,
                reader: &mut R,
                rank: &Arc<Rank>,
                shares: &Shares,
            ) -> Result<Transformer> {
                use super::*;
                gguf::load_stage(&$architecture, content, reader, rank, shares)
            }
        }
    )+};
}

architectures! {
    /// LLaMA, Mistral and their like from GGUF files: the model of `candle_transformers::models::quantized_llama`.
    quantized_llama: Architecture {
        name: "llama",
        pairs: Pairs::Neighbours,
        head_dim: Some("rope.dimension_count"),
        biases: false,
        head_norms: false,
    };
    /// Qwen 2 and 2.5 from GGUF files: the model of `candle_transformers::models::quantized_qwen2`.
    quantized_qwen2: Architecture {
        name: "qwen2",
        pairs: Pairs::Halves,
        head_dim: None,
        biases: true,
        head_norms: false,
    };
    /// Qwen 3 from GGUF files: the model of `candle_transformers::models::quantized_qwen3`.
    quantized_qwen3: Architecture {
        name: "qwen3",
        pairs: Pairs::Halves,
        head_dim: Some("attention.key_length"),
        biases: false,
        head_norms: true,
    };
}
