//! Products whose rows belong to groups, such as the experts of a mixture: one launch for all groups, which finds on the
//! device what belongs to which. In bf16 here, in FP8 in [`fp8`](crate::fp8).
//!
//! On the CPU the same functions are loops over Candle's products.

mod composed;
mod groups;
pub(crate) mod kernel;
mod plan;

use candle_core::{bail, DType, Device, Result, Tensor};
use candle_rocm_kernels::grouped::Element;

pub(crate) use groups::number;
pub use groups::RowGroups;

use crate::ops::node::{plain, result_of};
use kernel::{starts_along_k, Grouping, Operand, Product};

pub(crate) use composed::{by_rows, each_in_use, each_k};

/// Products of rows with their groups' matrices: result row r is `a` row r times the transpose of `b`'s matrix g, where g
/// is the row's group. `a` is (rows, k), `b` (groups, n, k), both bf16; the result (rows, n) is bf16. Rows of no group are 0.
///
/// With gradients of `a` and `b`. `b` may be a transposed view, `weights.transpose(1, 2)`.
///
/// # Errors
/// Shapes that do not fit each other or the groups, another dtype, or different devices.
pub fn m_grouped_gemm_nt_contiguous(a: &Tensor, b: &Tensor, groups: &RowGroups) -> Result<Tensor> {
    const NAME: &str = "grouped::m_grouped_gemm_nt_contiguous";
    let (rows, k) = a.dims2()?;
    let (count, n, of_b) = b.dims3()?;
    if k != of_b || rows != groups.rows() || count != groups.groups() {
        bail!(
            "{NAME}: a {:?} and b {:?}, with {} rows of {} groups: they must be (rows, k) and (groups, n, k)",
            a.shape(),
            b.shape(),
            groups.rows(),
            groups.groups()
        );
    }
    check(NAME, a, b)?;
    let Device::Cuda(device) = a.device() else {
        return by_rows(a, b, groups);
    };
    let product = Product {
        name: NAME,
        element: Element::Bf16,
        a: &Operand::of(a, NAME)?,
        b: &Operand::of(b, NAME)?,
        addend: None,
        batch: 1,
        grouping: Grouping::Rows(groups),
        dtype: DType::BF16,
    };
    let result = product.compute(device)?;
    let groups = groups.clone();
    let shape = (rows, n).into();
    result_of(
        NAME,
        &[a, b],
        result,
        &shape,
        Box::new(move |operands, _, gradient| {
            let [a, b] = operands else {
                bail!("{NAME}: two operands");
            };
            let of_a =
                m_grouped_gemm_nt_contiguous(gradient, &b.detach().transpose(1, 2)?, &groups)?;
            let of_b = k_grouped(
                "grouped::m_grouped_gemm_nt_contiguous, gradient",
                &gradient.t()?,
                &a.detach().t()?,
                groups.starts(),
                groups.groups(),
                None,
                DType::BF16,
            )?;
            Ok(vec![Some(of_a), Some(of_b)])
        }),
    )
}

/// Products of each group's rows in use with its matrix: result (g, r) is `a` (g, r) times the transpose of `b`'s matrix g,
/// for r below `in_use[g]`, which the device alone knows. `a` is (groups, rows, k), `b` (groups, n, k), both bf16, `in_use`
/// i32 or u32 of (groups); the result (groups, rows, n) is bf16. Its rows that are not in use hold anything.
///
/// # Errors
/// Shapes that do not fit each other, another dtype, or different devices.
pub fn m_grouped_gemm_nt_masked(a: &Tensor, b: &Tensor, in_use: &Tensor) -> Result<Tensor> {
    const NAME: &str = "grouped::m_grouped_gemm_nt_masked";
    let (groups, rows, n) = check_masked(NAME, a.dims(), b.dims(), in_use)?;
    check(NAME, a, b)?;
    let Device::Cuda(device) = a.device() else {
        return each_in_use(a, b, in_use);
    };
    let product = Product {
        name: NAME,
        element: Element::Bf16,
        a: &Operand::of(a, NAME)?,
        b: &Operand::of(b, NAME)?,
        addend: None,
        batch: groups,
        grouping: Grouping::InUse(&in_use.contiguous()?),
        dtype: DType::BF16,
    };
    Ok(plain(product.compute(device)?, &(groups, rows, n).into()))
}

/// A product for each group of k: result g is the sum over its k of `a` column times `b` column, `a` (m, k), `b` (n, k),
/// both bf16, the groups one after another along k, `sizes` of k each, multiples of 128, 0 included. The result is
/// (groups, m, n) of `dtype` (f32, f16, bf16), with `addend`, of its shape and type, added where there is one.
///
/// # Errors
/// Shapes that do not fit each other or the sizes, another dtype, or different devices.
pub fn k_grouped_gemm(
    a: &Tensor,
    b: &Tensor,
    sizes: &[usize],
    addend: Option<&Tensor>,
    dtype: DType,
) -> Result<Tensor> {
    const NAME: &str = "grouped::k_grouped_gemm";
    let starts = starts_along_k(NAME, sizes, a.dims2()?.1)?;
    let starts = Tensor::new(starts, a.device())?;
    k_grouped(NAME, a, b, &starts, sizes.len(), addend, dtype)
}

fn k_grouped(
    name: &'static str,
    a: &Tensor,
    b: &Tensor,
    starts: &Tensor,
    groups: usize,
    addend: Option<&Tensor>,
    dtype: DType,
) -> Result<Tensor> {
    let ((m, k), (n, of_b)) = (a.dims2()?, b.dims2()?);
    if k != of_b {
        bail!(
            "{name}: a {:?} and b {:?} have different k",
            a.shape(),
            b.shape()
        );
    }
    check(name, a, b)?;
    let shape = (groups, m, n).into();
    let addend = check_addend(name, addend, &shape, dtype, a.device())?;
    let Device::Cuda(device) = a.device() else {
        return each_k(a, b, starts, addend.as_ref(), dtype);
    };
    let product = Product {
        name,
        element: Element::Bf16,
        a: &Operand::of(a, name)?,
        b: &Operand::of(b, name)?,
        addend: addend.as_ref(),
        batch: groups,
        grouping: Grouping::K(starts),
        dtype,
    };
    Ok(plain(product.compute(device)?, &shape))
}

fn check(name: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    if a.dtype() != DType::BF16 || b.dtype() != DType::BF16 {
        bail!(
            "{name}: a is {:?} and b {:?}: both must be BF16",
            a.dtype(),
            b.dtype()
        );
    }
    check_devices(name, a, b)
}

pub(crate) fn check_devices(name: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    if !a.device().same_device(b.device()) {
        bail!(
            "{name}: operands on {:?} and {:?}",
            a.device().location(),
            b.device().location()
        );
    }
    Ok(())
}

/// Groups, rows and columns of a masked product's result.
pub(crate) fn check_masked(
    name: &str,
    a: &[usize],
    b: &[usize],
    in_use: &Tensor,
) -> Result<(usize, usize, usize)> {
    let (&[groups, rows, k], &[of_b, n, k_of_b]) = (a, b) else {
        bail!("{name}: a {a:?} and b {b:?}: they must be (groups, rows, k) and (groups, n, k)");
    };
    if groups != of_b || k != k_of_b || in_use.dims() != [groups] {
        bail!(
            "{name}: a {a:?}, b {b:?} and rows in use of {:?}: they must be (groups, rows, k), (groups, n, k), (groups)",
            in_use.shape()
        );
    }
    if !matches!(in_use.dtype(), DType::I32 | DType::U32) {
        bail!(
            "{name}: rows in use are {:?}: they must be I32 or U32",
            in_use.dtype()
        );
    }
    Ok((groups, rows, n))
}

/// What is added to a result, contiguous.
pub(crate) fn check_addend(
    name: &str,
    addend: Option<&Tensor>,
    shape: &candle_core::Shape,
    dtype: DType,
    device: &Device,
) -> Result<Option<Tensor>> {
    let Some(addend) = addend else {
        return Ok(None);
    };
    if addend.shape() != shape || addend.dtype() != dtype || !addend.device().same_device(device) {
        bail!(
            "{name}: what is added is {:?} of {:?} on {:?}, and the result {dtype:?} of {shape:?} on {:?}",
            addend.dtype(),
            addend.shape(),
            addend.device().location(),
            device.location()
        );
    }
    Ok(Some(addend.contiguous()?))
}
