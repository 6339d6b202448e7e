//! Launching the kernels of module `grouped`.

use std::sync::OnceLock;

use candle_core::{bail, CudaDevice, CudaStorage, DType, Error, Result, Tensor};
use candle_rocm_kernels::grouped::{
    self, kernel_name, skinny_name, threads, Element, COLUMNS, DEPTH,
};
use candle_rocm_kernels::numbers::grouped::{
    RESULT_BF16, RESULT_F16, RESULT_F32, SCALES_E8M0, SCALES_F32,
};
use candle_rocm_kernels::skinny;
use candle_rocm_kernels::{Processor, GROUPED};
use candle_rocm_runtime::gemm::tune::{self, Work};
use candle_rocm_runtime::gemm::{Arguments, Gpu, MatmulArguments};
use candle_rocm_runtime::plan::grouped::{plans, Kernel, Plan, Size, RESIDENT};
use candle_rocm_runtime::plan_cache;
use candle_rocm_runtime::ready::ReadyLaunch;
use candle_rocm_runtime::{DeviceRepr, LaunchConfig, Stream, Workspace};

use super::operand::{Operand, Scales};
use super::problem::{Grouping, Key, Layout};
use crate::ops::launch::{
    allocate, batched, grid, int, launch_function, with_addresses, write, THREADS,
};
use crate::specialised::{self, Wanted};

/// Workgroups for a compute unit of the kernel that adds up splits of k.
const SUM_WORKGROUPS_PER_UNIT: usize = 8;

candle_rocm_kernels::kernel_argument! { OPERAND_SCALES,
    /// `OperandScales` of kernels/matmul/grouped/problem.cuh.
    #[derive(Clone, Copy, Default)]
    struct ScaleArguments {
        values: u64,
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
    struct GroupedArguments {
        product: MatmulArguments,
        scales_a: ScaleArguments,
        scales_b: ScaleArguments,
        groups: u64,
        grouping: u32,
        result: u32,
        log2_slice_k: u32,
        reserved: u32,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for GroupedArguments {}

/// A product of `a` (rows of the result) and `b` (its columns): result (batch, rows of a, rows of b).
#[derive(Clone, Debug)]
pub(crate) struct Product<'a> {
    pub name: &'static str,
    pub a: &'a Operand,
    pub b: &'a Operand,
    /// Added to the product: contiguous, of the result's shape and type.
    pub addend: Option<&'a Tensor>,
    pub batch: usize,
    pub grouping: Grouping<'a>,
    pub dtype: DType,
}

impl Product<'_> {
    fn int(&self, what: &str, value: usize) -> Result<u32> {
        int(self.name, what, value)
    }

    /// Operands with scales are FP8, the others bf16.
    fn element(&self) -> Element {
        match self.b.scales {
            Some(_) => Element::F8e4m3,
            None => Element::Bf16,
        }
    }

    fn result_type(&self) -> Result<u32> {
        Ok(match self.dtype {
            DType::F32 => RESULT_F32,
            DType::F16 => RESULT_F16,
            DType::BF16 => RESULT_BF16,
            other => bail!("{}: results are f32, f16 or bf16, not {other:?}", self.name),
        })
    }

    /// What a plan is made for; C's rows, as kernels have them, are its columns here.
    fn size(&self) -> Size {
        Size {
            m: self.b.rows,
            n: self.a.rows,
            k: self.a.k,
            batch: self.batch,
            divides: matches!(self.grouping, Grouping::Batch | Grouping::Rows(_)),
            usual: match self.grouping {
                Grouping::Rows(groups) => Some(groups.usual()),
                Grouping::InUse { expected, .. } => Some(expected),
                _ => None,
            },
            matrices: match self.grouping {
                Grouping::Rows(_) => self.a.rows.div_ceil(COLUMNS),
                _ => self.batch,
            },
        }
    }

    /// Whether offsets of what few columns' kernels read at a time, and of factors, are within 32 bits.
    fn within_reach(&self) -> bool {
        let operands = [self.a, self.b].into_iter();
        operands.into_iter().all(|operand| {
            let lines = operand.rows.min(skinny::THREADS as usize);
            let of_values = lines * operand.steps[1] + operand.k;
            let of_scales = operand.scales.as_ref().map_or(0, |scales| {
                let rows = operand.rows >> scales.row_shift.min(31);
                rows * scales.steps[1] + operand.k.div_ceil(DEPTH) * scales.steps[2]
            });
            of_values.max(of_scales) < 1 << 30
        })
    }

    /// The kernel that a plan names, and its grid.
    fn launch_of(
        &self,
        plan: &Plan,
        processor: Processor,
        transposed: [bool; 2],
    ) -> Result<(String, LaunchConfig)> {
        let (element, Size { m, n, matrices, .. }) = (self.element(), self.size());
        // The kernel's rows are B's, and its columns A's.
        let shared = self.b.scales.as_ref().is_some_and(Scales::rows_share)
            && self.a.scales.as_ref().is_some_and(Scales::columns_are_near);
        match plan.kernel {
            Kernel::Tile(tile) => {
                let tiles = m.div_ceil(tile.rows as usize) * n.div_ceil(tile.columns as usize);
                let config = grid(tiles, plan.splits, threads(processor, element, tile))?;
                let config = batched(self.name, config, self.batch)?;
                Ok((kernel_name(element, shared, tile, transposed), config))
            }
            Kernel::Skinny {
                columns,
                shape,
                log2_slice_k,
            } => {
                let rows = m.div_ceil(shape.rows_of_workgroup(log2_slice_k) as usize);
                let config = grid(rows, plan.splits, shape.threads(log2_slice_k))?;
                let config = batched(self.name, config, matrices)?;
                Ok((skinny_name(element, shared, columns), config))
            }
        }
    }

    /// The kernel's argument, but for addresses.
    fn arguments(&self, plan: &Plan, lds: [usize; 2], gpu: Gpu) -> Result<GroupedArguments> {
        let Size { m, n, k, .. } = self.size();
        let mut product = MatmulArguments {
            gemm: Arguments {
                lda: lds[0] as i64,
                ldb: lds[1] as i64,
                row_c: 1,
                ldc: m as i64,
                stride_a: self.b.steps[0] as i64,
                stride_b: self.a.steps[0] as i64,
                stride_c: (m * n) as i64,
                alpha: 1.,
                m: self.int("columns", m)?,
                n: self.int("rows", n)?,
                k: self.int("k", k)?,
                ..Default::default()
            },
            ld_residual: m as i64,
            stride_residual: (m * n) as i64,
            batch: self.int("batch", self.batch)?,
            splits: plan.splits as u32,
            k_per_split: self.int("k", plan.k_per_split)?,
            ..Default::default()
        };
        let mut warps = 0;
        match plan.kernel {
            Kernel::Tile(tile) => {
                let tile = [tile.rows, tile.columns];
                let tiles =
                    [(m, tile[0]), (n, tile[1])].map(|(all, of)| all.div_ceil(of as usize) as u64);
                let concurrent = RESIDENT * u64::from(gpu.compute_units);
                product.order = gpu.order(tile, tiles, concurrent);
            }
            Kernel::Skinny { log2_slice_k, .. } => warps = log2_slice_k,
        }
        Ok(GroupedArguments {
            product,
            scales_a: scales(self.b),
            scales_b: scales(self.a),
            grouping: self.grouping.number(),
            result: self.result_type()?,
            log2_slice_k: warps,
            ..Default::default()
        })
    }

    /// All that a plan and its launches depend on, but for addresses.
    fn key(&self, layout: &Layout) -> Result<Key> {
        let factors = |operand: &Operand| {
            let of = |scales: &Scales| (scales.steps, scales.row_shift, scales.packed);
            operand.scales.as_ref().map(of)
        };
        Ok(Key {
            size: self.size(),
            element: self.element(),
            result: self.result_type()?,
            layout: *layout,
            strides: [self.b.steps, self.a.steps],
            factors: [factors(self.b), factors(self.a)],
            grouping: self.grouping.number(),
        })
    }

    /// The plans that may be worth a try.
    fn planned(&self, gpu: Gpu, layout: &Layout) -> Planned {
        let skinny = layout.along_k == [true; 2]
            && !matches!(self.grouping, Grouping::K(_))
            && self.within_reach();
        let units = gpu.compute_units.max(1) as usize;
        let plans = plans(self.element(), self.size(), skinny, gpu.processor, units);
        Planned {
            ready: plans.iter().map(|_| OnceLock::new()).collect(),
            plans,
        }
    }

    /// A plan's kernels, found, and their argument but for addresses.
    fn ready(&self, stream: &Stream, plan: &Plan, layout: &Layout) -> Result<Ready> {
        let context = stream.context();
        let gpu = Gpu::from(context.info());
        let [a_along_k, b_along_k] = layout.along_k;
        let arguments = self.arguments(plan, layout.lds, gpu)?;
        let (kernel, config) = self.launch_of(plan, gpu.processor, [a_along_k, !b_along_k])?;
        let find = |kernel: &str, config| ReadyLaunch::of(context, &GROUPED, kernel, config);
        let sum = match plan.splits {
            1 => None,
            _ => {
                let workgroups = self.elements().div_ceil(THREADS as usize);
                let most = SUM_WORKGROUPS_PER_UNIT * gpu.compute_units.max(1) as usize;
                let config = grid(workgroups.min(most), 1, THREADS)?;
                Some(find("grouped_sum", config).map_err(Error::wrap)?)
            }
        };
        Ok(Ready {
            product: find(&kernel, config).map_err(Error::wrap)?,
            kernel,
            arguments,
            sum,
        })
    }

    /// Computes it.
    pub fn compute(&self, device: &CudaDevice) -> Result<CudaStorage> {
        let mut result = allocate(device, self.dtype, self.elements())?;
        if self.elements() == 0 {
            return Ok(result);
        }
        let layout = self.layout()?;
        let stream = device.cuda_stream();
        let context = stream.context();
        let planned = PLANNED.get_or_make(context.device(), &self.key(&layout)?, || {
            Ok::<_, Error>(self.planned(Gpu::from(context.info()), &layout))
        })?;
        let mut refused = None;
        let timed = tune::fastest_of(
            &stream,
            || {
                let Size { m, n, k, batch, .. } = self.size();
                Work {
                    kind: self.kind(&layout),
                    sizes: [m, n, k, batch],
                }
            },
            || planned.plans.iter().map(ToString::to_string).collect(),
            &mut |place| {
                self.launch(device, &planned, place, &layout, &mut result)
                    .map_err(|error| {
                        let text = error.to_string();
                        refused = Some(error);
                        candle_rocm_runtime::Error::invalid(text)
                    })
            },
        );
        let place = timed.map_err(Error::wrap)?.unwrap_or(0);
        if let Some(error) = refused {
            return Err(error);
        }
        self.launch(device, &planned, place, &layout, &mut result)?;
        Ok(result)
    }

    /// What it is, but for its sizes, to those who time it.
    fn kind(&self, layout: &Layout) -> String {
        let [a, b] = [layout.along_k[0], !layout.along_k[1]].map(|is| if is { 't' } else { 'n' });
        let element = self.element().name();
        let factors = match &self.b.scales {
            Some(scales) if scales.rows_share() => " by blocks",
            _ => "",
        };
        let grouping = match self.grouping {
            Grouping::Batch => String::new(),
            Grouping::Rows(groups) => format!(" rows of groups, {} usual", groups.usual()),
            Grouping::InUse { expected, .. } => format!(" rows in use, {expected} usual"),
            Grouping::K(_) => " groups of k".to_owned(),
        };
        format!(
            "grouped {element}{factors} {a}{b} {:?}{grouping}",
            self.dtype
        )
    }

    fn elements(&self) -> usize {
        let Size { m, n, batch, .. } = self.size();
        m * n * batch
    }

    fn layout(&self) -> Result<Layout> {
        let order = |operand: &Operand| match operand.order() {
            Some(order) => Ok(order),
            None => bail!("{}: an operand of {:?}", self.name, operand.values.layout()),
        };
        let ((a_along_k, lda), (b_along_k, ldb)) = (order(self.b)?, order(self.a)?);
        Ok(Layout {
            along_k: [a_along_k, b_along_k],
            lds: [lda, ldb],
        })
    }

    /// Gives it to the stream by one of its plans.
    fn launch(
        &self,
        device: &CudaDevice,
        planned: &Planned,
        place: usize,
        layout: &Layout,
        result: &mut CudaStorage,
    ) -> Result<()> {
        let groups = match self.grouping {
            Grouping::Batch => None,
            Grouping::Rows(groups) => Some(groups.numbers()),
            Grouping::InUse { rows: groups, .. } | Grouping::K(groups) => Some(groups),
        };
        let stream = device.cuda_stream();
        let (plan, ready) = (&planned.plans[place], &planned.ready[place]);
        let ready = match ready.get() {
            Some(ready) => ready,
            None => {
                let made = self.ready(&stream, plan, layout)?;
                ready.get_or_init(|| made)
            }
        };
        let mut arguments = ready.arguments;
        let bytes = match plan.splits {
            1 => 0,
            splits => (self.elements() * splits * size_of::<f32>()) as u64,
        };
        let partial = Workspace::new(&stream, bytes).map_err(Error::wrap)?;
        let factors =
            |operand: &Operand| operand.scales.as_ref().map(|scales| scales.values.clone());
        let (scales_a, scales_b) = (factors(self.b), factors(self.a));
        let tensors = [
            Some(&self.b.values),
            Some(&self.a.values),
            scales_a.as_ref(),
            scales_b.as_ref(),
            self.addend,
            groups,
        ];
        with_addresses(
            self.name,
            &stream,
            tensors,
            |[a, b, scales_a, scales_b, addend, groups]| {
                let (c, _written) = write(result, &stream)?;
                let product = &mut arguments.product;
                (product.gemm.a, product.gemm.b, product.gemm.c) = (a, b, c);
                (product.residual, product.partial) = (addend, partial.address());
                (arguments.scales_a.values, arguments.scales_b.values) = (scales_a, scales_b);
                arguments.groups = groups;
                let special = specialised::function(device, || {
                    wanted(&ready.kernel, &arguments, layout.along_k[1])
                })?;
                // SAFETY: the matrices are those that the arguments describe, and the result has room for all of C and, with
                // several splits, the workspace for each split's sums. A kernel for the shape is the same with constants of
                // it.
                unsafe {
                    match &special {
                        Some(function) => {
                            let config = ready.product.config();
                            launch_function(device, function, config, &arguments)
                        }
                        None => ready
                            .product
                            .launch_with(&stream, &arguments)
                            .map_err(Error::wrap),
                    }
                }?;
                match &ready.sum {
                    Some(sum) => {
                        // SAFETY: the arguments are the product's, whose sums were given to the same stream.
                        unsafe { sum.launch_with(&stream, &arguments) }.map_err(Error::wrap)
                    }
                    None => Ok(()),
                }
            },
        )?;
        partial.free().map_err(Error::wrap)
    }
}

plan_cache!(
    /// Plans of grouped products.
    static PLANNED: Key => Planned
);

/// The plans of a problem, the most promising first, each with what it is launched by, once it was.
struct Planned {
    plans: Vec<Plan>,
    ready: Vec<OnceLock<Ready>>,
}

/// What a plan is launched by.
struct Ready {
    /// The name of the product's kernel, by which those for a shape are found.
    kernel: String,
    product: ReadyLaunch,
    arguments: GroupedArguments,
    /// Adds up splits of K.
    sum: Option<ReadyLaunch>,
}

/// A kernel for the constants of a shape: what is the same whatever the number of the result's rows, and whatever of their
/// plan it has.
fn wanted(kernel: &str, arguments: &GroupedArguments, b_along_k: bool) -> Option<Wanted> {
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
        ("product.splits", product.splits.into()),
        ("product.k_per_split", product.k_per_split.into()),
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
        ("log2_slice_k", arguments.log2_slice_k.into()),
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

fn scales(operand: &Operand) -> ScaleArguments {
    let Some(scales) = &operand.scales else {
        return ScaleArguments::default();
    };
    let [stride, row_step, k_step] = scales.steps.map(|step| step as i64);
    ScaleArguments {
        values: 0,
        stride,
        row_step,
        k_step,
        row_shift: scales.row_shift,
        format: match scales.packed {
            false => SCALES_F32,
            true => SCALES_E8M0,
        },
    }
}
