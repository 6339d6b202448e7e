//! LLaMA beside candle-transformers' model of the same weights, on the GPU and on the CPU.

mod common;

use std::io::Cursor;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Result, Tensor, D};
use candle_nn::VarBuilder;
use candle_rocm_backend::graph;
use candle_rocm_testing::process::{alone, is_child};
use candle_rocm_testing::stand_in::library;
use candle_rocm_transformers::models::llama::{self, Config, Llama3RopeConfig, Llama3RopeType};
use candle_rocm_transformers::models::quantized_llama;
use candle_rocm_transformers::{Session, Transformer};
use candle_transformers::models::{llama as candles, quantized_llama as candles_quantized};
use common::{assert_near, assert_within, decoded, devices, prompt, Sizes, Weights};

/// Groups of two heads, angles of LLaMA 3.1, and a matrix for the logits of its own.
fn large() -> Config {
    Config {
        hidden_size: 128,
        intermediate_size: 160,
        vocab_size: 77,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        max_position_embeddings: 64,
        rope_scaling: Some(Llama3RopeConfig {
            factor: 8.,
            low_freq_factor: 1.,
            high_freq_factor: 4.,
            original_max_position_embeddings: 16,
            rope_type: Llama3RopeType::Llama3,
        }),
        ..Config::config_7b_v2(false)
    }
}

/// The same with rows of 256 elements, as k-quants have blocks.
fn of_k_quants() -> Config {
    Config {
        hidden_size: 256,
        intermediate_size: 256,
        ..large()
    }
}

/// A file of such a model's random weights in `formats`.
fn gguf(config: &Config, formats: [GgmlDType; 3]) -> Result<Vec<u8>> {
    let dim = Value::U32((config.hidden_size / config.num_attention_heads) as u32);
    let numbers = [("rope.dimension_count", dim)];
    common::gguf(&sizes(config), "llama", &numbers, formats)
}

/// A head of keys for each of queries, as in LLaMA 1, and one matrix for tokens and logits.
fn tied() -> Config {
    Config {
        num_hidden_layers: 1,
        num_key_value_heads: 4,
        rope_scaling: None,
        tie_word_embeddings: true,
        ..large()
    }
}

fn sizes(config: &Config) -> Sizes {
    Sizes {
        hidden: config.hidden_size,
        inner: config.intermediate_size,
        vocabulary: config.vocab_size,
        layers: config.num_hidden_layers,
        heads: config.num_attention_heads,
        kv_heads: config.num_key_value_heads,
        head_dim: config.hidden_size / config.num_attention_heads,
        biases: false,
        head_norms: false,
    }
}

fn weights(config: &Config, device: &Device) -> Result<Weights> {
    common::weights(&sizes(config), device)
}

/// What candle-transformers' model decodes after a prompt of one sequence, and the logits of each step.
fn candles_tokens(
    weights: &Weights,
    config: &Config,
    prompt: &[u32],
    count: usize,
) -> Result<(Vec<u32>, Vec<Tensor>)> {
    let device = &Device::Cpu;
    let builder = VarBuilder::from_tensors(weights.clone(), DType::F32, device);
    let model = candles::Llama::load(builder, config)?;
    let mut cache = candles::Cache::new(true, DType::F32, config, device)?;
    let forward = |tokens: &Tensor, position| model.forward(tokens, position, &mut cache);
    decoded(forward, prompt, count, device)
}

#[test]
fn tokens_and_logits_are_those_of_candles_model() -> Result<()> {
    for (name, config) in [("large", large()), ("tied", tied())] {
        let on_cpu = weights(&config, &Device::Cpu)?;
        let prompts = prompt(2, 5, config.vocab_size);
        let expected: Vec<_> = prompts
            .iter()
            .map(|prompt| candles_tokens(&on_cpu, &config, prompt, 6))
            .collect::<Result<_>>()?;
        for device in devices()? {
            let what = format!("{name}, {:?}", device.location());
            let builder = VarBuilder::from_tensors(weights(&config, &device)?, DType::F32, &device);
            let mut session = Session::new(llama::load(builder, &config)?, 2, 16)?;
            // All at once, and in two parts, after a reset.
            let whole = Tensor::new(prompts.clone(), &device)?;
            let logits = session.prompt(&whole)?;
            let first: Vec<&Tensor> = expected.iter().map(|(_, logits)| &logits[0]).collect();
            assert_near(&logits, &Tensor::cat(&first, 0)?, &what)?;
            session.reset();
            session.prompt(&whole.narrow(1, 0, 2)?.contiguous()?)?;
            let logits = session.prompt(&whole.narrow(1, 2, 3)?.contiguous()?)?;
            assert_near(
                &logits,
                &Tensor::cat(&first, 0)?,
                &format!("{what}, in parts"),
            )?;
            // Token by token from the host: the second step captures, where there is a GPU.
            for step in 1..6 {
                let tokens: Vec<u32> = expected
                    .iter()
                    .map(|(tokens, _)| tokens[step - 1])
                    .collect();
                let logits = session.next(&tokens)?;
                let all: Vec<&Tensor> = expected.iter().map(|(_, logits)| &logits[step]).collect();
                assert_near(
                    &logits,
                    &Tensor::cat(&all, 0)?,
                    &format!("{what}, step {step}"),
                )?;
            }
            assert_eq!(session.length(), 10, "{what}");
            // On the device alone, in two calls.
            session.reset();
            session.prompt(&whole)?;
            let mut found = session.greedy(2)?;
            for (found, more) in found.iter_mut().zip(session.greedy(3)?) {
                found.extend(more);
            }
            for (found, last) in found.iter_mut().zip(session.last(1)?) {
                found.extend(last);
            }
            let tokens: Vec<Vec<u32>> = expected.iter().map(|(tokens, _)| tokens.clone()).collect();
            assert_eq!(found, tokens, "{what}");
        }
    }
    Ok(())
}

/// Of a token's kernels with one layer and with two, at most `of_layer` are of a layer, and `of_none` of none.
fn assert_few(kernels: &[Vec<String>], of_layer: usize, of_none: usize, what: &str) {
    let added = kernels[1].len() - kernels[0].len();
    assert!(
        added <= of_layer,
        "{what}: a layer takes {added} kernels: {:?}",
        kernels[1]
    );
    let outside = kernels[0].len() - added;
    assert!(
        outside <= of_none,
        "{what}: {outside} kernels are of no layer: {:?}",
        kernels[0]
    );
}

#[test]
fn a_token_takes_five_kernels_a_layer() -> Result<()> {
    let [device, _] = devices()?;
    let mut kernels = Vec::new();
    for layers in [1, 2] {
        let config = Config {
            num_hidden_layers: layers,
            ..large()
        };
        let builder = VarBuilder::from_tensors(weights(&config, &device)?, DType::F32, &device);
        let mut session = Session::new(llama::load(builder, &config)?, 1, 16)?;
        assert!(session.enqueued().is_none());
        session.prompt(&Tensor::new(prompt(1, 3, config.vocab_size), &device)?)?;
        session.greedy(2)?;
        kernels.push(session.enqueued().expect("a captured step").kernels.clone());
    }
    // Four products, of which two begin with a norm, and attention.
    assert_few(&kernels, 5, 7, "dense");
    Ok(())
}

#[test]
fn a_token_with_quantised_weights_takes_five_kernels_a_layer() -> Result<()> {
    let [device, _] = devices()?;
    // Values in a format of their own are a product of their own.
    for (formats, most) in [
        ([GgmlDType::Q4K; 3], 5),
        ([GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::Q4K], 6),
    ] {
        let mut kernels = Vec::new();
        for layers in [1, 2] {
            let config = Config {
                num_hidden_layers: layers,
                ..of_k_quants()
            };
            let file = gguf(&config, formats)?;
            let mut reader = Cursor::new(&file);
            let content = Content::read(&mut reader)?;
            let model = quantized_llama::from_gguf(&content, &mut reader, &device)?;
            let mut session = Session::new(model, 1, 16)?;
            session.prompt(&Tensor::new(prompt(1, 3, config.vocab_size), &device)?)?;
            session.greedy(2)?;
            kernels.push(session.enqueued().expect("a captured step").kernels.clone());
        }
        let in_16_bits = |name: &String| name.starts_with("attend_64") && name.ends_with("f32_f16");
        assert!(kernels.concat().iter().any(in_16_bits), "{kernels:?}");
        assert_few(&kernels, most, 9, &format!("{formats:?}"));
    }
    Ok(())
}

#[test]
fn quantised_weights_write_what_candles_model_writes() -> Result<()> {
    let config = of_k_quants();
    use GgmlDType::{Q4K, Q6K, Q8_0};
    for formats in [[Q8_0; 3], [Q4K, Q6K, Q4K]] {
        let file = gguf(&config, formats)?;
        let tokens = prompt(1, 4, config.vocab_size);
        for device in devices()? {
            let what = format!("{formats:?}, {:?}", device.location());
            let mut reader = Cursor::new(&file);
            let content = Content::read(&mut reader)?;
            let model = quantized_llama::from_gguf(&content, &mut reader, &device)?;
            // Candle's keeps keys and values in f32.
            let mut session = Session::new(model.with_cache_dtype(DType::F32)?, 1, 12)?;
            let tokens = Tensor::new(tokens.clone(), &device)?;
            let first = session.prompt(&tokens)?;
            let found = session.greedy(5)?.concat();

            // Candle's own, on the same device, whose products are the same kernels.
            let mut candles =
                candles_quantized::ModelWeights::from_gguf(content, &mut reader, &device)?;
            let mut logits = candles.forward(&tokens, 0)?;
            assert_near(&first, &logits, &what)?;
            let mut expected = Vec::new();
            for position in 4..9 {
                let token: u32 = logits.squeeze(0)?.argmax(D::Minus1)?.to_scalar()?;
                expected.push(token);
                logits = candles.forward(&Tensor::new(&[[token]], &device)?, position)?;
            }
            assert_eq!(found, expected, "{what}");
        }
    }
    Ok(())
}

/// Logits with keys and values of `dtype` as with f32 ones, but for their rounding: of a prompt, of what is read
/// after it, and of steps, of one sequence and of two.
fn check_cache_dtype(model: &Transformer, dtype: DType, most: f32, what: &str) -> Result<()> {
    for batch in [1, 2] {
        let tokens = prompt(batch, 7, model.shape().vocabulary);
        let tokens = Tensor::new(tokens, model.device())?;
        let logits = |dtype| -> Result<Vec<Tensor>> {
            let model = model.clone().with_cache_dtype(dtype)?;
            let mut session = Session::new(model, batch, 16)?;
            let mut all = Vec::new();
            for (begin, steps) in [(0, 4), (4, 3)] {
                let part = tokens.narrow(1, begin, steps)?.contiguous()?;
                all.push(session.prompt(&part)?);
            }
            for token in [3, 9, 11] {
                all.push(session.next(&vec![token; batch])?.copy()?);
            }
            Ok(all)
        };
        let pairs = logits(dtype)?.into_iter().zip(logits(DType::F32)?);
        for (n, (found, expected)) in pairs.enumerate() {
            let what = format!("{what}, {dtype:?}, {batch} sequences, {n}");
            assert_within(&found, &expected, most, &what)?;
            assert!(common::differ(&found, &expected)?, "{what}: as f32");
        }
    }
    Ok(())
}

#[test]
fn keys_and_values_of_f32_models_may_have_16_bits() -> Result<()> {
    let file = gguf(&of_k_quants(), [GgmlDType::Q8_0; 3])?;
    for device in devices()? {
        let what = format!("{:?}", device.location());
        let builder = VarBuilder::from_tensors(weights(&large(), &device)?, DType::F32, &device);
        let plain = llama::load(builder, &large())?;
        assert_eq!(plain.cache_dtype(), DType::F32);
        // Logits of variance 1: a few times the spacing of keys' and values' numbers.
        check_cache_dtype(&plain, DType::F16, 4e-3, &what)?;
        check_cache_dtype(&plain, DType::BF16, 3.2e-2, &what)?;

        let mut reader = Cursor::new(&file);
        let content = Content::read(&mut reader)?;
        let model = quantized_llama::from_gguf(&content, &mut reader, &device)?;
        let default = match device {
            Device::Cuda(_) => DType::F16,
            _ => DType::F32,
        };
        assert_eq!((model.cache_dtype(), model.dtype()), (default, DType::F32));
        // Of activations of 8 bits some become the next number, a spacing of 1 / 40 further, whatever little moved
        // them.
        let what = format!("quantised, {what}");
        check_cache_dtype(&model, DType::F16, 0.1, &what)?;
        check_cache_dtype(&model, DType::BF16, 0.25, &what)?;
        let error = model.with_cache_dtype(DType::F64).expect_err("F64");
        assert!(error.to_string().contains("or F16 or BF16"), "{error}");
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_an_error() -> Result<()> {
    for device in devices()? {
        let config = tied();
        let builder = VarBuilder::from_tensors(weights(&config, &device)?, DType::F32, &device);
        let mut session = Session::new(llama::load(builder.clone(), &config)?, 1, 8)?;
        let tokens = |steps: usize| Tensor::zeros((1, steps), DType::U32, &device);
        let uneven = Config {
            num_key_value_heads: 3,
            ..tied()
        };
        let other = Config {
            intermediate_size: 96,
            ..tied()
        };
        let errors = [
            (session.greedy(1).err(), "call Session::prompt first"),
            (session.prompt(&tokens(9)?).err(), "beyond the 8"),
            (session.prompt(&tokens(0)?).err(), "[1, 0]"),
            (
                session.prompt(&tokens(2)?.to_dtype(DType::I64)?).err(),
                "I64",
            ),
            (session.next(&[1, 2]).err(), "2 tokens for 1 sequences"),
            (
                llama::load(builder.clone(), &uneven).err(),
                "each must divide",
            ),
            (llama::load(builder, &other).err(), "gate_proj"),
        ];
        for (error, expected) in errors {
            let error = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected), "`{error}` lacks `{expected}`");
        }
        session.prompt(&tokens(7)?)?;
        assert_eq!(session.greedy(1)?.len(), 1);
        assert!(session.greedy(1).is_err());
    }
    Ok(())
}

/// On AMD's runtime, which the emulator stands in for, with a fault of its graphs: what is written is right, and no step is
/// captured whose graph is wrong.
fn with_fault(test: &str, fault: &str, holds: impl Fn(&Device, bool)) {
    let library = match is_child() {
        true => "",
        false => library().to_str().expect("a path"),
    };
    let variables = [
        ("CANDLE_ROCM_RUNTIME", "amd"),
        ("CANDLE_ROCM_HIP_LIBRARY", library),
        ("ROCM_EMU_GRAPH_FAULT", fault),
    ];
    alone(test, &variables, || {
        let written = |greedy_first: bool| -> Result<(Vec<Vec<f32>>, Device, bool)> {
            let [device, _] = devices()?;
            let config = large();
            let builder = VarBuilder::from_tensors(weights(&config, &device)?, DType::F32, &device);
            let mut session = Session::new(llama::load(builder, &config)?, 1, 24)?;
            session.prompt(&Tensor::new(prompt(1, 3, config.vocab_size), &device)?)?;
            let mut rows = Vec::new();
            if greedy_first {
                let tokens = session.greedy(5)?.concat();
                rows.push(tokens.iter().map(|token| *token as f32).collect());
            }
            for token in [7, 11, 5] {
                rows.extend(session.next(&[token])?.to_vec2()?);
            }
            Ok((rows, device, session.enqueued().is_some()))
        };
        for greedy_first in [true, false] {
            let (found, device, captured) = written(greedy_first).expect("a session");
            holds(&device, captured);
            std::env::set_var(candle_rocm_backend::graph::VARIABLE, "0");
            let (expected, ..) = written(greedy_first).expect("a session without graphs");
            assert_eq!(found, expected, "{greedy_first}");
            std::env::remove_var(candle_rocm_backend::graph::VARIABLE);
        }
    });
}

#[test]
fn graphs_that_do_not_see_copies_are_right() {
    let test = "graphs_that_do_not_see_copies_are_right";
    with_fault(test, "stale-copies", |device, captured| {
        assert!(captured);
        assert_eq!(graph::why_off(device), None);
    });
}

#[test]
fn wrong_graphs_are_not_used() {
    with_fault(
        "wrong_graphs_are_not_used",
        "garbage",
        |device, captured| {
            assert!(!captured);
            let why = graph::why_off(device).expect("graphs are off");
            assert!(why.contains("a graph of 200 kernels"), "{why}");
        },
    );
}

/// The graph that is tried is right, and the model's is not.
#[test]
fn a_models_first_graph_is_compared() {
    let test = "a_models_first_graph_is_compared";
    with_fault(test, "garbage:1", |device, captured| {
        assert!(!captured);
        let why = graph::why_off(device).expect("graphs are off");
        assert!(why.contains("the graph of a model's step"), "{why}");
    });
}

/// With `CANDLE_ROCM_GRAPHS=0` each kernel is launched by itself: no step is captured, and tokens and logits are the
/// same bits.
#[test]
fn graphs_can_be_turned_off() {
    let variable = candle_rocm_backend::graph::VARIABLE;
    // The logits, and the tokens behind them.
    let written = |captured: bool| -> Result<Vec<Vec<f32>>> {
        let [device, _] = devices()?;
        let config = large();
        let builder = VarBuilder::from_tensors(weights(&config, &device)?, DType::F32, &device);
        let mut session = Session::new(llama::load(builder, &config)?, 1, 24)?;
        session.prompt(&Tensor::new(prompt(1, 3, config.vocab_size), &device)?)?;
        let tokens = session.greedy(5)?.concat();
        session.next(&[7])?;
        let mut rows = session.next(&[11])?.to_vec2()?;
        rows.push(tokens.iter().map(|token| *token as f32).collect());
        assert_eq!(session.enqueued().is_some(), captured);
        Ok(rows)
    };
    alone("graphs_can_be_turned_off", &[(variable, "0")], || {
        let eager = written(false).expect("a session without graphs");
        std::env::remove_var(variable);
        let captured = written(true).expect("a session with graphs");
        assert_eq!(eager, captured);
    });
}
