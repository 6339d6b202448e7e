//! Models over emulated GPUs, a thread for each rank, in parts of each layer or by layers: their tokens are one GPU's.

mod common;

use std::io::Cursor;
use std::sync::Arc;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_rocm_backend::communication::Rank;
use candle_rocm_backend::{runtime, DeviceExt as _, RuntimeKind};
use candle_rocm_testing::process::{alone, gpus_alike, GPUS};
use candle_rocm_transformers::models::{
    llama, mistral, quantized_llama, quantized_qwen2, quantized_qwen3, qwen2, qwen3,
};
use candle_rocm_transformers::{Checkpoint, Session, Shares, Transformer};
use common::configs::{mistral_config, qwen2_config, qwen3_config, SIZES};
use common::{prompt, weights, Sizes};

/// Tokens that are decoded after a prompt.
const DECODED: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Model {
    kind: Kind,
    layers: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Llama,
    /// From a file of safetensors, with one matrix for tokens and logits.
    Tied,
    Mistral,
    Qwen2,
    Qwen3,
    /// Files of one format, or of several; that of Qwen 2 has one matrix for tokens and logits.
    Gguf(&'static str, [GgmlDType; 3]),
    /// Weights in FP8, whose factors of 128 x 128 are no two ranks'.
    Fp8,
}

const KINDS: [Kind; 10] = [
    Kind::Llama,
    Kind::Tied,
    Kind::Mistral,
    Kind::Qwen2,
    Kind::Qwen3,
    Kind::Gguf("llama", [GgmlDType::Q8_0; 3]),
    Kind::Gguf("llama", [GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::Q4K]),
    Kind::Gguf("qwen2", [GgmlDType::Q4_0; 3]),
    Kind::Gguf("qwen3", [GgmlDType::Q8_0; 3]),
    Kind::Fp8,
];

impl Model {
    fn sizes(self) -> Sizes {
        let sizes = match self.kind {
            Kind::Mistral => Sizes {
                head_dim: 24,
                ..SIZES
            },
            Kind::Qwen2 => Sizes {
                biases: true,
                ..SIZES
            },
            Kind::Qwen3 => Sizes {
                head_dim: 32,
                head_norms: true,
                ..SIZES
            },
            // Parts of columns end where blocks of 256 do.
            Kind::Gguf(name, _) => Sizes {
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
            Kind::Fp8 => Sizes {
                vocabulary: 512,
                hidden: 256,
                inner: 512,
                heads: 8,
                kv_heads: 4,
                head_dim: 128,
                ..SIZES
            },
            Kind::Llama | Kind::Tied => SIZES,
        };
        let layers = self.layers;
        Sizes { layers, ..sizes }
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
            tie_word_embeddings: matches!(self.kind, Kind::Tied),
            ..llama::Config::config_7b_v2(false)
        }
    }

    fn builder(self, device: &Device) -> Result<VarBuilder<'static>> {
        let weights = weights(&self.sizes(), device)?;
        Ok(VarBuilder::from_tensors(weights, DType::F32, device))
    }

    /// What a file says, and its bytes.
    fn content(self, name: &str) -> Result<(Content, Cursor<Vec<u8>>)> {
        let mut file = Cursor::new(self.file()?);
        let mut content = Content::read(&mut file)?;
        if name == "qwen2" {
            content.tensor_infos.remove("output.weight");
        }
        Ok((content, file))
    }

    fn file(self) -> Result<Vec<u8>> {
        let Kind::Gguf(name, formats) = self.kind else {
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
        match self.kind {
            Kind::Llama | Kind::Tied => llama::load(self.builder(device)?, &self.llama()),
            Kind::Mistral => mistral::load(self.builder(device)?, &mistral_config(&sizes, None)),
            Kind::Fp8 => {
                mistral::load(self.builder(device)?, &mistral_config(&sizes, None))?.to_fp8()
            }
            Kind::Qwen2 => qwen2::load(self.builder(device)?, &qwen2_config(&sizes, false)),
            Kind::Qwen3 => qwen3::load(self.builder(device)?, &qwen3_config(&sizes)),
            Kind::Gguf(name, _) => {
                let (content, mut file) = self.content(name)?;
                let load = match name {
                    "llama" => quantized_llama::from_gguf,
                    "qwen2" => quantized_qwen2::from_gguf,
                    _ => quantized_qwen3::from_gguf,
                };
                load(&content, &mut file, device)
            }
        }
    }

    /// A rank's part of each layer, or its layers.
    fn part(self, rank: &Arc<Rank>, shares: Option<&Shares>) -> Result<Transformer> {
        let (sizes, device) = (self.sizes(), rank.device());
        let builder = || self.builder(&device);
        macro_rules! load {
            ($module:ident, $weights:expr, $config:expr) => {
                match shares {
                    Some(shares) => $module::load_stage($weights, $config, rank, shares),
                    None => $module::load_rank($weights, $config, rank),
                }
            };
            ($module:ident, $name:expr) => {{
                let (content, mut file) = self.content($name)?;
                match shares {
                    Some(shares) => $module::stage_from_gguf(&content, &mut file, rank, shares),
                    None => $module::rank_from_gguf(&content, &mut file, rank),
                }
            }};
        }
        match self.kind {
            Kind::Llama => load!(llama, &builder()?, &self.llama()),
            Kind::Tied => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let file = folder.path().join("model.safetensors");
                candle_core::safetensors::save(&weights(&sizes, &Device::Cpu)?, &file)?;
                // SAFETY: nobody else knows the file.
                let weights = unsafe { Checkpoint::open(&[file], DType::F32, &device) }?;
                load!(llama, &weights, &self.llama())
            }
            Kind::Mistral => load!(mistral, &builder()?, &mistral_config(&sizes, None)),
            Kind::Fp8 => load!(mistral, &builder()?, &mistral_config(&sizes, None))?.to_fp8(),
            Kind::Qwen2 => load!(qwen2, &builder()?, &qwen2_config(&sizes, false)),
            Kind::Qwen3 => load!(qwen3, &builder()?, &qwen3_config(&sizes)),
            Kind::Gguf("llama", _) => load!(quantized_llama, "llama"),
            Kind::Gguf("qwen2", _) => load!(quantized_qwen2, "qwen2"),
            Kind::Gguf(name, _) => load!(quantized_qwen3, name),
        }
    }
}

/// What is read: so many sequences, and tokens of each, at most so many of which together.
#[derive(Clone, Copy)]
struct Prompt {
    batch: usize,
    tokens: usize,
    chunk: usize,
}

const PROMPT: Prompt = Prompt {
    batch: 2,
    tokens: 4,
    chunk: 4,
};

/// The tokens that a model decodes, and the logits after its prompt and after one more token.
fn decoded(model: Transformer, read: Prompt) -> Result<(Vec<u32>, Vec<f32>)> {
    let device = model.device().clone();
    let vocabulary = model.shape().vocabulary;
    let Prompt { batch, .. } = read;
    let mut session = Session::new(model, batch, 32)?.with_chunk(read.chunk)?;
    let tokens = Tensor::new(prompt(batch, read.tokens, vocabulary), &device)?;
    let mut logits = session.prompt(&tokens)?.flatten_all()?.to_vec1::<f32>()?;
    let next = session.next(&[7, 3][..batch])?;
    logits.extend(next.flatten_all()?.to_vec1::<f32>()?);
    session.reset();
    session.prompt(&tokens)?;
    let tokens = session.greedy(DECODED)?.concat();
    Ok((tokens, logits))
}

/// Tokens and logits of all ranks beside one GPU's, which are no further apart than `most`.
fn check(model: Model, ranks: usize, read: Prompt, shares: Option<&Shares>, most: f32) {
    let device = Device::new_rocm_with_stream(0).unwrap();
    let (tokens, logits) = decoded(model.whole(&device).unwrap(), read).unwrap();
    let found = of_ranks(ranks, |rank| {
        decoded(model.part(&rank, shares).unwrap(), read).unwrap()
    });
    for (rank, of_rank) in found.iter().enumerate() {
        assert_eq!(*of_rank, found[0], "{model:?}, rank {rank} of {ranks}");
    }
    for (n, (found, expected)) in found[0].1.iter().zip(&logits).enumerate() {
        assert!(
            (found - expected).abs() <= most,
            "{model:?} over {ranks}, logit {n}: {found} instead of {expected}"
        );
    }
    assert_eq!(found[0].0, tokens, "{model:?} over {ranks}");
}

/// What each rank finds, in a thread of its own.
fn of_ranks<T: Send>(ranks: usize, find: impl Fn(Arc<Rank>) -> T + Sync) -> Vec<T> {
    let id = Rank::new_id().unwrap();
    std::thread::scope(|scope| {
        let of_rank = |number| {
            let find = &find;
            scope.spawn(move || {
                let device = Device::new_rocm_with_stream(number).unwrap();
                find(Arc::new(Rank::join(&device, number, ranks, id).unwrap()))
            })
        };
        let threads: Vec<_> = (0..ranks).map(of_rank).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.collect()
    })
}

/// A test's body on so many emulated GPUs.
fn on_gpus(test: &str, gpus: usize, more: &[(&str, &str)], body: impl FnOnce()) {
    let machine = gpus_alike(gpus);
    let mut variables = vec![(GPUS, machine.as_str()), ("CANDLE_ROCM_COMM", "own")];
    variables.extend(more);
    alone(test, &variables, || {
        runtime::select(RuntimeKind::Emulator).unwrap();
        body();
    });
}

fn parts_over_gpus(test: &str, ranks: usize, graphs: &str, kinds: &[Kind]) {
    on_gpus(test, ranks, &[("CANDLE_ROCM_GRAPHS", graphs)], || {
        for &kind in kinds {
            // Sums in another order move what quantised vectors are rounded to.
            let most = match kind {
                Kind::Gguf(..) => 2e-3,
                _ => 1e-4,
            };
            check(Model { kind, layers: 2 }, ranks, PROMPT, None, most);
        }
    });
}

#[test]
fn two_ranks_are_one_gpu() {
    parts_over_gpus("two_ranks_are_one_gpu", 2, "1", &KINDS);
}

#[test]
fn two_ranks_are_one_gpu_without_graphs() {
    parts_over_gpus("two_ranks_are_one_gpu_without_graphs", 2, "0", &KINDS[..1]);
}

/// Two ranks have the same head of keys.
#[test]
fn four_ranks_are_one_gpu() {
    parts_over_gpus("four_ranks_are_one_gpu", 4, "1", &KINDS);
}

/// Stages compute what one GPU does, in its order: bit for bit. A prompt in chunks of many rows and of few, and one sequence,
/// which quantised weights decode by vectors.
#[test]
fn three_stages_are_one_gpu() {
    const TEST: &str = "three_stages_are_one_gpu";
    let read = Prompt {
        batch: 1,
        tokens: 20,
        chunk: 17,
    };
    on_gpus(TEST, 3, &[("CANDLE_ROCM_GRAPHS", "1")], || {
        for kind in KINDS {
            let shares = Shares::Layers(vec![1; 3]);
            check(Model { kind, layers: 3 }, 3, read, Some(&shares), 0.);
        }
    });
}

/// GPUs of different sizes, of which the second takes more layers.
fn by_memory(test: &str, graphs: &str) {
    let variables = [
        ("CANDLE_ROCM_GRAPHS", graphs),
        ("ROCM_EMU_MEMORY", "1GiB,2GiB"),
    ];
    on_gpus(test, 2, &variables, || {
        let shares = Shares::ByMemory { tokens: 64 };
        for kind in [Kind::Llama, KINDS[6]] {
            let model = Model { kind, layers: 3 };
            let layers = of_ranks(2, |rank| {
                let stage = model.part(&rank, Some(&shares)).unwrap();
                stage.layers()
            });
            assert_eq!(layers, [1, 2], "{kind:?}");
            check(model, 2, PROMPT, Some(&shares), 0.);
        }
    });
}

/// Its first graphs are compared with the same kernels one by one.
#[test]
fn stages_follow_free_memory() {
    by_memory("stages_follow_free_memory", "auto");
}

#[test]
fn stages_follow_free_memory_without_graphs() {
    by_memory("stages_follow_free_memory_without_graphs", "0");
}

#[test]
fn stages_that_do_not_agree_and_one_that_is_gone() {
    const TEST: &str = "stages_that_do_not_agree_and_one_that_is_gone";
    on_gpus(TEST, 2, &[], || {
        let model = Model {
            kind: Kind::Llama,
            layers: 3,
        };
        let errors = of_ranks(2, |rank| {
            let shares = [Shares::Layers(vec![1, 2]), Shares::Layers(vec![2, 1])];
            let others = model.part(&rank, Some(&shares[rank.number()]));
            let sum = model.part(&rank, Some(&Shares::Layers(vec![1, 1])));
            let errors = [others.unwrap_err(), sum.unwrap_err()];
            let stage = model.part(&rank, Some(&shares[0])).unwrap();
            if rank.number() == 1 {
                return errors.map(|error| error.to_string()).to_vec();
            }
            let mut session = Session::new(stage, 1, 8).unwrap();
            let tokens = Tensor::new(&[[1u32, 2, 3]], &rank.device()).unwrap();
            let gone = session
                .prompt(&tokens)
                .and_then(|logits| logits.to_vec2::<f32>());
            let [others, sum] = errors;
            [others, sum, gone.unwrap_err()]
                .map(|error| error.to_string())
                .to_vec()
        });
        for (rank, errors) in errors.iter().enumerate() {
            let other = format!("rank {} of the pipeline was given other shares", 1 - rank);
            assert!(errors[0].contains(&other), "{errors:?}");
            assert!(
                errors[1].contains("are 2, and the model has 3"),
                "{errors:?}"
            );
        }
        assert!(errors[0][2].contains("rank 1 (process"), "{errors:?}");
    });
}

#[test]
fn weights_on_another_device_are_refused() {
    const TEST: &str = "weights_on_another_device_are_refused";
    on_gpus(TEST, 1, &[], || {
        let model = Model {
            kind: Kind::Llama,
            layers: 1,
        };
        let device = Device::new_rocm_with_stream(0).unwrap();
        let rank = Arc::new(Rank::join(&device, 0, 1, Rank::new_id().unwrap()).unwrap());
        let elsewhere = model.builder(&Device::Cpu).unwrap();
        let shares = Shares::Layers(vec![1]);
        let errors = [
            llama::load_rank(&elsewhere, &model.llama(), &rank),
            llama::load_stage(&elsewhere, &model.llama(), &rank, &shares),
        ];
        for error in errors.map(|loaded| loaded.unwrap_err().to_string()) {
            assert!(error.contains("weights come to Cpu"), "{error}");
        }
        assert!(Rank::join(&Device::Cpu, 0, 1, Rank::new_id().unwrap()).is_err());
    });
}
