//! Cases as they are added, and their inputs.

use candle_core::{DType, Result, Tensor};

use crate::case::{Case, Input};
use crate::numbers::Numbers;

/// Cases, as the modules add them.
#[derive(Default)]
pub(crate) struct List {
    pub(crate) cases: Vec<Case>,
}

impl List {
    /// A case whose name is the operator and what it is applied to.
    pub(crate) fn add(
        &mut self,
        operator: &'static str,
        what: impl std::fmt::Display,
        inputs: Vec<Input>,
        run: impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
    ) -> &mut Case {
        self.cases.push(Case {
            name: format!("{operator} {what}"),
            operator,
            inputs,
            run: Box::new(run),
            truth: None,
        });
        self.cases.last_mut().expect("the case just added")
    }
}

impl Case {
    /// Another definition for the truth.
    pub(crate) fn truth_by(
        &mut self,
        truth: impl Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
    ) {
        self.truth = Some(Box::new(truth));
    }
}

/// Numbers of [`Numbers::any`] as an input.
pub(crate) fn any(dtype: DType, seed: u64, dims: &[usize]) -> Result<Input> {
    input(
        &Numbers::any(dtype, seed, dims.iter().product()),
        dtype,
        dims,
    )
}

/// These numbers as an input.
pub(crate) fn input(numbers: &Numbers, dtype: DType, dims: &[usize]) -> Result<Input> {
    Ok(Input::Number(numbers.tensor(dtype, dims)?))
}

/// A dtype's name in the names of cases.
pub(crate) fn name(dtype: DType) -> &'static str {
    dtype.as_str()
}
