//! Models of images: convolutional ones, transformers, segmentation, text beside images, diffusion.

use candle_core::{Module as _, ModuleT as _, Result, Tensor};
use candle_transformers::models::*;
use serde_json::json;

use crate::harness::{config, Maker};
use crate::Case;

/// The logits of one image of so many pixels a side.
fn seen(
    maker: &Maker,
    pixels: usize,
    forward: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    Ok(vec![forward(&maker.numbers((1, 3, pixels, pixels))?)?])
}

pub const CONVOLUTIONAL: &[Case] = &[
    Case::new("resnet18", |maker| {
        let model = resnet::resnet18(10, maker.weights())?;
        seen(maker, 32, |image| model.forward_t(image, false))
    }),
    Case::new("convnext", |maker| {
        let model = convnext::convnext(&convnext::Config::atto(), 10, maker.weights())?;
        seen(maker, 32, |image| model.forward_t(image, false))
    }),
    Case::new("efficientnet", |maker| {
        let configs = efficientnet::MBConvConfig::b0();
        let model = efficientnet::EfficientNet::new(maker.weights(), configs, 10)?;
        seen(maker, 32, |image| model.forward(image))
    }),
    Case::new("efficientvit", |maker| {
        let model = efficientvit::efficientvit(&efficientvit::Config::m0(), 10, maker.weights())?;
        seen(maker, 224, |image| model.forward_t(image, false))
    }),
    Case::new("repvgg", |maker| {
        let model = repvgg::repvgg(&repvgg::Config::a0(), 10, maker.weights())?;
        seen(maker, 32, |image| model.forward_t(image, false))
    }),
];

pub const TRANSFORMERS: &[Case] = &[
    Case::new("vit", |maker| {
        let shape = json!({
            "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
            "hidden_act": "gelu", "layer_norm_eps": 1e-6, "image_size": 32, "patch_size": 8, "num_channels": 3,
            "qkv_bias": true,
        });
        let model = vit::Model::new(&config(&shape, json!({}))?, 10, maker.weights())?;
        seen(maker, 32, |image| model.forward(image))
    }),
    Case::new("dinov2", |maker| {
        let model = dinov2::DinoVisionTransformer::new(maker.weights(), 2, 64, 4)?;
        seen(maker, 56, |image| model.forward(image))
    }),
    Case::new("segformer", |maker| {
        let shape = json!({
            "num_channels": 3, "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [4, 2],
            "hidden_sizes": [16, 32], "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2], "hidden_act": "gelu", "layer_norm_eps": 1e-6, "decoder_hidden_size": 32,
        });
        let shape = config(&shape, json!({}))?;
        let model = segformer::SemanticSegmentationModel::new(&shape, 5, maker.weights())?;
        seen(maker, 32, |image| model.forward(image))
    }),
    Case::new("siglip", |maker| {
        let text = json!({
            "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 16,
        });
        let vision = json!({
            "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_channels": 3, "image_size": 32, "patch_size": 8,
        });
        let shape = json!({"text_config": text, "vision_config": vision});
        let model = siglip::Model::new(&config(&shape, json!({}))?, maker.weights())?;
        let (of_text, of_image) =
            model.forward(&maker.numbers((1, 3, 32, 32))?, &maker.tokens(0, 7)?)?;
        Ok(vec![of_text, of_image])
    }),
    Case::new("clip", |maker| {
        let mut shape = clip::ClipConfig::vit_base_patch32();
        shape.image_size = 32;
        let text = &mut shape.text_config;
        (text.vocab_size, text.embed_dim, text.intermediate_size) = (96, 64, 96);
        (
            text.num_hidden_layers,
            text.num_attention_heads,
            text.projection_dim,
        ) = (2, 4, 32);
        let vision = &mut shape.vision_config;
        (
            vision.embed_dim,
            vision.intermediate_size,
            vision.image_size,
        ) = (64, 96, 32);
        (vision.num_hidden_layers, vision.num_attention_heads) = (2, 4);
        (vision.projection_dim, vision.patch_size) = (32, 8);
        let model = clip::ClipModel::new(maker.weights(), &shape)?;
        let (of_text, of_image) =
            model.forward(&maker.numbers((1, 3, 32, 32))?, &maker.tokens(0, 7)?)?;
        Ok(vec![of_text, of_image])
    }),
];

pub const DIFFUSION: &[Case] = &[
    Case::new("stable_diffusion: unet", |maker| {
        use stable_diffusion::unet_2d::{
            BlockConfig, UNet2DConditionModel, UNet2DConditionModelConfig,
        };
        let block = |out_channels, use_cross_attn| BlockConfig {
            out_channels,
            use_cross_attn,
            attention_head_dim: 4,
        };
        let shape = UNet2DConditionModelConfig {
            blocks: vec![block(32, Some(1)), block(64, None)],
            layers_per_block: 1,
            norm_num_groups: 8,
            cross_attention_dim: 32,
            ..UNet2DConditionModelConfig::default()
        };
        let model = UNet2DConditionModel::new(maker.weights(), 4, 4, false, shape)?;
        let (image, text) = (maker.numbers((1, 4, 8, 8))?, maker.numbers((1, 7, 32))?);
        Ok(vec![model.forward(&image, 10., &text)?])
    }),
    Case::new("stable_diffusion: decoder", |maker| {
        use stable_diffusion::vae::{AutoEncoderKL, AutoEncoderKLConfig};
        let shape = AutoEncoderKLConfig {
            block_out_channels: vec![16, 32],
            layers_per_block: 1,
            norm_num_groups: 8,
            ..AutoEncoderKLConfig::default()
        };
        let model = AutoEncoderKL::new(maker.weights(), 3, 3, shape)?;
        Ok(vec![model.decode(&maker.numbers((1, 4, 8, 8))?)?])
    }),
    Case::new("flux", |maker| {
        use flux::WithForward as _;
        let shape = flux::model::Config {
            in_channels: 16,
            vec_in_dim: 32,
            context_in_dim: 48,
            hidden_size: 64,
            mlp_ratio: 2.,
            num_heads: 4,
            depth: 1,
            depth_single_blocks: 1,
            axes_dim: vec![4, 6, 6],
            theta: 10_000,
            qkv_bias: true,
            guidance_embed: true,
        };
        let model = flux::model::Flux::new(&shape, maker.weights())?;
        let (image, text) = (maker.numbers((1, 16, 16))?, maker.numbers((1, 5, 48))?);
        let (image_at, text_at) = (maker.numbers((1, 16, 3))?, maker.numbers((1, 5, 3))?);
        let (step, guidance) = (maker.numbers(1)?, maker.numbers(1)?);
        let y = maker.numbers((1, 32))?;
        Ok(vec![model.forward(
            &image,
            &image_at,
            &text,
            &text_at,
            &step,
            &y,
            Some(&guidance),
        )?])
    }),
];
