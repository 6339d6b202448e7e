//! Decompositions of many small matrices, and solves with them.
//!
//! Matrices have shape (..., n, n), with n to 64, and are f32 or f64. On a GPU a workgroup holds them in LDS, several where
//! they are small; on the CPU plain Rust computes in f64. Nothing is checked that needs their numbers: a matrix that is
//! singular, or not positive definite, gives infinities or NaN, and no launch waits for the GPU.

mod call;
mod host;
mod kernel;

use candle_core::{bail, DType, Device, Result, Storage, Tensor, D};

use self::call::Call;
pub use self::call::Triangle;
use super::node::{plain_in, result_in};
use super::operands::{check_alike, empty};

/// The largest matrix.
const MOST: usize = 64;

/// The LU decompositions with pivots of matrices `a`: L and U in one tensor of a's shape, and the rows (u32) of `a`, of
/// shape (..., n), in L U's order.
///
/// L is below the diagonal, and 1 on it; U is the rest. Row i of L U is row `rows[i]` of `a`: the largest number of a column
/// by its size, the first of several, is its pivot. There are no gradients.
///
/// # Errors
/// A matrix that is not square or larger than 64, another dtype, or a failed launch; each names the operator.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// use candle_rocm_backend::ops::linalg;
///
/// let a = Tensor::new(&[[0f32, 2.], [4., 2.]], &Device::new_cuda(0)?)?;
/// let (lu, rows) = linalg::lu(&a)?;
/// assert_eq!(lu.to_vec2::<f32>()?, [[4., 2.], [0., 2.]]);
/// assert_eq!(rows.to_vec1::<u32>()?, [1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lu(a: &Tensor) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "lu";
    let call = Call::of(NAME, a, MOST)?;
    let shape = &a.dims()[..a.rank() - 1];
    if a.elem_count() == 0 {
        let rows = Tensor::zeros(shape, DType::U32, a.device())?;
        return Ok((empty(a, a.shape())?, rows));
    }
    let a = a.detach().contiguous()?;
    let (lu, rows) = match a.device() {
        Device::Cuda(device) => {
            let (lu, rows) = kernel::lu(&call, device, &a)?;
            (Storage::Cuda(lu), Storage::Cuda(rows))
        }
        _ => {
            let (lu, rows) = host::lu(&call, &a)?;
            (Storage::Cpu(lu), Storage::Cpu(rows))
        }
    };
    Ok((plain_in(lu, a.shape()), plain_in(rows, &shape.into())))
}

/// What `a` must be multiplied by for `b`, of shape (..., n, columns): by a's decomposition of [`lu`].
///
/// `b` has a gradient.
///
/// # Errors
/// As [`triangular_solve`]; rows of another shape.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// use candle_rocm_backend::ops::linalg;
///
/// let device = Device::new_cuda(0)?;
/// let a = Tensor::new(&[[0f32, 2.], [4., 2.]], &device)?;
/// let b = Tensor::new(&[[2f32], [6.]], &device)?;
/// let (lu, rows) = linalg::lu(&a)?;
/// let x = linalg::lu_solve(&lu, &rows, &b)?;
/// assert_eq!(x.to_vec2::<f32>()?, [[1.], [1.]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lu_solve(lu: &Tensor, rows: &Tensor, b: &Tensor) -> Result<Tensor> {
    const NAME: &str = "lu_solve";
    let call = Call::of(NAME, lu, MOST)?.with_right(lu, b)?;
    if rows.dims() != &lu.dims()[..lu.rank() - 1] || rows.dtype() != DType::U32 {
        bail!(
            "{NAME}: rows are {:?} of shape {:?} for a decomposition of shape {:?}: they must be those of lu",
            rows.dtype(),
            rows.shape(),
            lu.shape()
        );
    }
    if b.elem_count() == 0 {
        return empty(b, b.shape());
    }
    let order = rows.unsqueeze(D::Minus1)?.broadcast_as(b.shape())?;
    let dim = b.rank() - 2;
    debug_assert_eq!(b.dims()[dim], call.n);
    let right = b.contiguous()?.gather(&order.contiguous()?, dim)?;
    let lower = Triangle {
        unit: true,
        ..Triangle::default()
    };
    let upper = Triangle {
        upper: true,
        ..Triangle::default()
    };
    let lu = lu.detach();
    triangular_solve(&lu, &triangular_solve(&lu, &right, lower)?, upper)
}

/// The Cholesky decompositions L of matrices `a`: L times its transposed is `a`, and L has zeros above its diagonal.
///
/// The lower triangle of `a` alone is read. The gradient is that of a symmetric matrix.
///
/// Murray: "Differentiation of the Cholesky decomposition", 2016.
///
/// # Errors
/// As [`lu`].
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let a = Tensor::new(&[[4f32, 2.], [2., 5.]], &Device::new_cuda(0)?)?;
/// let l = candle_rocm_backend::ops::linalg::cholesky(&a)?;
/// assert_eq!(l.to_vec2::<f32>()?, [[2., 0.], [1., 2.]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cholesky(a: &Tensor) -> Result<Tensor> {
    const NAME: &str = "cholesky";
    let call = Call::of(NAME, a, MOST)?;
    if a.elem_count() == 0 {
        return empty(a, a.shape());
    }
    let a = a.contiguous()?;
    let l = match a.device() {
        Device::Cuda(device) => Storage::Cuda(kernel::cholesky(&call, device, &a)?),
        _ => Storage::Cpu(host::cholesky(&call, &a)?),
    };
    let backward = |_: &[&Tensor], l: &Tensor, gradient: &Tensor| {
        Ok(vec![Some(cholesky_gradient(&l.detach(), gradient)?)])
    };
    result_in(NAME, &[&a], l, a.shape(), Box::new(backward))
}

/// What triangles of matrices `a` must be multiplied by for `b`, of shape (..., n, columns) and a's dtype.
///
/// Only the triangle is read. There are gradients of the triangle and of `b`.
///
/// # Errors
/// As [`lu`]; a `b` of another dtype or device, or whose shape differs from a's in more than its last dimension.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// use candle_rocm_backend::ops::linalg::{triangular_solve, Triangle};
///
/// let device = Device::new_cuda(0)?;
/// let a = Tensor::new(&[[2f32, 0.], [1., 4.]], &device)?;
/// let b = Tensor::new(&[[2f32], [9.]], &device)?;
/// let x = triangular_solve(&a, &b, Triangle::default())?;
/// assert_eq!(x.to_vec2::<f32>()?, [[1.], [2.]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn triangular_solve(a: &Tensor, b: &Tensor, triangle: Triangle) -> Result<Tensor> {
    const NAME: &str = "triangular_solve";
    check_alike(NAME, "b", b, a)?;
    let call = Call::of(NAME, a, MOST)?.with_right(a, b)?;
    if b.elem_count() == 0 {
        return empty(b, b.shape());
    }
    let (a, b) = (a.contiguous()?, b.contiguous()?);
    let x = match a.device() {
        Device::Cuda(device) => Storage::Cuda(kernel::triangular(&call, device, &a, &b, triangle)?),
        _ => Storage::Cpu(host::triangular(&call, &a, &b, triangle)?),
    };
    let backward = move |operands: &[&Tensor], x: &Tensor, gradient: &Tensor| {
        let [a, _] = operands else {
            bail!("{NAME}: the graph has lost its operands");
        };
        solve_gradients(a, &x.detach(), gradient, triangle).map(|both| both.map(Some).into())
    };
    result_in(NAME, &[&a, &b], x, b.shape(), Box::new(backward))
}

/// The gradients of the triangle and of what was solved for.
fn solve_gradients(
    a: &Tensor,
    x: &Tensor,
    gradient: &Tensor,
    triangle: Triangle,
) -> Result<[Tensor; 2]> {
    let back = Triangle {
        transposed: !triangle.transposed,
        ..triangle
    };
    let of_b = triangular_solve(&a.detach(), gradient, back)?;
    let (left, right) = match triangle.transposed {
        true => (x, &of_b),
        false => (&of_b, x),
    };
    let turned = right.transpose(D::Minus1, D::Minus2)?.contiguous()?;
    let of_all = left.matmul(&turned)?.neg()?;
    let diagonal = if triangle.unit { 0.0 } else { 1.0 };
    let weights = triangle_of(a, diagonal, triangle.upper)?;
    Ok([of_all.broadcast_mul(&weights)?, of_b])
}

/// The gradient of a matrix from its decomposition L, and that of L: half of S and its transposed, with
/// L^T S L = the lower triangle of L^T times the gradient, whose diagonal is halved.
fn cholesky_gradient(l: &Tensor, gradient: &Tensor) -> Result<Tensor> {
    let transposed = |x: &Tensor| x.transpose(D::Minus1, D::Minus2)?.contiguous();
    let lower = gradient.broadcast_mul(&triangle_of(l, 1.0, false)?)?;
    let inner = transposed(l)?.matmul(&lower)?;
    let inner = inner.broadcast_mul(&triangle_of(l, 0.5, false)?)?;
    let turned = Triangle {
        transposed: true,
        ..Triangle::default()
    };
    let left = triangular_solve(l, &inner, turned)?;
    let s = triangular_solve(l, &transposed(&left)?, turned)?;
    (&s + transposed(&s)?)? * 0.5
}

/// 1 in a triangle of a matrix of a's size, `diagonal` on its diagonal, and 0 elsewhere.
fn triangle_of(a: &Tensor, diagonal: f64, upper: bool) -> Result<Tensor> {
    let n = a.dim(D::Minus1)?;
    let weight = |i: usize| {
        let (row, column) = (i / n, i % n);
        match row.cmp(&column) {
            std::cmp::Ordering::Equal => diagonal,
            order => f64::from((order == std::cmp::Ordering::Less) == upper),
        }
    };
    let weights: Vec<f64> = (0..n * n).map(weight).collect();
    Tensor::from_vec(weights, (n, n), &Device::Cpu)?
        .to_dtype(a.dtype())?
        .to_device(a.device())
}
