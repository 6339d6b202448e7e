//! Sorting along the last dimension, and the largest or smallest elements of it.

use candle_core::{bail, CudaDevice, CudaStorage, DType, Device, Error, Result, Shape, Tensor, D};
use candle_rocm_kernels::radix_sort::SortedDtype;
use candle_rocm_runtime::radix_sort::{sort_rows, SortRows};

use super::launch::{allocate, int, with_addresses, write};
use super::node::{plain, result_of};
use super::operands::{on_gpu, Rows};

/// The elements of the last dimension in order, and where each was: values of `x`'s shape and dtype, and columns (u32).
///
/// `x` has rank 1 or more and any dtype; rows have fewer than 2^31 elements. The sort is stable in both directions: equal
/// elements stay in order. On a GPU a NaN is larger than all numbers, -0 equals 0, and both are given back as they were.
/// The values have a gradient: each element's comes from where it went.
///
/// # Errors
/// A scalar, a row that is too long, no memory for keys and columns of rows that fit no workgroup (two and a half times the
/// elements' bytes at most, of 2^24 elements or a row at once), or a failed launch; each names the operator.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[[3f32, 1., 2.], [0., 5., 4.]], &Device::new_cuda(0)?)?;
/// let (values, columns) = candle_rocm_backend::ops::sort(&x, true)?;
/// assert_eq!(values.to_vec2::<f32>()?, [[1., 2., 3.], [0., 4., 5.]]);
/// assert_eq!(columns.to_vec2::<u32>()?, [[1, 2, 0], [0, 2, 1]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sort(x: &Tensor, ascending: bool) -> Result<(Tensor, Tensor)> {
    let columns = Rows::of("sort", x)?.columns;
    ordered("sort", x, columns, ascending)
}

/// The columns (u32) of the last dimension's elements in order, as [`sort`] has them.
///
/// # Errors
/// As [`sort`].
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[3f32, 1., 2.], &Device::new_cuda(0)?)?;
/// let columns = candle_rocm_backend::ops::argsort(&x, false)?;
/// assert_eq!(columns.to_vec1::<u32>()?, [0, 2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn argsort(x: &Tensor, ascending: bool) -> Result<Tensor> {
    const NAME: &str = "argsort";
    let rows = Rows::of(NAME, x)?;
    if x.elem_count() == 0 {
        return Tensor::zeros(x.shape(), DType::U32, x.device());
    }
    let x = x.detach().contiguous()?;
    let Device::Cuda(device) = x.device() else {
        return x.arg_sort_last_dim(ascending);
    };
    let (_, index) = launch(NAME, device, &x, rows, rows.columns, ascending, false)?;
    Ok(plain(index, x.shape()))
}

/// The `k` largest (or smallest) elements of the last dimension in order, and their columns (u32): `x`'s shape with a last
/// dimension of `k`.
///
/// Of equal elements the first come first. Dtypes, NaN and gradients are those of [`sort`].
///
/// # Errors
/// As [`sort`]; fewer than `k` elements in a row.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let logits = Tensor::randn(0f32, 1., (4, 32_000), &Device::new_cuda(0)?)?;
/// let (values, tokens) = candle_rocm_backend::ops::topk(&logits, 50, true)?;
/// assert_eq!((values.dims(), tokens.dims()), (&[4, 50][..], &[4, 50][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn topk(x: &Tensor, k: usize, largest: bool) -> Result<(Tensor, Tensor)> {
    let columns = Rows::of("topk", x)?.columns;
    if k > columns {
        bail!(
            "topk: the {k} first of rows of {columns} elements, x of shape {:?}: k is {columns} at most",
            x.shape()
        );
    }
    ordered("topk", x, k, !largest)
}

/// The first `kept` of each row's elements in order.
fn ordered(
    name: &'static str,
    x: &Tensor,
    kept: usize,
    ascending: bool,
) -> Result<(Tensor, Tensor)> {
    let rows = Rows::of(name, x)?;
    let mut dims = x.dims().to_vec();
    dims.pop();
    dims.push(kept);
    let shape = Shape::from(dims);
    if shape.elem_count() == 0 {
        let of = |dtype| Tensor::zeros(&shape, dtype, x.device());
        return Ok((of(x.dtype())?, of(DType::U32)?));
    }
    let x = x.contiguous()?;
    if !on_gpu(&x) {
        let index = x.detach().arg_sort_last_dim(ascending)?;
        let index = index.narrow(D::Minus1, 0, kept)?.contiguous()?;
        return Ok((x.gather(&index, D::Minus1)?, index));
    }
    let Device::Cuda(device) = x.device() else {
        bail!("{name}: x is on a device that has no such kernels");
    };
    let (values, index) = launch(name, device, &x, rows, kept, ascending, true)?;
    let index = plain(index, &shape);
    let Some(values) = values else {
        bail!("{name}: no values");
    };
    let columns = index.clone();
    let backward = move |operands: &[&Tensor], _: &Tensor, gradient: &Tensor| {
        let zeros = operands[0].zeros_like()?;
        // No column comes twice: nothing is added to what was added before.
        Ok(vec![Some(zeros.scatter_add(
            &columns,
            gradient,
            D::Minus1,
        )?)])
    };
    let values = result_of(name, &[&x], values, &shape, Box::new(backward))?;
    Ok((values, index))
}

/// Sorts on the GPU: the elements, if they are wanted, and their columns.
fn launch(
    name: &str,
    device: &CudaDevice,
    x: &Tensor,
    rows: Rows,
    kept: usize,
    ascending: bool,
    wants_values: bool,
) -> Result<(Option<CudaStorage>, CudaStorage)> {
    let Some(dtype) = SortedDtype::of(x.dtype().as_str(), ascending) else {
        bail!("{name}: x is {:?}, which no kernel sorts", x.dtype());
    };
    int(name, "columns", rows.columns)?;
    let count = int(name, "rows", rows.count)?;
    let written = rows.count * kept;
    let mut index = allocate(device, DType::U32, written)?;
    let values = wants_values.then(|| allocate(device, x.dtype(), written));
    let mut values = values.transpose()?;
    let stream = device.cuda_stream();
    with_addresses(name, &stream, [Some(x)], |[source]| {
        let of_values = values.as_mut().map(|values| write(values, &stream));
        let of_values = of_values.transpose()?;
        let (of_index, _use) = write(&mut index, &stream)?;
        let sort = SortRows {
            dtype,
            rows: count,
            columns: rows.columns as u64,
            kept: kept as u64,
            source,
            index: of_index,
            values: of_values.as_ref().map_or(0, |(address, _)| *address),
        };
        // SAFETY: x is contiguous and has these rows; the results have room for as many elements of each as are kept.
        unsafe { sort_rows(&stream, &sort) }.map_err(|error| {
            Error::wrap(error.context(format_args!("{name} of x of shape {:?}", x.shape())))
        })
    })?;
    Ok((values, index))
}
