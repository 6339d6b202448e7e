//! Whose code runs a LLaMA: candle-rocm-transformers', or candle-transformers', unmodified.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{ensure, Context, Result};
use candle_core::{DType, Device};

use crate::precision::Precision;

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

/// `--pipeline`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pipeline {
    /// Each GPU has layers by its free memory.
    ByMemory,
    /// Each has so many.
    Layers(Vec<usize>),
}

impl FromStr for Pipeline {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == BY_MEMORY {
            return Ok(Self::ByMemory);
        }
        let numbers = text.split(',').map(|number| number.trim().parse());
        let layers: Result<Vec<usize>, _> = numbers.collect();
        let layers = layers.with_context(|| {
            format!("`{text}` is neither `{BY_MEMORY}` nor layers of each GPU, such as 20,12")
        })?;
        Ok(Self::Layers(layers))
    }
}

/// `--pipeline` without a value.
const BY_MEMORY: &str = "memory";

/// The options of models that there is code of both kinds for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ModelArgs {
    /// Whose code runs the model [default: rocm on a GPU, if it has heads of this size; else candle]
    #[arg(long, value_enum)]
    pub model_code: Option<ModelCode>,
    /// Tokens that there is memory for, prompt included, with the code of rocm [default: the model's context, or 4096 if that
    /// is longer]
    #[arg(long, value_name = "TOKENS")]
    pub context: Option<usize>,
    /// Quantise the products' weights to FP8 (e4m3, a factor for each 128 x 128) when they are loaded, with the code of rocm; how
    /// far its first prompt is from that of the weights as they came is printed
    #[arg(long)]
    pub fp8: bool,
    /// The type of keys and values that are kept, with the code of rocm: the activations', or, of f32, f16 or bf16 [default: f16
    /// where weights are quantised and on a GPU; else the activations']
    #[arg(long, value_enum, value_name = "TYPE")]
    pub cache_dtype: Option<Precision>,
    /// GPUs that share the model, each with its part of every layer, with the code of rocm [default: 1]
    #[arg(long, value_name = "N", group = "ranks")]
    pub gpus: Option<usize>,
    /// Processes that share the model, each with a GPU of its own; this one is --rank
    #[arg(long, value_name = "N", group = "ranks", requires_all = ["rank", "meet_at"])]
    pub world: Option<usize>,
    /// Which of --world this process is, from 0; the first writes the text
    #[arg(long, value_name = "R", requires = "world")]
    pub rank: Option<usize>,
    /// A file that does not exist yet, by which the processes of --world find each other
    #[arg(long, value_name = "FILE", requires = "world")]
    pub meet_at: Option<PathBuf>,
    /// With --gpus or --world: each GPU has whole layers in place of its part of every layer, as many as its free memory takes,
    /// or so many (20,12)
    #[arg(
        long,
        value_name = "LAYERS",
        requires = "ranks",
        num_args = 0..=1,
        default_missing_value = BY_MEMORY
    )]
    pub pipeline: Option<Pipeline>,
}

/// How GPUs share a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Which they are.
    pub ranks: Ranks,
    /// The layers of each, where it is not a part of every layer that each has.
    pub pipeline: Option<Pipeline>,
}

/// GPUs that share a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// Threads of this process.
    Threads(usize),
    /// Processes, of which this is one.
    Processes {
        /// How many there are.
        world: usize,
        /// Which this is.
        rank: usize,
        /// Where they find each other.
        meet_at: PathBuf,
    },
}

/// What a session of candle-rocm-transformers is to be.
#[derive(Clone, Debug)]
pub struct SessionArgs {
    /// Tokens that there is memory for.
    pub capacity: usize,
    /// Whether weights become FP8.
    pub fp8: bool,
    /// The type of keys and values, if it is not the model's choice.
    pub cache_dtype: Option<DType>,
    /// GPUs that share the model, where that is asked for.
    pub sharing: Option<Sharing>,
}

impl ModelArgs {
    /// The GPUs that are to share the model; none where it is one's.
    pub fn sharing(&self) -> Option<Sharing> {
        let ranks = match (self.gpus, self.world, self.rank, &self.meet_at) {
            (_, Some(world), Some(rank), Some(meet_at)) => Ranks::Processes {
                world,
                rank,
                meet_at: meet_at.clone(),
            },
            (Some(gpus), ..) if gpus != 1 || self.pipeline.is_some() => Ranks::Threads(gpus),
            _ => return None,
        };
        Some(Sharing {
            ranks,
            pipeline: self.pipeline.clone(),
        })
    }

    /// What a session of candle-rocm-transformers is to be, of a model that knows `most` tokens and has heads of `head` elements; none where candle's code runs the model.
    ///
    /// # Errors
    /// What is asked for is not in this build, or not of this model.
    pub fn session(
        &self,
        most: usize,
        head: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Option<SessionArgs>> {
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
        ensure!(
            ours || !self.fp8,
            "--fp8: candle's code has no FP8: take --model-code rocm, which is the default on a GPU"
        );
        ensure!(
            ours || self.cache_dtype.is_none(),
            "--cache-dtype: candle's code keeps keys and values as they come: take --model-code rocm, which is the default on a GPU"
        );
        let sharing = self.sharing();
        ensure!(
            ours || sharing.is_none(),
            "--gpus: candle's code runs a model on one: take --model-code rocm, which is the default on a GPU"
        );
        Ok(ours.then(|| SessionArgs {
            capacity: self.context.unwrap_or(most.min(CONTEXT)),
            fp8: self.fp8,
            cache_dtype: self.cache_dtype.map(DType::from),
            sharing,
        }))
    }
}
