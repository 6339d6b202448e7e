//! What a grouped product is, but for its operands.

use candle_core::Tensor;
use candle_rocm_kernels::grouped::Element;
use candle_rocm_kernels::numbers::grouped::{
    GROUPING_BATCH, GROUPING_COLUMNS, GROUPING_K, GROUPING_USED,
};
use candle_rocm_runtime::plan::grouped::Size;

use super::groups::RowGroups;

/// Which elements of the operands a matrix of the result is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grouping<'a> {
    /// Matrix by matrix.
    Batch,
    /// Rows of the result, each 128 of the group that the number says.
    Rows(&'a RowGroups),
    /// So many rows of each matrix, about `expected` of one.
    InUse { rows: &'a Tensor, expected: usize },
    /// k from where this group begins to where the next does.
    K(&'a Tensor),
}

impl Grouping<'_> {
    /// What kernels call it.
    pub fn number(&self) -> u32 {
        match self {
            Self::Batch => GROUPING_BATCH,
            Self::Rows(_) => GROUPING_COLUMNS,
            Self::InUse { .. } => GROUPING_USED,
            Self::K(_) => GROUPING_K,
        }
    }
}

/// How the operands lie, B's rows' first, as kernels have them: whether k is together, and elements between lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub along_k: [bool; 2],
    pub lds: [usize; 2],
}

/// What plans and launches are kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub size: Size,
    pub element: Element,
    pub result: u32,
    pub layout: Layout,
    pub strides: [[usize; 3]; 2],
    /// Steps, rows that share one, and whether they are packed.
    pub factors: [Option<([usize; 3], u32, bool)>; 2],
    pub grouping: u32,
}
