//! The generation loop: one forward pass, and one copy of the logits to the host, for each token.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};

use crate::launches::{noted, Launches};

/// What a model allows, whatever its architecture.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Tokens that a sequence can have, prompt included.
    pub context: usize,
    /// Tokens there are.
    pub vocabulary: usize,
    /// Tokens that end the text; may be empty.
    pub end_of_text: Vec<u32>,
}

/// A model that continues a sequence of tokens, with a cache of what it has read.
pub trait LanguageModel {
    /// The logits after the last of `tokens`, f32 of shape (vocabulary), on the model's device, not waited
    /// for. `position` tokens were read before: 0 for a prompt.
    ///
    /// # Errors
    /// An operator fails; the tokens do not fit the context or the vocabulary.
    fn forward(&mut self, tokens: &[u32], position: usize) -> Result<Tensor>;

    /// Forgets what was read.
    ///
    /// # Errors
    /// The device refuses the memory of a new cache.
    fn reset(&mut self) -> Result<()>;

    /// Context, vocabulary, end of text.
    fn limits(&self) -> &Limits;

    /// Whether this process writes the text, which of several that share a model one does.
    fn speaks(&self) -> bool {
        true
    }

    /// What one launch of a captured step runs, if the model has one.
    fn captured(&self) -> Option<&Launches> {
        None
    }
}

/// Whichever model.
pub type AnyModel = Box<dyn LanguageModel>;

impl LanguageModel for AnyModel {
    fn forward(&mut self, tokens: &[u32], position: usize) -> Result<Tensor> {
        (**self).forward(tokens, position)
    }

    fn reset(&mut self) -> Result<()> {
        (**self).reset()
    }

    fn limits(&self) -> &Limits {
        (**self).limits()
    }

    fn speaks(&self) -> bool {
        (**self).speaks()
    }

    fn captured(&self) -> Option<&Launches> {
        (**self).captured()
    }
}

/// How the next token is chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Tokens to generate at most.
    pub max_tokens: usize,
    /// 0 takes the likeliest token; higher values flatten the distribution.
    pub temperature: f64,
    /// Sample among the likeliest tokens that together have this probability.
    pub top_p: Option<f64>,
    /// Sample among this many of the likeliest tokens.
    pub top_k: Option<usize>,
    /// Divides the logits of recent tokens; 1 is none.
    pub repeat_penalty: f32,
    /// How many tokens are recent.
    pub repeat_last_n: usize,
    /// Same seed, same text.
    pub seed: u64,
    /// Go on after the end of the text.
    pub ignore_end_of_text: bool,
    /// Count what a token gives to the GPU.
    pub count_launches: bool,
}

impl Default for Options {
    /// Greedy, 64 tokens.
    fn default() -> Self {
        Self {
            max_tokens: 64,
            temperature: 0.,
            top_p: None,
            top_k: None,
            repeat_penalty: 1.,
            repeat_last_n: 64,
            seed: 42,
            ignore_end_of_text: false,
            count_launches: false,
        }
    }
}

impl Options {
    /// That every value makes sense.
    ///
    /// # Errors
    /// One does not; the text names its option and range.
    pub fn validate(&self) -> Result<()> {
        ensure!(
            self.temperature.is_finite() && self.temperature >= 0.,
            "--temperature is {}; it must be 0 (greedy) or more",
            self.temperature
        );
        if let Some(p) = self.top_p {
            ensure!(
                p > 0. && p <= 1.,
                "--top-p is {p}; it must be above 0 and at most 1"
            );
        }
        ensure!(self.top_k != Some(0), "--top-k is 0; it must be 1 or more");
        ensure!(
            self.repeat_penalty.is_finite() && self.repeat_penalty > 0.,
            "--repeat-penalty is {}; it must be above 0 (1 is none)",
            self.repeat_penalty
        );
        Ok(())
    }

    fn sampling(&self) -> Sampling {
        // candle's own threshold for greedy: dividing by less overflows f32.
        if self.temperature < 1e-7 {
            return Sampling::ArgMax;
        }
        let temperature = self.temperature;
        match (self.top_k, self.top_p) {
            (None, None) => Sampling::All { temperature },
            (Some(k), None) => Sampling::TopK { k, temperature },
            (None, Some(p)) => Sampling::TopP { p, temperature },
            (Some(k), Some(p)) => Sampling::TopKThenTopP { k, p, temperature },
        }
    }
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model ended the text.
    EndOfText,
    /// As many tokens as were asked for.
    MaxTokens,
    /// The sequence is as long as the model's context.
    ContextFull,
}

/// What was generated, and how fast.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The new tokens, without the end of text.
    pub tokens: Vec<u32>,
    /// Why there are no more.
    pub stop: Stop,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// From the prompt to its logits on the host.
    pub prompt_time: Duration,
    /// Forward passes after the prompt's.
    pub decode_steps: usize,
    /// Time of those passes, choice of the token included.
    pub decode_time: Duration,
    /// What the last of those passes gave to the GPU, if it was to be counted.
    pub last_step: Option<Launches>,
}

impl Generation {
    /// Tokens of the prompt read in a second.
    pub fn prompt_rate(&self) -> f64 {
        rate(self.prompt_tokens, self.prompt_time)
    }

    /// Tokens generated in a second, once the prompt was read; none when the prompt's pass was the only one.
    pub fn decode_rate(&self) -> Option<f64> {
        (self.decode_steps > 0).then(|| rate(self.decode_steps, self.decode_time))
    }
}

fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// That the model can read this prompt.
///
/// # Errors
/// It is empty, fills the context, or has a token that the model does not know.
pub fn check_prompt(prompt: &[u32], limits: &Limits) -> Result<()> {
    ensure!(
        !prompt.is_empty(),
        "the prompt is empty: give --prompt some text"
    );
    ensure!(
        prompt.len() < limits.context,
        "the prompt has {} tokens, and the model's context {}: shorten it to at most {} tokens",
        prompt.len(),
        limits.context,
        limits.context - 1
    );
    if let Some(token) = prompt.iter().find(|&&t| t as usize >= limits.vocabulary) {
        anyhow::bail!(
            "the tokenizer gives token {token}, and the model knows {}: they do not belong together",
            limits.vocabulary
        );
    }
    Ok(())
}

/// Continues `prompt`; `on_token` sees each new token as it is chosen, before the next is computed.
///
/// # Errors
/// The prompt or an option is wrong, an operator fails, the logits are not finite, or `on_token` fails.
pub fn generate(
    model: &mut dyn LanguageModel,
    prompt: &[u32],
    options: &Options,
    on_token: &mut dyn FnMut(u32) -> Result<()>,
) -> Result<Generation> {
    options.validate()?;
    let limits = model.limits().clone();
    check_prompt(prompt, &limits)?;
    model.reset()?;
    let mut chooser = LogitsProcessor::from_sampling(options.seed, options.sampling());
    let mut sequence = prompt.to_vec();
    let start = Instant::now();
    let mut logits = to_host(&model.forward(prompt, 0)?)?;
    let prompt_time = start.elapsed();
    let start = Instant::now();
    let mut decode_steps = 0;
    let mut last_step = None;
    let stop = loop {
        if sequence.len() - prompt.len() >= options.max_tokens {
            break Stop::MaxTokens;
        }
        let token = choose(&mut chooser, logits, &sequence, options)?;
        if !options.ignore_end_of_text && limits.end_of_text.contains(&token) {
            break Stop::EndOfText;
        }
        sequence.push(token);
        on_token(token)?;
        if sequence.len() - prompt.len() >= options.max_tokens {
            break Stop::MaxTokens;
        }
        if sequence.len() >= limits.context {
            break Stop::ContextFull;
        }
        let position = sequence.len() - 1;
        let (next, launches) = noted(options.count_launches, || {
            to_host(&model.forward(&[token], position)?)
        });
        (logits, last_step) = (next?, launches);
        decode_steps += 1;
    };
    Ok(Generation {
        tokens: sequence.split_off(prompt.len()),
        stop,
        prompt_tokens: prompt.len(),
        prompt_time,
        decode_steps,
        decode_time: start.elapsed(),
        last_step,
    })
}

/// The logits after a prompt, one a token of the vocabulary.
///
/// # Errors
/// As [`generate`].
pub fn first_step_logits(model: &mut dyn LanguageModel, prompt: &[u32]) -> Result<Vec<f32>> {
    check_prompt(prompt, model.limits())?;
    model.reset()?;
    to_host(&model.forward(prompt, 0)?)
}

/// The one wait for the device in each step.
fn to_host(logits: &Tensor) -> Result<Vec<f32>> {
    let logits: Vec<f32> = logits.to_vec1()?;
    ensure!(
        logits.iter().all(|l| l.is_finite()),
        "the model's logits are not finite: the weights are damaged, or overflow in this --dtype (try f32)"
    );
    Ok(logits)
}

fn choose(
    chooser: &mut LogitsProcessor,
    logits: Vec<f32>,
    sequence: &[u32],
    options: &Options,
) -> Result<u32> {
    let count = logits.len();
    let mut logits = Tensor::from_vec(logits, count, &Device::Cpu)?;
    if options.repeat_penalty != 1. {
        let recent = &sequence[sequence.len().saturating_sub(options.repeat_last_n)..];
        logits = candle_transformers::utils::apply_repeat_penalty(
            &logits,
            options.repeat_penalty,
            recent,
        )?;
    }
    chooser
        .sample(&logits)
        .context("no token could be chosen from the logits")
}
