//! Inclusive sums along a dimension.

use candle_core::shape::Dim;
use candle_core::{bail, DType, Device, Result, Tensor};
use candle_rocm_kernels::scan::{Scan, REVERSED, THREADS, WIDE};
use candle_rocm_kernels::{dtypes, CUMSUM};

use super::launch::{allocate, allocate_zeros, launch, Arg};
use super::node::{plain, result_of};
use super::operands::on_gpu;

const NAME: &str = "cumsum";
/// Bytes of the dimensions behind the summed one from which lanes hold neighbours of different sums. With fewer, the
/// dimensions change places.
const LEAST_INNER_BYTES: usize = 128;

/// The sums of all elements up to each along a dimension: `x`'s shape and dtype.
///
/// `x` has any dtype and any strides. Floats of 8 and 16 bits are summed in f32, and each sum is rounded once; integers wrap
/// around. On a GPU the elements are read once and written once, and the order of a sum is fixed by the shape. Candle's own
/// `cumsum` multiplies by a triangular matrix. The gradient is the sum from the last element on.
///
/// # Errors
/// A dimension that `x` does not have, 2^24 tiles of 8,192 elements and more, no memory, or a failed launch; each names
/// the operator.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[[1f32, 2., 3.], [4., 5., 6.]], &Device::new_cuda(0)?)?;
/// let rows = candle_rocm_backend::ops::cumsum(&x, 1)?;
/// assert_eq!(rows.to_vec2::<f32>()?, [[1., 3., 6.], [4., 9., 15.]]);
/// let columns = candle_rocm_backend::ops::cumsum(&x, 0)?;
/// assert_eq!(columns.to_vec2::<f32>()?, [[1., 2., 3.], [5., 7., 9.]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cumsum<Axis: Dim>(x: &Tensor, dim: Axis) -> Result<Tensor> {
    let dim = dim.to_index(x.shape(), NAME)?;
    let count = x.dims()[dim];
    if x.elem_count() == 0 || count == 1 {
        return Ok(x.clone());
    }
    if !on_gpu(x) {
        return composed(x, dim);
    }
    let inner: usize = x.dims()[dim + 1..].iter().product();
    if inner > 1 && inner * x.dtype().size_in_bytes() < LEAST_INNER_BYTES {
        let last = x.rank() - 1;
        return summed(&x.transpose(dim, last)?, last)?
            .transpose(dim, last)?
            .contiguous();
    }
    summed(x, dim)
}

/// The sums along a dimension, by a kernel.
fn summed(x: &Tensor, dim: usize) -> Result<Tensor> {
    let x = x.contiguous()?;
    let result = sums(&x, dim, false)?;
    let backward = move |_: &[&Tensor], _: &Tensor, gradient: &Tensor| {
        let reversed = sums(gradient, dim, true)?;
        Ok(vec![Some(plain(reversed, gradient.shape()))])
    };
    result_of(NAME, &[&x], result, x.shape(), Box::new(backward))
}

/// The sums of a contiguous tensor, from the first element on or, reversed, from the last one.
fn sums(x: &Tensor, dim: usize, reversed: bool) -> Result<candle_core::CudaStorage> {
    let (Device::Cuda(device), dtype) = (x.device(), x.dtype()) else {
        bail!("{NAME}: x is not on a GPU");
    };
    let Some(known) = dtypes::find(dtype.as_str()) else {
        bail!("{NAME}: x is {dtype:?}, which no kernel sums");
    };
    let of = |dims: &[usize]| dims.iter().product::<usize>();
    let dims = x.dims();
    let (outer, count, inner) = (of(&dims[..dim]), dims[dim], of(&dims[dim + 1..]));
    let [outer_u64, count_u64, inner_u64] = [outer, count, inner].map(|size| size as u64);
    let wavefront = device.cuda_stream().context().info().wavefront_size;
    let scan = match inner {
        1 => Scan::rows(known, outer_u64, count_u64, wavefront),
        _ => Scan::columns(known, outer_u64, count_u64, inner_u64),
    };
    let Some(scan) = scan else {
        bail!(
            "{NAME}: x of shape {:?} along dimension {dim} is more than a launch can have: sum a part at a time",
            x.shape()
        );
    };
    let mut result = allocate(device, dtype, x.elem_count())?;
    let words = (scan.word_bytes as usize / 4).max(1);
    let mut words = allocate_zeros(device, DType::U32, words)?;
    let row = if inner == 1 { count } else { inner };
    let begin = x.layout().start_offset() * dtype.size_in_bytes();
    let is_wide = (row * dtype.size_in_bytes()).is_multiple_of(16) && begin.is_multiple_of(16);
    let flags = if is_wide { WIDE } else { 0 } | if reversed { REVERSED } else { 0 };
    let mut args = vec![
        Arg::Read(Some(x)),
        Arg::Write(&mut result),
        Arg::Write(&mut words),
    ];
    args.extend([Arg::Long(outer), Arg::Long(count)]);
    let kernel = if inner == 1 {
        args.extend([scan.threads, scan.together, scan.tiles].map(Arg::Int));
        "cumsum_rows"
    } else {
        args.push(Arg::Long(inner));
        args.extend([scan.threads, scan.tiles, scan.blocks].map(Arg::Int));
        "cumsum_columns"
    };
    args.extend([Arg::Int(scan.of_group), Arg::Int(flags)]);
    let kernel = format!("{kernel}_{}", dtype.as_str());
    let config = super::launch::grid(scan.workgroups as usize, 1, THREADS)?;
    // SAFETY: the arguments are the kernel's (tests/contract.rs); `result` has x's elements, and the words are counted.
    unsafe { launch(device, &CUMSUM, &kernel, config, args) }?;
    Ok(result)
}

/// The same of Candle's operators: each step adds the elements twice as far before.
fn composed(x: &Tensor, dim: usize) -> Result<Tensor> {
    let dtype = x.dtype();
    let wide = match dtype {
        DType::F16 | DType::BF16 | DType::F8E4M3 => DType::F32,
        DType::F32 | DType::F64 => dtype,
        _ => DType::I64,
    };
    let count = x.dims()[dim];
    let mut sums = x.to_dtype(wide)?;
    let mut step = 1;
    while step < count {
        let before = sums.narrow(dim, 0, count - step)?;
        sums = (&sums + before.pad_with_zeros(dim, step, 0)?)?;
        step *= 2;
    }
    sums.to_dtype(dtype)
}
