//! What an operator costs the CPU: chains of operators on tensors so small that the GPU keeps up.

use std::time::Instant;

use anyhow::{Context, Result};
use candle_core::{DType, Tensor};
use candle_nn::ops;
use candle_rocm_bench_protocol::{Case, HostTimes, Settings};

use crate::data::Range;
use crate::gpu::Gpu;

/// One link of a chain, from a matrix, most of them 4 x 4, to the next.
type Link = fn(&Tensor, &Tensor) -> candle_core::Result<Tensor>;

/// A link with what it holds.
pub type Made = Box<dyn Fn(&Tensor) -> candle_core::Result<Tensor>>;

/// The first tensor is the chain's, the second one stays the same.
const LINKS: &[(&str, Link)] = &[
    ("affine", |x, _| x.affine(0.5, 0.25)),
    ("add", |x, y| x + y),
    ("exp", |x, _| x.neg()?.exp()),
    ("cast", |x, _| x.to_dtype(DType::F16)?.to_dtype(DType::F32)),
    ("transpose", |x, _| x.t()?.contiguous()),
    ("add_transposed", |x, y| x.t()? + y),
    ("broadcast_add", |x, y| x.broadcast_add(&y.narrow(0, 0, 1)?)),
    ("sum", |x, _| {
        x.sum_keepdim(1)?.broadcast_as((4, 4))?.contiguous()
    }),
    ("softmax", |x, _| ops::softmax_last_dim(x)),
    ("rms_norm", |x, y| ops::rms_norm(x, &y.get(0)?, 1e-5)),
    ("matmul", |x, y| x.matmul(y)),
    // A layer in small: what a model enqueues between two synchronisations.
    ("layer", |x, y| {
        let normed = ops::rms_norm(x, &y.get(0)?, 1e-5)?;
        let scores = ops::softmax_last_dim(&normed.matmul(y)?.affine(0.5, 0.)?)?;
        let mixed = (scores.matmul(x)? + x)?;
        mixed.silu()? * y
    }),
];

/// What Candle's own backend has not.
pub const OURS_ALONE: [&str; 2] = ["fp8_product", "grouped_product"];

/// How many operators a link of this name is.
fn operators(name: &str) -> usize {
    match name {
        "exp" | "cast" | "sum" => 2,
        "layer" => 8,
        _ => 1,
    }
}

/// A chain ready to be timed.
pub struct Chain {
    link: Made,
    operators: usize,
    first: Tensor,
}

/// Makes the tensors.
///
/// # Errors
/// No link has this name; Candle's.
pub fn prepare(gpu: &Gpu, case: &Case) -> Result<Chain> {
    // So small that sums of a row's numbers stay so.
    let scale = 1. / *case.dims.first().context("a chain of a matrix")? as f64;
    let tensor = |seed| {
        let dims = case.dims.as_slice();
        gpu.block
            .tensor(dims, DType::F32, Range::Positive, seed, scale)
    };
    let first = tensor(0)?;
    Ok(Chain {
        link: link(&case.op, &first, tensor(99)?)?,
        operators: operators(&case.op),
        first,
    })
}

/// The link of this name, for matrices like `first`.
fn link(name: &str, first: &Tensor, other: Tensor) -> Result<Made> {
    #[cfg(feature = "session")]
    if let Some((_, make)) = crate::scaled::LINKS.iter().find(|(of, _)| *of == name) {
        return Ok(make(first)?);
    }
    let link = LINKS.iter().find(|(of, _)| *of == name);
    let (_, link) = *link.with_context(|| format!("no link is called {name}"))?;
    Ok(Box::new(move |x| link(x, &other)))
}

impl Chain {
    /// Times the chain.
    ///
    /// # Errors
    /// Candle's.
    pub fn measure(&self, gpu: &Gpu, settings: &Settings) -> Result<HostTimes> {
        let links = (settings.chain / self.operators).max(1);
        let run = || -> Result<Tensor> {
            let mut x = self.first.clone();
            for _ in 0..links {
                x = (self.link)(&x)?;
            }
            Ok(x)
        };
        run()?;
        let mut times = HostTimes::default();
        let each = (links * self.operators) as f64;
        for _ in 0..settings.samples {
            gpu.cuda_sync()?;
            let began = Instant::now();
            let last = run()?;
            let enqueued = began.elapsed();
            gpu.cuda_sync()?;
            let finished = began.elapsed();
            drop(last);
            times.enqueue_us.push(enqueued.as_secs_f64() * 1e6 / each);
            times.finished_us.push(finished.as_secs_f64() * 1e6 / each);
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_links_have_the_same_name() {
        let names = LINKS.iter().map(|(name, _)| *name).chain(OURS_ALONE);
        let names: std::collections::HashSet<_> = names.collect();
        assert_eq!(names.len(), LINKS.len() + OURS_ALONE.len());
        #[cfg(feature = "session")]
        assert_eq!(crate::scaled::LINKS.map(|(name, _)| name), OURS_ALONE);
    }
}
