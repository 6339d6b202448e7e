//! A plan with its kernels found and its arguments made, in which one product differs from another by [`Values`] alone.

use std::sync::Arc;

use super::arguments::MatmulArguments;
use super::kernel::Kernel;
use super::pass::Pass;
use super::plan::Plan;
use super::product::Values;
use super::split_k_workspace;
use crate::base::error::Result;
use crate::kernels::ready::{addresses_of, ReadyLaunch};
use crate::kernels::submit::LaunchConfig;
use crate::memory::workspace::Workspace;
use crate::stream::context::Context;
use crate::stream::queue::Stream;

/// What a plan's launches are made of, but for values.
#[derive(Debug)]
struct Template {
    plan: Plan,
    /// Of the first launch, where another adds the splits' sums up and where they are reduced in the kernel.
    first: [MatmulArguments; 2],
    config: LaunchConfig,
    /// How the skinny kernels, which take C either way round, find it and B.
    layout: u32,
    /// Whether C takes more launches than the first.
    has_more: bool,
    in_kernel_workspace_bytes: Option<u64>,
    workspace_bytes: u64,
}

impl Template {
    /// `None` if C is empty.
    fn new(plan: Plan) -> Option<Self> {
        let mut sub_grids = plan.sub_grids();
        let sub_grid = sub_grids.next()?;
        let has_more = sub_grids.next().is_some();
        drop(sub_grids);
        let first = [false, true].map(|reduces_in_kernel| {
            MatmulArguments::of_sub_grid(&plan, &sub_grid.product, 0, reduces_in_kernel)
        });
        Some(Self {
            first,
            config: config(&plan, sub_grid.grid),
            layout: u32::from(plan.b_along_k) | u32::from(plan.product.is_transposed) << 1,
            has_more,
            in_kernel_workspace_bytes: plan.in_kernel_workspace_bytes(),
            workspace_bytes: plan.workspace_bytes(),
            plan,
        })
    }

    /// The first launch's arguments for these values.
    #[inline]
    fn first(&self, values: &Values, sums: Sums) -> MatmulArguments {
        let values = values.swapped(self.plan.product.is_transposed);
        let mut arguments = self.first[usize::from(sums.reduces_in_kernel)];
        arguments.set_values(&values, sums.partial);
        arguments
    }

    /// The other launches' arguments and geometry.
    fn others(&self, values: &Values, sums: Sums) -> Vec<(MatmulArguments, LaunchConfig)> {
        if !self.has_more {
            return Vec::new();
        }
        let plan = Plan {
            product: self.plan.product.with_values(values),
            ..self.plan
        };
        plan.sub_grids()
            .skip(1)
            .map(|sub_grid| {
                let Sums {
                    partial,
                    reduces_in_kernel,
                } = sums;
                let arguments = MatmulArguments::of_sub_grid(
                    &plan,
                    &sub_grid.product,
                    partial,
                    reduces_in_kernel,
                );
                (arguments, config(&plan, sub_grid.grid))
            })
            .collect()
    }
}

fn config(plan: &Plan, grid: (u32, u32, u32)) -> LaunchConfig {
    LaunchConfig {
        grid_dim: grid,
        block_dim: (plan.kernel.threads(), 1, 1),
        shared_mem_bytes: plan.kernel.dynamic_lds(),
    }
}

/// Where a launch leaves the sums of its splits of k, and whether its workgroups reduce them in the kernel there.
#[derive(Clone, Copy, Debug)]
struct Sums {
    partial: u64,
    reduces_in_kernel: bool,
}

/// A plan that is ready to be launched on one GPU, any number of times.
#[derive(Debug)]
pub(super) struct Prepared {
    template: Template,
    first: ReadyLaunch,
    /// Adds up the splits' sums where they are not reduced in the kernel.
    sum: Option<Pass>,
    /// Does the epilogue, where the product's kernel does not, with these arguments but for values.
    epilogue: Option<(Pass, MatmulArguments)>,
}

impl Prepared {
    /// Finds the plan's kernels; `None` if C is empty.
    ///
    /// # Errors
    /// The module is not embedded for this device, or an error is waiting.
    pub fn new(context: &Arc<Context>, plan: Plan) -> Result<Option<Self>> {
        let Some(template) = Template::new(plan) else {
            return Ok(None);
        };
        let (kernel, dtype) = (&plan.kernel, plan.product.dtype);
        let name = kernel.name(dtype);
        let first = ReadyLaunch::of(context, kernel.module(), &name, template.config)?;
        let sum = match kernel {
            _ if plan.splits == 1 => None,
            Kernel::Skinny(_) => Some(Pass::sum_of_skinny(context, dtype, template.layout)?),
            Kernel::Tile { .. } | Kernel::Matrix { .. } => Some(Pass::sum(context, dtype)?),
        };
        let epilogue = match kernel.does_epilogue() || plan.product.epilogue.is_none() {
            true => None,
            false => {
                let arguments = MatmulArguments::new(&plan.product);
                Some((Pass::epilogue(context, dtype)?, arguments))
            }
        };
        Ok(Some(Self {
            template,
            first,
            sum,
            epilogue,
        }))
    }

    /// Gives the plan's launches to the stream.
    ///
    /// # Safety
    /// As [`gemm_with_epilogue`](super::gemm_with_epilogue), of a problem and an epilogue that the plan was made for but for
    /// these values.
    ///
    /// # Errors
    /// HIP refuses the launch, or there is no memory for partial sums.
    pub unsafe fn launch(&self, stream: &Stream, values: &Values) -> Result<()> {
        let template = &self.template;
        let split_k_workspace = match template.in_kernel_workspace_bytes {
            Some(bytes) => split_k_workspace::of(stream, bytes)?,
            None => None,
        };
        let bytes = match split_k_workspace {
            Some(_) => 0,
            None => template.workspace_bytes,
        };
        let workspace =
            Workspace::new(stream, bytes).map_err(|error| error.context("partial sums"))?;
        let sums = Sums {
            partial: split_k_workspace.unwrap_or_else(|| workspace.address()),
            reduces_in_kernel: split_k_workspace.is_some(),
        };
        let first = template.first(values, sums);
        // SAFETY: the caller's promise.
        unsafe { self.launch_sub_grid(stream, &self.first, &first, sums.reduces_in_kernel) }?;
        for (arguments, config) in template.others(values, sums) {
            let other = self.first.with_config(config)?;
            // SAFETY: the caller's promise.
            unsafe { self.launch_sub_grid(stream, &other, &arguments, sums.reduces_in_kernel) }?;
        }
        workspace.free()?;
        let Some((pass, arguments)) = &self.epilogue else {
            return Ok(());
        };
        let mut arguments = *arguments;
        arguments.set_values(&values.swapped(template.plan.product.is_transposed), 0);
        // SAFETY: the caller's promise.
        unsafe { pass.launch(stream, &arguments) }
    }

    /// Launches a sub-grid, and what adds its splits' sums up.
    ///
    /// # Safety
    /// Launch and arguments are those of the plan's sub-grid; the rest is as for [`launch`](Self::launch).
    #[inline]
    unsafe fn launch_sub_grid(
        &self,
        stream: &Stream,
        launch: &ReadyLaunch,
        arguments: &MatmulArguments,
        reduces_in_kernel: bool,
    ) -> Result<()> {
        let template = &self.template;
        // SAFETY: the kernel's parameters in order; the matrices are the caller's promise.
        let launched = unsafe {
            match &template.plan.kernel {
                Kernel::Tile { .. } => launch.launch(stream, &mut addresses_of![arguments.gemm]),
                Kernel::Matrix { .. } => launch.launch(stream, &mut addresses_of![*arguments]),
                Kernel::Skinny(skinny) => {
                    let arguments =
                        &mut addresses_of![*arguments, template.layout, skinny.log2_slice_k];
                    launch.launch(stream, arguments)
                }
            }
        };
        if launched.is_err() && reduces_in_kernel {
            split_k_workspace::forget(stream);
        }
        launched?;
        match &self.sum {
            // SAFETY: the splits' sums were given to the same stream, and the rest is the caller's promise.
            Some(pass) if !reduces_in_kernel => unsafe { pass.launch(stream, arguments) },
            _ => Ok(()),
        }
    }
}

/// Gives a plan's launches to the stream, for those who choose the plan themselves.
///
/// # Safety
/// As [`gemm_with_epilogue`](super::gemm_with_epilogue), of the problem and the epilogue that the plan was made for.
///
/// # Errors
/// The module is not embedded for this device, HIP refuses the launch, or there is no memory for partial sums.
pub unsafe fn launch_plan(stream: &Stream, plan: &Plan) -> Result<()> {
    match Prepared::new(stream.context(), *plan)? {
        // SAFETY: the caller's promise.
        Some(prepared) => unsafe { prepared.launch(stream, &plan.product.values()) },
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use candle_rocm_kernels::Processor;

    use super::*;
    use crate::gemm::epilogue::{Activation, Epilogue, Residual};
    use crate::gemm::problem::{GemmDtype, GemmProblem, Transpose};
    use crate::plan::gpu::Gpu;

    const GPUS: [(&str, u32); 4] = [
        ("gfx942", 304),
        ("gfx1100", 48),
        ("gfx1201", 32),
        ("sm_90", 132),
    ];
    /// m, n, k and batch: few columns, few rows, tiles, split-K, and more than a grid covers.
    const SIZES: [[usize; 4]; 9] = [
        [2048, 1, 2048, 1],
        [1, 300, 70, 1],
        [2048, 8, 8192, 3],
        [64, 64, 64, 1],
        [100, 70, 4096, 1],
        [128, 128, 65_536, 1],
        [2048, 2048, 2048, 2],
        [5, 3, 7, 70_000],
        [40, 9_000_000, 16, 1],
    ];

    fn problems() -> impl Iterator<Item = GemmProblem> {
        let dtypes = [GemmDtype::F16, GemmDtype::BF16ToF32, GemmDtype::F32];
        let ops = [Transpose::No, Transpose::Yes];
        SIZES.into_iter().flat_map(move |[m, n, k, batch]| {
            dtypes.into_iter().flat_map(move |dtype| {
                ops.into_iter().map(move |op| GemmProblem {
                    batch,
                    stride_a: (m * k) as i64,
                    stride_b: (k * n) as i64,
                    stride_c: (m * n) as i64,
                    ..GemmProblem::packed(dtype, [op, Transpose::No], [m, n, k], [512, 1024, 2048])
                })
            })
        })
    }

    fn epilogues(problem: &GemmProblem) -> [Epilogue; 2] {
        let none = Epilogue::default();
        let all = Epilogue {
            bias: Some(4096),
            activation: Activation::Silu,
            residual: Some(Residual {
                address: 8192,
                ld: problem.m,
                stride: problem.stride_c,
            }),
        };
        // Nothing follows these.
        [none, if problem.dtype.upcasts() { none } else { all }]
    }

    /// The same products elsewhere, with other factors.
    fn moved(problem: &GemmProblem, epilogue: &Epilogue) -> (GemmProblem, Epilogue) {
        let problem = GemmProblem {
            a: 1 << 40,
            b: (1 << 41) + 2,
            c: (1 << 42) + 8,
            alpha: -3.5,
            ..*problem
        };
        let epilogue = Epilogue {
            bias: epilogue.bias.map(|_| 3 << 43),
            residual: epilogue.residual.map(|residual| Residual {
                address: (3 << 44) + 4,
                ..residual
            }),
            ..*epilogue
        };
        (problem, epilogue)
    }

    /// Each launch's arguments and grid, made from nothing but the plan.
    fn made_afresh(plan: &Plan, sums: Sums) -> Vec<(MatmulArguments, LaunchConfig)> {
        plan.sub_grids()
            .map(|sub_grid| {
                let arguments = MatmulArguments::of_sub_grid(
                    plan,
                    &sub_grid.product,
                    sums.partial,
                    sums.reduces_in_kernel,
                );
                (arguments, config(plan, sub_grid.grid))
            })
            .collect()
    }

    #[test]
    fn arguments_are_those_of_a_fresh_plan() {
        let (mut divided, mut in_kernel, mut several) = (0, 0, 0);
        for (processor, compute_units) in GPUS {
            let gpu = Gpu {
                processor: Processor::of(processor),
                compute_units,
            };
            for problem in problems() {
                for epilogue in epilogues(&problem) {
                    let plan = Plan::new(&problem, &epilogue, gpu).unwrap();
                    let template = Template::new(plan).unwrap();
                    let (other, outside) = moved(&problem, &epilogue);
                    let fresh = Plan::new(&other, &outside, gpu).unwrap();
                    let values = Values::of(&other, &outside);
                    assert_eq!(values, fresh.product.values());
                    let mut alone = MatmulArguments::new(&plan.product);
                    alone.set_values(&values.swapped(plan.product.is_transposed), 0);
                    assert_eq!(alone, MatmulArguments::new(&fresh.product));
                    assert_eq!(
                        template.in_kernel_workspace_bytes,
                        fresh.in_kernel_workspace_bytes()
                    );
                    assert_eq!(template.workspace_bytes, fresh.workspace_bytes());
                    divided += u32::from(plan.splits > 1);
                    in_kernel += u32::from(plan.may_wait());
                    for reduces_in_kernel in [false, plan.may_wait()] {
                        let partial = 7 << 45;
                        let sums = Sums {
                            partial,
                            reduces_in_kernel,
                        };
                        let mut given = vec![(template.first(&values, sums), template.config)];
                        given.extend(template.others(&values, sums));
                        several += u32::from(given.len() > 1);
                        assert_eq!(given, made_afresh(&fresh, sums), "{other} on {gpu:?}");
                    }
                }
            }
        }
        // Each kind of plan was among them.
        assert!(
            divided > in_kernel && in_kernel > 0 && several > 0,
            "{divided} divided, {in_kernel} handed over, {several} in several launches"
        );
    }
}
