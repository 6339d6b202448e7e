//! Gives a plan to a stream.

use super::plan::{Plan, Product};
use crate::dtype::DeviceRepr;
use crate::error::Result;
use crate::launch::{LaunchConfig, PushKernelArg};
use crate::stream::Stream;

/// `GemmProblem` of kernels/gemm_problem.cuh.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    a: u64,
    b: u64,
    c: u64,
    lda: i64,
    ldb: i64,
    row_c: i64,
    ldc: i64,
    stride_a: i64,
    stride_b: i64,
    stride_c: i64,
    alpha: f64,
    beta: f64,
    m: u32,
    n: u32,
    k: u32,
    reserved: u32,
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for Arguments {}

impl Arguments {
    fn new(product: &Product) -> Self {
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
            reserved: 0,
        }
    }
}

/// Gives a plan's launches to the stream, for those who choose the plan themselves.
///
/// # Safety
/// As [`super::gemm_strided_batched`], of the problem that the plan was made for.
///
/// # Errors
/// The module is not embedded for this device, or HIP refuses the launch.
pub unsafe fn launch_plan(stream: &Stream, plan: &Plan) -> Result<()> {
    let name = plan.kernel.name(plan.product.dtype);
    let function = stream.context().kernel(&candle_rocm_kernels::GEMM, &name)?;
    let takes_layout = !matches!(plan.kernel, super::plan::Kernel::Tile { .. });
    let b_along_k = u32::from(plan.b_along_k);
    for piece in plan.pieces() {
        let arguments = Arguments::new(&piece.product);
        let mut launch = stream.launch_builder(&function);
        launch.arg(&arguments);
        if takes_layout {
            launch.arg(&b_along_k);
        }
        let config = LaunchConfig {
            grid_dim: piece.grid,
            block_dim: (plan.kernel.threads(), 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the kernel's parameters in order; the matrices are the caller's promise.
        unsafe { launch.launch(config) }?;
    }
    Ok(())
}
