//! Launching the kernels of module `grouped`.

use candle_core::{bail, CudaDevice, CudaStorage, DType, Error, Result, Tensor};
use candle_rocm_kernels::few;
use candle_rocm_kernels::grouped::{self, few_name, kernel_name, threads, Element, COLUMNS, DEPTH};
use candle_rocm_kernels::{Processor, GROUPED};
use candle_rocm_runtime::gemm::tune::{self, Work};
use candle_rocm_runtime::gemm::{Arguments, Gpu, MatmulArguments};
use candle_rocm_runtime::{DeviceRepr, LaunchConfig};

use super::groups::RowGroups;
use super::plan::{plans, Kernel, Plan, Size, RESIDENT};
use crate::ops::launch::{
    allocate, batched, compute_units, grid, int, launch_function, launch_with, with_addresses,
    write, THREADS,
};
use crate::specialised::{self, Wanted};

/// Workgroups for a compute unit of the kernel that adds up parts of k.
const SUM_WORKGROUPS_PER_UNIT: usize = 8;

candle_rocm_kernels::kernel_argument! { OPERAND_SCALES,
    /// `OperandScales` of kernels/matmul/grouped_problem.cuh.
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
        sharing: u32,
        reserved: u32,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for GroupedArguments {}

/// The factors of an operand, which are f32, or packed by four along k as exponents in words.
#[derive(Clone, Debug)]
pub(crate) struct Scales {
    pub values: Tensor,
    /// Between matrices, rows and 128 k: in factors or words.
    pub steps: [usize; 3],
    /// 2^this many rows share one.
    pub row_shift: u32,
    pub packed: bool,
}

impl Scales {
    /// Whether all rows of a block have one.
    fn rows_share(&self) -> bool {
        self.row_shift == DEPTH.ilog2() || self.steps[1] == 0
    }

    /// Whether the factors of a tile's columns are within 32 bits of each other.
    fn columns_are_near(&self) -> bool {
        self.steps[1] * COLUMNS * size_of::<f32>() < 1 << 32
    }
}

/// An operand: a matrix of rows and k for each of a batch, or one for all.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub values: Tensor,
    pub rows: usize,
    pub k: usize,
    /// Elements between matrices, rows and k: of the last two one is 1, unless there is but one row or k.
    pub steps: [usize; 3],
    pub scales: Option<Scales>,
}

impl Operand {
    /// A tensor (rows, k) or (batch, rows, k), copied where neither rows nor k are together.
    pub fn of(x: &Tensor, what: &str) -> Result<Self> {
        let (rows, k, batch_step) = match *x.dims() {
            [rows, k] => (rows, k, false),
            [_, rows, k] => (rows, k, true),
            _ => bail!(
                "{what} of shape {:?} is no matrix, nor a batch of them",
                x.shape()
            ),
        };
        let steps = |x: &Tensor| match *x.stride() {
            [row, k] => [0, row, k],
            [batch, row, k] if batch_step => [batch, row, k],
            _ => [0, 0, 0],
        };
        let mut operand = Self {
            values: x.clone(),
            rows,
            k,
            steps: steps(x),
            scales: None,
        };
        if operand.order().is_none() {
            operand.values = x.contiguous()?;
            operand.steps = steps(&operand.values);
        }
        Ok(operand)
    }

    /// Whether k is together, and the elements between rows, or, where rows are together, between k.
    fn order(&self) -> Option<(bool, usize)> {
        let [_, row, along] = self.steps;
        let together = |step: usize, count: usize, next: usize, others: usize| {
            let fits = (step == 1 || count <= 1) && (others <= 1 || next >= count);
            fits.then_some(if others <= 1 { count.max(1) } else { next })
        };
        let along_k = together(along, self.k, row, self.rows).map(|ld| (true, ld));
        along_k.or_else(|| together(row, self.rows, along, self.k).map(|ld| (false, ld)))
    }
}

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
            DType::F32 => 0,
            DType::F16 => 1,
            DType::BF16 => 2,
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
            let lines = operand.rows.min(few::THREADS as usize);
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
                let config = grid(tiles, plan.parts, threads(processor, element, tile))?;
                let config = batched(self.name, config, self.batch)?;
                Ok((kernel_name(element, shared, tile, transposed), config))
            }
            Kernel::Few {
                columns,
                shape,
                sharing,
            } => {
                let rows = m.div_ceil(shape.rows_of_workgroup(sharing) as usize);
                let config = grid(rows, plan.parts, shape.threads(sharing))?;
                let config = batched(self.name, config, matrices)?;
                Ok((few_name(element, shared, columns), config))
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
            parts: plan.parts as u32,
            part_k: self.int("k", plan.part_k)?,
            ..Default::default()
        };
        let mut teams = 0;
        match plan.kernel {
            Kernel::Tile(tile) => {
                let tile = [tile.rows, tile.columns];
                let tiles =
                    [(m, tile[0]), (n, tile[1])].map(|(all, of)| all.div_ceil(of as usize) as u64);
                let concurrent = RESIDENT * u64::from(gpu.compute_units);
                product.order = gpu.order(tile, tiles, concurrent);
            }
            Kernel::Few { sharing, .. } => teams = sharing,
        }
        Ok(GroupedArguments {
            product,
            scales_a: scales(self.b),
            scales_b: scales(self.a),
            grouping: match self.grouping {
                Grouping::Batch => 0,
                Grouping::Rows(_) => 1,
                Grouping::InUse { .. } => 2,
                Grouping::K(_) => 3,
            },
            result: self.result_type()?,
            sharing: teams,
            ..Default::default()
        })
    }

    /// Computes it.
    pub fn compute(&self, device: &CudaDevice) -> Result<CudaStorage> {
        let size = self.size();
        let mut result = allocate(device, self.dtype, self.elements())?;
        if self.elements() == 0 {
            return Ok(result);
        }
        let layout = self.layout()?;
        let stream = device.cuda_stream();
        let gpu = Gpu::from(stream.context().info());
        let few = layout.along_k == [true; 2]
            && !matches!(self.grouping, Grouping::K(_))
            && self.within_reach();
        let plans = plans(
            self.element(),
            size,
            few,
            gpu.processor,
            compute_units(device),
        );
        let mut refused = None;
        let timed = tune::fastest_of(
            &stream,
            || Work {
                kind: self.kind(&layout),
                sizes: [size.m, size.n, size.k, size.batch],
            },
            || plans.iter().map(ToString::to_string).collect(),
            &mut |place| {
                self.launch(device, &plans[place], &layout, &mut result)
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
        self.launch(device, &plans[place], &layout, &mut result)?;
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

    /// Gives it to the stream by a plan.
    fn launch(
        &self,
        device: &CudaDevice,
        plan: &Plan,
        layout: &Layout,
        result: &mut CudaStorage,
    ) -> Result<()> {
        let elements = self.elements();
        let groups = match self.grouping {
            Grouping::Batch => None,
            Grouping::Rows(groups) => Some(groups.numbers()),
            Grouping::InUse { rows: groups, .. } | Grouping::K(groups) => Some(groups),
        };
        let stream = device.cuda_stream();
        let gpu = Gpu::from(stream.context().info());
        let mut partial = match plan.parts {
            1 => None,
            parts => Some(allocate(device, DType::F32, elements * parts)?),
        };
        let [a_along_k, b_along_k] = layout.along_k;
        let mut arguments = self.arguments(plan, layout.lds, gpu)?;
        let (kernel, config) = self.launch_of(plan, gpu.processor, [a_along_k, !b_along_k])?;
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
                let sums = partial
                    .as_mut()
                    .map(|partial| write(partial, &stream))
                    .transpose()?;
                let product = &mut arguments.product;
                (product.gemm.a, product.gemm.b, product.gemm.c) = (a, b, c);
                (product.residual, product.partial) =
                    (addend, sums.as_ref().map_or(0, |(sums, _)| *sums));
                (arguments.scales_a.values, arguments.scales_b.values) = (scales_a, scales_b);
                arguments.groups = groups;
                let special =
                    specialised::function(device, || wanted(&kernel, &arguments, b_along_k))?;
                // SAFETY: the matrices are those that the arguments describe, and the result has room for all of C and, with
                // several parts, the sums for each part's. A kernel for the shape is the same with constants of it.
                unsafe {
                    match &special {
                        Some(function) => launch_function(device, function, config, &arguments),
                        None => launch_with(device, &GROUPED, &kernel, config, &arguments),
                    }
                }?;
                if plan.parts > 1 {
                    let workgroups = elements.div_ceil(THREADS as usize);
                    let most = SUM_WORKGROUPS_PER_UNIT * compute_units(device);
                    let config = grid(workgroups.min(most), 1, THREADS)?;
                    // SAFETY: as above; the sums were given to the same stream.
                    unsafe { launch_with(device, &GROUPED, "grouped_sum", config, &arguments) }?;
                }
                Ok(())
            },
        )
    }
}

/// How the operands lie, B's rows' first, as kernels have them: whether k is together, and elements between lines.
struct Layout {
    along_k: [bool; 2],
    lds: [usize; 2],
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
        format: scales.packed.into(),
    }
}
