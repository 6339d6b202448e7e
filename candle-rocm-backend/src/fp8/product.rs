//! Products of FP8.

use candle_core::{bail, DType, Device, Result, Shape, Tensor};

use super::matrix::Fp8Matrix;
use crate::grouped::forms::{
    along_k, checked_addend, finished, rows_in_use, rows_of_groups, starts_along_k, Factor, Form,
};
use crate::grouped::operand::Operand;
use crate::grouped::problem::Grouping;
use crate::grouped::RowGroups;
use crate::ops::node::plain;
use crate::ops::operands::check_device;

impl Factor for Fp8Matrix {
    fn dims(&self) -> &[usize] {
        self.data.dims()
    }

    fn device(&self) -> &Device {
        self.data.device()
    }

    fn check(&self, name: &str, other: &Self) -> Result<()> {
        check_device(name, "b", &other.data, &self.data)
    }

    fn operand(&self, name: &str) -> Result<Operand> {
        self.operand(name)
    }

    fn wide(&self) -> Result<Tensor> {
        self.dequantize(DType::F32)
    }
}

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
    a.check(name, b)?;
    let addend = checked_addend(name, addend, &shape, dtype, a.device())?;
    let form = Form {
        name,
        addend: addend.as_ref(),
        batch,
        grouping: Grouping::Batch,
        dtype,
    };
    match form.on_gpu(a, b)? {
        Some(result) => Ok(plain(result, &shape)),
        None => finished(a.wide()?.matmul(&b.wide()?.t()?)?, addend.as_ref(), dtype),
    }
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
    rows_of_groups(NAME, [a, b], groups, dtype, |result, shape| {
        Ok(plain(result, shape))
    })
}

/// Products of each group's rows in use with its matrix: result (g, r) is `a` (g, r) times the transpose of `b`'s matrix g, for
/// r below `in_use[g]` (i32 or u32), which the device alone knows; about `expected` of a group are, on which nothing but the
/// choice of a kernel depends. a is (groups, rows, k), b (groups, n, k); the result
/// (groups, rows, n) of `dtype`. Its rows that are not in use hold anything.
///
/// # Errors
/// As [`gemm_nt`].
pub fn m_grouped_gemm_nt_masked(
    a: &Fp8Matrix,
    b: &Fp8Matrix,
    in_use: &Tensor,
    expected: usize,
    dtype: DType,
) -> Result<Tensor> {
    rows_in_use(
        "fp8::m_grouped_gemm_nt_masked",
        [a, b],
        in_use,
        expected,
        dtype,
    )
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
    let starts = starts_along_k(NAME, sizes, a.data.dims2()?.1, a.device())?;
    along_k(NAME, [a, b], &starts, addend, dtype)
}
