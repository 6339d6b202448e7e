//! Training with a copy of the model at each rank: gradients averaged over the ranks, in buckets.

use candle_core::backprop::GradStore;
use candle_core::{bail, DType, Device, Result, Tensor, Var};
use candle_nn::VarMap;
use candle_rocm_runtime::communication::ReduceOp;

use super::rank::Rank;
use crate::ops;

/// Bytes of a bucket, unless others are asked for. Gradients of as many and more travel by themselves.
const BUCKET_BYTES: usize = 4 << 20;

/// The gradients of the same variables at all ranks, each of which has a batch of its own.
///
/// Gradients become their mean over the ranks, the same bits at each. Small ones travel together: a bucket is one
/// concatenation and one all-reduce. Of a rank that [`Rank::join_beside`] made, the reductions of large gradients begin when
/// the GPU has computed them, last variable first, while it goes on with the backward pass.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// use candle_core::{DType, Device, Var};
/// use candle_rocm_backend::communication::{Gradients, Rank};
///
/// let device = Device::new_cuda(0)?;
/// let w = Var::ones(3, DType::F32, &device)?;
/// let rank = Rank::join_beside(&device, 0, 1, Rank::new_id()?)?;
/// let mut gradients = Gradients::new(rank, vec![w.clone()])?;
/// gradients.take_variables(0)?;
/// let loss = w.sqr()?.sum_all()?;
/// let mut of_batch = loss.backward()?;
/// gradients.average(&mut of_batch)?;
/// assert_eq!(of_batch.get(&w).unwrap().to_vec1::<f32>()?, [2., 2., 2.]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Gradients {
    rank: Rank,
    /// With their names, or numbers.
    vars: Vec<(String, Var)>,
    bucket_bytes: usize,
    /// Which variables have gradients, known from the first step on.
    present: Option<Vec<bool>>,
}

impl Gradients {
    /// Of these variables, which all ranks give in one order: `VarMap::all_vars` has another in each process, for which there
    /// is [`Gradients::of_map`]. Waits for the GPU.
    ///
    /// # Errors
    /// A variable is on another device than the rank; the ranks' variables differ in number, shape or dtype; or a rank is
    /// gone.
    pub fn new(rank: Rank, vars: Vec<Var>) -> Result<Self> {
        let vars = vars.into_iter().enumerate();
        Self::of(rank, vars.map(|(n, var)| (n.to_string(), var)).collect())
    }

    /// Of a map's variables, by their names.
    ///
    /// # Errors
    /// As [`Gradients::new`]; names differ.
    pub fn of_map(rank: Rank, vars: &VarMap) -> Result<Self> {
        let Ok(vars) = vars.data().lock() else {
            bail!("Gradients::of_map: a thread that used the map panicked");
        };
        let named = vars.iter().map(|(name, var)| (name.clone(), var.clone()));
        let mut vars: Vec<(String, Var)> = named.collect();
        vars.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self::of(rank, vars)
    }

    fn of(rank: Rank, vars: Vec<(String, Var)>) -> Result<Self> {
        for (name, var) in &vars {
            if !var.device().same_device(&rank.device()) {
                bail!(
                    "Gradients: variable {name} is on {:?}, and {rank:?} on {:?}",
                    var.device().location(),
                    rank.device().location()
                );
            }
        }
        let all = vec![true; vars.len()];
        let gradients = Self {
            rank,
            vars,
            bucket_bytes: BUCKET_BYTES,
            present: None,
        };
        gradients.agree(&all)?;
        Ok(gradients)
    }

    /// The same with buckets of so many bytes.
    pub fn with_bucket_bytes(self, bucket_bytes: usize) -> Self {
        Self {
            bucket_bytes,
            ..self
        }
    }

    /// This rank of them.
    pub fn rank(&self) -> &Rank {
        &self.rank
    }

    /// Sets all variables to those of rank `root`, from which training then starts everywhere.
    ///
    /// # Errors
    /// There is no such rank, one is gone, or a variable has a dtype that ranks do not exchange.
    pub fn take_variables(&self, root: usize) -> Result<()> {
        for (_, var) in &self.vars {
            let tensor = Some(var.as_tensor());
            let of_root = self
                .rank
                .broadcast(tensor, var.shape(), var.dtype(), root)?;
            var.set(&of_root)?;
        }
        Ok(())
    }

    /// Replaces each variable's gradient by its mean over the ranks. A variable may have none, at all ranks alike: it has none
    /// then. Of f16 and bf16 the sum is made in f32, and rounded once.
    ///
    /// The first call waits for the GPU. The others return when their work is given to the rank's stream, and work that uses
    /// the gradients waits for it.
    ///
    /// # Errors
    /// A variable has a gradient and had none in the first call, at this rank or at another, or the reverse; a dtype that
    /// ranks do not exchange; or a rank is gone.
    pub fn average(&mut self, gradients: &mut GradStore) -> Result<()> {
        self.check_present(gradients)?;
        let mut packed: Vec<(DType, Vec<&Var>, usize)> = Vec::new();
        // The backward pass comes to the last ones first.
        for (_, var) in self.vars.iter().rev() {
            let Some(gradient) = gradients.get(var) else {
                continue;
            };
            let bytes = gradient.elem_count() * gradient.dtype().size_in_bytes();
            if bytes >= self.bucket_bytes {
                let mean = self.rank.all_reduce(gradient, ReduceOp::Avg)?;
                gradients.insert(var, mean);
                continue;
            }
            let dtype = gradient.dtype();
            let fits = |(of, _, filled): &&mut (DType, Vec<&Var>, usize)| {
                *of == dtype && *filled + bytes <= self.bucket_bytes
            };
            match packed.iter_mut().rev().find(fits) {
                Some((_, bucket, filled)) => {
                    bucket.push(var);
                    *filled += bytes;
                }
                None => packed.push((dtype, vec![var], bytes)),
            }
        }
        // Behind the large ones, as a concatenation waits for the whole backward pass.
        for (_, bucket, _) in packed {
            self.average_bucket(&bucket, gradients)?;
        }
        Ok(())
    }

    /// The means of these variables' gradients, of one dtype, by one all-reduce; they stay in its memory.
    fn average_bucket(&self, bucket: &[&Var], gradients: &mut GradStore) -> Result<()> {
        let flat = |var: &&Var| match gradients.get(var) {
            Some(gradient) => gradient.flatten_all(),
            None => bail!("Gradients::average: a gradient is gone"),
        };
        let flat: Vec<Tensor> = bucket.iter().map(flat).collect::<Result<_>>()?;
        let means = self.rank.all_reduce(&ops::cat(&flat, 0)?, ReduceOp::Avg)?;
        let mut first = 0;
        for var in bucket {
            let count = var.elem_count();
            let mean = means.narrow(0, first, count)?.reshape(var.shape())?;
            gradients.insert(var, mean);
            first += count;
        }
        Ok(())
    }

    /// That the same variables have gradients as in the first step, and, in that, at all ranks.
    fn check_present(&mut self, gradients: &GradStore) -> Result<()> {
        let has_gradient = |(_, var): &(String, Var)| gradients.get(var).is_some();
        let found: Vec<bool> = self.vars.iter().map(has_gradient).collect();
        let Some(before) = &self.present else {
            self.agree(&found)?;
            self.present = Some(found);
            return Ok(());
        };
        if let Some(n) = (0..found.len()).find(|n| found[*n] != before[*n]) {
            let [now, then] = [found[n], before[n]].map(|has| if has { "a" } else { "no" });
            bail!(
                "Gradients::average: variable {} of shape {:?} has {now} gradient, and had {then} gradient in the first step: ranks \
                 must have gradients of the same variables in all steps",
                self.vars[n].0,
                self.vars[n].1.shape()
            );
        }
        Ok(())
    }

    /// That all ranks have these variables, of which these have gradients.
    fn agree(&self, present: &[bool]) -> Result<()> {
        let digests: Vec<i64> = self.vars.iter().zip(present).map(digest).collect();
        let counts = self.gathered(&[digests.len() as i64])?;
        let own = self.rank.number();
        if let Some(other) = counts.iter().position(|count| *count != counts[own]) {
            bail!(
                "rank {other} has {} variables, and rank {own} {}: all ranks give the same, in one order",
                counts[other][0],
                counts[own][0]
            );
        }
        if digests.is_empty() {
            return Ok(());
        }
        for (other, of_rank) in self.gathered(&digests)?.iter().enumerate() {
            let differs = |n: &usize| of_rank[*n] != digests[*n];
            if let Some(n) = (0..digests.len()).find(differs) {
                let (name, var) = &self.vars[n];
                bail!(
                    "variable {name} of rank {other} is another than rank {own}'s, {:?} of {:?} with {} gradient: all ranks \
                     give the same, in one order",
                    var.shape(),
                    var.dtype(),
                    if present[n] { "a" } else { "no" }
                );
            }
        }
        Ok(())
    }

    fn gathered(&self, numbers: &[i64]) -> Result<Vec<Vec<i64>>> {
        let own = Tensor::new(numbers, &Device::Cpu)?.to_device(&self.rank.device())?;
        self.rank.all_gather(&own)?.to_vec2()
    }
}

/// A number that other names, shapes and dtypes have not (FNV-1a), and whether there is a gradient.
fn digest(((name, var), present): (&(String, Var), &bool)) -> i64 {
    let words = name.bytes().chain(var.dtype().as_str().bytes());
    let of_shape = var.dims().iter().map(|size| *size as u64);
    let all = words
        .map(u64::from)
        .chain(of_shape)
        .chain([u64::from(*present)]);
    let step = |hash: u64, number: u64| (hash ^ number).wrapping_mul(0x0100_0000_01b3);
    all.fold(0xcbf2_9ce4_8422_2325, step) as i64
}
