//! Models of sound: speech to text, and codecs.

use candle_transformers::models::*;
use serde_json::json;

use crate::harness::config;
use crate::Case;

pub const ALL: &[Case] = &[
    Case::new("whisper", |maker| {
        let shape = json!({
            "num_mel_bins": 16, "max_source_positions": 32, "d_model": 64, "encoder_attention_heads": 4,
            "encoder_layers": 2, "vocab_size": 96, "max_target_positions": 16, "decoder_attention_heads": 4,
            "decoder_layers": 2,
        });
        let config: whisper::Config = config(&shape, json!({}))?;
        let mut model = whisper::model::Whisper::load(&maker.weights(), config)?;
        let heard = model.encoder.forward(&maker.numbers((1, 16, 64))?, true)?;
        let state = model.decoder.forward(&maker.tokens(0, 5)?, &heard, true)?;
        Ok(vec![model.decoder.final_linear(&state)?])
    }),
    Case::new("encodec", |maker| {
        let shape = json!({
            "target_bandwidths": [48.0], "sampling_rate": 24000, "audio_channels": 1, "normalize": false,
            "chunk_length_s": null, "overlap": null, "hidden_size": 32, "num_filters": 8, "num_residual_layers": 1,
            "upsampling_ratios": [4, 2], "norm_type": "WeightNorm", "kernel_size": 7, "last_kernel_size": 7,
            "residual_kernel_size": 3, "dilation_growth_rate": 2, "use_causal_conv": true, "pad_mode": "Replicate",
            "compress": 2, "num_lstm_layers": 2, "trim_right_ratio": 1.0, "codebook_size": 64,
            "codebook_dim": null, "use_conv_shortcut": false,
        });
        let model = encodec::Model::new(&config(&shape, json!({}))?, maker.weights())?;
        let codes = model.encode(&maker.numbers((1, 1, 160))?)?;
        Ok(vec![codes.clone(), model.decode(&codes)?])
    }),
    Case::new("snac", |maker| {
        let shape = json!({
            "sampling_rate": 24000, "encoder_dim": 8, "encoder_rates": [2, 4], "decoder_dim": 32,
            "decoder_rates": [4, 2], "attn_window_size": null, "codebook_size": 32, "codebook_dim": 8,
            "vq_strides": [2, 1], "noise": false, "depthwise": false,
        });
        let model = snac::Model::new(&config(&shape, json!({}))?, maker.weights())?;
        let codes = model.encode(&maker.numbers((1, 1, 128))?)?;
        let of_codes: Vec<_> = codes.iter().collect();
        let decoded = model.decode(&of_codes)?;
        Ok([codes, vec![decoded]].concat())
    }),
];
