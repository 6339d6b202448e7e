//! LayerNorm and RMSNorm over the last dimension, of a tensor or of the sum of two.

use candle_core::{bail, CudaStorage, Result, Tensor, D};
use candle_rocm_kernels::{FUSED_OPERATORS, REDUCE};

use super::launch::{
    allocate, compute_units, grid, int, launch, row_grid, sums_dtype, Arg, THREADS,
};
use super::node::{plain, result_of};
use super::operands::{
    check_float, check_same_shape, check_vector, empty, gpu, on_gpu, wide, Rows,
};

/// (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension.
///
/// `x` has rank 1 or more, and is f16, bf16, f32 or f64; `weight` and `bias` are vectors of the last dimension's size and
/// of x's dtype. `eps` is rounded to f32.
///
/// # Errors
/// Operands of other dtypes, shapes or devices, or a failed launch; each names the operator and what was found.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// let device = Device::new_cuda(0)?;
/// let x = Tensor::randn(0f32, 1., (4, 1024), &device)?;
/// let weight = Tensor::ones(1024, DType::F32, &device)?;
/// let y = candle_rocm_backend::ops::layer_norm(&x, &weight, None, 1e-5)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    let norm = Norm {
        name: "layer_norm",
        rms: false,
        eps,
    };
    norm.of(x, weight, bias)
}

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension.
///
/// Shapes, dtypes and errors are those of [`layer_norm`].
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// let device = Device::new_cuda(0)?;
/// let x = Tensor::randn(0f32, 1., (4, 1024), &device)?;
/// let weight = Tensor::ones(1024, DType::F32, &device)?;
/// let y = candle_rocm_backend::ops::rms_norm(&x, &weight, 1e-5)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let norm = Norm {
        name: "rms_norm",
        rms: true,
        eps,
    };
    norm.of(x, weight, None)
}

/// x + residual, and the [`layer_norm`] of that sum, in one pass.
///
/// The sum is rounded to x's dtype before it is normalised, as if the operators were applied one after the other.
///
/// # Errors
/// As [`layer_norm`]; x and residual must have one shape.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// let device = Device::new_cuda(0)?;
/// let x = Tensor::randn(0f32, 1., (4, 1024), &device)?;
/// let attention = Tensor::randn(0f32, 1., (4, 1024), &device)?;
/// let weight = Tensor::ones(1024, DType::F32, &device)?;
/// let bias = Tensor::zeros(1024, DType::F32, &device)?;
/// let (sum, normed) =
///     candle_rocm_backend::ops::add_layer_norm(&x, &attention, &weight, Some(&bias), 1e-5)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn add_layer_norm(
    x: &Tensor,
    residual: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor)> {
    let norm = Norm {
        name: "add_layer_norm",
        rms: false,
        eps,
    };
    norm.of_sum(x, residual, weight, bias)
}

/// x + residual, and the [`rms_norm`] of that sum, in one pass.
///
/// # Errors
/// As [`add_layer_norm`].
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{DType, Device, Tensor};
/// let device = Device::new_cuda(0)?;
/// let x = Tensor::randn(0f32, 1., (4, 1024), &device)?;
/// let attention = Tensor::randn(0f32, 1., (4, 1024), &device)?;
/// let weight = Tensor::ones(1024, DType::F32, &device)?;
/// let (sum, normed) = candle_rocm_backend::ops::add_rms_norm(&x, &attention, &weight, 1e-5)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn add_rms_norm(
    x: &Tensor,
    residual: &Tensor,
    weight: &Tensor,
    eps: f64,
) -> Result<(Tensor, Tensor)> {
    let norm = Norm {
        name: "add_rms_norm",
        rms: true,
        eps,
    };
    norm.of_sum(x, residual, weight, None)
}

#[derive(Clone, Copy)]
struct Norm {
    name: &'static str,
    rms: bool,
    eps: f64,
}

impl Norm {
    fn check(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Rows> {
        check_float(self.name, x)?;
        let rows = Rows::of(self.name, x)?;
        check_vector(self.name, "the weight", weight, x)?;
        if let Some(bias) = bias {
            check_vector(self.name, "the bias", bias, x)?;
        }
        Ok(rows)
    }

    fn of(self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let rows = self.check(x, weight, bias)?;
        if x.elem_count() == 0 {
            return empty(x, x.shape());
        }
        if !on_gpu(x) {
            return self.composed(x, weight, bias);
        }
        let x = x.contiguous()?;
        let (_, normed) = self.forward(&x, None, rows, weight, bias)?;
        self.normed(&x, weight, bias, rows, normed)
    }

    fn of_sum(
        self,
        x: &Tensor,
        residual: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        let rows = self.check(x, weight, bias)?;
        check_same_shape(self.name, "the residual", residual, x)?;
        if x.elem_count() == 0 {
            return Ok((empty(x, x.shape())?, empty(x, x.shape())?));
        }
        if !on_gpu(x) {
            let sum = (x + residual)?;
            let normed = self.composed(&sum, weight, bias)?;
            return Ok((sum, normed));
        }
        let (x, residual) = (x.contiguous()?, residual.contiguous()?);
        let (sum, normed) = self.forward(&x, Some(&residual), rows, weight, bias)?;
        let Some(sum) = sum else {
            bail!("{}: no sum was made", self.name);
        };
        let backward = |operands: &[&Tensor], _: &Tensor, gradient: &Tensor| {
            let gradient = |operand: &&Tensor| operand.track_op().then(|| gradient.clone());
            Ok(operands.iter().map(gradient).collect())
        };
        let operands = [&x, &residual];
        let sum = result_of(self.name, &operands, sum, x.shape(), Box::new(backward))?;
        let normed = self.normed(&sum, weight, bias, rows, normed)?;
        Ok((sum, normed))
    }

    /// The sum of x and residual, if there is one, and the norm of that or of x.
    fn forward(
        &self,
        x: &Tensor,
        residual: Option<&Tensor>,
        rows: Rows,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<(Option<CudaStorage>, CudaStorage)> {
        let device = gpu(self.name, x)?;
        let dtype = x.dtype();
        let columns = int(self.name, "columns", rows.columns)?;
        let eps = self.eps as f32;
        let weight = weight.contiguous()?;
        // The kernels have a bias always: reading zeros costs a row in the cache.
        let bias = match bias {
            _ if self.rms => None,
            Some(bias) => Some(bias.contiguous()?),
            None => Some(Tensor::zeros(rows.columns, dtype, x.device())?),
        };
        let kind = if self.rms { "rmsnorm" } else { "layernorm" };
        let mut sum = residual
            .map(|_| allocate(device, dtype, x.elem_count()))
            .transpose()?;
        let mut normed = allocate(device, dtype, x.elem_count())?;
        let mut args = vec![Arg::Read(Some(x))];
        let (module, name) = match (residual, &mut sum) {
            (Some(residual), Some(sum)) => {
                args.extend([Arg::Read(Some(residual)), Arg::Write(sum)]);
                (&FUSED_OPERATORS, format!("add_{kind}"))
            }
            _ => (&REDUCE, kind.to_owned()),
        };
        args.extend([Arg::Write(&mut normed), Arg::Read(Some(&weight))]);
        if let Some(bias) = &bias {
            args.push(Arg::Read(Some(bias)));
        }
        args.push(Arg::Int(columns));
        if residual.is_none() {
            // Candle's kernels are told the size of their workgroup, and ask the GPU instead.
            args.push(Arg::Int(32));
        }
        args.push(Arg::Float(eps));
        let kernel = format!("{name}_{}", dtype.as_str());
        // SAFETY: the kernel's arguments; results have x's elements, weight and bias a row's.
        unsafe { launch(device, module, &kernel, row_grid(rows.count)?, args) }?;
        Ok((sum, normed))
    }

    /// The result `normed` of x in the graph.
    fn normed(
        self,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        rows: Rows,
        normed: CudaStorage,
    ) -> Result<Tensor> {
        let backward =
            move |operands: &[&Tensor], _: &Tensor, dy: &Tensor| self.backward(operands, dy, rows);
        let operands: Vec<&Tensor> = [x, weight].into_iter().chain(bias).collect();
        result_of(self.name, &operands, normed, x.shape(), Box::new(backward))
    }

    /// The gradients of x, weight and bias.
    fn backward(
        &self,
        operands: &[&Tensor],
        dy: &Tensor,
        rows: Rows,
    ) -> Result<Vec<Option<Tensor>>> {
        let [x, weight, ..] = operands else {
            bail!("{}: the graph has lost its operands", self.name);
        };
        let device = gpu(self.name, x)?;
        let dtype = x.dtype();
        let of_bias = operands.get(2).is_some_and(|bias| bias.track_op());
        let of_weight = weight.track_op();
        let mut dx = None;
        let mut stats = None;
        if x.track_op() || of_weight {
            let mut to = allocate(device, dtype, x.elem_count())?;
            let mut of_rows = of_weight
                .then(|| allocate(device, sums_dtype(dtype), 2 * rows.count))
                .transpose()?;
            let weight = weight.contiguous()?;
            let args = vec![
                Arg::Read(Some(x)),
                Arg::Read(Some(dy)),
                Arg::Read(Some(&weight)),
                Arg::Write(&mut to),
                of_rows.as_mut().map_or(Arg::Null, Arg::Write),
                Arg::Int(int(self.name, "columns", rows.columns)?),
                Arg::Float(self.eps as f32),
            ];
            let kind = if self.rms { "rmsnorm" } else { "layernorm" };
            let kernel = format!("backward_{kind}_{}", dtype.as_str());
            // SAFETY: the kernel's arguments; dx has x's elements, and each row leaves two numbers.
            unsafe {
                launch(
                    device,
                    &FUSED_OPERATORS,
                    &kernel,
                    row_grid(rows.count)?,
                    args,
                )
            }?;
            dx = x.track_op().then(|| plain(to, x.shape()));
            stats = of_rows;
        }
        let normed = stats.as_ref().map(|stats| (*x, stats));
        let (dweight, dbias) = column_sums(self.name, dy, rows, normed, of_bias)?;
        Ok(vec![dx, dweight, dbias])
    }

    /// The same of Candle's operators.
    fn composed(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let dtype = x.dtype();
        let mut x = wide(x)?;
        if !self.rms {
            x = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        }
        // As the kernels take it.
        let eps = f64::from(self.eps as f32);
        let scale = (x.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?;
        let mut y = x.broadcast_div(&scale)?.broadcast_mul(&wide(weight)?)?;
        if let Some(bias) = bias {
            y = y.broadcast_add(&wide(bias)?)?;
        }
        y.to_dtype(dtype)
    }
}

/// The sums over rows of dy * (x - mean) * r, with each row's (mean, r) in `normed`, and of dy if `plain_sum`.
///
/// Slabs of rows are added up by a workgroup each, and their sums in the slabs' order: which rows a slab has depends on
/// the shape and on the GPU's number of compute units alone.
pub(super) fn column_sums(
    name: &str,
    dy: &Tensor,
    rows: Rows,
    normed: Option<(&Tensor, &CudaStorage)>,
    plain_sum: bool,
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    if normed.is_none() && !plain_sum {
        return Ok((None, None));
    }
    /// Columns of a workgroup are those of 32 vectors, and its rows are eight at a time.
    const ACROSS: usize = 32 * 16;
    const LEAST_ROWS: usize = 32;
    let device = gpu(name, dy)?;
    let dtype = dy.dtype();
    let across = (rows.columns * dtype.size_in_bytes()).div_ceil(ACROSS);
    let most = (4 * compute_units(device)).div_ceil(across);
    let slab = rows.count.div_ceil(most).max(LEAST_ROWS);
    let slabs = rows.count.div_ceil(slab);
    let sums = |wanted: bool| {
        wanted
            .then(|| allocate(device, sums_dtype(dtype), slabs * rows.columns))
            .transpose()
    };
    let mut by_x = sums(normed.is_some())?;
    let mut of_dy = sums(plain_sum)?;
    let columns = int(name, "columns", rows.columns)?;
    let args = vec![
        Arg::Read(Some(dy)),
        Arg::Read(normed.map(|(x, _)| x)),
        normed.map_or(Arg::Null, |(_, stats)| Arg::Left(stats)),
        by_x.as_mut().map_or(Arg::Null, Arg::Write),
        of_dy.as_mut().map_or(Arg::Null, Arg::Write),
        Arg::Long(rows.count),
        Arg::Int(columns),
        Arg::Int(int(name, "rows", slab)?),
    ];
    let kernel = format!("column_sums_{}", dtype.as_str());
    let config = grid(across, slabs, THREADS)?;
    // SAFETY: the kernel's arguments; each slab leaves a row of sums.
    unsafe { launch(device, &FUSED_OPERATORS, &kernel, config, args) }?;
    let finish = |sums: Option<CudaStorage>| -> Result<Option<Tensor>> {
        let Some(sums) = sums else { return Ok(None) };
        let mut total = allocate(device, dtype, rows.columns)?;
        let args = vec![
            Arg::Left(&sums),
            Arg::Write(&mut total),
            Arg::Int(int(name, "slabs", slabs)?),
            Arg::Int(columns),
        ];
        let kernel = format!("column_finish_{}", dtype.as_str());
        let config = grid(
            rows.columns.div_ceil(THREADS as usize).min(1 << 15),
            1,
            THREADS,
        )?;
        // SAFETY: the kernel's arguments.
        unsafe { launch(device, &FUSED_OPERATORS, &kernel, config, args) }?;
        Ok(Some(plain(total, &rows.columns.into())))
    };
    Ok((finish(by_x)?, finish(of_dy)?))
}
