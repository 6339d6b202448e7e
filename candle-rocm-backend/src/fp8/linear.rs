//! Products with weights in FP8 and activations as they are: half of the bytes that decoding reads, and no cast of
//! activations.

use candle_core::{bail, CudaDevice, DType, Device, Result, Tensor};
use candle_rocm_kernels::{matmul, skinny, FP8_WEIGHTS};
use candle_rocm_runtime::LaunchConfig;

use super::matrix::{Fp8Matrix, Share, WeightFactors};
use crate::ops::launch::{allocate, compute_units, grid, int, launch, Arg};
use crate::ops::node::plain;
use crate::ops::normed_linear::{is_vectors, skinny_grid, MOST_BYTES, VECTOR_BYTES};
use crate::ops::operands::{check_device, check_float, check_vector, Rows};
use crate::ops::{self, Activation};

/// Weights that a kernel reads at a time, and rows that it takes together.
const VECTOR: usize = 16;

/// x times the transpose of the weights, plus `bias`, plus `residual`: what the weights stand for is multiplied, and
/// activations are not cast.
///
/// `x` is (..., k), `weight` (n, k), `bias` a vector of n, `residual` and the result (..., n), all but the weights of one
/// dtype: f16, bf16, f32 or f64.
///
/// On a GPU, where rows are as few as in decoding, of 16 bits and not part of a gradient, one launch reads the weights as
/// they are: up to [`most_rows`]. Elsewhere they are widened to x's type, in memory for the time of the product. Where
/// rows are many and the GPU multiplies FP8 as it is ([`is_native`]), [`cast_per_token`](super::cast_per_token) and
/// [`gemm_nt`](super::gemm_nt) are faster, and round activations to FP8.
///
/// # Errors
/// As [`ops::linear`]; weights of a batch.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// use candle_rocm_backend::fp8;
///
/// let device = Device::new_cuda(0)?;
/// let x = Tensor::randn(0f32, 1., (1, 256), &device)?.to_dtype(DType::BF16)?;
/// let weight = Tensor::randn(0f32, 0.02, (128, 256), &device)?;
/// let weight = fp8::cast_per_block(&weight, fp8::ScaleFormat::F32)?;
/// assert_eq!(fp8::linear(&x, &weight, None, None)?.dims(), [1, 128]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn linear(
    x: &Tensor,
    weight: &Fp8Matrix,
    bias: Option<&Tensor>,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    let call = Call {
        name: "fp8::linear",
        x,
        norm: None,
        weight,
        bias,
        residual,
        gated: false,
    };
    if let Some(result) = call.fused()? {
        return Ok(result);
    }
    let weight = weight.dequantize(x.dtype())?;
    ops::linear(x, &weight, bias, Activation::None, residual)
}

/// [`linear`] of [`ops::rms_norm`]: rms_norm(x) * weight^T + bias, in one launch where [`linear`] is. `norm` is a vector
/// of k.
///
/// # Errors
/// As [`ops::normed_linear`]; weights of a batch.
pub fn normed_linear(
    x: &Tensor,
    norm: &Tensor,
    epsilon: f64,
    weight: &Fp8Matrix,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let call = Call {
        name: "fp8::normed_linear",
        x,
        norm: Some((norm, epsilon)),
        weight,
        bias,
        residual: None,
        gated: false,
    };
    if let Some(result) = call.fused()? {
        return Ok(result);
    }
    let weight = weight.dequantize(x.dtype())?;
    ops::normed_linear(x, norm, epsilon, &weight, bias)
}

/// [`ops::swiglu_packed`] of [`normed_linear`]: silu(gate) * up, where gate and up are the products of rms_norm(x) with
/// the first and the second half of the rows of `weight`, (2 n, k); the result is (..., n).
///
/// # Errors
/// As [`ops::normed_swiglu`]; weights of a batch.
pub fn normed_swiglu(
    x: &Tensor,
    norm: &Tensor,
    epsilon: f64,
    weight: &Fp8Matrix,
) -> Result<Tensor> {
    let call = Call {
        name: "fp8::normed_swiglu",
        x,
        norm: Some((norm, epsilon)),
        weight,
        bias: None,
        residual: None,
        gated: true,
    };
    if let Some(result) = call.fused()? {
        return Ok(result);
    }
    let weight = weight.dequantize(x.dtype())?;
    ops::normed_swiglu(x, norm, epsilon, &weight)
}

/// Whether matrix units of `device` multiply FP8 as it is, twice as fast as 16 bits: those of gfx942, gfx950, gfx1200 and
/// gfx1201.
pub fn is_native(device: &Device) -> bool {
    let Device::Cuda(device) = device else {
        return false;
    };
    candle_rocm_kernels::grouped::multiplies_fp8(device.cuda_stream().context().info().processor)
}

/// Rows of `dtype` up to which [`linear`] and its kin read the weights as they are, in one launch: 0 where no kernel does.
pub fn most_rows(device: &Device, dtype: DType) -> usize {
    let Device::Cuda(device) = device else {
        return 0;
    };
    shape_of(device, dtype, false).map_or(0, |shape| shape.columns as usize)
}

/// The measures of the kernels for activations of this type, normed or not; none of other than 16 bits.
fn shape_of(device: &CudaDevice, dtype: DType, norms: bool) -> Option<skinny::Shape> {
    let processor = device.cuda_stream().context().info().processor;
    skinny::of_fp8_weights(processor, of_16_bits(dtype)?, norms)
}

/// The kernels' name of a type that they have columns of.
fn of_16_bits(dtype: DType) -> Option<matmul::Dtype> {
    match dtype {
        DType::F16 => Some(matmul::Dtype::F16),
        DType::BF16 => Some(matmul::Dtype::BF16),
        _ => None,
    }
}

struct Call<'a> {
    name: &'static str,
    x: &'a Tensor,
    norm: Option<(&'a Tensor, f64)>,
    weight: &'a Fp8Matrix,
    bias: Option<&'a Tensor>,
    residual: Option<&'a Tensor>,
    /// Whether the first half of the weight's rows are gates of the second.
    gated: bool,
}

/// What a launch has of the call.
struct Sizes {
    shape: skinny::Shape,
    factors: WeightFactors,
    /// Of the result, of x, and elements of both x and the weights.
    rows: usize,
    count: usize,
    k: usize,
}

impl Call<'_> {
    /// The result, if there is a kernel for it.
    fn fused(&self) -> Result<Option<Tensor>> {
        check_float(self.name, self.x)?;
        check_device(self.name, "weight", self.weight.data(), self.x)?;
        if let Some((norm, _)) = self.norm {
            check_vector(self.name, "norm", norm, self.x)?;
        }
        let Rows { count, columns: k } = Rows::of(self.name, self.x)?;
        let &[of_weight, weight_k] = self.weight.data().dims() else {
            bail!(
                "{}: weights of shape {:?}: they must be one matrix, (n, k)",
                self.name,
                self.weight.data().shape()
            );
        };
        let Device::Cuda(device) = self.x.device() else {
            return Ok(None);
        };
        let rows = if self.gated { of_weight / 2 } else { of_weight };
        let (Some(shape), Some(factors)) = (
            shape_of(device, self.x.dtype(), self.norm.is_some()),
            self.weight.weight_factors(),
        ) else {
            return Ok(None);
        };
        // Each half's rows begin with one that shares its factor with those that a warp takes with it.
        let whole = k.is_multiple_of(VECTOR) && !(self.gated && of_weight % (2 * VECTOR) != 0);
        let fits = weight_k == k
            && of_weight * k < MOST_BYTES
            && count * k * rows > 0
            && count <= shape.columns as usize;
        if !whole || !fits || !self.operands_fit(rows) {
            return Ok(None);
        }
        let sizes = Sizes {
            shape,
            factors,
            rows,
            count,
            k,
        };
        self.launch(device, &sizes).map(Some)
    }

    /// Whether all operands are as kernels read them: the errors of others are those of the operators one by one.
    fn operands_fit(&self, rows: usize) -> bool {
        let as_x = |operand: &Tensor| {
            operand.device().same_device(self.x.device())
                && operand.dtype() == self.x.dtype()
                && !operand.track_op()
                && is_vectors(operand)
        };
        let data = self.weight.data();
        // Rows that a warp takes together share their factors.
        let shares = self.weight.shares()[0] != Share::One;
        let whole_weight = data.layout().start_offset().is_multiple_of(VECTOR_BYTES);
        let of_result = |residual: &Tensor| residual.dims() == self.result_dims(rows);
        whole_weight
            && shares
            && as_x(self.x)
            && self.norm.is_none_or(|(norm, _)| as_x(norm))
            && self
                .bias
                .is_none_or(|bias| as_x(bias) && bias.dims() == [rows])
            && self
                .residual
                .is_none_or(|residual| as_x(residual) && of_result(residual))
    }

    fn launch(&self, device: &CudaDevice, sizes: &Sizes) -> Result<Tensor> {
        let &Sizes {
            shape,
            factors,
            rows,
            count,
            k,
        } = sizes;
        let dtype = self.x.dtype();
        let of_weight = if self.gated { 2 * rows } else { rows };
        let streamed = self.streamed(device, sizes)?;
        let (config, log2_slice_k) = match streamed {
            Some(config) => (config, 0),
            None => skinny_grid(device, shape, of_weight, k)?,
        };
        let mut result = allocate(device, dtype, count * rows)?;
        let mut args = vec![Arg::Read(Some(self.x))];
        if let Some((norm, epsilon)) = self.norm {
            args.extend([Arg::Read(Some(norm)), Arg::Float(epsilon as f32)]);
        }
        args.extend([
            Arg::Read(Some(self.weight.data())),
            Arg::Within(self.weight.scales()),
            Arg::Int(factors.row_step),
            Arg::Int(factors.k_step),
            Arg::Int(factors.row_shift),
            Arg::Int(int(self.name, "rows", rows)?),
            Arg::Int(int(self.name, "columns", count)?),
            Arg::Int(int(self.name, "elements", k)?),
            Arg::Int(log2_slice_k),
        ]);
        let kind = match (self.norm.is_some(), self.gated) {
            (_, true) => "gated",
            (true, false) => "normed",
            (false, false) => "linear",
        };
        if !self.gated {
            args.push(Arg::Read(self.bias));
        }
        if kind == "linear" {
            args.push(Arg::Read(self.residual));
        }
        args.push(Arg::Write(&mut result));
        let by = if streamed.is_some() { "streamed_" } else { "" };
        let kernel = format!("{by}{kind}_fp8_{}", dtype.as_str());
        // SAFETY: the kernel's arguments: contiguous, of whole vectors, and of the shapes that were looked at.
        unsafe { launch(device, &FP8_WEIGHTS, &kernel, config, args)? };
        Ok(plain(result, &self.result_dims(rows).into()))
    }

    /// The grid of workgroups that go from tile to tile, and their LDS, for a column alone where kernels take it so.
    fn streamed(&self, device: &CudaDevice, sizes: &Sizes) -> Result<Option<LaunchConfig>> {
        let Some(dtype) = of_16_bits(self.x.dtype()).filter(|_| sizes.count == 1) else {
            return Ok(None);
        };
        let processor = device.cuda_stream().context().info().processor;
        let elements = int(self.name, "elements", sizes.k)?;
        let form = (self.norm.is_some(), self.gated);
        let Some(stream) = skinny::stream_of_fp8_weights(processor, dtype, elements, form) else {
            return Ok(None);
        };
        let tiles = sizes.rows.div_ceil(stream.rows as usize);
        let workgroups = tiles.min(compute_units(device) * stream.resident as usize);
        Ok(Some(LaunchConfig {
            shared_mem_bytes: stream.dynamic_lds,
            ..grid(workgroups, 1, skinny::THREADS)?
        }))
    }

    /// x's, whose last is the number of rows of the product.
    fn result_dims(&self, rows: usize) -> Vec<usize> {
        let mut dims = self.x.dims().to_vec();
        dims.splice(dims.len().saturating_sub(1).., [rows]);
        dims
    }
}
