//! A session of candle-rocm-transformers as the examples' loop takes it: one sequence, logits to the host.

use anyhow::{ensure, Context, Result};
use candle_core::{DType, Tensor};
use candle_rocm_transformers::{Session, Transformer};

use crate::follower::{first_error, Follower};
use crate::launches::Launches;
use crate::model_code::SessionArgs;

/// Tokens that are compared after the first prompt where FP8 runs beside the weights as they came.
const COMPARED: usize = 16;

/// One sequence.
pub(crate) struct Sequence {
    session: Session,
    /// With the weights as they came, until the first prompt was read by both.
    reference: Option<Session>,
    /// Whether it speaks to people, such as of how far FP8 is from those.
    speaks: bool,
    /// The other ranks, where the model is over several GPUs.
    followers: Vec<Follower>,
}

impl Sequence {
    /// Memory for one sequence; in FP8 if that is asked for.
    ///
    /// # Errors
    /// The device has not the memory; weights that are quantised already are to become FP8.
    pub(crate) fn new(model: Transformer, args: &SessionArgs) -> Result<Self> {
        Self::of_rank(model, args, true)
    }

    /// The same of a rank, the first of which speaks to people.
    pub(crate) fn of_rank(model: Transformer, args: &SessionArgs, speaks: bool) -> Result<Self> {
        let capacity = args.capacity;
        let model = match args.cache_dtype {
            Some(dtype) => model.with_cache_dtype(dtype).context("--cache-dtype")?,
            None => model,
        };
        let session = |model: Transformer| {
            Session::new(model, 1, capacity)
                .with_context(|| format!("memory for {capacity} tokens: --context asks for fewer"))
        };
        if !args.fp8 {
            return Ok(Self {
                session: session(model)?,
                reference: None,
                speaks,
                followers: Vec::new(),
            });
        }
        let quantised = model.to_fp8().context("--fp8")?;
        Ok(Self {
            session: session(quantised)?,
            reference: Some(session(model)?),
            speaks,
            followers: Vec::new(),
        })
    }

    /// The same with other ranks, which make its calls.
    pub(crate) fn followed_by(self, followers: Vec<Follower>) -> Self {
        Self { followers, ..self }
    }

    /// The logits after the last of `tokens`, `position` of which were read before.
    ///
    /// # Errors
    /// The session is somewhere else, or an operator fails.
    pub(crate) fn forward(&mut self, tokens: &[u32], position: usize) -> Result<Tensor> {
        for follower in &self.followers {
            follower.forward(tokens, position);
        }
        let logits = self.own_forward(tokens, position);
        logits.map_err(|error| first_error(&mut self.followers, error))
    }

    fn own_forward(&mut self, tokens: &[u32], position: usize) -> Result<Tensor> {
        if let Some(reference) = self.reference.take() {
            let text = compare(&mut self.session, reference, tokens)?;
            if self.speaks {
                eprintln!("{text}");
            }
        }
        let session = &mut self.session;
        ensure!(
            session.length() == position,
            "{} tokens were read, and the next is to be number {position}",
            session.length()
        );
        let logits = match tokens {
            [token] if position > 0 => session.next(&[*token])?,
            _ => session.prompt(&row(session, tokens)?)?,
        };
        Ok(logits.squeeze(0)?)
    }

    /// Whether it speaks to people: the first rank does.
    pub(crate) fn speaks(&self) -> bool {
        self.speaks
    }

    pub(crate) fn reset(&mut self) {
        for follower in &self.followers {
            follower.reset();
        }
        self.session.reset();
    }

    /// What a captured step enqueues.
    pub(crate) fn captured(&self) -> Option<&Launches> {
        self.session.enqueued()
    }
}

fn row(session: &Session, tokens: &[u32]) -> Result<Tensor> {
    Ok(Tensor::new(tokens, session.model().device())?.unsqueeze(0)?)
}

/// How far FP8 is from the weights as they came after a prompt: logits, and the likeliest tokens that follow. `session` has
/// read nothing before, nor after.
fn compare(session: &mut Session, mut reference: Session, prompt: &[u32]) -> Result<String> {
    let read = |session: &mut Session| -> Result<(Vec<f32>, Vec<u32>)> {
        let logits = session.prompt(&row(session, prompt)?)?;
        let logits = logits.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
        let count = COMPARED.min(session.capacity() - session.length());
        let tokens = session.greedy(count)?.swap_remove(0);
        session.reset();
        Ok((logits, tokens))
    };
    let (found, tokens) = read(session)?;
    let (expected, as_they_came) = read(&mut reference)?;
    let (mut products, mut squares) = (0f64, 0f64);
    for (&x, &y) in found.iter().zip(&expected) {
        let (x, y) = (f64::from(x), f64::from(y));
        products += x * y;
        squares += x * x + y * y;
    }
    let same = tokens.iter().zip(&as_they_came);
    let same = same.take_while(|(x, y)| x == y).count();
    Ok(format!(
        "FP8 beside {:?}: after the prompt, 1 - 2 sum(xy) / sum(x^2 + y^2) of the logits is {:.2e}; {same} of {} tokens that \
         follow are the same until one differs.",
        reference.model().dtype(),
        1. - 2. * products / squares,
        tokens.len()
    ))
}
