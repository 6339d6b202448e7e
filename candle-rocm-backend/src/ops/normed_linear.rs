//! The norm of a state and the product that reads it, in one launch where rows are few: half of what decoding launches.

use candle_core::{bail, CudaDevice, DType, Device, Result, Tensor};
use candle_rocm_kernels::{activations, matmul, skinny, SKINNY_NORMED};
use candle_rocm_runtime::LaunchConfig;

use super::activation::{swiglu_packed, Activation};
use super::launch::{allocate, compute_units, grid, int, launch, Arg};
use super::linear::linear;
use super::node::plain;
use super::norm::rms_norm;
use super::operands::{check_float, check_vector, Rows};

/// What kernels read at a time, and what addresses are multiples of.
pub(crate) const VECTOR_BYTES: usize = 16;
/// Beyond which the kernels' 32-bit offsets do not reach.
pub(crate) const MOST_BYTES: usize = 1 << 31;

/// [`linear`] of [`rms_norm`]: rms_norm(x) * weight^T + bias.
///
/// `x` is (..., k), `norm` a vector of k, `weight` (n, k) as in Candle's `Linear`, `bias` a vector of n, the result
/// (..., n); all are of one dtype: f16, bf16, f32 or f64.
///
/// On a GPU, where rows are as few as in decoding and no gradient is wanted, one launch does both: what is normed is never
/// in memory. How few depends on the GPU: one row at least, 8 or 16 in f16 and bf16 where there are matrix instructions.
///
/// # Errors
/// As [`rms_norm`] and [`linear`].
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// let device = Device::new_cuda(0)?;
/// let x = Tensor::randn(0f32, 1., (1, 64), &device)?.to_dtype(DType::F16)?;
/// let norm = Tensor::ones(64, DType::F16, &device)?;
/// let weight = Tensor::randn(0f32, 0.02, (192, 64), &device)?.to_dtype(DType::F16)?;
/// let qkv = candle_rocm_backend::ops::normed_linear(&x, &norm, 1e-5, &weight, None)?;
/// assert_eq!(qkv.dims(), [1, 192]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn normed_linear(
    x: &Tensor,
    norm: &Tensor,
    epsilon: f64,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let call = Call {
        name: "normed_linear",
        x,
        norm,
        epsilon,
        weight,
        bias,
        gated: false,
    };
    if let Some(result) = call.fused()? {
        return Ok(result);
    }
    let normed = rms_norm(x, norm, epsilon)?;
    linear(&normed, weight, bias, Activation::None, None)
}

/// [`swiglu_packed`] of [`normed_linear`]: silu(gate) * up, where gate and up are the products of rms_norm(x) with the first
/// and the second half of the rows of `weight`.
///
/// `x` is (..., k), `norm` a vector of k, `weight` (2 n, k), the result (..., n). In one launch where [`normed_linear`]
/// is, and then without rounding the products.
///
/// # Errors
/// As [`normed_linear`]; an odd number of rows.
pub fn normed_swiglu(x: &Tensor, norm: &Tensor, epsilon: f64, weight: &Tensor) -> Result<Tensor> {
    let call = Call {
        name: "normed_swiglu",
        x,
        norm,
        epsilon,
        weight,
        bias: None,
        gated: true,
    };
    if let Some(result) = call.fused()? {
        return Ok(result);
    }
    let normed = rms_norm(x, norm, epsilon)?;
    swiglu_packed(&linear(&normed, weight, None, Activation::None, None)?)
}

struct Call<'a> {
    name: &'static str,
    x: &'a Tensor,
    norm: &'a Tensor,
    epsilon: f64,
    weight: &'a Tensor,
    bias: Option<&'a Tensor>,
    /// Whether the first half of the weight's rows are gates of the second.
    gated: bool,
}

impl Call<'_> {
    /// The result, if there is a kernel for it.
    fn fused(&self) -> Result<Option<Tensor>> {
        check_float(self.name, self.x)?;
        check_vector(self.name, "norm", self.norm, self.x)?;
        let Rows { count, columns: k } = Rows::of(self.name, self.x)?;
        let Device::Cuda(device) = self.x.device() else {
            return Ok(None);
        };
        let dtype = match self.x.dtype() {
            DType::F16 => matmul::Dtype::F16,
            DType::BF16 => matmul::Dtype::BF16,
            DType::F32 => matmul::Dtype::F32,
            _ => return Ok(None),
        };
        let operands = [Some(self.x), Some(self.norm), Some(self.weight), self.bias];
        let mut operands = operands.into_iter().flatten();
        let (rows, bytes) = match self.weight.dims() {
            &[n, of_weight] if of_weight == k => (n, n * k * self.x.dtype().size_in_bytes()),
            // The error is that of the operators one by one.
            _ => return Ok(None),
        };
        let rows = if self.gated { rows / 2 } else { rows };
        let fits = !(self.gated && self.weight.dim(0)? % 2 != 0)
            && self.bias.is_none_or(|bias| bias.dims() == [rows])
            && operands.all(|operand| {
                operand.device().same_device(self.x.device())
                    && operand.dtype() == self.x.dtype()
                    && !operand.track_op()
                    && is_vectors(operand)
            });
        let stream = device.cuda_stream();
        let processor = stream.context().info().processor;
        let Some(shape) = skinny::normed(processor, dtype) else {
            return Ok(None);
        };
        let whole = (k * self.x.dtype().size_in_bytes()).is_multiple_of(VECTOR_BYTES);
        if !fits
            || !whole
            || bytes >= MOST_BYTES
            || count * k * rows == 0
            || count > shape.columns as usize
        {
            return Ok(None);
        }
        self.launch(device, shape, [rows, count, k]).map(Some)
    }

    fn launch(
        &self,
        device: &CudaDevice,
        shape: skinny::Shape,
        [rows, count, k]: [usize; 3],
    ) -> Result<Tensor> {
        let dtype = self.x.dtype();
        let (kind, of_weight) = match self.gated {
            true => ("gated_skinny", 2 * rows),
            false => ("normed_skinny", rows),
        };
        let (config, log2_slice_k) = skinny_grid(device, shape, of_weight, k)?;
        let activation = match self.gated {
            true => activations::SILU.number,
            false => activations::NONE.number,
        };
        let mut result = allocate(device, dtype, count * rows)?;
        let args = vec![
            Arg::Read(Some(self.x)),
            Arg::Read(Some(self.norm)),
            Arg::Read(Some(self.weight)),
            Arg::Read(self.bias),
            Arg::Write(&mut result),
            Arg::Int(int(self.name, "rows", rows)?),
            Arg::Int(int(self.name, "columns", count)?),
            Arg::Int(int(self.name, "elements", k)?),
            Arg::Int(activation),
            Arg::Float(self.epsilon as f32),
            Arg::Int(log2_slice_k),
        ];
        let kernel = format!("{kind}_{}", dtype.as_str());
        // SAFETY: the kernel's arguments: contiguous, of whole vectors, and of the shapes that were looked at.
        unsafe { launch(device, &SKINNY_NORMED, &kernel, config, args)? };
        let mut dims = self.x.dims().to_vec();
        if let Some(last) = dims.last_mut() {
            *last = rows;
        } else {
            bail!("{}: x is a scalar", self.name);
        }
        Ok(plain(result, &dims.into()))
    }
}

/// The grid of such a kernel for weights of so many rows, and how many of its warps share rows, as the power of two.
pub(crate) fn skinny_grid(
    device: &CudaDevice,
    shape: skinny::Shape,
    rows: usize,
    k: usize,
) -> Result<(LaunchConfig, u32)> {
    let most = shape.max_log2_slice_k(k as u64);
    let units = compute_units(device) as u64;
    let log2_slice_k = shape.log2_slice_k_of_normed(rows as u64, most, units);
    let workgroups = rows.div_ceil(shape.rows_of_workgroup(log2_slice_k) as usize);
    let config = grid(workgroups, 1, shape.threads(log2_slice_k))?;
    Ok((config, log2_slice_k))
}

/// Contiguous, and begins with a whole vector of its memory.
pub(crate) fn is_vectors(tensor: &Tensor) -> bool {
    let first = tensor.layout().start_offset() * tensor.dtype().size_in_bytes();
    tensor.is_contiguous() && first.is_multiple_of(VECTOR_BYTES)
}
