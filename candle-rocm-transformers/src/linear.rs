//! Products with weights, dense or quantised.

use candle_core::quantized::{QMatMul, QStorage, QTensor};
use candle_core::{bail, Device, Module, Result, Tensor};

/// A product with weights of shape (n, k), transposed, as Candle's `Linear`.
#[derive(Clone, Debug)]
pub enum Linear {
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
        match weights {
            [one] => Ok(Self::Dense(one.contiguous()?)),
            several => Ok(Self::Dense(Tensor::cat(several, 0)?)),
        }
    }

    /// The same of quantised weights on `device`, which must have one format. One that is there already stays where it is;
    /// others travel once, together.
    ///
    /// # Errors
    /// As [`Linear::dense`]; several formats.
    pub fn quantized(mut weights: Vec<QTensor>, device: &Device) -> Result<Self> {
        if weights.len() == 1 {
            if let Some(one) = weights.pop_if(|one| one.device().same_device(device)) {
                return Ok(Self::Quantized(QMatMul::from_qtensor(one)?));
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
        let together = QTensor::new(storage, (rows, columns))?;
        Ok(Self::Quantized(QMatMul::from_qtensor(together)?))
    }

    /// x (rows, k) times the weights, (rows, n).
    ///
    /// # Errors
    /// Shapes, dtypes or devices do not fit, or a launch fails.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Dense(weight) => x.matmul(&weight.t()?),
            Self::Quantized(weight) => weight.forward(x),
        }
    }
}
