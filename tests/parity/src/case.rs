//! A case: an operator on reproducible inputs.

use candle_core::{Device, Result, Tensor};

use crate::numbers::Numbers;
use crate::recording::{hash_of, Array};

/// An operator, with everything but its tensors.
pub type Operator = Box<dyn Fn(&[Tensor]) -> Result<Tensor> + Send + Sync>;

/// A tensor that a case begins with, contiguous, on the CPU.
#[derive(Clone)]
pub enum Input {
    /// Numbers: the truth is computed from the same ones in f64, or i64.
    Number(Tensor),
    /// Indices, conditions, bytes: the truth is computed with the very same tensor.
    Fixed(Tensor),
}

impl Input {
    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        match self {
            Input::Number(tensor) | Input::Fixed(tensor) => tensor,
        }
    }
}

/// An operator on reproducible inputs.
pub struct Case {
    /// Unique: the operator, its dtype, its layout or sizes.
    pub name: String,
    /// The row of the table of tolerances.
    pub operator: &'static str,
    /// What the operator gets, before it arranges layouts.
    pub inputs: Vec<Input>,
    /// Arranges layouts and computes.
    pub run: Operator,
    /// Computes the truth instead of `run`, where the CPU has no such operator or another definition.
    pub truth: Option<Operator>,
}

impl Case {
    /// The result on a device.
    pub fn on(&self, device: &Device) -> Result<Array> {
        let inputs = self.inputs.iter();
        let inputs: Vec<Tensor> = inputs
            .map(|input| input.tensor().to_device(device))
            .collect::<Result<_>>()?;
        Array::of(&(self.run)(&inputs)?)
    }

    /// The result on the CPU, of the same numbers in f64 or i64 where they may be widened.
    pub fn truth(&self) -> Result<Numbers> {
        let widened = |input: &Input| match input {
            Input::Fixed(tensor) => Ok(tensor.clone()),
            Input::Number(tensor) => {
                let numbers = Array::of(tensor)?.numbers();
                let wide = match numbers {
                    Numbers::Floats(_) => candle_core::DType::F64,
                    Numbers::Integers(_) => candle_core::DType::I64,
                };
                numbers.tensor(wide, tensor.dims())
            }
        };
        let inputs: Vec<Tensor> = self.inputs.iter().map(widened).collect::<Result<_>>()?;
        let operator = self.truth.as_ref().unwrap_or(&self.run);
        Ok(Array::of(&operator(&inputs)?)?.numbers())
    }

    /// A number that changes with the inputs.
    pub fn fingerprint(&self) -> Result<String> {
        let arrays = self.inputs.iter().map(|input| Array::of(input.tensor()));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        Ok(format!("{:016x}", hash_of(&arrays)))
    }
}
