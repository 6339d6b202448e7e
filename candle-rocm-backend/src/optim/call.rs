//! What a step of an optimiser is.

use candle_core::{DType, Tensor, Var};

use super::rule::{Numbers, Rule};

/// Elements of a workgroup (kernels/optimizers/tensors.cuh).
pub(super) const CHUNK: usize = 8192;

/// What every optimiser takes. The default clips nothing, keeps no copies, and rounds to the nearest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared {
    /// Gradients whose norm, of all of them together, is above this are scaled down to it.
    pub max_norm: Option<f64>,
    /// Weights of f16 and bf16 have copies in f32 that steps are added to.
    pub masters: bool,
    /// bf16 weights without copies are rounded up or down by chance, by a generator of this seed: small steps are not
    /// lost, but add up in the mean.
    pub stochastic: Option<u64>,
}

/// A variable and what a rule remembers of it.
#[derive(Debug)]
pub(super) struct Weight {
    pub(super) var: Var,
    /// In the dtype in which steps are computed.
    pub(super) states: Vec<Var>,
    /// The copy in f32 of weights of 16 bits.
    pub(super) master: Option<Var>,
}

/// A weight and its gradient in a step, which is contiguous.
pub(super) type Stepped<'a> = (&'a Weight, Tensor);

/// The dtype in which a step of weights of this one is computed.
pub(super) fn compute_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// What a step is.
pub(super) struct Call<'a> {
    pub(super) name: &'static str,
    pub(super) rule: Rule,
    pub(super) numbers: Numbers,
    pub(super) shared: &'a Shared,
    pub(super) step: u32,
}
