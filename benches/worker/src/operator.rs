//! What an operator is: its inputs, how to run it, and which bytes it must move.

use anyhow::{Context, Result};
use candle_core::{DType, Tensor};

use crate::data::{Block, Range};

/// An operator on its inputs.
pub type Run = Box<dyn Fn(&[Tensor]) -> Result<Tensor>>;

/// An operator, its inputs, and what it costs at least.
pub struct Operator {
    /// What it works on.
    pub inputs: Vec<Tensor>,
    /// What it does.
    pub run: Run,
    /// Bytes that it must read and write; where `None`, all of its inputs and its result.
    pub bytes: Option<u64>,
    /// Multiplications and additions of a product, else 0.
    pub flops: u64,
}

impl Operator {
    /// One that reads its inputs once and writes its result once.
    pub fn new(
        inputs: impl Into<Vec<Tensor>>,
        run: impl Fn(&[Tensor]) -> candle_core::Result<Tensor> + 'static,
    ) -> Self {
        Self {
            inputs: inputs.into(),
            run: Box::new(move |inputs| Ok(run(inputs)?)),
            bytes: None,
            flops: 0,
        }
    }

    /// One that must move so many bytes.
    pub fn moving(self, bytes: usize) -> Self {
        Self {
            bytes: Some(bytes as u64),
            ..self
        }
    }
}

/// What makes an operator: the case, and a source of inputs on some device.
pub struct Maker<'a> {
    /// Random numbers on the device.
    pub block: &'a Block,
    /// The case's dtype.
    pub dtype: DType,
    /// The case's dimensions.
    pub dims: &'a [usize],
    /// Whether the inputs are then turned to f32, as the truth for a small case.
    pub promote: bool,
}

impl Maker<'_> {
    fn promoted(&self, x: Tensor) -> Result<Tensor> {
        Ok(if self.promote && x.dtype().is_float() {
            x.to_dtype(DType::F32)?
        } else {
            x
        })
    }

    /// Random numbers; the `seed`-th input has its own.
    pub fn values(&self, dims: &[usize], range: Range, seed: usize) -> Result<Tensor> {
        self.scaled(dims, range, seed, 1.)
    }

    /// Random numbers times `scale`.
    pub fn scaled(&self, dims: &[usize], range: Range, seed: usize, scale: f64) -> Result<Tensor> {
        let values = self
            .block
            .tensor(dims, self.dtype, range, seed * 54_321, scale)?;
        self.promoted(values)
    }

    /// Random numbers from -1 to 1, of the case's dimensions.
    ///
    /// # Errors
    /// Candle's.
    pub fn main(&self) -> Result<Tensor> {
        self.values(self.dims, Range::Signed, 0)
    }

    /// The case's dimensions, of which it has `N`.
    ///
    /// # Errors
    /// It has another number of them.
    pub fn dims<const N: usize>(&self) -> Result<[usize; N]> {
        let dims = self.dims.try_into();
        dims.with_context(|| format!("{N} dimensions are needed, not {:?}", self.dims))
    }
}

/// A tensor's bytes.
pub fn size_of(x: &Tensor) -> usize {
    x.elem_count() * x.dtype().size_in_bytes()
}
