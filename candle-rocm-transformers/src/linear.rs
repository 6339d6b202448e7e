//! Products with weights, dense or quantised.

use candle_core::quantized::{QMatMul, QStorage, QTensor};
use candle_core::{bail, Device, Module, Result, Tensor};
use candle_rocm_backend::ops::{self, Activation};

/// A product with weights of shape (n, k), transposed, as Candle's `Linear`, and a bias of n where there is one.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Weight,
    bias: Option<Tensor>,
}

#[derive(Clone, Debug)]
enum Weight {
    /// Of the activations' dtype.
    Dense(Tensor),
    /// In a format of GGUF; activations are f32.
    Quantized(QMatMul),
}

impl Linear {
    /// One product in place of several with the same input: their results stand one after another.
    ///
    /// # Errors
    /// No weights, or of different k; the device has not the memory.
    pub fn dense(weights: &[Tensor]) -> Result<Self> {
        let weight = Weight::Dense(together(weights)?);
        Ok(Self { weight, bias: None })
    }

    /// The same with biases, a vector for each of the weights, where there are any.
    ///
    /// # Errors
    /// The device has not the memory.
    pub fn with_biases(self, biases: &[Tensor]) -> Result<Self> {
        let bias = match biases {
            [] => None,
            some => Some(together(some)?),
        };
        Ok(Self { bias, ..self })
    }

    /// As [`Linear::dense`] of quantised weights on `device`, which must have one format. One that is there already stays where it is;
    /// others travel once, together.
    ///
    /// # Errors
    /// As [`Linear::dense`]; several formats.
    pub fn quantized(mut weights: Vec<QTensor>, device: &Device) -> Result<Self> {
        if weights.len() == 1 {
            if let Some(one) = weights.pop_if(|one| one.device().same_device(device)) {
                return Self::of(one);
            }
        }
        let [first, rest @ ..] = &weights[..] else {
            bail!("a product needs weights");
        };
        let (mut rows, columns) = first.shape().dims2()?;
        let mut bytes = first.data()?;
        for weight in rest {
            let (more, k) = weight.shape().dims2()?;
            if k != columns || weight.dtype() != first.dtype() {
                bail!(
                    "quantised weights of {:?} and {:?}, and of {:?} and {:?}, are not one product's: they need one format \
                     and one k",
                    first.shape(),
                    first.dtype(),
                    weight.shape(),
                    weight.dtype()
                );
            }
            bytes.to_mut().extend_from_slice(&weight.data()?);
            rows += more;
        }
        let storage = QStorage::from_data(bytes, device, first.dtype())?;
        Self::of(QTensor::new(storage, (rows, columns))?)
    }

    fn of(weight: QTensor) -> Result<Self> {
        let weight = Weight::Quantized(QMatMul::from_qtensor(weight)?);
        Ok(Self { weight, bias: None })
    }

    /// x (rows, k) times the weights, and the bias added: (rows, n).
    ///
    /// # Errors
    /// Shapes, dtypes or devices do not fit, or a launch fails.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match (&self.weight, &self.bias) {
            (Weight::Dense(weight), None) => x.matmul(&weight.t()?),
            (Weight::Dense(weight), bias) => {
                ops::linear(x, weight, bias.as_ref(), Activation::None, None)
            }
            (Weight::Quantized(weight), None) => weight.forward(x),
            (Weight::Quantized(weight), Some(bias)) => weight.forward(x)?.broadcast_add(bias),
        }
    }
}

/// One after another in their first dimension, contiguous.
fn together(parts: &[Tensor]) -> Result<Tensor> {
    match parts {
        [one] => one.contiguous(),
        several => Tensor::cat(several, 0),
    }
}
