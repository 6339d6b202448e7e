//! The argument of grouped products' kernels, and its constants of a shape.

use candle_rocm_kernels::grouped;
use candle_rocm_runtime::gemm::MatmulArguments;
use candle_rocm_runtime::DeviceRepr;

use super::operand::Operand;
use crate::specialised::Wanted;

candle_rocm_kernels::kernel_argument! { OPERAND_SCALES,
    /// `OperandScales` of kernels/matmul/grouped_problem.cuh.
    #[derive(Clone, Copy, Default)]
    pub(super) struct ScaleArguments {
        pub values: u64,
        stride: i64,
        row_step: i64,
        k_step: i64,
        row_shift: u32,
        format: u32,
    }
}

candle_rocm_kernels::kernel_argument! { GROUPED_PROBLEM,
    /// `GroupedProblem` of the same.
    #[derive(Clone, Copy, Default)]
    pub(super) struct GroupedArguments {
        pub product: MatmulArguments,
        pub scales_a: ScaleArguments,
        pub scales_b: ScaleArguments,
        pub groups: u64,
        pub grouping: u32,
        pub result: u32,
        pub sharing: u32,
        pub reserved: u32,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for GroupedArguments {}

/// A kernel for the constants of a shape: what is the same whatever the number of the result's rows, and whatever of their
/// plan it has.
pub(super) fn wanted(
    kernel: &str,
    arguments: &GroupedArguments,
    b_along_k: bool,
) -> Option<Wanted> {
    let invocation = grouped::invocation(kernel)?;
    let GroupedArguments {
        product,
        scales_a,
        scales_b,
        ..
    } = arguments;
    let gemm = &product.gemm;
    let mut constants = vec![
        ("product.gemm.m", gemm.m.into()),
        ("product.gemm.k", gemm.k.into()),
        ("product.gemm.lda", gemm.lda),
        ("product.gemm.ldc", gemm.ldc),
        ("product.parts", product.parts.into()),
        ("product.part_k", product.part_k.into()),
        ("product.order.tiles_m", product.order.tiles_m.into()),
        ("scales_a.row_step", scales_a.row_step),
        ("scales_a.k_step", scales_a.k_step),
        ("scales_a.row_shift", scales_a.row_shift.into()),
        ("scales_a.format", scales_a.format.into()),
        ("scales_b.row_step", scales_b.row_step),
        ("scales_b.row_shift", scales_b.row_shift.into()),
        ("scales_b.format", scales_b.format.into()),
        ("grouping", arguments.grouping.into()),
        ("result", arguments.result.into()),
        ("sharing", arguments.sharing.into()),
    ];
    if b_along_k {
        constants.push(("product.gemm.ldb", gemm.ldb));
    }
    if product.residual == 0 {
        constants.push(("product.residual", 0));
    }
    Some(Wanted {
        kernel: kernel.to_owned(),
        header: grouped::HEADER,
        invocation,
        constants,
    })
}

impl ScaleArguments {
    /// An operand's, but for the address.
    pub fn of(operand: &Operand) -> Self {
        let Some(scales) = &operand.scales else {
            return Self::default();
        };
        let [stride, row_step, k_step] = scales.steps.map(|step| step as i64);
        Self {
            values: 0,
            stride,
            row_step,
            k_step,
            row_shift: scales.row_shift,
            format: scales.packed.into(),
        }
    }
}
