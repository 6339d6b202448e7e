//! Layers over GPUs: each rank of a pipeline, a stage, has some that follow one another, and hands the state to the next.
//!
//! "GPipe" (Huang et al., 2019). A prompt is read in chunks, so that stages work at once.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{bail, DType, Result, Tensor, D};
use candle_rocm_backend::communication::Rank;
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _};

/// Tokens of a prompt that go through the stages together, unless a session says otherwise.
pub(crate) const CHUNK: usize = 512;

/// How many layers each rank of a pipeline has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shares {
    /// So many, in the order of ranks.
    Layers(Vec<usize>),
    /// So many that all GPUs' free memory is filled alike, as far as layers allow: by the weights of layers, by the embedding
    /// at the first and the head at the last, and by keys and values.
    ByMemory {
        /// Tokens that there will be keys and values of, of all sequences together.
        tokens: usize,
    },
}

/// What a model takes of GPUs' memory, in bytes or whatever is of one size.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// The weights of each layer.
    pub layers: Vec<u64>,
    /// Keys and values of a token in a layer.
    pub token: u64,
    /// What the first stage has beside layers.
    pub embedding: u64,
    /// What the last stage has beside layers.
    pub head: u64,
}

/// A rank of a pipeline.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    rank: Arc<Rank>,
    /// The layers that it has.
    layers: Range<usize>,
}

impl Stage {
    /// This rank's, after all have agreed on the shares.
    ///
    /// # Errors
    /// The shares are not of this model and these ranks; the ranks were given different ones; or one is gone.
    pub fn new(rank: &Arc<Rank>, shares: &Shares, memory: &Memory) -> Result<Self> {
        check(shares, memory.layers.len(), rank.ranks())?;
        let free = exchange(rank, shares)?;
        let layers = match shares {
            Shares::Layers(layers) => layers.clone(),
            Shares::ByMemory { tokens } => by_memory(&free, memory, *tokens as u64),
        };
        let first = layers[..rank.number()].iter().sum();
        Ok(Self {
            layers: first..first + layers[rank.number()],
            rank: rank.clone(),
        })
    }

    /// The layers that it has, by their numbers in the model.
    pub fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    /// Whether it has the embedding.
    pub fn is_first(&self) -> bool {
        self.rank.number() == 0
    }

    /// Whether it has the head.
    pub fn is_last(&self) -> bool {
        self.rank.number() == self.last()
    }

    fn last(&self) -> usize {
        self.rank.ranks() - 1
    }

    /// Its communicator.
    pub fn rank(&self) -> &Rank {
        &self.rank
    }

    /// The state (rows, hidden) from the stage before.
    pub fn receive(&self, rows: usize, hidden: usize, dtype: DType) -> Result<Tensor> {
        let before = self.rank.number().wrapping_sub(1);
        self.rank.recv((rows, hidden), dtype, before)
    }

    /// The state to the next stage, if there is one.
    pub fn hand_on(&self, state: &Tensor) -> Result<()> {
        match self.is_last() {
            true => Ok(()),
            false => self.rank.send(state, self.rank.number() + 1),
        }
    }

    /// The last stage's logits, f32 of shape (batch, vocabulary), at all stages. `found` is what this one made, (batch, ...).
    pub fn logits(&self, found: &Tensor, vocabulary: usize) -> Result<Tensor> {
        let shape = (found.dim(0)?, vocabulary);
        self.rank
            .broadcast(Some(found), shape, DType::F32, self.last())
    }

    /// The likeliest token of each sequence, u32 of shape (batch), at all stages. `found` is what this one made, (batch, ...).
    pub fn likeliest(&self, found: &Tensor) -> Result<Tensor> {
        let tokens = match self.is_last() {
            true => Some(found.argmax(D::Minus1)?),
            false => None,
        };
        let batch = found.dim(0)?;
        self.rank
            .broadcast(tokens.as_ref(), batch, DType::U32, self.last())
    }
}

/// That the shares are of so many layers and ranks.
fn check(shares: &Shares, layers: usize, ranks: usize) -> Result<()> {
    if ranks > layers {
        bail!("a pipeline of {ranks} GPUs, each with a layer at least, and the model has {layers}: take fewer GPUs");
    }
    let Shares::Layers(given) = shares else {
        return Ok(());
    };
    if given.len() != ranks {
        bail!(
            "shares of layers {given:?} are of {} GPUs, and there are {ranks}",
            given.len()
        );
    }
    if let Some(rank) = given.iter().position(|share| *share == 0) {
        bail!("shares of layers {given:?}: GPU {rank} of the pipeline has none");
    }
    let sum = given
        .iter()
        .fold(0usize, |sum, share| sum.saturating_add(*share));
    if sum != layers {
        bail!("shares of layers {given:?} are {sum}, and the model has {layers}");
    }
    Ok(())
}

/// Each GPU's free memory in bytes, once all ranks were found to be given the same shares.
fn exchange(rank: &Rank, shares: &Shares) -> Result<Vec<u64>> {
    let device = rank.device();
    let (free, _) = device.as_rocm_device()?.memory()?;
    let given: Vec<usize> = match shares {
        Shares::Layers(layers) => [&[0], &layers[..]].concat(),
        Shares::ByMemory { tokens } => [&[*tokens], &vec![0; rank.ranks()][..]].concat(),
    };
    let own = [&[free], &given[..]].concat();
    let own: Vec<i64> = own.into_iter().map(|number| number as i64).collect();
    let all = rank.all_gather(&Tensor::new(&own[..], &device)?)?;
    let all = all.to_vec2::<i64>()?;
    if let Some(other) = all.iter().position(|other| other[1..] != own[1..]) {
        bail!(
            "rank {other} of the pipeline was given other shares than rank {}, {shares:?}: give all the same",
            rank.number()
        );
    }
    Ok(all.iter().map(|of_rank| of_rank[0] as u64).collect())
}

/// Shares by which the fullest GPU is as empty as can be, and the others are filled like it.
fn by_memory(free: &[u64], memory: &Memory, tokens: u64) -> Vec<usize> {
    let (layers, ranks) = (memory.layers.len(), free.len());
    let mut before = vec![0; layers + 1];
    for (n, weights) in memory.layers.iter().enumerate() {
        before[n + 1] = before[n] + weights + memory.token * tokens;
    }
    // How full a rank is with these layers, and that in proportion to its memory.
    let filled = |rank: usize, first: usize, end: usize| {
        let beside_first = if rank == 0 { memory.embedding } else { 0 };
        let beside_last = if rank + 1 == ranks { memory.head } else { 0 };
        let bytes = (before[end] - before[first] + beside_first + beside_last) as f64;
        let full = bytes / free[rank].max(1) as f64;
        (full, full * bytes)
    };
    // Of the ranks before one, with the layers before one: the fullest, the sum of the others, and where the last begins.
    let mut best = vec![vec![(f64::INFINITY, f64::INFINITY, 0); layers + 1]; ranks + 1];
    best[0][0] = (0., 0., 0);
    for rank in 0..ranks {
        for end in rank + 1..=layers {
            for first in rank..end {
                let (fullest, sum, _) = best[rank][first];
                let (full, more) = filled(rank, first, end);
                let found = (fullest.max(full), sum + more, first);
                if found < best[rank + 1][end] {
                    best[rank + 1][end] = found;
                }
            }
        }
    }
    let mut shares = vec![0; ranks];
    let mut end = layers;
    for rank in (0..ranks).rev() {
        let (_, _, first) = best[rank + 1][end];
        shares[rank] = end - first;
        end = first;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn model(layers: usize) -> Memory {
        Memory {
            layers: vec![GIB / 2; layers],
            token: 4096,
            embedding: 0,
            head: 0,
        }
    }

    /// The largest part of a GPU that is filled, by trying all shares of three.
    fn least_of_three(free: &[u64; 3], memory: &Memory, tokens: u64) -> f64 {
        let layers = memory.layers.len();
        let full = |rank: usize, of: Range<usize>| {
            let beside = [memory.embedding, 0, memory.head][rank];
            let kept = memory.token * tokens * of.len() as u64;
            let bytes = memory.layers[of].iter().sum::<u64>() + kept + beside;
            bytes as f64 / free[rank] as f64
        };
        let mut least = f64::INFINITY;
        for second in 1..layers - 1 {
            for third in second + 1..layers {
                let of = [0..second, second..third, third..layers];
                let of = of.into_iter().enumerate().map(|(rank, of)| full(rank, of));
                least = least.min(of.fold(0., f64::max));
            }
        }
        least
    }

    #[test]
    fn shares_follow_free_memory() {
        for (free, layers, expected) in [
            (&[24, 16][..], 40, &[24, 16][..]),
            (&[16, 24], 40, &[16, 24]),
            (&[16, 16], 5, &[2, 3]),
            (&[24, 16, 8], 48, &[24, 16, 8]),
            (&[80, 1], 3, &[2, 1]),
            (&[0, 0], 2, &[1, 1]),
            (&[16], 7, &[7]),
        ] {
            let free: Vec<u64> = free.iter().map(|size| size * GIB).collect();
            let mut found = by_memory(&free, &model(layers), 0);
            assert_eq!(found.iter().sum::<usize>(), layers);
            if layers == 5 {
                found.sort_unstable();
            }
            assert_eq!(found, expected, "{free:?}");
        }
    }

    #[test]
    fn embedding_head_and_tokens_count() {
        let ends = Memory {
            embedding: 2 * GIB,
            head: GIB,
            ..model(32)
        };
        // 19 GiB: 9.5 each, of which 2 and 1 are not layers.
        assert_eq!(by_memory(&[16 * GIB; 2], &ends, 0), [15, 17]);
        // Keys and values of 1 GiB a layer: 51 GiB.
        assert_eq!(by_memory(&[64 * GIB; 2], &ends, 1 << 18), [16, 16]);
    }

    #[test]
    fn the_fullest_is_as_empty_as_can_be() {
        for (seed, free) in [[24, 16, 8], [8, 24, 16], [16, 16, 16], [5, 7, 31]]
            .into_iter()
            .enumerate()
        {
            let free = free.map(|size| size * GIB);
            // Layers of several sizes, as mixed formats have.
            let size = |n: usize| (1 + (n * 7 + seed * 5) % 4) as u64 * GIB / 8;
            let memory = Memory {
                layers: (0..13).map(size).collect(),
                token: 1024,
                embedding: GIB,
                head: GIB / 4,
            };
            let shares = by_memory(&free, &memory, 1000);
            let mut first = 0;
            let mut fullest = 0f64;
            for (rank, share) in shares.iter().enumerate() {
                let beside = [memory.embedding, 0, memory.head][rank];
                let kept = memory.token * 1000 * *share as u64;
                let of = memory.layers[first..first + share].iter().sum::<u64>();
                fullest = fullest.max((of + kept + beside) as f64 / free[rank] as f64);
                first += share;
            }
            assert_eq!(fullest, least_of_three(&free, &memory, 1000), "{shares:?}");
        }
    }

    #[test]
    fn errors_name_what_was_given() {
        let given = |layers: &[usize]| Shares::Layers(layers.to_vec());
        for (shares, layers, ranks, expected) in [
            (
                given(&[3, 2]),
                4,
                2,
                "shares of layers [3, 2] are 5, and the model has 4",
            ),
            (
                given(&[4, 0]),
                4,
                2,
                "shares of layers [4, 0]: GPU 1 of the pipeline has none",
            ),
            (
                given(&[2, 1, 1]),
                4,
                2,
                "[2, 1, 1] are of 3 GPUs, and there are 2",
            ),
            (Shares::ByMemory { tokens: 1 }, 2, 3, "a pipeline of 3 GPUs"),
            (given(&[usize::MAX, 2]), 4, 2, "the model has 4"),
        ] {
            let error = check(&shares, layers, ranks).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(check(&given(&[3, 1]), 4, 2).is_ok());
    }
}
