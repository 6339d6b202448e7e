//! Positions of elements for which something holds, and what is made of them.

use candle_core::{bail, DType, Device, IndexOp as _, Result, Tensor};
use candle_rocm_kernels::scan::{group, word_bytes, THREADS};
use candle_rocm_kernels::POSITIONS;

use super::launch::{allocate, allocate_zeros, grid, launch, Arg};
use super::node::plain;
use super::operands::{check_device, on_gpu};

/// Elements of a workgroup (kernels/scan/positions.cuh).
const TILE: usize = 4096;

/// What holds for the elements that are wanted.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Nonzero,
    /// Differs from the one before; the first does.
    Changed,
}

/// Where elements are not zero: their coordinates (u32), of shape (found, rank), in order. A NaN is not zero.
///
/// `x` has any dtype, any strides and fewer than 2^32 elements. How many were found is known on the host afterwards, which
/// waits for the GPU: no graph can capture it.
///
/// # Errors
/// Too many elements, no memory, or a failed launch; each names the operator.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[[3f32, 0., 2.], [0., 5., 0.]], &Device::new_cuda(0)?)?;
/// let found = candle_rocm_backend::ops::nonzero(&x)?;
/// assert_eq!(found.to_vec2::<u32>()?, [[0, 0], [0, 2], [1, 1]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn nonzero(x: &Tensor) -> Result<Tensor> {
    let flat = positions("nonzero", x, Wanted::Nonzero)?;
    let found = flat.elem_count();
    if found == 0 || x.rank() == 0 {
        return Tensor::zeros((found, x.rank()), DType::U32, x.device());
    }
    let mut rest = flat;
    let mut coordinates = Vec::with_capacity(x.rank());
    for &size in x.dims().iter().rev() {
        let size = Tensor::new(size as u32, x.device())?;
        let above = rest.broadcast_div(&size)?;
        coordinates.insert(0, (&rest - above.broadcast_mul(&size)?)?);
        rest = above;
    }
    Tensor::stack(&coordinates, 1)
}

/// The elements where a mask (u8, of a shape that broadcasts to `x`'s) is not zero, in order: one dimension.
///
/// Dtypes, sizes and the wait are those of [`nonzero`]. `x`'s gradient is that of Candle's `index_select`.
///
/// # Errors
/// As [`nonzero`]; a mask of another dtype, device, or of a shape that does not broadcast.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[[3f32, 1., 2.], [7., 5., 6.]], &Device::new_cuda(0)?)?;
/// let found = candle_rocm_backend::ops::masked_select(&x, &x.gt(2.5)?)?;
/// assert_eq!(found.to_vec1::<f32>()?, [3., 7., 5., 6.]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn masked_select(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    const NAME: &str = "masked_select";
    if mask.dtype() != DType::U8 {
        bail!("{NAME}: the mask is {:?}, and must be u8", mask.dtype());
    }
    check_device(NAME, "the mask", mask, x)?;
    let Ok(mask) = mask.broadcast_as(x.shape()) else {
        bail!(
            "{NAME}: a mask of shape {:?} does not broadcast to x of shape {:?}",
            mask.shape(),
            x.shape()
        );
    };
    let flat = positions(NAME, &mask, Wanted::Nonzero)?;
    x.flatten_all()?.contiguous()?.index_select(&flat, 0)
}

/// Runs of equal elements of a vector: the element of each run, and its length (u32). A NaN equals none.
///
/// Dtypes, sizes and the wait are those of [`nonzero`]. There are no gradients.
///
/// # Errors
/// As [`nonzero`]; not one dimension.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[1u32, 1, 2, 3, 3, 3, 1], &Device::new_cuda(0)?)?;
/// let (values, counts) = candle_rocm_backend::ops::unique_consecutive(&x)?;
/// assert_eq!(values.to_vec1::<u32>()?, [1, 2, 3, 1]);
/// assert_eq!(counts.to_vec1::<u32>()?, [2, 1, 3, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn unique_consecutive(x: &Tensor) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "unique_consecutive";
    let [count] = *x.dims() else {
        bail!(
            "{NAME}: x has shape {:?}, and must have one dimension",
            x.shape()
        );
    };
    let x = x.detach().contiguous()?;
    let begins = positions(NAME, &x, Wanted::Changed)?;
    let runs = begins.elem_count();
    if runs == 0 {
        return Ok((x, begins));
    }
    let end = Tensor::new(&[count as u32], x.device())?;
    let ends = Tensor::cat(&[&begins.i(1..)?, &end], 0)?;
    let counts = (ends - &begins)?;
    Ok((x.index_select(&begins, 0)?, counts))
}

/// The positions (u32) among all elements, in order, of those that are wanted.
fn positions(name: &str, x: &Tensor, wanted: Wanted) -> Result<Tensor> {
    let Ok(count) = u32::try_from(x.elem_count()) else {
        bail!(
            "{name}: x of shape {:?} has 2^32 elements or more",
            x.shape()
        );
    };
    if count == 0 {
        return Tensor::zeros(0, DType::U32, x.device());
    }
    let x = x.detach().contiguous()?;
    let Device::Cuda(device) = x.device() else {
        return on_host(&x, wanted);
    };
    debug_assert!(on_gpu(&x));
    let tiles = x.elem_count().div_ceil(TILE);
    let words = word_bytes(1, tiles as u64, 1) as usize / 4;
    let mut positions = allocate(device, DType::U32, x.elem_count())?;
    let mut words = allocate_zeros(device, DType::U32, words)?;
    let mut found = allocate(device, DType::U32, 1)?;
    let kernel = match wanted {
        Wanted::Nonzero => "positions_nonzero",
        Wanted::Changed => "positions_changed",
    };
    let kernel = format!("{kernel}_{}", x.dtype().as_str());
    let args = vec![
        Arg::Read(Some(&x)),
        Arg::Write(&mut positions),
        Arg::Write(&mut words),
        Arg::Write(&mut found),
        Arg::Int(count),
        Arg::Int(group(tiles as u64) as u32),
    ];
    // SAFETY: the kernels' arguments (tests/contract.rs); there is room for all positions.
    unsafe { launch(device, &POSITIONS, &kernel, grid(tiles, 1, THREADS)?, args) }?;
    let found = plain(found, &1.into()).to_vec1::<u32>()?[0] as usize;
    // What was not found takes no memory for long.
    plain(positions, &x.elem_count().into())
        .narrow(0, 0, found)?
        .copy()
}

/// The same on the host, of what is not on a GPU.
fn on_host(x: &Tensor, wanted: Wanted) -> Result<Tensor> {
    let flat = x.flatten_all()?;
    let flags: Vec<u8> = match wanted {
        Wanted::Nonzero => flat.ne(&flat.zeros_like()?)?.to_vec1()?,
        Wanted::Changed => {
            let (before, after) = (flat.i(..flat.elem_count() - 1)?, flat.i(1..)?);
            let changed: Vec<u8> = after.ne(&before)?.to_vec1()?;
            std::iter::once(1).chain(changed).collect()
        }
    };
    let held = (0..).zip(flags).filter(|(_, flag)| *flag != 0);
    let positions: Vec<u32> = held.map(|(position, _)| position).collect();
    let count = positions.len();
    Tensor::from_vec(positions, count, x.device())
}
