//! Models in parts over emulated GPUs, a thread for each rank: their tokens are one GPU's.

mod common;

use std::io::Cursor;
use std::sync::Arc;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_rocm_backend::communication::Rank;
use candle_rocm_backend::{runtime, DeviceExt as _, RuntimeKind};
use candle_rocm_testing::process::alone;
use candle_rocm_transformers::models::{
    llama, mistral, quantized_llama, quantized_qwen2, quantized_qwen3, qwen2, qwen3,
};
use candle_rocm_transformers::{Checkpoint, Session, Transformer};
use common::configs::{mistral_config, qwen2_config, qwen3_config, SIZES};
use common::{prompt, weights, Sizes};

/// Tokens that are decoded after a prompt.
const DECODED: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Model {
    Llama,
    /// From a file of safetensors, with one matrix for tokens and logits.
    Tied,
    Mistral,
    Qwen2,
    Qwen3,
    /// Files of one format, or of several.
    Gguf(&'static str, [GgmlDType; 3]),
    /// Weights in FP8, whose factors of 128 x 128 are no two ranks'.
    Fp8,
}

const MODELS: [Model; 10] = [
    Model::Llama,
    Model::Tied,
    Model::Mistral,
    Model::Qwen2,
    Model::Qwen3,
    Model::Gguf("llama", [GgmlDType::Q8_0; 3]),
    Model::Gguf("llama", [GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::Q4K]),
    Model::Gguf("qwen2", [GgmlDType::Q4_0; 3]),
    Model::Gguf("qwen3", [GgmlDType::Q8_0; 3]),
    Model::Fp8,
];

impl Model {
    fn sizes(self) -> Sizes {
        match self {
            Self::Mistral => Sizes {
                head_dim: 24,
                ..SIZES
            },
            Self::Qwen2 => Sizes {
                biases: true,
                ..SIZES
            },
            Self::Qwen3 => Sizes {
                head_dim: 32,
                head_norms: true,
                ..SIZES
            },
            // Parts of columns end where blocks of 256 do.
            Self::Gguf(name, _) => Sizes {
                hidden: 256,
                inner: 1024,
                heads: 16,
                kv_heads: 4,
                head_dim: 64,
                biases: name == "qwen2",
                head_norms: name == "qwen3",
                ..SIZES
            },
            // Parts of 128 rows, also of the vocabulary by four.
            Self::Fp8 => Sizes {
                vocabulary: 512,
                hidden: 256,
                inner: 512,
                heads: 8,
                kv_heads: 4,
                head_dim: 128,
                ..SIZES
            },
            Self::Llama | Self::Tied => SIZES,
        }
    }

    fn llama(self) -> llama::Config {
        let sizes = self.sizes();
        llama::Config {
            hidden_size: sizes.hidden,
            intermediate_size: sizes.inner,
            vocab_size: sizes.vocabulary,
            num_hidden_layers: sizes.layers,
            num_attention_heads: sizes.heads,
            num_key_value_heads: sizes.kv_heads,
            max_position_embeddings: 64,
            tie_word_embeddings: matches!(self, Self::Tied),
            ..llama::Config::config_7b_v2(false)
        }
    }

    fn builder(self, device: &Device) -> Result<VarBuilder<'static>> {
        let weights = weights(&self.sizes(), device)?;
        Ok(VarBuilder::from_tensors(weights, DType::F32, device))
    }

    fn file(self) -> Result<Vec<u8>> {
        let Self::Gguf(name, formats) = self else {
            candle_core::bail!("{self:?} has no file");
        };
        let dim = Value::U32(self.sizes().head_dim as u32);
        let numbers = match name {
            "llama" => vec![("rope.dimension_count", dim)],
            "qwen3" => vec![("attention.key_length", dim)],
            // As many elements as the state's parts.
            _ => vec![],
        };
        common::gguf(&self.sizes(), name, &numbers, formats)
    }

    fn whole(self, device: &Device) -> Result<Transformer> {
        let sizes = self.sizes();
        match self {
            Self::Llama | Self::Tied => llama::load(self.builder(device)?, &self.llama()),
            Self::Mistral => mistral::load(self.builder(device)?, &mistral_config(&sizes, None)),
            Self::Fp8 => {
                mistral::load(self.builder(device)?, &mistral_config(&sizes, None))?.to_fp8()
            }
            Self::Qwen2 => qwen2::load(self.builder(device)?, &qwen2_config(&sizes, false)),
            Self::Qwen3 => qwen3::load(self.builder(device)?, &qwen3_config(&sizes)),
            Self::Gguf(name, _) => {
                let mut file = Cursor::new(self.file()?);
                let content = Content::read(&mut file)?;
                let load = match name {
                    "llama" => quantized_llama::from_gguf,
                    "qwen2" => quantized_qwen2::from_gguf,
                    _ => quantized_qwen3::from_gguf,
                };
                load(&content, &mut file, device)
            }
        }
    }

    fn part(self, rank: &Arc<Rank>) -> Result<Transformer> {
        let (sizes, device) = (self.sizes(), rank.device());
        let builder = || self.builder(&device);
        match self {
            Self::Llama => llama::load_rank(&builder()?, &self.llama(), rank),
            Self::Tied => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let file = folder.path().join("model.safetensors");
                candle_core::safetensors::save(&weights(&sizes, &Device::Cpu)?, &file)?;
                // SAFETY: nobody else knows the file.
                let weights = unsafe { Checkpoint::open(&[file], DType::F32, &device) }?;
                llama::load_rank(&weights, &self.llama(), rank)
            }
            Self::Mistral => mistral::load_rank(&builder()?, &mistral_config(&sizes, None), rank),
            Self::Fp8 => {
                mistral::load_rank(&builder()?, &mistral_config(&sizes, None), rank)?.to_fp8()
            }
            Self::Qwen2 => qwen2::load_rank(&builder()?, &qwen2_config(&sizes, false), rank),
            Self::Qwen3 => qwen3::load_rank(&builder()?, &qwen3_config(&sizes), rank),
            Self::Gguf(name, _) => {
                let mut file = Cursor::new(self.file()?);
                let content = Content::read(&mut file)?;
                let load = match name {
                    "llama" => quantized_llama::rank_from_gguf,
                    "qwen2" => quantized_qwen2::rank_from_gguf,
                    _ => quantized_qwen3::rank_from_gguf,
                };
                load(&content, &mut file, rank)
            }
        }
    }
}

/// The tokens that a model decodes, and the logits after its prompt and after one more token.
fn decoded(model: Transformer) -> Result<(Vec<u32>, Vec<f32>)> {
    let device = model.device().clone();
    let vocabulary = model.shape().vocabulary;
    let mut session = Session::new(model, 2, 16)?;
    let tokens = Tensor::new(prompt(2, 4, vocabulary), &device)?;
    let mut logits = session.prompt(&tokens)?.flatten_all()?.to_vec1::<f32>()?;
    logits.extend(session.next(&[7, 3])?.flatten_all()?.to_vec1::<f32>()?);
    session.reset();
    session.prompt(&tokens)?;
    let tokens = session.greedy(DECODED)?.concat();
    Ok((tokens, logits))
}

fn check(model: Model, ranks: usize) {
    let device = Device::new_rocm_with_stream(0).unwrap();
    let (tokens, logits) = decoded(model.whole(&device).unwrap()).unwrap();
    let id = Rank::new_id().unwrap();
    let found: Vec<(Vec<u32>, Vec<f32>)> = std::thread::scope(|scope| {
        let of_rank = |number| {
            scope.spawn(move || {
                let device = Device::new_rocm_with_stream(number).unwrap();
                let rank = Arc::new(Rank::join(&device, number, ranks, id).unwrap());
                decoded(model.part(&rank).unwrap()).unwrap()
            })
        };
        let threads: Vec<_> = (0..ranks).map(of_rank).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.collect()
    });
    // Sums in another order move what quantised vectors are rounded to.
    let most = match model {
        Model::Gguf(..) => 2e-3,
        _ => 1e-4,
    };
    for (rank, (of_rank, logits_of_rank)) in found.iter().enumerate() {
        assert_eq!(*of_rank, found[0].0, "{model:?}, rank {rank} of {ranks}");
        assert_eq!(
            *logits_of_rank, found[0].1,
            "{model:?}, rank {rank} of {ranks}"
        );
    }
    for (n, (found, expected)) in found[0].1.iter().zip(&logits).enumerate() {
        assert!(
            (found - expected).abs() < most,
            "{model:?} over {ranks}, logit {n}: {found} instead of {expected}"
        );
    }
    assert_eq!(found[0].0, tokens, "{model:?} over {ranks}");
}

fn over_gpus(test: &str, ranks: usize, graphs: &str, models: &[Model]) {
    let arch = std::env::var("ROCM_EMU_ARCH").unwrap_or("gfx1100".into());
    let archs = vec![arch.split(',').next().unwrap(); ranks].join(",");
    let variables = [
        ("ROCM_EMU_ARCH", archs.as_str()),
        ("CANDLE_ROCM_COMM", "own"),
        ("CANDLE_ROCM_GRAPHS", graphs),
    ];
    alone(test, &variables, || {
        runtime::select(RuntimeKind::Emulator).unwrap();
        for model in models {
            check(*model, ranks);
        }
    });
}

#[test]
fn two_ranks_are_one_gpu() {
    over_gpus("two_ranks_are_one_gpu", 2, "1", &MODELS);
}

#[test]
fn two_ranks_are_one_gpu_without_graphs() {
    over_gpus("two_ranks_are_one_gpu_without_graphs", 2, "0", &MODELS[..1]);
}

/// Two ranks have the same head of keys.
#[test]
fn four_ranks_are_one_gpu() {
    over_gpus("four_ranks_are_one_gpu", 4, "1", &MODELS);
}

#[test]
fn weights_on_another_device_are_refused() {
    const TEST: &str = "weights_on_another_device_are_refused";
    alone(TEST, &[("CANDLE_ROCM_COMM", "own")], || {
        runtime::select(RuntimeKind::Emulator).unwrap();
        let device = Device::new_rocm_with_stream(0).unwrap();
        let rank = Arc::new(Rank::join(&device, 0, 1, Rank::new_id().unwrap()).unwrap());
        let elsewhere = Model::Llama.builder(&Device::Cpu).unwrap();
        let error = llama::load_rank(&elsewhere, &Model::Llama.llama(), &rank).unwrap_err();
        assert!(error.to_string().contains("weights come to Cpu"), "{error}");
        assert!(Rank::join(&Device::Cpu, 0, 1, Rank::new_id().unwrap()).is_err());
    });
}
