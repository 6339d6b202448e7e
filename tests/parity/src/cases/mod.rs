//! The list of cases.
//!
//! Left out is what fails in Candle's host code before a kernel is launched, on CUDA as on AMD GPUs: see
//! docs/user/candle-host-bugs.md. So there are no comparisons of i16 and i32 and no conversions to them, no `index_add` to
//! a view that begins inside its buffer, no turned weights of `conv1d`, no `gather` of fewer indices than the source
//! has in a later dimension, no sums and sorts of nothing. Left out too are indices out of range and integer division
//! by zero, which on CUDA end the process's use of the GPU.

mod casts;
mod convolution;
mod elementwise;
mod gradients;
mod indexing;
mod joining;
mod matmul;
mod quantized;
mod reduction;
mod rows;
mod sorting;

use candle_core::{DType, Result, Tensor};

use crate::case::{Case, Input};
use crate::numbers::Numbers;

/// Every case, in a fixed order, with unique names.
pub fn all() -> Result<Vec<Case>> {
    let mut list = List::default();
    elementwise::add(&mut list)?;
    casts::add(&mut list)?;
    reduction::add(&mut list)?;
    sorting::add(&mut list)?;
    indexing::add(&mut list)?;
    joining::add(&mut list)?;
    matmul::add(&mut list)?;
    convolution::add(&mut list)?;
    rows::add(&mut list)?;
    quantized::add(&mut list)?;
    gradients::add(&mut list)?;
    Ok(list.cases)
}

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

/// Arranges a long vector of [`LONG`] numbers.
pub(crate) type Layout = fn(&Tensor) -> Result<Tensor>;

/// Numbers that a layout is made of.
pub(crate) const LONG: usize = 260;

/// Layouts of many elements, contiguous or not, aligned or not.
pub(crate) const LAYOUTS: [(&str, Layout); 6] = [
    ("contiguous", |x| x.narrow(0, 0, 165)?.reshape((3, 5, 11))),
    ("a prime length from an odd offset", |x| x.narrow(0, 1, 257)),
    ("transposed", |x| {
        x.narrow(0, 0, 165)?.reshape((3, 5, 11))?.transpose(0, 2)
    }),
    ("broadcast", |x| {
        x.narrow(0, 0, 33)?
            .reshape((3, 1, 11))?
            .broadcast_as((3, 5, 11))
    }),
    ("columns from an offset", |x| {
        x.narrow(0, 0, 195)?.reshape((3, 5, 13))?.narrow(2, 2, 11)
    }),
    ("five dimensions permuted", |x| {
        x.narrow(0, 0, 144)?
            .reshape((2, 3, 2, 3, 4))?
            .permute((4, 0, 3, 1, 2))
    }),
];

/// Layouts of few elements, which are tried with fewer operators.
pub(crate) const SMALL_LAYOUTS: [(&str, Layout); 4] = [
    ("one number, broadcast", |x| {
        x.narrow(0, 3, 1)?.broadcast_as((3, 4))
    }),
    ("one element", |x| x.narrow(0, 5, 1)),
    ("no dimensions", |x| x.narrow(0, 5, 1)?.reshape(())),
    ("no elements", |x| x.narrow(0, 0, 0)?.reshape((0, 7, 3))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_have_a_tolerance() -> Result<()> {
        let mut names = std::collections::HashSet::new();
        for case in all()? {
            assert!(names.insert(case.name.clone()), "{}: twice", case.name);
            for dtype in crate::numbers::FLOATS {
                assert!(
                    crate::tolerance::of(case.operator, dtype).is_some(),
                    "{}: no tolerance",
                    case.name
                );
            }
        }
        Ok(())
    }
}
