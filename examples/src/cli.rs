//! The examples' options, and what all do with them.

use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use candle_core::{DType, Device};
use tokenizers::Tokenizer;

use crate::checkpoint::Progress;
use crate::device::Choice;
use crate::generate::{self, check_prompt, Generation, LanguageModel, Options, Stop};
use crate::gguf_tokenizer;
use crate::launches;
use crate::text::{self, TextStream};

pub use crate::precision::Precision;

/// Options of every example.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Folder with config.json, tokenizer.json and model.safetensors (one file or shards); for a LLaMA also a
    /// .gguf file. Default: the model that comes with this project
    #[arg(long, value_name = "DIR|FILE")]
    pub model: Option<PathBuf>,
    /// The tokenizer.json to use, if not the one beside the weights or in the .gguf file
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// The text to continue; `-` reads it from standard input
    #[arg(long)]
    pub prompt: String,
    /// Tokens to generate at most
    #[arg(long, default_value_t = 200)]
    pub max_tokens: usize,
    /// 0 takes the likeliest token each time; higher is more varied
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    pub temperature: f64,
    /// Choose among the likeliest tokens that together have this probability
    #[arg(long, allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// Choose among this many of the likeliest tokens
    #[arg(long)]
    pub top_k: Option<usize>,
    /// Make recent tokens less likely; 1 is off
    #[arg(long, default_value_t = 1., allow_negative_numbers = true)]
    pub repeat_penalty: f32,
    /// How many tokens count as recent
    #[arg(long, default_value_t = 64)]
    pub repeat_last_n: usize,
    /// Same seed, same text
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// What to compute in; the weights are converted on loading
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    pub dtype: Precision,
    /// Where to compute; rocm falls back to an emulated GPU when there is none, and says so
    #[arg(long, value_enum, default_value_t)]
    pub device: Choice,
    /// Say how many kernels and launches a token takes
    #[arg(long)]
    pub stats: bool,
}

impl Args {
    /// How tokens are chosen.
    pub fn options(&self) -> Options {
        Options {
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: self.repeat_last_n,
            seed: self.seed,
            ignore_end_of_text: false,
            count_launches: self.stats,
        }
    }
}

/// Loads a model from a folder or file: [`crate::llama::load`], for one.
pub type Loader<M> = fn(&Path, DType, &Device, &Progress) -> Result<M>;

/// Runs an example. A failure is one line on standard error, and a failing exit code.
pub fn main<M, L>(args: &Args, shipped: &Path, load: L) -> ExitCode
where
    M: LanguageModel,
    L: FnOnce(&Path, DType, &Device, &Progress) -> Result<M>,
{
    match run(args, shipped, load) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run<M, L>(args: &Args, shipped: &Path, load: L) -> Result<()>
where
    M: LanguageModel,
    L: FnOnce(&Path, DType, &Device, &Progress) -> Result<M>,
{
    // What is cheap to check comes before what takes long.
    let options = args.options();
    options.validate()?;
    let path = args.model.as_deref().unwrap_or(shipped);
    if !path.exists() {
        bail!("{}: no such file or folder", path.display());
    }
    let tokenizer = tokenizer(args.tokenizer.as_deref(), path)?;
    let prompt = read_prompt(&args.prompt)?;
    let tokens = text::encode(&tokenizer, &prompt)?;
    if text::has_unknown(&tokenizer, &tokens) {
        eprintln!("Part of the prompt is unknown to this model's tokenizer; the model cannot see what it says.");
    }

    let opened = args.device.open()?;
    if let Some(note) = &opened.note {
        eprintln!("{note}");
    }
    let mut model = load(path, args.dtype.into(), &opened.device, &Progress::shown())?;
    check_prompt(&tokens, model.limits())?;

    let mut out: Box<dyn Write> = match model.speaks() {
        true => Box::new(std::io::stdout().lock()),
        false => Box::new(std::io::sink()),
    };
    write!(out, "{prompt}")
        .and_then(|()| out.flush())
        .context("the text cannot be written")?;
    let mut stream = TextStream::new(&tokenizer, &tokens, &mut out)?;
    let generation = generate::generate(&mut model, &tokens, &options, &mut |token| {
        stream.push(token)
    })?;
    stream.finish()?;
    writeln!(out).context("the text cannot be written")?;
    if !model.speaks() {
        return Ok(());
    }
    if let Some(why) = launches::why_not_captured(&opened.device) {
        eprintln!("{why}");
    }
    report(&generation, model.limits().context, &opened.description);
    if args.stats {
        match &generation.last_step {
            Some(step) => eprintln!("{}", launches::describe(step, model.captured())),
            None => eprintln!("No launches were counted: the build has no GPU, or no token was read after the prompt."),
        }
    }
    Ok(())
}

/// The one that was asked for, the one beside the weights, or the one in a GGUF file: a tokenizer.json says
/// exactly what a GGUF file says in part.
fn tokenizer(asked: Option<&Path>, model: &Path) -> Result<Tokenizer> {
    if let Some(file) = asked {
        return text::load_tokenizer(file);
    }
    if model.is_dir() {
        return text::load_tokenizer(&model.join("tokenizer.json"));
    }
    let beside = model.with_file_name("tokenizer.json");
    if beside.exists() {
        text::load_tokenizer(&beside)
    } else {
        gguf_tokenizer::load(model)
    }
}

fn read_prompt(argument: &str) -> Result<String> {
    if argument != "-" {
        return Ok(argument.to_string());
    }
    let mut prompt = String::new();
    std::io::stdin()
        .read_to_string(&mut prompt)
        .context("standard input: the prompt cannot be read")?;
    // The newline that ends a line of standard input is not meant as part of the text.
    Ok(prompt.trim_end_matches(['\r', '\n']).to_string())
}

fn report(generation: &Generation, context: usize, device: &str) {
    if generation.stop == Stop::ContextFull {
        eprintln!("The text ends here because the model's context of {context} tokens is full.");
    }
    let decode = match generation.decode_rate() {
        Some(rate) => format!("{rate:.1} tokens/s"),
        None => "no further pass".to_string(),
    };
    eprintln!(
        "prompt: {} tokens, {:.1} tokens/s; generated: {} tokens, {decode}; device: {device}",
        generation.prompt_tokens,
        generation.prompt_rate(),
        generation.tokens.len(),
    );
}
