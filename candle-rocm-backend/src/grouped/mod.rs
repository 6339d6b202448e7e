//! Products whose rows belong to groups, such as the experts of a mixture: one launch for all groups, which finds on the
//! device what belongs to which. In bf16 here, in FP8 in [`fp8`](crate::fp8).
//!
//! On the CPU the same functions are loops over Candle's products.

mod composed;
pub(crate) mod forms;
mod groups;
pub(crate) mod kernel;
pub(crate) mod operand;
pub(crate) mod problem;

use candle_core::{bail, DType, Device, Result, Tensor};

pub(crate) use groups::number;
pub use groups::RowGroups;

use crate::ops::node::result_of;
use crate::ops::operands::check_device;
use forms::{along_k, rows_in_use, rows_of_groups, starts_along_k, Factor};
use operand::Operand;

impl Factor for Tensor {
    fn dims(&self) -> &[usize] {
        self.dims()
    }

    fn device(&self) -> &Device {
        self.device()
    }

    fn check(&self, name: &str, other: &Self) -> Result<()> {
        if self.dtype() != DType::BF16 || other.dtype() != DType::BF16 {
            bail!(
                "{name}: a is {:?} and b {:?}: both must be BF16",
                self.dtype(),
                other.dtype()
            );
        }
        check_device(name, "b", other, self)
    }

    fn operand(&self, name: &str) -> Result<Operand> {
        Operand::of(self, name)
    }

    fn wide(&self) -> Result<Tensor> {
        self.to_dtype(DType::F32)
    }
}

/// Products of rows with their groups' matrices: result row r is `a` row r times the transpose of `b`'s matrix g, where g
/// is the row's group. `a` is (rows, k), `b` (groups, n, k), both bf16; the result (rows, n) is bf16. Rows of no group are 0.
///
/// With gradients of `a` and `b`. `b` may be a transposed view, `weights.transpose(1, 2)`.
///
/// # Errors
/// Shapes that do not fit each other or the groups, another dtype, or different devices.
pub fn m_grouped_gemm_nt_contiguous(a: &Tensor, b: &Tensor, groups: &RowGroups) -> Result<Tensor> {
    const NAME: &str = "grouped::m_grouped_gemm_nt_contiguous";
    let of_backward = groups.clone();
    let backward = move |operands: &[&Tensor], _: &Tensor, gradient: &Tensor| {
        let [a, b] = operands else {
            bail!("{NAME}: two operands");
        };
        let turned = b.detach().transpose(1, 2)?;
        let of_a = m_grouped_gemm_nt_contiguous(gradient, &turned, &of_backward)?;
        let of_b = along_k(
            "grouped::m_grouped_gemm_nt_contiguous, gradient",
            [&gradient.t()?, &a.detach().t()?],
            of_backward.starts(),
            None,
            DType::BF16,
        )?;
        Ok(vec![Some(of_a), Some(of_b)])
    };
    rows_of_groups(NAME, [a, b], groups, DType::BF16, |result, shape| {
        result_of(NAME, &[a, b], result, shape, Box::new(backward))
    })
}

/// Products of each group's rows in use with its matrix: result (g, r) is `a` (g, r) times the transpose of `b`'s matrix g,
/// for r below `in_use[g]`, which the device alone knows; about `expected` of a group are, on which nothing but the choice of a
/// kernel depends. `a` is (groups, rows, k), `b` (groups, n, k), both bf16, `in_use`
/// i32 or u32 of (groups); the result (groups, rows, n) is bf16. Its rows that are not in use hold anything.
///
/// # Errors
/// Shapes that do not fit each other, another dtype, or different devices.
pub fn m_grouped_gemm_nt_masked(
    a: &Tensor,
    b: &Tensor,
    in_use: &Tensor,
    expected: usize,
) -> Result<Tensor> {
    rows_in_use(
        "grouped::m_grouped_gemm_nt_masked",
        [a, b],
        in_use,
        expected,
        DType::BF16,
    )
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
    let starts = starts_along_k(NAME, sizes, a.dims2()?.1, a.device())?;
    along_k(NAME, [a, b], &starts, addend, dtype)
}
