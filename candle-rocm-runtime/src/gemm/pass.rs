//! Kernels that go over C after a product, in steps of any grid.

use std::sync::Arc;

use candle_rocm_kernels::{Module, GEMM, MATMUL};

use super::arguments::MatmulArguments;
use super::epilogue::Epilogue;
use super::problem::{GemmDtype, GemmProblem};
use super::product::Product;
use crate::base::error::Result;
use crate::kernels::ready::{addresses_of, ReadyLaunch};
use crate::kernels::submit::LaunchConfig;
use crate::stream::context::Context;
use crate::stream::queue::Stream;

/// Work-items of a workgroup.
const THREADS: u32 = 256;
/// Workgroups for a compute unit: as many as it holds.
const WORKGROUPS_PER_UNIT: u32 = 8;

/// A pass over C, ready to be launched.
#[derive(Debug)]
pub(super) struct Pass {
    /// On as many workgroups as the GPU holds.
    launch: ReadyLaunch,
    /// Its argument after the product, if it has one.
    layout: Option<u32>,
}

impl Pass {
    /// Does a product's epilogue to C as it is.
    pub fn epilogue(context: &Arc<Context>, dtype: GemmDtype) -> Result<Self> {
        Self::find(context, &GEMM, "gemm_epilogue", dtype, None)
    }

    /// Adds up the sums of the splits of a product in tiles.
    pub fn sum(context: &Arc<Context>, dtype: GemmDtype) -> Result<Self> {
        Self::find(context, &MATMUL, "matmul_sum", dtype, None)
    }

    /// Adds up the sums of the splits of a skinny product.
    pub fn sum_of_skinny(context: &Arc<Context>, dtype: GemmDtype, layout: u32) -> Result<Self> {
        Self::find(context, &GEMM, "gemm_sum", dtype, Some(layout))
    }

    fn find(
        context: &Arc<Context>,
        module: &Module,
        kernel: &str,
        dtype: GemmDtype,
        layout: Option<u32>,
    ) -> Result<Self> {
        let name = format!("{kernel}_{}", dtype.operands().name());
        let most = context.info().compute_units.max(1) * WORKGROUPS_PER_UNIT;
        let config = LaunchConfig {
            grid_dim: (most, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let launch = ReadyLaunch::of(context, module, &name, config)?;
        Ok(Self { launch, layout })
    }

    /// Launches it.
    ///
    /// # Safety
    /// What the arguments describe is memory that the pass may read and write.
    pub unsafe fn launch(&self, stream: &Stream, arguments: &MatmulArguments) -> Result<()> {
        let product = &arguments.gemm;
        let elements = (u64::from(product.m) * u64::from(product.n))
            .saturating_mul(u64::from(arguments.batch));
        let workgroups = elements.div_ceil(THREADS.into());
        // SAFETY: the kernel's parameters in order; the rest is the caller's promise.
        unsafe {
            match &self.layout {
                None => {
                    let addresses = &mut addresses_of![*arguments];
                    self.launch.launch_smaller(stream, workgroups, addresses)
                }
                Some(layout) => {
                    let addresses = &mut addresses_of![*arguments, *layout];
                    self.launch.launch_smaller(stream, workgroups, addresses)
                }
            }
        }
    }
}

/// Does the epilogue to a C that a vendor's library has written.
///
/// # Safety
/// As [`gemm_with_epilogue`](super::gemm_with_epilogue).
pub(super) unsafe fn finish_problem(
    stream: &Stream,
    problem: &GemmProblem,
    epilogue: &Epilogue,
) -> Result<()> {
    let pass = Pass::epilogue(stream.context(), problem.dtype)?;
    let arguments = MatmulArguments::new(&Product::new(problem, epilogue));
    // SAFETY: the caller's promise.
    unsafe { pass.launch(stream, &arguments) }
}
