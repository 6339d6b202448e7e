//! Tensors that stay in place, whose elements change.

use candle_core::scalar::Scalar;
use candle_core::{bail, DType, Device, Result, Tensor, WithDType};
use half::{bf16, f16};

/// Values of the host of at most so many elements may travel as kernels' arguments.
const SMALL: usize = 64;
/// They do in at most so many launches, one for each run of equal elements.
const LAUNCHES: usize = 4;

/// A tensor with memory of its own, which what is captured reads, and which is set between launches.
#[derive(Clone, Debug)]
pub struct Input {
    tensor: Tensor,
}

impl Input {
    /// A contiguous copy of `initial`, of any shape and dtype, on its device.
    ///
    /// # Errors
    /// The device refuses the copy.
    pub fn new(initial: &Tensor) -> Result<Self> {
        Ok(Self {
            tensor: initial.detach().force_contiguous()?,
        })
    }

    /// What a step reads.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Gives it the elements of `value`, from the host or from this device, after what the device was given before. Nothing
    /// is waited for.
    ///
    /// Kernels write the elements, and a few from the host are their arguments: some releases of AMD's HIP replay graphs that
    /// do not see what the copy engine wrote.
    ///
    /// # Errors
    /// `value` has another shape or dtype, or the device refuses the copy.
    pub fn set(&self, value: &Tensor) -> Result<()> {
        let (place, value) = (&self.tensor, value.detach());
        if value.shape() != place.shape() || value.dtype() != place.dtype() {
            bail!(
                "an input of shape {:?} and {:?} cannot be set to a tensor of shape {:?} and {:?}: what was captured \
                 reads the former",
                place.shape(),
                place.dtype(),
                value.shape(),
                value.dtype()
            );
        }
        if place.elem_count() == 0 {
            return Ok(());
        }
        if let (Device::Cuda(_), Device::Cpu) = (place.device(), value.device())
            && let Some(runs) = runs(&value)?
        {
            return set_runs(&place.flatten_all()?, runs);
        }
        let value = value.to_device(place.device())?.flatten_all()?;
        place.flatten_all()?.slice_set(&value.contiguous()?, 0, 0)
    }
}

/// So many elements of one value.
type Run = (usize, Scalar);

/// The elements of a tensor as runs of equal ones, if they are few and of a type that kernels fill with.
fn runs(value: &Tensor) -> Result<Option<Vec<Run>>> {
    if value.elem_count() > SMALL {
        return Ok(None);
    }
    Ok(match value.dtype() {
        DType::U8 => few(&value.flatten_all()?.to_vec1::<u8>()?, |x| u64::from(*x)),
        DType::U32 => few(&value.flatten_all()?.to_vec1::<u32>()?, |x| u64::from(*x)),
        DType::I64 => few(&value.flatten_all()?.to_vec1::<i64>()?, |x| *x as u64),
        DType::F32 => few(&value.flatten_all()?.to_vec1::<f32>()?, |x| {
            x.to_bits().into()
        }),
        DType::F16 => few(&value.flatten_all()?.to_vec1::<f16>()?, |x| {
            x.to_bits().into()
        }),
        DType::BF16 => few(&value.flatten_all()?.to_vec1::<bf16>()?, |x| {
            x.to_bits().into()
        }),
        _ => None,
    })
}

/// Runs of elements with equal bits, unless they are many.
fn few<T: WithDType>(elements: &[T], bits: impl Fn(&T) -> u64) -> Option<Vec<Run>> {
    let equal = elements.chunk_by(|x, y| bits(x) == bits(y));
    let runs: Vec<Run> = equal.map(|run| (run.len(), run[0].into())).collect();
    (runs.len() <= LAUNCHES).then_some(runs)
}

/// Sets the elements of a tensor of one dimension, run by run.
fn set_runs(place: &Tensor, runs: Vec<Run>) -> Result<()> {
    let mut first = 0;
    for (count, value) in runs {
        place.narrow(0, first, count)?.const_set(value)?;
        first += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_equal_bits_and_are_few() {
        let zeros = Tensor::new(&[0f32, -0., -0.], &Device::Cpu).unwrap();
        let lengths = |value: &Tensor| -> Option<Vec<usize>> {
            let runs = runs(value).unwrap()?;
            Some(runs.iter().map(|(count, _)| *count).collect())
        };
        assert_eq!(lengths(&zeros), Some(vec![1, 2]));
        let tokens = Tensor::new(&[7u32; 64], &Device::Cpu).unwrap();
        assert_eq!(lengths(&tokens), Some(vec![64]));
        let many = Tensor::arange(0u32, 5, &Device::Cpu).unwrap();
        assert_eq!(lengths(&many), None);
        let large = Tensor::new(&[7u32; 65], &Device::Cpu).unwrap();
        assert_eq!(lengths(&large), None);
        let places = Tensor::new(&[[1i64, 1], [2, 3]], &Device::Cpu).unwrap();
        assert_eq!(lengths(&places), Some(vec![2, 1, 1]));
    }
}
