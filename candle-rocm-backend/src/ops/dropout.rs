//! Dropout without a mask in memory.

use candle_core::{bail, CudaStorage, DType, Device, Result, Tensor};
use candle_rocm_kernels::DROPOUT;

use super::launch::{allocate, launch, work_grid, Arg};
use super::node::{plain, result_of};
use super::operands::{check_float, empty, on_gpu, wide};
use crate::philox::{bits16, Kind};

const NAME: &str = "dropout";
/// Elements for which a block of random words is drawn (kernels/random/dropout.cu).
const ELEMENTS: usize = 8;
/// Of 2^16 numbers, those below p times as many drop an element.
const NUMBERS: f64 = 65536.0;

/// `x` with elements dropped with probability `p`, and the others divided by the probability that they are not.
///
/// `x` is f16, bf16, f32 or f64 and of any shape; the result has its shape and dtype. Whether an element is dropped depends
/// on the seed and on its number among x's elements alone, on every device: the gradient draws the same mask anew, and
/// none is in memory. Give each call of each step a seed of its own. `p` is rounded to a multiple of 2^-16.
///
/// Srivastava et al.: "Dropout: a simple way to prevent neural networks from overfitting", JMLR 2014.
///
/// # Errors
/// Another dtype, a probability that is not from 0 to below 1, or a failed launch; each names the operator.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// let x = Tensor::ones(1000, DType::F32, &Device::new_cuda(0)?)?;
/// let y = candle_rocm_backend::ops::dropout(&x, 0.5, 7)?.to_vec1::<f32>()?;
/// assert!(y.iter().all(|&y| y == 0. || y == 2.));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn dropout(x: &Tensor, p: f64, seed: u64) -> Result<Tensor> {
    check_float(NAME, x)?;
    if !(0.0..1.0).contains(&p) {
        bail!("{NAME}: a probability of {p}: it must be from 0 to below 1");
    }
    let mask = Mask {
        // Nothing is divided by 0.
        threshold: ((p * NUMBERS).round() as u32).min(NUMBERS as u32 - 1),
        seed,
    };
    if mask.threshold == 0 {
        return Ok(x.clone());
    }
    if x.elem_count() == 0 {
        return empty(x, x.shape());
    }
    if !on_gpu(x) {
        return (wide(x)? * mask.on_host(x)?)?.to_dtype(x.dtype());
    }
    let x = x.contiguous()?;
    let result = mask.apply(&x)?;
    let backward = move |_: &[&Tensor], _: &Tensor, gradient: &Tensor| {
        Ok(vec![Some(plain(mask.apply(gradient)?, gradient.shape()))])
    };
    result_of(NAME, &[&x], result, x.shape(), Box::new(backward))
}

#[derive(Clone, Copy)]
struct Mask {
    threshold: u32,
    seed: u64,
}

impl Mask {
    fn scale(self) -> f64 {
        NUMBERS / (NUMBERS - f64::from(self.threshold))
    }

    /// x, which is contiguous, times the mask.
    fn apply(self, x: &Tensor) -> Result<CudaStorage> {
        let Device::Cuda(device) = x.device() else {
            bail!("{NAME}: x is not on a GPU");
        };
        let count = x.elem_count();
        let mut result = allocate(device, x.dtype(), count)?;
        let args = vec![
            Arg::Read(Some(x)),
            Arg::Write(&mut result),
            Arg::Long(count),
            Arg::Long(self.seed as usize),
            Arg::Int(self.threshold),
            Arg::Double(self.scale()),
        ];
        let kernel = format!("dropout_{}", x.dtype().as_str());
        let config = work_grid(device, count.div_ceil(ELEMENTS))?;
        // SAFETY: the kernel's arguments (tests/contract.rs); `result` has x's elements.
        unsafe { launch(device, &DROPOUT, &kernel, config, args) }?;
        Ok(result)
    }

    /// The factors of x's elements, of its dtype and on its device.
    fn on_host(self, x: &Tensor) -> Result<Tensor> {
        let blocks = x.elem_count().div_ceil(ELEMENTS) as u64;
        let bits = (0..blocks).flat_map(|block| bits16(self.seed, Kind::Dropout, block, 0));
        let factor = |bits: u16| match u32::from(bits) < self.threshold {
            true => 0.0,
            false => self.scale(),
        };
        let factors: Vec<f64> = bits.map(factor).take(x.elem_count()).collect();
        let factors = Tensor::from_vec(factors, x.shape(), &Device::Cpu)?;
        // 16 bits would round the factor before the product.
        let wide = match x.dtype() {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        factors.to_dtype(wide)?.to_device(x.device())
    }
}
