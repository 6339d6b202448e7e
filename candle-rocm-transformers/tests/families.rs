//! Mistral, Qwen 2 and Qwen 3 beside candle-transformers' models of the same weights, on the GPU and on the CPU.

mod common;

use std::io::Cursor;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_rocm_transformers::models::{mistral, quantized_qwen2, quantized_qwen3, qwen2, qwen3};
use candle_rocm_transformers::{Session, Transformer};
use candle_transformers::models as candles;
use common::configs::{mistral_config, qwen2_config, qwen3_config, SIZES};
use common::{assert_near, decoded, devices, gguf, prompt, weights, Sizes};

fn builder(sizes: &Sizes, tied: bool, device: &Device) -> Result<VarBuilder<'static>> {
    let mut weights = weights(sizes, device)?;
    if tied {
        weights.remove("lm_head.weight");
    }
    Ok(VarBuilder::from_tensors(weights, DType::F32, device))
}

/// A model's prompt, steps and captured steps are what candle-transformers' model decodes on the CPU.
fn check(
    what: &str,
    sizes: &Sizes,
    tied: bool,
    ours: impl Fn(VarBuilder) -> Result<Transformer>,
    mut theirs: impl FnMut(&Tensor, usize) -> Result<Tensor>,
) -> Result<()> {
    let prompt = prompt(1, 5, sizes.vocabulary);
    let (tokens, logits) = decoded(&mut theirs, &prompt[0], 6, &Device::Cpu)?;
    for device in devices()? {
        let what = format!("{what}, {:?}", device.location());
        let model = ours(builder(sizes, tied, &device)?)?;
        let mut session = Session::new(model, 1, 16)?;
        let whole = Tensor::new(prompt.clone(), &device)?;
        assert_near(&session.prompt(&whole)?, &logits[0], &what)?;
        for step in 1..6 {
            let found = session.next(&tokens[step - 1..step])?;
            assert_near(&found, &logits[step], &format!("{what}, step {step}"))?;
        }
        session.reset();
        session.prompt(&whole)?;
        let mut found = session.greedy(5)?.concat();
        found.extend(session.last(1)?.concat());
        assert_eq!(found, tokens, "{what}");
    }
    Ok(())
}

#[test]
fn mistral_is_candles() -> Result<()> {
    // Heads that are not the state's parts.
    let sizes = Sizes {
        head_dim: 24,
        ..SIZES
    };
    let config = mistral_config(&sizes, Some(64));
    let mut candles = candles::mistral::Model::new(&config, builder(&sizes, false, &Device::Cpu)?)?;
    let ours = |weights: VarBuilder| mistral::load(weights, &config);
    check("mistral", &sizes, false, ours, |x, at| {
        candles.forward(x, at)
    })
}

#[test]
fn qwen2_is_candles() -> Result<()> {
    let sizes = Sizes {
        biases: true,
        ..SIZES
    };
    for tied in [false, true] {
        let config = qwen2_config(&sizes, tied);
        let weights = builder(&sizes, tied, &Device::Cpu)?;
        let mut candles = candles::qwen2::ModelForCausalLM::new(&config, weights)?;
        let ours = |weights: VarBuilder| qwen2::load(weights, &config);
        check("qwen2", &sizes, tied, ours, |x, at| candles.forward(x, at))?;
    }
    Ok(())
}

#[test]
fn qwen3_is_candles() -> Result<()> {
    let sizes = Sizes {
        head_dim: 32,
        head_norms: true,
        ..SIZES
    };
    let config = qwen3_config(&sizes);
    let weights = builder(&sizes, false, &Device::Cpu)?;
    let mut candles = candles::qwen3::ModelForCausalLM::new(&config, weights)?;
    let ours = |weights: VarBuilder| qwen3::load(weights, &config);
    check("qwen3", &sizes, false, ours, |x, at| candles.forward(x, at))
}

/// In one layer a query with a window sees what it would see of a text that begins with the window: rotary embedding knows
/// distances alone. Qwen's layers before `max_window_layers` have none.
#[test]
fn a_window_hides_what_came_before_it() -> Result<()> {
    const WINDOW: usize = 4;
    let one = Sizes { layers: 1, ..SIZES };
    let biased = Sizes {
        biases: true,
        ..one
    };
    let long = prompt(1, 9, SIZES.vocabulary);
    for device in devices()? {
        let logits = |model: Transformer, tokens: &[u32], decoded: usize| -> Result<Tensor> {
            let mut session = Session::new(model, 1, 16)?;
            let (first, rest) = tokens.split_at(tokens.len() - decoded);
            let mut logits = session.prompt(&Tensor::new(first, &device)?.unsqueeze(0)?)?;
            for token in rest {
                logits = session.next(&[*token])?;
            }
            Ok(logits)
        };
        let mistral = |window| {
            let config = mistral_config(&one, window);
            mistral::load(builder(&one, false, &device)?, &config)
        };
        let qwen = |first| {
            let config = qwen2::Config {
                use_sliding_window: true,
                sliding_window: WINDOW,
                max_window_layers: first,
                ..qwen2_config(&biased, false)
            };
            qwen2::load(builder(&biased, false, &device)?, &config)
        };
        // By a prompt, and by steps, of which the later ones are captured.
        for decoded in [0, 5] {
            let all = &long[0][..];
            let seen = &all[all.len() - WINDOW..];
            let what = format!("{decoded} steps, {:?}", device.location());
            let found = logits(mistral(Some(WINDOW))?, all, decoded)?;
            assert_near(&found, &logits(mistral(None)?, seen, 0)?, &what)?;
            let found = logits(qwen(0)?, all, decoded)?;
            assert_near(&found, &logits(qwen(1)?, seen, 0)?, &what)?;
            let unseen = logits(qwen(1)?, all, decoded)?;
            assert!(differ(&found, &unseen)?, "{what}: no window");
        }
    }
    Ok(())
}

fn differ(x: &Tensor, y: &Tensor) -> Result<bool> {
    let worst = (x - y)?.abs()?.max_all()?.to_scalar::<f32>()?;
    Ok(worst > 1e-2)
}

#[test]
fn quantised_weights_write_what_candles_models_write() -> Result<()> {
    use GgmlDType::{Q4K, Q6K, Q8_0};
    // Rows of k-quants are of 256 elements.
    let sizes = Sizes {
        hidden: 256,
        inner: 256,
        heads: 4,
        head_dim: 64,
        ..SIZES
    };
    let tokens = prompt(1, 4, sizes.vocabulary);
    for formats in [[Q8_0; 3], [Q4K, Q6K, Q4K]] {
        for device in devices()? {
            let what = format!("{formats:?}, {:?}", device.location());
            let run = |model: Transformer| -> Result<(Tensor, Vec<u32>)> {
                // Candle's keeps keys and values in f32.
                let model = model.with_cache_dtype(DType::F32)?;
                let mut session = Session::new(model, 1, 12)?;
                let logits = session.prompt(&Tensor::new(tokens.clone(), &device)?)?;
                Ok((logits, session.greedy(5)?.concat()))
            };
            let base = ("rope.freq_base", Value::F32(1e6));

            let biased = Sizes {
                biases: true,
                ..sizes
            };
            let file = gguf(&biased, "qwen2", std::slice::from_ref(&base), formats)?;
            let mut reader = Cursor::new(&file);
            let content = Content::read(&mut reader)?;
            let (logits, found) = run(quantized_qwen2::from_gguf(&content, &mut reader, &device)?)?;
            let mut candles =
                candles::quantized_qwen2::ModelWeights::from_gguf(content, &mut reader, &device)?;
            let (expected, all) = decoded(|x, at| candles.forward(x, at), &tokens[0], 6, &device)?;
            assert_near(&logits, &all[0], &format!("qwen2, {what}"))?;
            assert_eq!(found, expected[..5], "qwen2, {what}");

            let normed = Sizes {
                head_norms: true,
                ..sizes
            };
            let length = ("attention.key_length", Value::U32(64));
            let file = gguf(&normed, "qwen3", &[base, length], formats)?;
            let mut reader = Cursor::new(&file);
            let content = Content::read(&mut reader)?;
            let (logits, found) = run(quantized_qwen3::from_gguf(&content, &mut reader, &device)?)?;
            let mut candles =
                candles::quantized_qwen3::ModelWeights::from_gguf(content, &mut reader, &device)?;
            let (expected, all) = decoded(|x, at| candles.forward(x, at), &tokens[0], 6, &device)?;
            assert_near(&logits, &all[0], &format!("qwen3, {what}"))?;
            assert_eq!(found, expected[..5], "qwen3, {what}");
        }
    }
    Ok(())
}

#[test]
fn a_layer_takes_few_kernels() -> Result<()> {
    let [device, _] = devices()?;
    let kernels = |model: Transformer| -> Result<usize> {
        let mut session = Session::new(model, 1, 16)?;
        session.prompt(&Tensor::new(prompt(1, 3, SIZES.vocabulary), &device)?)?;
        session.greedy(2)?;
        Ok(session.enqueued().expect("a captured step").kernels.len())
    };
    let mut found = Vec::new();
    for layers in [1, 2] {
        let plain = Sizes { layers, ..SIZES };
        let biased = Sizes {
            biases: true,
            ..plain
        };
        let normed = Sizes {
            head_norms: true,
            ..plain
        };
        let of = |sizes: &Sizes| builder(sizes, false, &device);
        found.push([
            kernels(mistral::load(
                of(&plain)?,
                &mistral_config(&plain, Some(8)),
            )?)?,
            kernels(qwen2::load(of(&biased)?, &qwen2_config(&biased, false))?)?,
            kernels(qwen3::load(of(&normed)?, &qwen3_config(&normed))?)?,
        ]);
    }
    let added: [usize; 3] = std::array::from_fn(|family| found[1][family] - found[0][family]);
    // As LLaMA's; the norms of heads are within attention.
    let most = [5, 5, 5];
    assert!(
        added.iter().zip(most).all(|(found, most)| *found <= most),
        "{added:?}"
    );
    Ok(())
}

#[test]
fn what_does_not_fit_is_an_error() -> Result<()> {
    let [device, _] = devices()?;
    let config = mistral_config(&SIZES, Some(0));
    let weights = || builder(&SIZES, false, &device);
    let gelu = mistral::Config {
        hidden_act: Activation::Gelu,
        ..mistral_config(&SIZES, None)
    };
    let unsized_window = qwen3::Config {
        use_sliding_window: true,
        ..qwen3_config(&SIZES)
    };
    for (result, expected) in [
        (mistral::load(weights()?, &config), "a window of 0 keys"),
        (mistral::load(weights()?, &gelu), "SiLU"),
        (
            qwen2::load(weights()?, &qwen2_config(&SIZES, false)),
            "q_proj.bias",
        ),
        (qwen3::load(weights()?, &qwen3_config(&SIZES)), "q_norm"),
        (
            qwen3::load(weights()?, &unsized_window),
            "without sliding_window",
        ),
    ] {
        let text = result
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(text.contains(expected), "`{text}` lacks `{expected}`");
    }
    Ok(())
}
