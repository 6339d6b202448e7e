//! Gives a plan to a stream.

use candle_rocm_kernels::matmul::SumsOfParts;
use candle_rocm_kernels::order::TileOrder;
use candle_rocm_kernels::{activations, Module, GEMM, MATMUL};

use super::epilogue::{Activation, Epilogue};
use super::handover;
use super::kernel::Kernel;
use super::plan::Plan;
use super::problem::GemmProblem;
use super::product::Product;
use crate::base::dtype::DeviceRepr;
use crate::base::error::Result;
use crate::kernels::launch::PushKernelArg;
use crate::kernels::submit::LaunchConfig;
use crate::memory::workspace::Workspace;
use crate::stream::queue::Stream;

/// Work-items of a workgroup of kernels that go over C, `matmul_sum_*` and `gemm_epilogue_*`.
const PASS_THREADS: u32 = 256;
/// Their workgroups for a compute unit: as many as it holds.
const PASS_WORKGROUPS_PER_UNIT: u32 = 8;

/// `GemmProblem` of kernels/matmul/gemm_problem.cuh, which says what the fields are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
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

/// `MatmulProblem` of kernels/matmul/matmul_problem.cuh, which says what the fields are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct MatmulArguments {
    pub gemm: Arguments,
    pub partial: u64,
    pub sums_of_parts: u32,
    pub is_bare: u32,
    pub bias: u64,
    pub residual: u64,
    pub ld_residual: i64,
    pub stride_residual: i64,
    pub batch: u32,
    pub parts: u32,
    pub part_k: u32,
    pub activation: u32,
    pub order: TileOrder,
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for Arguments {}
// SAFETY: as above.
unsafe impl DeviceRepr for MatmulArguments {}

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
            wide_c: product.dtype.widens().into(),
        }
    }
}

impl MatmulArguments {
    /// The product and its epilogue, with k in one part and without tiles.
    fn new(product: &Product) -> Self {
        let epilogue = &product.epilogue;
        Self {
            gemm: Arguments::new(product),
            partial: 0,
            sums_of_parts: SumsOfParts::AddedUp as u32,
            is_bare: u32::from(epilogue.is_none() && product.beta == 0. && !product.dtype.widens()),
            bias: epilogue.bias,
            residual: epilogue.residual,
            ld_residual: epilogue.ld_residual,
            stride_residual: epilogue.stride_residual,
            batch: product.batch as u32,
            parts: 1,
            part_k: product.k as u32,
            activation: number(epilogue.activation),
            order: TileOrder::default(),
        }
    }

    /// A piece of a plan, with the sums of its parts, if there are several, at `partial`, where its workgroups hand them over,
    /// or leave them to another launch.
    fn of_piece(plan: &Plan, product: &Product, partial: u64, hands_over: bool) -> Self {
        let (rows, columns) = plan.kernel.tile();
        let tiles = [product.m.div_ceil(rows), product.n.div_ceil(columns)];
        // Of chiplets that have parts of their own each has all tiles.
        let sums_of_parts = plan.sums_of_parts(hands_over);
        let chiplets = match sums_of_parts {
            SumsOfParts::OfChiplets => 1,
            _ => plan.chiplets,
        };
        Self {
            partial: if plan.parts > 1 { partial } else { 0 },
            sums_of_parts: sums_of_parts as u32,
            parts: plan.parts,
            part_k: plan.part_k,
            order: TileOrder::new(tiles.map(|tiles| tiles as u32), plan.group, chiplets),
            ..Self::new(product)
        }
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

/// Gives a plan's launches to the stream, for those who choose the plan themselves.
///
/// # Safety
/// As [`gemm_with_epilogue`](super::gemm_with_epilogue), of the problem and the epilogue that the plan was made for.
///
/// # Errors
/// The module is not embedded for this device, HIP refuses the launch, or there is no memory for partial sums.
pub unsafe fn launch_plan(stream: &Stream, plan: &Plan) -> Result<()> {
    let name = plan.kernel.name(plan.product.dtype);
    let function = stream.context().kernel(plan.kernel.module(), &name)?;
    let handover = match plan.handover_bytes() {
        Some(bytes) => handover::of(stream, bytes)?,
        None => None,
    };
    let bytes = match handover {
        Some(_) => 0,
        None => plan.workspace_bytes(),
    };
    let workspace = Workspace::new(stream, bytes).map_err(|error| error.context("partial sums"))?;
    let partial = handover.unwrap_or_else(|| workspace.address());
    // The kernels for few columns take C either way round, and are told which.
    let layout = u32::from(plan.b_along_k) | u32::from(plan.product.is_transposed) << 1;
    for piece in plan.pieces() {
        let arguments = Arguments::new(&piece.product);
        let matmul = MatmulArguments::of_piece(plan, &piece.product, partial, handover.is_some());
        let mut launch = stream.launch_builder(&function);
        match plan.kernel {
            Kernel::Tile { .. } => launch.arg(&arguments),
            Kernel::Matrix { .. } => launch.arg(&matmul),
            Kernel::Few(ref few) => launch.arg(&matmul).arg(&layout).arg(&few.sharing),
        };
        let config = LaunchConfig {
            grid_dim: piece.grid,
            block_dim: (plan.kernel.threads(), 1, 1),
            shared_mem_bytes: plan.kernel.dynamic_lds(),
        };
        // SAFETY: the kernel's parameters in order; the matrices are the caller's promise.
        let launched = unsafe { launch.launch(config) };
        if launched.is_err() && handover.is_some() {
            handover::forget(stream);
        }
        launched?;
        if plan.parts > 1 && handover.is_none() {
            let pass = match plan.kernel {
                Kernel::Few(_) => Pass::sum_of_few(layout),
                _ => Pass::SUM,
            };
            // SAFETY: the parts' sums were given to the same stream, and the rest is the caller's promise.
            unsafe { launch_pass(stream, pass, &matmul, &piece.product) }?;
        }
    }
    workspace.free()?;
    if plan.kernel.does_epilogue() || plan.product.epilogue.is_none() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { finish(stream, &plan.product) }
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
    // SAFETY: the caller's promise.
    unsafe { finish(stream, &Product::new(problem, epilogue)) }
}

/// Does a product's epilogue to C as it is.
///
/// # Safety
/// As [`gemm_with_epilogue`](super::gemm_with_epilogue), of the matrices but A and B.
unsafe fn finish(stream: &Stream, product: &Product) -> Result<()> {
    let arguments = MatmulArguments::new(product);
    // SAFETY: the caller's promise.
    unsafe { launch_pass(stream, Pass::EPILOGUE, &arguments, product) }
}

/// A kernel that goes over C in steps of any grid.
struct Pass {
    module: &'static Module,
    /// Its name, but for the type.
    kernel: &'static str,
    /// Its argument after the product, if it has one.
    layout: Option<u32>,
}

impl Pass {
    const EPILOGUE: Self = Self {
        module: &GEMM,
        kernel: "gemm_epilogue",
        layout: None,
    };
    const SUM: Self = Self {
        module: &MATMUL,
        kernel: "matmul_sum",
        layout: None,
    };

    fn sum_of_few(layout: u32) -> Self {
        Self {
            module: &GEMM,
            kernel: "gemm_sum",
            layout: Some(layout),
        }
    }
}

/// Launches a pass.
///
/// # Safety
/// The kernel's first parameter is `arguments`, and it reads and writes what they describe.
unsafe fn launch_pass(
    stream: &Stream,
    pass: Pass,
    arguments: &MatmulArguments,
    product: &Product,
) -> Result<()> {
    let name = format!("{}_{}", pass.kernel, product.dtype.operands().name());
    let function = stream.context().kernel(pass.module, &name)?;
    let elements = u128::from(product.m) * u128::from(product.n) * u128::from(product.batch);
    let most = stream.context().info().compute_units.max(1) * PASS_WORKGROUPS_PER_UNIT;
    let workgroups = elements.div_ceil(PASS_THREADS.into()).min(most.into()) as u32;
    let mut launch = stream.launch_builder(&function);
    launch.arg(arguments);
    if let Some(layout) = &pass.layout {
        launch.arg(layout);
    }
    let config = LaunchConfig {
        grid_dim: (workgroups, 1, 1),
        block_dim: (PASS_THREADS, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { launch.launch(config) }.map(|_| ())
}
