//! The forms of grouped products, the same for bf16 and FP8: what they ask of their operands, and who computes them.

use candle_core::{bail, CudaStorage, DType, Device, Result, Shape, Tensor};
use candle_rocm_kernels::grouped::DEPTH;

use super::composed::{by_rows, each_in_use, each_k};
use super::groups::RowGroups;
use super::kernel::Product;
use super::operand::Operand;
use super::problem::Grouping;
use crate::ops::launch::int;
use crate::ops::node::plain;

/// Matrices (rows, k), or a batch of them (batch, rows, k), as products take them.
pub(crate) trait Factor {
    fn dims(&self) -> &[usize];
    fn device(&self) -> &Device;
    /// Whether products with `other`, the second factor, are made at all.
    fn check(&self, name: &str, other: &Self) -> Result<()>;
    /// For the kernels.
    fn operand(&self, name: &str) -> Result<Operand>;
    /// In f32, for Candle's own operators.
    fn wide(&self) -> Result<Tensor>;
}

/// What a product is, beside its factors.
pub(crate) struct Form<'a> {
    pub name: &'static str,
    /// Added to the product: contiguous, of the result's shape and type.
    pub addend: Option<&'a Tensor>,
    pub batch: usize,
    pub grouping: Grouping<'a>,
    pub dtype: DType,
}

impl Form<'_> {
    /// The product on the GPU that the factors are on; none where they are elsewhere.
    pub fn on_gpu<F: Factor>(self, a: &F, b: &F) -> Result<Option<CudaStorage>> {
        let Device::Cuda(device) = a.device() else {
            return Ok(None);
        };
        let product = Product {
            name: self.name,
            a: &a.operand(self.name)?,
            b: &b.operand(self.name)?,
            addend: self.addend,
            batch: self.batch,
            grouping: self.grouping,
            dtype: self.dtype,
        };
        product.compute(device).map(Some)
    }
}

/// Rows with their groups' matrices: (rows, n). What is made of a GPU's result is the caller's.
pub(crate) fn rows_of_groups<F: Factor>(
    name: &'static str,
    [a, b]: [&F; 2],
    groups: &RowGroups,
    dtype: DType,
    finish: impl FnOnce(CudaStorage, &Shape) -> Result<Tensor>,
) -> Result<Tensor> {
    let fits = match (a.dims(), b.dims()) {
        (&[rows, k], &[count, n, of_b]) => {
            let fits = k == of_b && rows == groups.rows() && count == groups.groups();
            fits.then_some((rows, n))
        }
        _ => None,
    };
    let Some(shape) = fits else {
        bail!(
            "{name}: a {:?} and b {:?}, with {} rows of {} groups: they must be (rows, k) and (groups, n, k)",
            a.dims(),
            b.dims(),
            groups.rows(),
            groups.groups()
        );
    };
    a.check(name, b)?;
    let form = Form {
        name,
        addend: None,
        batch: 1,
        grouping: Grouping::Rows(groups),
        dtype,
    };
    match form.on_gpu(a, b)? {
        Some(result) => finish(result, &shape.into()),
        None => by_rows(&a.wide()?, &b.wide()?, groups)?.to_dtype(dtype),
    }
}

/// Each matrix's rows in use with its group's matrix: (groups, rows, n). About `expected` of a group are.
pub(crate) fn rows_in_use<F: Factor>(
    name: &'static str,
    [a, b]: [&F; 2],
    in_use: &Tensor,
    expected: usize,
    dtype: DType,
) -> Result<Tensor> {
    let (of_a, of_b) = (a.dims(), b.dims());
    let (&[groups, rows, k], &[count, n, k_of_b]) = (of_a, of_b) else {
        bail!(
            "{name}: a {of_a:?} and b {of_b:?}: they must be (groups, rows, k) and (groups, n, k)"
        );
    };
    if groups != count || k != k_of_b || in_use.dims() != [groups] {
        bail!(
            "{name}: a {of_a:?}, b {of_b:?} and rows in use of {:?}: they must be (groups, rows, k), (groups, n, k), \
             (groups)",
            in_use.shape()
        );
    }
    if !matches!(in_use.dtype(), DType::I32 | DType::U32) {
        bail!(
            "{name}: rows in use are {:?}: they must be I32 or U32",
            in_use.dtype()
        );
    }
    a.check(name, b)?;
    let form = Form {
        name,
        addend: None,
        batch: groups,
        grouping: Grouping::InUse {
            rows: &in_use.contiguous()?,
            expected: expected.min(rows),
        },
        dtype,
    };
    match form.on_gpu(a, b)? {
        Some(result) => Ok(plain(result, &(groups, rows, n).into())),
        None => each_in_use(&a.wide()?, &b.wide()?, in_use)?.to_dtype(dtype),
    }
}

/// Each group's k by itself: (groups, m, n). `starts` says where each begins, and the last one ends.
pub(crate) fn along_k<F: Factor>(
    name: &'static str,
    [a, b]: [&F; 2],
    starts: &Tensor,
    addend: Option<&Tensor>,
    dtype: DType,
) -> Result<Tensor> {
    let (&[m, k], &[n, of_b]) = (a.dims(), b.dims()) else {
        bail!(
            "{name}: a {:?} and b {:?} are no two matrices",
            a.dims(),
            b.dims()
        );
    };
    if k != of_b {
        bail!(
            "{name}: a {:?} and b {:?} have different k",
            a.dims(),
            b.dims()
        );
    }
    a.check(name, b)?;
    let groups = starts.elem_count() - 1;
    let shape = (groups, m, n).into();
    let addend = checked_addend(name, addend, &shape, dtype, a.device())?;
    let form = Form {
        name,
        addend: addend.as_ref(),
        batch: groups,
        grouping: Grouping::K(starts),
        dtype,
    };
    match form.on_gpu(a, b)? {
        Some(result) => Ok(plain(result, &shape)),
        None => finished(
            each_k(&a.wide()?, &b.wide()?, starts)?,
            addend.as_ref(),
            dtype,
        ),
    }
}

/// Where groups along k begin, and the last one ends: at multiples of what scales cover, and all of `k` together.
pub(crate) fn starts_along_k(
    name: &str,
    sizes: &[usize],
    k: usize,
    device: &Device,
) -> Result<Tensor> {
    let mut starts = vec![0i32];
    let mut at = 0usize;
    for (group, &size) in sizes.iter().enumerate() {
        if size % DEPTH != 0 {
            bail!(
                "{name}: group {group} has {size} of k: groups along k have multiples of {DEPTH}"
            );
        }
        at += size;
        starts.push(int(name, "elements of k", at)? as i32);
    }
    if at != k {
        bail!("{name}: the groups have {at} of k together, and the operands {k}");
    }
    Tensor::new(starts, device)
}

/// What is added to a result, contiguous.
pub(crate) fn checked_addend(
    name: &str,
    addend: Option<&Tensor>,
    shape: &Shape,
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

/// A sum in f32 and what is added to it, rounded once.
pub(crate) fn finished(sum: Tensor, addend: Option<&Tensor>, dtype: DType) -> Result<Tensor> {
    match addend {
        Some(addend) => (sum + addend.to_dtype(DType::F32)?)?.to_dtype(dtype),
        None => sum.to_dtype(dtype),
    }
}
