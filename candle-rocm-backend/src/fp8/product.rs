//! Products of FP8.

use candle_core::{bail, DType, Device, Result, Shape, Tensor};
use candle_rocm_kernels::grouped::Element;

use super::matrix::Fp8Matrix;
use crate::grouped::kernel::{starts_along_k, Grouping, Product};
use crate::grouped::{
    by_rows, check_addend, check_devices, check_masked, each_in_use, each_k, RowGroups,
};
use crate::ops::node::plain;

/// a times the transpose of b, as linear layers multiply: a is (m, k) or (batch, m, k), b (n, k) or (batch, n, k). The result
/// is (batch,) m, n of `dtype` (f32, f16 or bf16), with `addend`, of its shape and type, added where there is one. Each 128 of
/// k are summed by themselves in f32 and added, times both factors, in f32; the result is rounded once.
///
/// # Errors
/// Shapes that do not fit, different devices, or a factor for each element of k.
pub fn gemm_nt(
    a: &Fp8Matrix,
    b: &Fp8Matrix,
    addend: Option<&Tensor>,
    dtype: DType,
) -> Result<Tensor> {
    product("fp8::gemm_nt", a, b, addend, dtype)
}

/// a times b: b is (k, n) or (batch, k, n); the rest as [`gemm_nt`].
///
/// # Errors
/// As [`gemm_nt`], and packed factors of what is transposed.
pub fn gemm_nn(
    a: &Fp8Matrix,
    b: &Fp8Matrix,
    addend: Option<&Tensor>,
    dtype: DType,
) -> Result<Tensor> {
    product("fp8::gemm_nn", a, &b.t()?, addend, dtype)
}

/// The transpose of a times b: a is (k, m) or (batch, k, m), b (k, n) or (batch, k, n); the rest as [`gemm_nt`].
///
/// # Errors
/// As [`gemm_nn`].
pub fn gemm_tn(
    a: &Fp8Matrix,
    b: &Fp8Matrix,
    addend: Option<&Tensor>,
    dtype: DType,
) -> Result<Tensor> {
    product("fp8::gemm_tn", &a.t()?, &b.t()?, addend, dtype)
}

/// The transpose of a times the transpose of b: a is (k, m) or (batch, k, m); the rest as [`gemm_nt`].
///
/// # Errors
/// As [`gemm_nn`].
pub fn gemm_tt(
    a: &Fp8Matrix,
    b: &Fp8Matrix,
    addend: Option<&Tensor>,
    dtype: DType,
) -> Result<Tensor> {
    product("fp8::gemm_tt", &a.t()?, b, addend, dtype)
}

fn product(
    name: &'static str,
    a: &Fp8Matrix,
    b: &Fp8Matrix,
    addend: Option<&Tensor>,
    dtype: DType,
) -> Result<Tensor> {
    let ((batch, m, k), (of_b, n, k_of_b)) = (a.sizes(), b.sizes());
    if batch != of_b || k != k_of_b || a.data.rank() != b.data.rank() {
        bail!(
            "{name}: a {:?} and b {:?} do not fit: matrices are (batch, m, k) and (batch, n, k) once both have k last",
            a.data.shape(),
            b.data.shape()
        );
    }
    let shape: Shape = match a.data.rank() {
        2 => (m, n).into(),
        _ => (batch, m, n).into(),
    };
    check_devices(name, &a.data, &b.data)?;
    let addend = check_addend(name, addend, &shape, dtype, a.data.device())?;
    let Device::Cuda(device) = a.data.device() else {
        let product = wide(a)?.matmul(&wide(b)?.t()?)?;
        return match addend {
            Some(addend) => (product + addend.to_dtype(DType::F32)?)?.to_dtype(dtype),
            None => product.to_dtype(dtype),
        };
    };
    let product = Product {
        name,
        element: Element::F8e4m3,
        a: &a.operand()?,
        b: &b.operand()?,
        addend: addend.as_ref(),
        batch,
        grouping: Grouping::Batch,
        dtype,
    };
    Ok(plain(product.compute(device)?, &shape))
}

/// Products of rows with their groups' matrices: result row r is `a` row r times the transpose of `b`'s matrix g, where g is
/// the row's group. a is (rows, k), b (groups, n, k); the result (rows, n) of `dtype`. Rows of no group are 0.
///
/// # Errors
/// As [`gemm_nt`], and groups that do not fit.
pub fn m_grouped_gemm_nt_contiguous(
    a: &Fp8Matrix,
    b: &Fp8Matrix,
    groups: &RowGroups,
    dtype: DType,
) -> Result<Tensor> {
    const NAME: &str = "fp8::m_grouped_gemm_nt_contiguous";
    let ((_, rows, k), (count, n, k_of_b)) = (a.sizes(), b.sizes());
    let ranks = (a.data.rank(), b.data.rank());
    if ranks != (2, 3) || k != k_of_b || rows != groups.rows() || count != groups.groups() {
        bail!(
            "{NAME}: a {:?} and b {:?}, with {} rows of {} groups: they must be (rows, k) and (groups, n, k)",
            a.data.shape(),
            b.data.shape(),
            groups.rows(),
            groups.groups()
        );
    }
    check_devices(NAME, &a.data, &b.data)?;
    let Device::Cuda(device) = a.data.device() else {
        return by_rows(&wide(a)?, &wide(b)?, groups)?.to_dtype(dtype);
    };
    let product = Product {
        name: NAME,
        element: Element::F8e4m3,
        a: &a.operand()?,
        b: &b.operand()?,
        addend: None,
        batch: 1,
        grouping: Grouping::Rows(groups),
        dtype,
    };
    Ok(plain(product.compute(device)?, &(rows, n).into()))
}

/// Products of each group's rows in use with its matrix: result (g, r) is `a` (g, r) times the transpose of `b`'s matrix g, for
/// r below `in_use[g]` (i32 or u32), which the device alone knows. a is (groups, rows, k), b (groups, n, k); the result
/// (groups, rows, n) of `dtype`. Its rows that are not in use hold anything.
///
/// # Errors
/// As [`gemm_nt`].
pub fn m_grouped_gemm_nt_masked(
    a: &Fp8Matrix,
    b: &Fp8Matrix,
    in_use: &Tensor,
    dtype: DType,
) -> Result<Tensor> {
    const NAME: &str = "fp8::m_grouped_gemm_nt_masked";
    let (groups, rows, n) = check_masked(NAME, a.data.dims(), b.data.dims(), in_use)?;
    check_devices(NAME, &a.data, &b.data)?;
    let Device::Cuda(device) = a.data.device() else {
        return each_in_use(&wide(a)?, &wide(b)?, in_use)?.to_dtype(dtype);
    };
    let product = Product {
        name: NAME,
        element: Element::F8e4m3,
        a: &a.operand()?,
        b: &b.operand()?,
        addend: None,
        batch: groups,
        grouping: Grouping::InUse(&in_use.contiguous()?),
        dtype,
    };
    Ok(plain(product.compute(device)?, &(groups, rows, n).into()))
}

/// A product for each group of k, as gradients of experts' weights are: result g is the sum over its k of `a` column times `b`
/// column, a (m, k), b (n, k), the groups one after another along k, `sizes` of k each, multiples of 128, 0 included. The
/// result is (groups, m, n) of `dtype`, with `addend`, of its shape and type, added where there is one.
///
/// # Errors
/// As [`gemm_nt`], and sizes that do not fit.
pub fn k_grouped_gemm(
    a: &Fp8Matrix,
    b: &Fp8Matrix,
    sizes: &[usize],
    addend: Option<&Tensor>,
    dtype: DType,
) -> Result<Tensor> {
    const NAME: &str = "fp8::k_grouped_gemm";
    let ((m, k), (n, k_of_b)) = (a.data.dims2()?, b.data.dims2()?);
    if k != k_of_b {
        bail!(
            "{NAME}: a {:?} and b {:?} have different k",
            a.data.shape(),
            b.data.shape()
        );
    }
    check_devices(NAME, &a.data, &b.data)?;
    let shape: Shape = (sizes.len(), m, n).into();
    let addend = check_addend(NAME, addend, &shape, dtype, a.data.device())?;
    let starts = Tensor::new(starts_along_k(NAME, sizes, k)?, a.data.device())?;
    let Device::Cuda(device) = a.data.device() else {
        return each_k(&wide(a)?, &wide(b)?, &starts, addend.as_ref(), dtype);
    };
    let product = Product {
        name: NAME,
        element: Element::F8e4m3,
        a: &a.operand()?,
        b: &b.operand()?,
        addend: addend.as_ref(),
        batch: sizes.len(),
        grouping: Grouping::K(&starts),
        dtype,
    };
    Ok(plain(product.compute(device)?, &shape))
}

fn wide(x: &Fp8Matrix) -> Result<Tensor> {
    x.dequantize(DType::F32)
}
