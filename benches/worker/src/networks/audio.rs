//! Networks of sound: Whisper's encoder and Encodec.

use candle_core::{Module as _, Result};
use candle_nn::VarBuilder;
use candle_transformers::models::encodec;
use candle_transformers::models::whisper::{model::Whisper, Config};

use super::forward::Forward;

/// Whisper large-v3, without a decoder.
pub fn large_v3() -> Config {
    Config {
        num_mel_bins: 128,
        max_source_positions: 1500,
        d_model: 1280,
        encoder_attention_heads: 20,
        encoder_layers: 32,
        ..whisper_tiny()
    }
}

/// For emulated GPUs.
pub fn whisper_tiny() -> Config {
    Config {
        num_mel_bins: 8,
        max_source_positions: 16,
        d_model: 32,
        encoder_attention_heads: 2,
        encoder_layers: 1,
        vocab_size: 8,
        max_target_positions: 4,
        decoder_attention_heads: 2,
        decoder_layers: 0,
        suppress_tokens: Vec::new(),
    }
}

/// For emulated GPUs.
pub fn encodec_tiny() -> encodec::Config {
    encodec::Config {
        hidden_size: 8,
        num_filters: 4,
        upsampling_ratios: vec![3, 2],
        num_lstm_layers: 1,
        ..Default::default()
    }
}

/// Whisper's encoder, from the spectrum to what a decoder would attend to.
pub fn whisper(config: Config, vb: VarBuilder<'static>) -> Result<Forward> {
    let mut whisper = Whisper::load(&vb, config)?;
    Ok(Box::new(move |x| whisper.encoder.forward(x, true)))
}

/// Encodec's encoder and decoder without the quantiser between them, whose nearest codes would hang on roundings.
pub fn encodec(config: &encodec::Config, vb: VarBuilder<'static>) -> Result<Forward> {
    let encoder = encodec::Encoder::new(config, vb.pp("encoder"))?;
    let decoder = encodec::Decoder::new(config, vb.pp("decoder"))?;
    Ok(Box::new(move |x| decoder.forward(&encoder.forward(x)?)))
}
