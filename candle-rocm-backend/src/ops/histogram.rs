//! Counts of elements by bin.

use candle_core::{bail, DType, Device, Result, Tensor};
use candle_rocm_kernels::HISTOGRAM;

use super::launch::{allocate_zeros, int, launch, work_grid_of, Arg, THREADS};
use super::node::plain;
use super::operands::check_float;

/// LDS bytes of a workgroup's counters at most, so that several workgroups share a compute unit.
const LDS_BYTES: usize = 16 << 10;
/// Sets of counters at most.
const MOST_COPIES: usize = 8;
/// Elements that a work-item reads at once (kernels/scan/histogram.cu).
const TOGETHER: usize = 8;
/// Workgroups for a compute unit, each of which adds its counters to those in memory.
const WORKGROUPS_PER_UNIT: usize = 8;

/// How often each whole number below `bins` is in `x`: a vector of `bins` counts (u32).
///
/// `x` has any shape and integers of any dtype; what is negative, or `bins` and more, is not counted. Counts wrap around at
/// 2^32.
///
/// # Errors
/// Floats, no bins or 2^31 and more, or a failed launch; each names the operator.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[0u32, 3, 1, 3, 9], &Device::new_cuda(0)?)?;
/// let counts = candle_rocm_backend::ops::bincount(&x, 4)?;
/// assert_eq!(counts.to_vec1::<u32>()?, [1, 1, 0, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn bincount(x: &Tensor, bins: usize) -> Result<Tensor> {
    const NAME: &str = "bincount";
    if !x.dtype().is_int() {
        bail!(
            "{NAME}: x is {:?}, and must be integers: histogram counts floats",
            x.dtype()
        );
    }
    count(NAME, x, bins, [0.0, 1.0, bins as f64])
}

/// How many elements are in each of `bins` bins of equal width from `least` to `most`: a vector of counts (u32).
///
/// `x` has any shape, and is f16, bf16, f32 or f64. The last bin has `most` itself; what is less or more, and NaN, is not
/// counted. The bin is computed in f32, of f64 in f64: (x - least) / width, rounded towards zero.
///
/// # Errors
/// Other dtypes, no bins or 2^31 and more, bounds that are no numbers or not in order, or a failed launch; each names the
/// operator.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[0f32, 0.5, 0.6, 1., 2.], &Device::new_cuda(0)?)?;
/// let counts = candle_rocm_backend::ops::histogram(&x, 2, 0., 1.)?;
/// assert_eq!(counts.to_vec1::<u32>()?, [1, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn histogram(x: &Tensor, bins: usize, least: f64, most: f64) -> Result<Tensor> {
    const NAME: &str = "histogram";
    check_float(NAME, x)?;
    if !(least < most && least.is_finite() && most.is_finite()) {
        bail!("{NAME}: bins from {least} to {most}: the bounds must be numbers, the first below the second");
    }
    count(NAME, x, bins, [least, (most - least) / bins as f64, most])
}

/// Counts in bins of this least element, width, and most one.
fn count(name: &str, x: &Tensor, bins: usize, [least, width, most]: [f64; 3]) -> Result<Tensor> {
    let bins_u32 = int(name, "bins", bins)?;
    if bins == 0 {
        bail!("{name}: there must be a bin");
    }
    if x.elem_count() == 0 {
        return Tensor::zeros(bins, DType::U32, x.device());
    }
    let x = x.detach().contiguous()?;
    let Device::Cuda(device) = x.device() else {
        return composed(&x, bins, [least, width, most]);
    };
    let mut counts = allocate_zeros(device, DType::U32, bins)?;
    // More bins than fit LDS are counted in memory.
    let fit = LDS_BYTES / (4 * bins);
    let copies = if fit == 0 {
        0
    } else {
        1 << fit.min(MOST_COPIES).ilog2()
    };
    let pieces = x.elem_count().div_ceil(TOGETHER);
    let mut config = work_grid_of(device, pieces, WORKGROUPS_PER_UNIT)?;
    debug_assert_eq!(config.block_dim.0, THREADS);
    config.shared_mem_bytes = (4 * bins * copies) as u32;
    let args = vec![
        Arg::Read(Some(&x)),
        Arg::Write(&mut counts),
        Arg::Long(x.elem_count()),
        Arg::Int(bins_u32),
        Arg::Int(copies as u32),
        Arg::Double(least),
        Arg::Double(width),
        Arg::Double(most),
    ];
    let kernel = format!("histogram_{}", x.dtype().as_str());
    // SAFETY: the kernel's arguments (tests/contract.rs); the counters are as many as it is told, here and in LDS.
    unsafe { launch(device, &HISTOGRAM, &kernel, config, args) }?;
    Ok(plain(counts, &bins.into()))
}

/// The same of Candle's operators: elements of no bin are counted in one more.
fn composed(x: &Tensor, bins: usize, [least, width, most]: [f64; 3]) -> Result<Tensor> {
    let x = x.flatten_all()?;
    let wide = match x.dtype() {
        DType::F64 => DType::F64,
        dtype if dtype.is_float() => DType::F32,
        _ => DType::I64,
    };
    let x = x.to_dtype(wide)?;
    let of = |value: f64| Tensor::new(value, x.device())?.to_dtype(wide);
    let (least, most) = (of(least)?, of(most)?);
    let above = x.broadcast_ge(&least)?;
    let inside = match wide {
        DType::I64 => (above * x.broadcast_lt(&most)?)?,
        _ => (above * x.broadcast_le(&most)?)?,
    };
    let places = match wide {
        DType::I64 => x,
        _ => x.broadcast_sub(&least)?.broadcast_div(&of(width)?)?,
    };
    let places = places.to_dtype(DType::I64)?;
    let last = Tensor::new(bins as i64 - 1, places.device())?.broadcast_as(places.shape())?;
    let none = Tensor::new(bins as i64, places.device())?.broadcast_as(places.shape())?;
    let places = inside.where_cond(&places.minimum(&last)?, &none.contiguous()?)?;
    let counts = Tensor::zeros(bins + 1, DType::U32, places.device())?;
    let ones = Tensor::ones(places.elem_count(), DType::U32, places.device())?;
    counts
        .scatter_add(&places, &ones, 0)?
        .narrow(0, 0, bins)?
        .contiguous()
}
