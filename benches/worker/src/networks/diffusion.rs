//! Stable Diffusion's UNet and decoder.

use candle_core::Result;
use candle_nn::VarBuilder;
use candle_transformers::models::stable_diffusion::unet_2d::{
    BlockConfig, UNet2DConditionModel, UNet2DConditionModelConfig,
};
use candle_transformers::models::stable_diffusion::vae::{AutoEncoderKL, AutoEncoderKLConfig};

use super::forward::Forward;

/// Channels of a latent image, and of an image.
const LATENT: usize = 4;
const IMAGE: usize = 3;
/// The step of the noise, of a thousand.
const STEP: f64 = 500.;
/// Tokens of a text.
const TOKENS: usize = 77;

fn block(out_channels: usize, has_text: bool, heads: usize) -> BlockConfig {
    BlockConfig {
        out_channels,
        use_cross_attn: has_text.then_some(1),
        attention_head_dim: heads,
    }
}

/// Stable Diffusion 1.5's.
pub fn unet_15() -> UNet2DConditionModelConfig {
    UNet2DConditionModelConfig {
        blocks: vec![
            block(320, true, 8),
            block(640, true, 8),
            block(1280, true, 8),
            block(1280, false, 8),
        ],
        cross_attention_dim: 768,
        ..Default::default()
    }
}

/// For emulated GPUs. Candle's blocks norm 32 groups, whatever is asked for.
pub fn unet_tiny() -> UNet2DConditionModelConfig {
    UNet2DConditionModelConfig {
        blocks: vec![block(32, true, 2), block(64, false, 2)],
        layers_per_block: 1,
        cross_attention_dim: 24,
        ..Default::default()
    }
}

/// Stable Diffusion 1.5's.
pub fn vae_15() -> AutoEncoderKLConfig {
    AutoEncoderKLConfig {
        block_out_channels: vec![128, 256, 512, 512],
        layers_per_block: 2,
        latent_channels: LATENT,
        norm_num_groups: 32,
        use_quant_conv: true,
        use_post_quant_conv: true,
    }
}

/// For emulated GPUs.
pub fn vae_tiny() -> AutoEncoderKLConfig {
    AutoEncoderKLConfig {
        block_out_channels: vec![16, 32],
        layers_per_block: 1,
        norm_num_groups: 4,
        ..vae_15()
    }
}

/// A step's noise, from latent images of these dimensions and a text for each.
pub fn unet(
    config: UNet2DConditionModelConfig,
    vb: VarBuilder<'static>,
    dims: &[usize],
) -> Result<Forward> {
    let text = vb.get((TOKENS, config.cross_attention_dim), "text")?;
    let batch = dims.first().copied().unwrap_or(1);
    let text = text.unsqueeze(0)?.repeat((batch, 1, 1))?;
    let unet = UNet2DConditionModel::new(vb, LATENT, LATENT, false, config)?;
    Ok(Box::new(move |x| unet.forward(x, STEP, &text)))
}

/// Images from latent ones. The encoder's weights are there, too.
pub fn decoder(config: AutoEncoderKLConfig, vb: VarBuilder<'static>) -> Result<Forward> {
    let vae = AutoEncoderKL::new(vb, IMAGE, IMAGE, config)?;
    Ok(Box::new(move |x| vae.decode(x)))
}
