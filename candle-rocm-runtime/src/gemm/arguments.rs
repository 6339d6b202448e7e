//! The kernels' parameters.

use candle_rocm_kernels::activations;
use candle_rocm_kernels::matmul::SplitKReduction;
use candle_rocm_kernels::order::TileOrder;

use super::epilogue::Activation;
use super::plan::Plan;
use super::product::{Product, Values};
use crate::base::dtype::DeviceRepr;

candle_rocm_kernels::kernel_argument! { GEMM_PROBLEM,
    /// `GemmProblem` of kernels/matmul/gemm_problem.cuh, which says what the fields are.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    #[allow(missing_docs)]
    pub struct Arguments {
        pub a: u64,
        pub b: u64,
        pub c: u64,
        pub lda: i64,
        pub ldb: i64,
        pub row_c: i64,
        pub ldc: i64,
        pub stride_a: i64,
        pub stride_b: i64,
        pub stride_c: i64,
        pub alpha: f64,
        pub beta: f64,
        pub m: u32,
        pub n: u32,
        pub k: u32,
        pub wide_c: u32,
    }
}

candle_rocm_kernels::kernel_argument! { MATMUL_PROBLEM,
    /// `MatmulProblem` of kernels/matmul/matmul_problem.cuh, which says what the fields are.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    #[allow(missing_docs)]
    pub struct MatmulArguments {
        pub gemm: Arguments,
        pub partial: u64,
        pub split_k_reduction: u32,
        pub is_bare: u32,
        pub bias: u64,
        pub residual: u64,
        pub ld_residual: i64,
        pub stride_residual: i64,
        pub batch: u32,
        pub splits: u32,
        pub k_per_split: u32,
        pub activation: u32,
        pub order: TileOrder,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for Arguments {}
// SAFETY: as above.
unsafe impl DeviceRepr for MatmulArguments {}

impl Arguments {
    pub(super) fn new(product: &Product) -> Self {
        Self {
            a: product.a.address,
            b: product.b.address,
            c: product.c,
            lda: product.a.ld,
            ldb: product.b.ld,
            row_c: product.row_c,
            ldc: product.column_c,
            stride_a: product.a.stride,
            stride_b: product.b.stride,
            stride_c: product.stride_c,
            alpha: product.alpha,
            beta: product.beta,
            m: product.m as u32,
            n: product.n as u32,
            k: product.k as u32,
            wide_c: product.dtype.upcasts().into(),
        }
    }
}

impl MatmulArguments {
    /// The product and its epilogue, with k in one split and without tiles.
    pub(super) fn new(product: &Product) -> Self {
        let epilogue = &product.epilogue;
        Self {
            gemm: Arguments::new(product),
            partial: 0,
            split_k_reduction: SplitKReduction::SeparateKernel as u32,
            is_bare: u32::from(
                epilogue.is_none() && product.beta == 0. && !product.dtype.upcasts(),
            ),
            bias: epilogue.bias,
            residual: epilogue.residual,
            ld_residual: epilogue.ld_residual,
            stride_residual: epilogue.stride_residual,
            batch: product.batch as u32,
            splits: 1,
            k_per_split: product.k as u32,
            activation: number(epilogue.activation),
            order: TileOrder::default(),
        }
    }

    /// A sub-grid of a plan, with the sums of the splits, if there are several, at `partial`, where its workgroups reduce them
    /// in the kernel, or leave them to another launch.
    pub(super) fn of_sub_grid(
        plan: &Plan,
        product: &Product,
        partial: u64,
        reduces_in_kernel: bool,
    ) -> Self {
        let (rows, columns) = plan.kernel.tile();
        let tiles = [product.m.div_ceil(rows), product.n.div_ceil(columns)];
        // Of XCDs that have splits of their own each has all tiles.
        let split_k_reduction = plan.split_k_reduction(reduces_in_kernel);
        let xcds = match split_k_reduction {
            SplitKReduction::PerXcd => 1,
            _ => plan.xcds,
        };
        Self {
            partial: if plan.splits > 1 { partial } else { 0 },
            split_k_reduction: split_k_reduction as u32,
            splits: plan.splits,
            k_per_split: plan.k_per_split,
            order: TileOrder::new(tiles.map(|tiles| tiles as u32), plan.group, xcds),
            ..Self::new(product)
        }
    }

    /// Sets these values, A and B as the kernel has them, and this memory for the sums of splits, if there are several.
    #[inline]
    pub(super) fn set_values(&mut self, values: &Values, partial: u64) {
        let gemm = &mut self.gemm;
        (gemm.a, gemm.b, gemm.c) = (values.a, values.b, values.c);
        (gemm.alpha, gemm.beta) = (values.alpha, values.beta);
        (self.bias, self.residual) = (values.bias, values.residual);
        self.partial = if self.splits > 1 { partial } else { 0 };
    }
}

/// What the kernels call it.
fn number(activation: Activation) -> u32 {
    match activation {
        Activation::None => activations::NONE,
        Activation::GeluErf => activations::GELU_ERF,
        Activation::GeluTanh => activations::GELU,
        Activation::Silu => activations::SILU,
    }
    .number
}
