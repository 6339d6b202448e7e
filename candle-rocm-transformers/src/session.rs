//! Sequences that are continued.

use candle_core::{bail, DType, Device, Result, Tensor};
use candle_rocm_backend::graph::{self, Enqueued, Input, Step};

use crate::cache::Cache;
use crate::transformer::{Place, Transformer};

/// What is captured, for what is said of a graph.
const STEP: &str = "a model's step";

/// Sequences of equal length, which a model continues: prompts first, then token by token.
///
/// On a GPU the step that decodes a token is captured when it is first made, and run by one launch from then on. It stays
/// on the thread that made it. On the CPU, with `CANDLE_ROCM_GRAPHS=0`, and where the GPU's graphs are wrong, it is made
/// anew each time.
#[derive(Debug)]
pub struct Session {
    model: Transformer,
    cache: Cache,
    batch: usize,
    capacity: usize,
    /// Tokens of each sequence of a prompt that are read together, at most.
    chunk: usize,
    /// Tokens of each sequence that the cache holds.
    length: usize,
    /// What the next step reads: tokens, and how many came before, both (batch).
    tokens: Input,
    position: Input,
    one: Tensor,
    /// What was chosen, by position: (batch, capacity + 1).
    chosen: Tensor,
    /// Whether steps are captured, once that is known; of ranks at all or at none.
    captures: Option<bool>,
    step: Option<Step<Tensor>>,
    greedy_step: Option<Step<Tensor>>,
}

impl Session {
    /// For `batch` sequences of up to `capacity` tokens.
    ///
    /// # Errors
    /// The device has not the memory, or the model's heads are not what a cache takes.
    pub fn new(model: Transformer, batch: usize, capacity: usize) -> Result<Self> {
        let device = model.device().clone();
        let zeros = Tensor::zeros(batch, DType::U32, &device)?;
        Ok(Self {
            cache: model.cache(batch, capacity)?,
            chunk: model.ranks().chunk(capacity),
            model,
            batch,
            capacity,
            length: 0,
            tokens: Input::new(&zeros)?,
            position: Input::new(&zeros)?,
            one: Tensor::ones(batch, DType::U32, &device)?,
            chosen: Tensor::zeros((batch, capacity + 1), DType::U32, &device)?,
            captures: None,
            step: None,
            greedy_step: None,
        })
    }

    /// The same with prompts read by chunks of so many tokens of each sequence at most: the memory for what layers make
    /// follows the chunk. By default a prompt is read at once, but of a pipeline by 512, so that its stages work at once;
    /// all of them are told the same.
    ///
    /// # Errors
    /// Chunks of no token.
    pub fn with_chunk(self, tokens: usize) -> Result<Self> {
        if tokens == 0 {
            bail!("Session::with_chunk: a prompt by chunks of 0 tokens");
        }
        Ok(Self {
            chunk: tokens,
            ..self
        })
    }

    /// The model.
    pub fn model(&self) -> &Transformer {
        &self.model
    }

    /// Tokens of each sequence that there is memory for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Tokens of each sequence so far.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Forgets the tokens so far. Memory and captured steps stay.
    pub fn reset(&mut self) {
        self.length = 0;
    }

    /// What one captured step enqueues in the GPU, once there is one: of [`Session::greedy`], or else of [`Session::next`].
    pub fn enqueued(&self) -> Option<&Enqueued> {
        let greedy = self.greedy_step.as_ref().map(Step::enqueued);
        greedy.or(self.step.as_ref().map(Step::enqueued))
    }

    /// Reads `tokens`, u32 of shape (batch, steps), after those so far, and gives the logits after the last, f32 of shape
    /// (batch, vocabulary). The likeliest becomes what [`Session::greedy`] goes on from.
    ///
    /// # Errors
    /// Another shape or dtype, more tokens than there is room for, or a failed launch.
    pub fn prompt(&mut self, tokens: &Tensor) -> Result<Tensor> {
        match tokens.dims() {
            [batch, steps]
                if *batch == self.batch && *steps > 0 && tokens.dtype() == DType::U32 =>
            {
                self.room(*steps)?
            }
            _ => bail!(
                "a prompt of shape {:?} and {:?}: it must be u32 of shape ({}, steps)",
                tokens.shape(),
                tokens.dtype(),
                self.batch
            ),
        }
        let (mut first, steps) = (0, tokens.dim(1)?);
        while steps - first > self.chunk {
            self.read(&tokens.narrow(1, first, self.chunk)?)?;
            first += self.chunk;
        }
        let found = self.read(&tokens.narrow(1, first, steps - first)?)?;
        self.set_position(self.length)?;
        self.tokens.set(&self.model.ranks().likeliest(&found)?)?;
        self.model.all_logits(found)
    }

    /// Reads these tokens of a prompt, for which there is room, and gives what the model's forward pass does.
    fn read(&mut self, tokens: &Tensor) -> Result<Tensor> {
        self.set_position(self.length)?;
        let (position, place) = (self.position.tensor(), Place::At(self.length));
        let found = self.model.forward(tokens, position, place, &self.cache)?;
        self.length += tokens.dim(1)?;
        Ok(found)
    }

    /// Reads one token of each sequence, and gives the logits after it, as [`Session::prompt`]. The next call writes over
    /// them. [`Session::greedy`] goes on from what this was given, not from the likeliest.
    ///
    /// # Errors
    /// Not `batch` tokens, no room for one more, or a failed launch.
    pub fn next(&mut self, tokens: &[u32]) -> Result<Tensor> {
        if tokens.len() != self.batch {
            bail!("{} tokens for {} sequences", tokens.len(), self.batch);
        }
        self.room(1)?;
        self.tokens.set(&Tensor::new(tokens, &Device::Cpu)?)?;
        self.set_position(self.length)?;
        self.length += 1;
        if let Some(step) = &self.step {
            return Ok(step.run()?.clone());
        }
        if !self.captures()? {
            return self.all_logits();
        }
        let device = self.model.device();
        let (logits, step) = Step::capture(device, || self.all_logits())?;
        if self.is_to_be_compared()? {
            let position = self.position.tensor().copy()?;
            if !self.is_right(&step, tokens, &position, &logits, Self::all_logits)? {
                self.captures = Some(false);
                return Ok(logits);
            }
        }
        self.step = Some(step);
        Ok(logits)
    }

    fn captures(&mut self) -> Result<bool> {
        if let Some(known) = self.captures {
            return Ok(known);
        }
        let are_on = graph::are_on(self.model.device())?;
        let captures = self.model.ranks().holds_everywhere(are_on)?;
        self.captures = Some(captures);
        Ok(captures)
    }

    /// Whether a captured step is to be compared, of ranks at one at least.
    fn is_to_be_compared(&self) -> Result<bool> {
        let is_right = !graph::is_to_be_compared(self.model.device())?;
        Ok(!self.model.ranks().holds_everywhere(is_right)?)
    }

    /// Whether a captured step computes what `step` computes that is called: after other tokens, and after `tokens`, which
    /// gave these logits. What the next step reads, and the cache, are then as they were after that.
    fn is_right(
        &self,
        captured: &Step<Tensor>,
        tokens: &[u32],
        position: &Tensor,
        logits: &Tensor,
        step: impl Fn(&Self) -> Result<Tensor>,
    ) -> Result<bool> {
        let set = |tokens: &[u32]| {
            self.tokens.set(&Tensor::new(tokens, &Device::Cpu)?)?;
            self.position.set(position)
        };
        let last = self.model.shape().vocabulary as u32 - 1;
        let others: Vec<u32> = tokens.iter().map(|token| (token ^ 1).min(last)).collect();
        set(&others)?;
        // The next run writes over what this one gives. A stage gives its state, of the activations' type.
        let numbers = |found: &Tensor| found.to_dtype(DType::F32);
        let found = numbers(&captured.run()?.copy()?)?;
        set(&others)?;
        let is_right = graph::agree(STEP, &found, &numbers(&step(self)?)?)?;
        set(tokens)?;
        // Ranks make the same calls, whatever each has found.
        if self.model.ranks().holds_everywhere(is_right)? {
            let is_right = graph::agree(STEP, &numbers(captured.run()?)?, &numbers(logits)?)?;
            if self.model.ranks().holds_everywhere(is_right)? {
                return Ok(true);
            }
        }
        set(tokens)?;
        step(self)?;
        Ok(false)
    }

    /// The logits of all tokens after the next step's.
    fn all_logits(&self) -> Result<Tensor> {
        self.model.all_logits(self.forward()?)
    }

    /// The logits after the next step's tokens, which are at its position.
    fn forward(&self) -> Result<Tensor> {
        let tokens = self.tokens.tensor().unsqueeze(1)?;
        let position = self.position.tensor();
        self.model
            .forward(&tokens, position, Place::OnDevice, &self.cache)
    }

    /// Continues each sequence by the likeliest token `count` times, and gives these. Each is read as well, so that what
    /// follows the last is known: see [`Session::last`]. All that crosses to the host are the tokens, at the end.
    ///
    /// # Errors
    /// There is no prompt, no room, or a launch fails.
    pub fn greedy(&mut self, count: usize) -> Result<Vec<Vec<u32>>> {
        if self.length == 0 {
            bail!("there is no prompt: call Session::prompt first");
        }
        self.room(count)?;
        let first = self.length;
        self.note()?;
        for _ in 0..count {
            self.length += 1;
            self.greedy_step()?;
        }
        self.chosen.narrow(1, first, count)?.to_vec2()
    }

    /// The `count` tokens of each sequence that were chosen last, the likeliest after all that was read among them.
    ///
    /// # Errors
    /// There are not so many.
    pub fn last(&self, count: usize) -> Result<Vec<Vec<u32>>> {
        if count > self.length + 1 {
            bail!("{count} tokens of a sequence of {}", self.length);
        }
        self.note()?;
        self.chosen
            .narrow(1, self.length + 1 - count, count)?
            .to_vec2()
    }

    /// Keeps the next step's tokens at their position.
    fn note(&self) -> Result<()> {
        let (position, tokens) = (self.position.tensor(), self.tokens.tensor());
        self.chosen
            .scatter_set(&position.unsqueeze(1)?, &tokens.unsqueeze(1)?, 1)
    }

    fn greedy_step(&mut self) -> Result<()> {
        if let Some(step) = &self.greedy_step {
            step.run()?;
            return Ok(());
        }
        if !self.captures()? {
            return self.go_on().map(drop);
        }
        let device = self.model.device();
        let compared = match self.is_to_be_compared()? {
            true => Some((
                self.tokens.tensor().to_vec1::<u32>()?,
                self.position.tensor().copy()?,
            )),
            false => None,
        };
        let (logits, step) = Step::capture(device, || self.go_on())?;
        if let Some((tokens, position)) = compared {
            if !self.is_right(&step, &tokens, &position, &logits, Self::go_on)? {
                self.captures = Some(false);
                return Ok(());
            }
        }
        self.greedy_step = Some(step);
        Ok(())
    }

    /// Reads the next step's tokens, and makes the likeliest after them the next step's. Gives the logits.
    fn go_on(&self) -> Result<Tensor> {
        let logits = self.forward()?;
        self.tokens.set(&self.model.ranks().likeliest(&logits)?)?;
        self.position.set(&(self.position.tensor() + &self.one)?)?;
        self.note()?;
        Ok(logits)
    }

    fn set_position(&self, position: usize) -> Result<()> {
        let all = vec![position as u32; self.batch];
        self.position
            .set(&Tensor::from_vec(all, self.batch, &Device::Cpu)?)
    }

    fn room(&self, steps: usize) -> Result<()> {
        if self.length + steps > self.capacity {
            bail!(
                "{} tokens and {steps} more are beyond the {} that the session has memory for",
                self.length,
                self.capacity
            );
        }
        Ok(())
    }
}
