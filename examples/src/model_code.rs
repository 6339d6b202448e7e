//! Whose code runs a LLaMA: candle-rocm-transformers', or candle-transformers', unmodified.

use anyhow::{ensure, Result};
use candle_core::{DType, Device};

/// Tokens that there is memory for, unless more are asked for: what models of long contexts could hold would fill the GPU.
const CONTEXT: usize = 4096;

/// `--model-code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ModelCode {
    /// candle-rocm-transformers: few kernels a token, run by one launch.
    Rocm,
    /// candle-transformers, unmodified.
    Candle,
}

/// The options of models that there is code of both kinds for.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ModelArgs {
    /// Whose code runs the model [default: rocm on a GPU, if it has heads of this size; else candle]
    #[arg(long, value_enum)]
    pub model_code: Option<ModelCode>,
    /// Tokens that there is memory for, prompt included, with the code of rocm [default: the model's context, or 4096 if that
    /// is longer]
    #[arg(long, value_name = "TOKENS")]
    pub context: Option<usize>,
}

impl ModelArgs {
    /// How many tokens a session of candle-rocm-transformers is to hold, of `most` that the model knows and with heads of
    /// `head` elements; none where candle's code runs the model.
    ///
    /// # Errors
    /// What is asked for is not in this build, or not of this model.
    pub fn session(
        &self,
        most: usize,
        head: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Option<usize>> {
        if let Some(context) = self.context {
            ensure!(
                (1..=most).contains(&context),
                "--context is {context}; this model's is 1 to {most}"
            );
        }
        let fits = head.is_multiple_of(8)
            && head <= 512
            && matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
        let ours = match self.model_code {
            Some(ModelCode::Candle) => false,
            Some(ModelCode::Rocm) => {
                ensure!(
                    cfg!(feature = "rocm"),
                    "--model-code rocm: build with `--features rocm`"
                );
                ensure!(
                    fits,
                    "--model-code rocm: heads of {head} elements of {dtype:?}, and it has heads of 8 to 512, in steps of 8"
                );
                true
            }
            None => cfg!(feature = "rocm") && fits && device.is_cuda(),
        };
        Ok(ours.then(|| self.context.unwrap_or(most.min(CONTEXT))))
    }
}
