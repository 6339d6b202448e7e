//! A linear layer with what follows it.

use candle_core::{bail, Result, Tensor};

use super::activation::{bias_activation, Activation};
use super::operands::check_float;
use super::product::{product_with, Epilogue};

/// activation(x * weight^T + bias) + residual.
///
/// On a GPU, where no gradient is wanted, what follows the product is done by the product's own kernel, before its one
/// rounding; but for ReLU.
///
/// `x` is (..., k), `weight` (n, k) as in Candle's `Linear`, `bias` a vector of n, `residual` and the result (..., n); all
/// are of one dtype: f16, bf16, f32 or f64.
///
/// # Errors
/// Operands of other dtypes, shapes or devices, or a failed launch; each names the operator and what was found.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// use candle_rocm_backend::ops::{linear, Activation};
///
/// let device = Device::new_cuda(0)?;
/// let x = Tensor::randn(0f32, 1., (2, 16, 64), &device)?;
/// let weight = Tensor::randn(0f32, 0.02, (256, 64), &device)?;
/// let bias = Tensor::zeros(256, DType::F32, &device)?;
/// let y = linear(&x, &weight, Some(&bias), Activation::Gelu, None)?;
/// assert_eq!(y.dims(), [2, 16, 256]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn linear(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    activation: Activation,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    check_float("linear", x)?;
    let mismatch = || -> Result<Tensor> {
        bail!(
            "linear: x of shape {:?} and {:?}, and weight of shape {:?} and {:?}: they must be (..., k) and (n, k), of \
             one dtype",
            x.shape(),
            x.dtype(),
            weight.shape(),
            weight.dtype()
        )
    };
    let (Some((&k, rest)), [n, of_weight]) = (x.dims().split_last(), weight.dims()) else {
        return mismatch();
    };
    if k != *of_weight || x.dtype() != weight.dtype() {
        return mismatch();
    }
    let mut dims = rest.to_vec();
    dims.push(*n);
    for (what, operand, expected) in [("bias", bias, &[*n][..]), ("residual", residual, &dims)] {
        let Some(operand) = operand else { continue };
        if operand.dims() != expected || operand.dtype() != x.dtype() {
            bail!(
                "linear: the {what} has shape {:?} and {:?}, and must have {expected:?} and {:?}",
                operand.shape(),
                operand.dtype(),
                x.dtype()
            );
        }
    }
    let rows: usize = rest.iter().product();
    let epilogue = Epilogue {
        bias,
        activation,
        residual,
    };
    if let Some(result) = product_with(x, weight, [rows, k, *n], &epilogue)? {
        return result.reshape(dims);
    }
    let product = if rows == 0 || k == 0 || *n == 0 {
        Tensor::zeros((rows, *n), x.dtype(), x.device())?
    } else {
        x.reshape((rows, k))?.matmul(&weight.t()?)?
    };
    bias_activation(&product.reshape(dims)?, bias, activation, residual)
}
