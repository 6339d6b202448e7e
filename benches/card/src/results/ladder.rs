//! A case in several sizes, each half of the one above.

use candle_core::{DType, Result, Tensor};
use parity::case::{Case, Input};
use parity::numbers::Numbers;
use parity::tolerance::Tolerance;

/// What makes the case of a size.
pub type Make = Box<dyn Fn(usize) -> Result<Case>>;

/// A case in several sizes.
pub struct Ladder {
    /// What it is a case of: unique in its family.
    pub name: String,
    /// The size on top.
    pub top: usize,
    /// The size below which there is none.
    pub least: usize,
    /// Makes the case of a size.
    pub make: Make,
    /// Why a real GPU may have other bits; none where it may not.
    pub lawful: Option<&'static str>,
    /// How near results are to those of the CPU in f64; none where the CPU has nothing like it.
    pub tolerance: Option<Tolerance>,
}

impl Ladder {
    /// The sizes from the top, all odd but where `least` is even: each some half of the one before.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![self.top];
        let mut size = self.top;
        while size > self.least {
            size = ((size / 2) | 1).max(self.least);
            if sizes.last() == Some(&size) {
                break;
            }
            sizes.push(size);
        }
        sizes
    }
}

/// What computes a case, on any device.
pub trait Operator: Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + Copy + 'static {}
impl<F: Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + Copy + 'static> Operator for F {}

/// What a case's result is held to, where it is not the operator on the CPU.
pub type Truth = fn(&[Tensor]) -> Result<Tensor>;

/// Ladders as families add them.
#[derive(Default)]
pub struct Ladders(pub Vec<Ladder>);

/// Everything that ladders of a family have in common.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The size on top.
    pub top: usize,
    /// The size below which there is none.
    pub least: usize,
    /// Why a real GPU may have other bits.
    pub lawful: Option<&'static str>,
    /// Roundings of the dtype, of an element; of the largest; of f32, of the largest. Every operator gives its reason where
    /// it is added.
    pub tolerance: Option<[f64; 3]>,
}

impl Ladders {
    /// A ladder whose inputs `inputs` makes for a size, and whose truth is what `run` gives on the CPU in f64.
    pub fn add(
        &mut self,
        kind: Kind,
        name: impl Into<String>,
        inputs: impl Fn(usize) -> Result<Vec<Input>> + 'static,
        run: impl Operator,
    ) {
        self.add_with(kind, name, inputs, run, None);
    }

    /// As [`Ladders::add`], with another truth.
    pub fn add_with(
        &mut self,
        kind: Kind,
        name: impl Into<String>,
        inputs: impl Fn(usize) -> Result<Vec<Input>> + 'static,
        run: impl Operator,
        truth: Option<Truth>,
    ) {
        let name = name.into();
        let of_case = name.clone();
        let make = move |size| {
            Ok(Case {
                name: format!("{of_case}, size {size}"),
                operator: "ladder",
                inputs: inputs(size)?,
                run: Box::new(run),
                truth: truth.map(|truth| Box::new(truth) as _),
            })
        };
        self.0.push(Ladder {
            name,
            top: kind.top,
            least: kind.least,
            make: Box::new(make),
            lawful: kind.lawful,
            tolerance: kind.tolerance.map(|[element, largest, inside]| Tolerance {
                element,
                largest,
                inside,
            }),
        });
    }
}

/// Numbers of magnitude 0.25 to 3, or integers of all sizes, as the CPU's truth takes them in f64 or i64.
pub fn any(dtype: DType, seed: u64, dims: &[usize]) -> Result<Input> {
    let numbers = Numbers::any(dtype, seed, dims.iter().product());
    Ok(Input::Number(numbers.tensor(dtype, dims)?))
}

/// Integers of -4 to 3, or 0 to 7, whose sums of products are exact in any order.
pub fn small(dtype: DType, seed: u64, dims: &[usize]) -> Result<Input> {
    let numbers = Numbers::ties(dtype, seed, dims.iter().product());
    Ok(Input::Number(numbers.tensor(dtype, dims)?))
}

/// Numbers of [`any`] that the truth takes as they are: of what the CPU has in this dtype alone.
pub fn fixed(dtype: DType, seed: u64, dims: &[usize]) -> Result<Input> {
    let numbers = Numbers::any(dtype, seed, dims.iter().product());
    Ok(Input::Fixed(numbers.tensor(dtype, dims)?))
}

/// Indices below `limit`, u32.
pub fn indices(limit: usize, seed: u64, dims: &[usize]) -> Result<Input> {
    let mut random = candle_rocm_testing::random::Random::new(seed);
    let count = dims.iter().product();
    let all: Vec<u32> = (0..count).map(|_| random.below(limit) as u32).collect();
    Ok(Input::Fixed(Tensor::from_vec(
        all,
        dims,
        &candle_core::Device::Cpu,
    )?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_halved_to_the_least() {
        let mut ladders = Ladders::default();
        let kind = |top, least| Kind {
            top,
            least,
            lawful: None,
            tolerance: None,
        };
        ladders.add(
            kind(9, 1),
            "a",
            |size| Ok(vec![any(DType::F32, 1, &[size])?]),
            |x| Ok(x[0].clone()),
        );
        ladders.add(
            kind(64, 8),
            "b",
            |size| Ok(vec![any(DType::F32, 1, &[size])?]),
            |x| Ok(x[0].clone()),
        );
        assert_eq!(ladders.0[0].sizes(), [9, 5, 3, 1]);
        assert_eq!(ladders.0[1].sizes(), [64, 33, 17, 9, 8]);
    }
}
