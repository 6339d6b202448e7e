//! An optimiser's variables with their state.

use candle_core::backprop::GradStore;
use candle_core::{bail, DType, Device, Result, Tensor, Var};

use super::call::{compute_dtype, Call, Shared, Stepped, Weight};
use super::fused::Tables;
use super::rule::{Numbers, Rule};
use super::{composed, fused};

/// All variables of an optimiser.
#[derive(Debug)]
pub(super) struct Weights {
    name: &'static str,
    all: Vec<Weight>,
    /// Steps so far.
    step: u32,
    /// Whether kernels step them.
    is_fused: bool,
    tables: Tables,
    pub(super) norm: Option<Tensor>,
}

impl Weights {
    pub(super) fn new(
        name: &'static str,
        vars: Vec<Var>,
        rule: Rule,
        shared: &Shared,
    ) -> Result<Self> {
        let vars: Vec<Var> = vars
            .into_iter()
            .filter(|var| var.dtype().is_float())
            .collect();
        if let Some(most) = shared.max_norm.filter(|most| *most <= 0.0 || most.is_nan()) {
            bail!("{name}: gradients clipped to a norm of {most}: it must be above 0, or None");
        }
        for (i, var) in vars.iter().enumerate() {
            if !var.device().same_device(vars[0].device()) {
                bail!(
                    "{name}: variable {i} of shape {:?} is on {:?}, and the first on {:?}: make an optimiser for each",
                    var.shape(),
                    var.device().location(),
                    vars[0].device().location()
                );
            }
            if vars[..i].iter().any(|other| other.id() == var.id()) {
                bail!(
                    "{name}: variable {i} of shape {:?} is given twice",
                    var.shape()
                );
            }
        }
        let by_kernels = |var: &Var| {
            matches!(var.device(), Device::Cuda(_))
                && matches!(var.dtype(), DType::F32 | DType::F16 | DType::BF16)
                && var.is_contiguous()
        };
        let is_fused = vars.iter().all(by_kernels);
        let weight = |var: Var| -> Result<Weight> {
            let dtype = compute_dtype(var.dtype());
            let zeros = || Var::zeros(var.shape(), dtype, var.device());
            let states = (0..rule.states()).map(|_| zeros()).collect::<Result<_>>()?;
            let master = (shared.masters && var.dtype().size_in_bytes() < 4)
                .then(|| Var::from_tensor(&var.as_detached_tensor().to_dtype(dtype)?))
                .transpose()?;
            Ok(Weight {
                var,
                states,
                master,
            })
        };
        Ok(Self {
            name,
            all: vars.into_iter().map(weight).collect::<Result<_>>()?,
            step: 0,
            is_fused,
            tables: Tables::default(),
            norm: None,
        })
    }

    pub(super) fn into_vars(self) -> Vec<Var> {
        self.all.into_iter().map(|weight| weight.var).collect()
    }

    pub(super) fn step(
        &mut self,
        gradients: &GradStore,
        rule: Rule,
        shared: &Shared,
        numbers: impl FnOnce(u32) -> Numbers,
    ) -> Result<()> {
        self.step += 1;
        let numbers = numbers(self.step);
        let mut stepped: Vec<Stepped> = Vec::new();
        for weight in &self.all {
            let Some(gradient) = gradients.get(&weight.var) else {
                continue;
            };
            let var = &weight.var;
            if gradient.dtype() != var.dtype() || gradient.shape() != var.shape() {
                bail!(
                    "{}: a gradient of shape {:?} and {:?} for a variable of shape {:?} and {:?}",
                    self.name,
                    gradient.shape(),
                    gradient.dtype(),
                    var.shape(),
                    var.dtype()
                );
            }
            if var.elem_count() > 0 {
                stepped.push((weight, gradient.contiguous()?));
            }
        }
        if stepped.is_empty() {
            return Ok(());
        }
        let call = Call {
            name: self.name,
            rule,
            numbers,
            shared,
            step: self.step,
        };
        self.norm = match self.is_fused {
            true => fused::step(&call, &stepped, &mut self.tables)?,
            false => composed::step(&call, &mut stepped)?,
        };
        Ok(())
    }
}
