//! What is asked of the small matrices' operators.

use candle_core::{bail, DType, Result, Tensor};

/// Matrices of n x n, and of triangular solves rows of so many columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) batch: usize,
    pub(super) n: usize,
    pub(super) columns: usize,
}

/// Which triangle of a matrix is solved, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triangle {
    /// The upper triangle, instead of the lower one.
    pub upper: bool,
    /// The transposed of it.
    pub transposed: bool,
    /// The diagonal is 1, and is not read.
    pub unit: bool,
}

impl Call {
    pub(super) fn of(name: &'static str, a: &Tensor, most: usize) -> Result<Self> {
        if !matches!(a.dtype(), DType::F32 | DType::F64) {
            bail!(
                "{name}: matrices of shape {:?} are {:?}, and must be f32 or f64: convert them with to_dtype",
                a.shape(),
                a.dtype()
            );
        }
        match *a.dims() {
            [.., rows, columns] if rows == columns && rows <= most => Ok(Self {
                name,
                batch: a.dims()[..a.rank() - 2].iter().product(),
                n: rows,
                columns: 0,
            }),
            _ => bail!(
                "{name}: matrices of shape {:?}: the last two dimensions must be the same, and at most {most}",
                a.shape()
            ),
        }
    }

    /// The same with a right side.
    pub(super) fn with_right(self, a: &Tensor, b: &Tensor) -> Result<Self> {
        let (name, rank) = (self.name, a.rank());
        if b.rank() != rank || b.dims()[..rank - 1] != a.dims()[..rank - 1] {
            bail!(
                "{name}: b has shape {:?} for matrices of shape {:?}: they may differ in the last dimension alone",
                b.shape(),
                a.shape()
            );
        }
        Ok(Self {
            columns: b.dims()[rank - 1],
            ..self
        })
    }
}
