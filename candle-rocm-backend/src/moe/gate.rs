//! Which experts a token goes to.

use candle_core::{bail, DType, Device, Result, Tensor, D};
use candle_rocm_kernels::EXPERTS;

use crate::ops::launch::{allocate, grid, int, launch, Arg, THREADS};
use crate::ops::node::plain;
use crate::ops::operands::row_float;

/// Tokens of a workgroup of the kernel for any gate.
const TOKENS: usize = 8;
/// Kernels that hold experts by quads: of at most so many, how many lanes a token has, how many are chosen at most.
const QUADS: [(usize, usize, usize); 5] = [
    (64, 4, 8),
    (128, 8, 8),
    (256, 8, 8),
    (384, 8, 8),
    (512, 8, 16),
];
const QUADS_THREADS: u32 = 128;
/// Groups that those kernels know at most.
const QUADS_GROUPS: usize = 8;
/// What a gate's LDS holds, and what a warp of lanes keeps.
const MOST_EXPERTS: usize = 512;
const MOST_TOP: usize = 32;
const MOST_GROUPS: usize = 32;

/// How a gate makes scores of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Over all experts, as Mixtral, Qwen and DeepSeek-V2 have it.
    Softmax,
    /// Of each by itself, as DeepSeek-V3 has it.
    Sigmoid,
}

/// How groups of experts are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupScore {
    /// By the best score in each (DeepSeek-V2).
    Best,
    /// By the sum of the best two (DeepSeek-V3).
    BestTwo,
}

/// Groups of experts that follow one another, of which some are looked at for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// How many there are; it divides the experts.
    pub count: usize,
    /// How many are looked at.
    pub top: usize,
    /// How they are ranked.
    pub by: GroupScore,
}

/// A gate: from a token's logits to its experts and their weights, on the device.
///
/// Scores are computed in f32. Experts are chosen by score + bias, the smaller number where two are equal, what is not a
/// number last; weights are the scores without bias, divided by their sum + 1e-20 where `normalise` says so, times `factor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// How scores are made.
    pub score: Score,
    /// Experts of a token, at most 32.
    pub top: usize,
    /// Limits to groups of experts.
    pub groups: Option<Groups>,
    /// Whether a token's weights are divided by their sum.
    pub normalise: bool,
    /// What weights are multiplied with.
    pub factor: f32,
}

/// Each token's experts and their weights, the best first.
#[derive(Clone, Debug)]
pub struct Choice {
    /// u32 of (tokens, top).
    pub experts: Tensor,
    /// f32 of (tokens, top).
    pub weights: Tensor,
}

impl Gate {
    /// The choice for logits of (tokens, experts), f32, f16 or bf16, with a bias for each expert, f32 of (experts), where
    /// there is one. Where logits have gradients, so have the weights.
    ///
    /// # Errors
    /// Shapes, dtypes or devices that do not fit; more experts than 512 or a `top` beyond 32 or beyond what groups leave.
    pub fn choose(&self, logits: &Tensor, bias: Option<&Tensor>) -> Result<Choice> {
        let (tokens, experts) = logits.dims2()?;
        self.check(experts, logits, bias)?;
        let bias = bias.map(Tensor::contiguous).transpose()?;
        let mut choice = match logits.device() {
            Device::Cuda(device) if tokens > 0 => {
                let groups = self.groups.unwrap_or(Groups {
                    count: 1,
                    top: 1,
                    by: GroupScore::Best,
                });
                let mut chosen = allocate(device, DType::U32, tokens * self.top)?;
                let mut weights = allocate(device, DType::F32, tokens * self.top)?;
                let logits = logits.contiguous()?;
                let args = vec![
                    Arg::Read(Some(&logits)),
                    Arg::Read(bias.as_ref()),
                    Arg::Write(&mut chosen),
                    Arg::Write(&mut weights),
                    Arg::Int(int("moe::Gate", "tokens", tokens)?),
                    Arg::Int(experts as u32),
                    Arg::Int(self.top as u32),
                    Arg::Int(groups.count as u32),
                    Arg::Int(groups.top as u32),
                    Arg::Int((groups.by == GroupScore::BestTwo).into()),
                    Arg::Int((self.score == Score::Sigmoid).into()),
                    Arg::Int(self.normalise.into()),
                    Arg::Float(self.factor),
                ];
                let dtype = row_float("moe::Gate", &logits)?;
                let (kernel, of_workgroup, threads) =
                    match self.quads(experts, &logits, bias.as_ref()) {
                        Some((most, lanes)) => (
                            format!("experts_gate_quads_{most}_{dtype}"),
                            QUADS_THREADS as usize / lanes,
                            QUADS_THREADS,
                        ),
                        None => (format!("experts_gate_{dtype}"), TOKENS, THREADS),
                    };
                let config = grid(tokens.div_ceil(of_workgroup), 1, threads)?;
                // SAFETY: the kernel's arguments: tokens by experts, and room for `top` of each token.
                unsafe { launch(device, &EXPERTS, &kernel, config, args)? };
                let shape = (tokens, self.top).into();
                Choice {
                    experts: plain(chosen, &shape),
                    weights: plain(weights, &shape),
                }
            }
            _ => self.on_host(logits, bias.as_ref())?,
        };
        if logits.track_op() {
            choice.weights = self.weights_of(logits, &choice.experts)?;
        }
        Ok(choice)
    }

    /// The kernel by quads that takes this gate, if one does: the most experts that it takes, and a token's lanes.
    fn quads(
        &self,
        experts: usize,
        logits: &Tensor,
        bias: Option<&Tensor>,
    ) -> Option<(usize, usize)> {
        // Vectors of 16 bytes: memory itself begins at more.
        let aligned =
            |x: &Tensor| (x.layout().start_offset() * x.dtype().size_in_bytes()).is_multiple_of(16);
        if !experts.is_multiple_of(4) || !aligned(logits) || !bias.is_none_or(aligned) {
            return None;
        }
        let groups = self.groups.map_or(1, |groups| groups.count);
        if groups > QUADS_GROUPS || !(experts / groups).is_multiple_of(4) {
            return None;
        }
        QUADS
            .into_iter()
            .find(|&(most, _, top)| experts <= most && self.top <= top)
            .map(|(most, lanes, _)| (most, lanes))
    }

    fn check(&self, experts: usize, logits: &Tensor, bias: Option<&Tensor>) -> Result<()> {
        let open = match self.groups {
            None => experts,
            Some(groups) => {
                let fits = groups.count > 0
                    && experts.is_multiple_of(groups.count)
                    && groups.count <= MOST_GROUPS;
                if !fits || groups.top == 0 || groups.top > groups.count {
                    bail!("moe::Gate: {groups:?} of {experts} experts: at most {MOST_GROUPS} groups, all of one size");
                }
                experts / groups.count * groups.top
            }
        };
        if experts > MOST_EXPERTS || self.top == 0 || self.top > MOST_TOP.min(open) {
            bail!(
                "moe::Gate: {} of {experts} experts, of which groups leave {open}: at most {MOST_TOP} of {MOST_EXPERTS}",
                self.top
            );
        }
        if let Some(bias) = bias
            && (bias.dims() != [experts]
                || bias.dtype() != DType::F32
                || !bias.device().same_device(logits.device()))
        {
            bail!(
                "moe::Gate: a bias {:?} of {:?} for {experts} experts: it must be F32",
                bias.shape(),
                bias.dtype()
            );
        }
        row_float("moe::Gate", logits).map(|_| ())
    }

    /// The weights by Candle's own operators, which have gradients.
    fn weights_of(&self, logits: &Tensor, experts: &Tensor) -> Result<Tensor> {
        let logits = logits.to_dtype(DType::F32)?;
        let scores = match self.score {
            Score::Softmax => crate::ops::softmax(&logits)?,
            Score::Sigmoid => ((logits.neg()?.exp()? + 1.)?).recip()?,
        };
        let weights = scores.gather(experts, 1)?;
        let weights = match self.normalise {
            true => weights.broadcast_div(&(weights.sum_keepdim(D::Minus1)? + 1e-20)?)?,
            false => weights,
        };
        weights * f64::from(self.factor)
    }

    /// The same in plain Rust.
    fn on_host(&self, logits: &Tensor, bias: Option<&Tensor>) -> Result<Choice> {
        let (tokens, experts) = logits.dims2()?;
        let all = logits
            .to_device(&Device::Cpu)?
            .to_dtype(DType::F32)?
            .to_vec2::<f32>()?;
        let bias = bias.map(|bias| bias.to_vec1::<f32>()).transpose()?;
        let (mut chosen, mut weights) = (Vec::new(), Vec::new());
        for logits in all {
            let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = logits.iter().map(|x| (x - largest).exp()).sum();
            let scores: Vec<f32> = logits
                .iter()
                .map(|x| match self.score {
                    Score::Softmax => (x - largest).exp() / sum,
                    Score::Sigmoid => 1. / (1. + (-x).exp()),
                })
                .collect();
            let of_choice = |(expert, score): (usize, &f32)| {
                let choice = score + bias.as_ref().map_or(0., |bias| bias[expert]);
                if choice > f32::MIN {
                    choice
                } else {
                    f32::MIN
                }
            };
            let mut choices: Vec<f32> = scores.iter().enumerate().map(of_choice).collect();
            if let Some(groups) = self.groups {
                let each = experts / groups.count;
                let rank = |group: &[f32]| {
                    let mut sorted = group.to_vec();
                    sorted.sort_by(|a, b| b.total_cmp(a));
                    match groups.by {
                        GroupScore::BestTwo if each > 1 => sorted[0] + sorted[1],
                        _ => sorted[0],
                    }
                };
                let ranks: Vec<f32> = choices.chunks(each).map(rank).collect();
                for group in best(&ranks).skip(groups.top).collect::<Vec<_>>() {
                    choices[group * each..][..each].fill(f32::NEG_INFINITY);
                }
            }
            let top: Vec<usize> = best(&choices).take(self.top).collect();
            let sum: f32 = top.iter().map(|&expert| scores[expert]).sum();
            let factor = if self.normalise {
                self.factor / (sum + 1e-20)
            } else {
                self.factor
            };
            weights.extend(top.iter().map(|&expert| scores[expert] * factor));
            chosen.extend(top.iter().map(|&expert| expert as u32));
        }
        let shape = (tokens, self.top);
        Ok(Choice {
            experts: Tensor::from_vec(chosen, shape, logits.device())?,
            weights: Tensor::from_vec(weights, shape, logits.device())?,
        })
    }
}

/// Places from the largest number to the smallest, the first where two are equal.
fn best(numbers: &[f32]) -> impl Iterator<Item = usize> {
    let mut places: Vec<usize> = (0..numbers.len()).collect();
    places.sort_by(|&a, &b| numbers[b].total_cmp(&numbers[a]));
    places.into_iter()
}
