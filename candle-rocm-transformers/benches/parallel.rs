//! A model of LLaMA's shape over GPUs of one machine, a thread for each, with random weights in f16: tokens a second of a
//! prompt and in decoding, and each GPU's memory.
//!
//!     cargo bench -p candle-rocm-transformers --bench parallel -- --gpus 2 --model 8b
//!
//! `--gpus 1` is the model without ranks; with `--pipeline` GPUs have layers, by their free memory. On emulated GPUs the times
//! say nothing.
#![allow(missing_docs)]

use std::sync::{Arc, Barrier};
use std::time::Instant;

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::communication::{Id, Rank};
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _};
use candle_rocm_transformers::models::llama::{self, Config};
use candle_rocm_transformers::{Part, Session, Shares, Source};

/// Prompts and decodings, the last of which counts: the first load kernels and plan.
const RUNS: usize = 3;

/// Weights that nobody trained, which are made where they are wanted.
struct Random(Device);

impl Source for Random {
    fn get(&self, shape: &[usize], name: &str, part: &Part) -> Result<Tensor> {
        let shape = part.shape(shape);
        match name.contains("norm") {
            true => Tensor::ones(shape, DType::F16, &self.0),
            false => Tensor::randn(0f32, 0.02, shape, &self.0)?.to_dtype(DType::F16),
        }
    }

    fn contains(&self, _: &str) -> bool {
        true
    }

    fn device(&self) -> &Device {
        &self.0
    }
}

fn config(model: &str) -> Config {
    let (hidden, inner, layers, heads, kv_heads, vocabulary) = match model {
        "tiny" => (256, 512, 2, 4, 2, 1000),
        "8b" => (4096, 14_336, 32, 32, 8, 128_256),
        "70b" => (8192, 28_672, 80, 64, 8, 128_256),
        other => panic!("--model {other}: the choices are tiny, 8b and 70b"),
    };
    Config {
        hidden_size: hidden,
        intermediate_size: inner,
        num_hidden_layers: layers,
        num_attention_heads: heads,
        num_key_value_heads: kv_heads,
        vocab_size: vocabulary,
        max_position_embeddings: 8192,
        ..Config::config_7b_v2(false)
    }
}

/// What is asked for.
#[derive(Clone)]
struct Asked {
    gpus: usize,
    model: String,
    prompt: usize,
    decode: usize,
    pipeline: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let word = |name: &str, otherwise: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        let value = at.and_then(|at| arguments.get(at + 1));
        value.map_or(otherwise, String::as_str).to_owned()
    };
    let number = |name: &str, otherwise: &str| word(name, otherwise).parse().expect(name);
    let asked = Asked {
        gpus: number("--gpus", "2"),
        model: word("--model", "8b"),
        prompt: number("--prompt", "2048"),
        decode: number("--decode", "128"),
        pipeline: arguments.iter().any(|argument| argument == "--pipeline"),
    };
    let (id, barrier) = (
        Rank::new_id().expect("an identifier"),
        Barrier::new(asked.gpus),
    );
    std::thread::scope(|scope| {
        for rank in 0..asked.gpus {
            let (asked, barrier) = (asked.clone(), &barrier);
            scope.spawn(move || run(rank, id, &asked, barrier).expect("a rank"));
        }
    });
}

fn run(number: usize, id: Id, asked: &Asked, barrier: &Barrier) -> Result<()> {
    let device = Device::new_rocm_with_stream(number)?;
    let (weights, config) = (Random(device.clone()), config(&asked.model));
    let mut provider = "one GPU".to_owned();
    let capacity = asked.prompt + asked.decode + 1;
    let model = match asked.gpus {
        1 => llama::load_source(&weights, &config)?,
        gpus => {
            let rank = Arc::new(Rank::join(&device, number, gpus, id)?);
            provider = rank.provider().to_owned();
            let shares = Shares::ByMemory { tokens: capacity };
            match asked.pipeline {
                true => llama::load_stage(&weights, &config, &rank, &shares)?,
                false => llama::load_rank(&weights, &config, &rank)?,
            }
        }
    };
    let mut session = Session::new(model, 1, capacity)?;
    let tokens = (0..asked.prompt).map(|n| (n * 17 % config.vocab_size) as u32);
    let prompt = Tensor::from_vec(tokens.collect(), (1, asked.prompt), &device)?;
    let mut figures = [0.; 2];
    for _ in 0..RUNS {
        session.reset();
        device.synchronize()?;
        barrier.wait();
        let begin = Instant::now();
        session.prompt(&prompt)?;
        device.synchronize()?;
        figures[0] = asked.prompt as f64 / begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        session.greedy(asked.decode)?;
        figures[1] = asked.decode as f64 / begin.elapsed().as_secs_f64();
    }
    let (free, total) = device.as_rocm_device()?.memory()?;
    println!(
        "{}, rank {number} of {} ({provider}): a prompt of {} at {:.0} tokens/s, decoding {:.1} tokens/s, {:.1} GB in use",
        asked.model,
        asked.gpus,
        asked.prompt,
        figures[0],
        figures[1],
        (total - free) as f64 / 1e9
    );
    Ok(())
}
