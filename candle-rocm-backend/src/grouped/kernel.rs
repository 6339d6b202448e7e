//! Launching the kernels of module `grouped`.

use candle_core::{bail, CudaDevice, CudaStorage, DType, Error, Result, Tensor};
use candle_rocm_kernels::grouped::{kernel_name, threads, Element, DEPTH};
use candle_rocm_kernels::GROUPED;
use candle_rocm_runtime::{DeviceRepr, LaunchConfig, PushKernelArg as _, Stream};

use super::groups::RowGroups;
use super::plan::{plan, Plan, Size};
use crate::ops::launch::{allocate, compute_units, with_addresses, write};

/// `GemmProblem` of kernels/matmul/gemm_problem.cuh.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct GemmArguments {
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

/// `MatmulProblem` of kernels/matmul/matmul_problem.cuh.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct MatmulArguments {
    gemm: GemmArguments,
    partial: u64,
    bias: u64,
    residual: u64,
    ld_residual: i64,
    stride_residual: i64,
    batch: u32,
    parts: u32,
    part_k: u32,
    activation: u32,
    tiles_m: u32,
    tiles_n: u32,
    group: u32,
    chiplets: u32,
}

/// `OperandScales` of kernels/matmul/grouped_problem.cuh.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ScaleArguments {
    values: u64,
    stride: i64,
    row_step: i64,
    k_step: i64,
    row_shift: u32,
    format: u32,
}

/// `GroupedProblem` of the same.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct GroupedArguments {
    product: MatmulArguments,
    scales_a: ScaleArguments,
    scales_b: ScaleArguments,
    groups: u64,
    grouping: u32,
    result: u32,
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
    /// So many rows of each matrix.
    InUse(&'a Tensor),
    /// k from where this group begins to where the next does.
    K(&'a Tensor),
}

/// A product of `a` (rows of the result) and `b` (its columns): result (batch, rows of a, rows of b).
#[derive(Clone, Debug)]
pub(crate) struct Product<'a> {
    pub name: &'static str,
    pub element: Element,
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
        match i32::try_from(value) {
            Ok(value) => Ok(value.unsigned_abs()),
            Err(_) => bail!("{}: {what} of {value} is more than 2^31 - 1", self.name),
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

    /// Computes it.
    pub fn compute(&self, device: &CudaDevice) -> Result<CudaStorage> {
        // C's rows, as kernels have them, are its columns here.
        let (m, n, k) = (self.b.rows, self.a.rows, self.a.k);
        let mut result = allocate(device, self.dtype, m * n * self.batch)?;
        if m == 0 || n == 0 || self.batch == 0 {
            return Ok(result);
        }
        let (grouping, groups) = match self.grouping {
            Grouping::Batch => (0, None),
            Grouping::Rows(groups) => (1, Some(groups.numbers())),
            Grouping::InUse(groups) => (2, Some(groups)),
            Grouping::K(groups) => (3, Some(groups)),
        };
        let stream = device.cuda_stream();
        let arch = stream.context().info().arch.clone();
        let size = Size {
            m,
            n,
            k,
            batch: self.batch,
            divides: grouping < 2,
            usual: match self.grouping {
                Grouping::Rows(groups) => Some(groups.usual()),
                _ => None,
            },
        };
        let plan = plan(self.element, size, &arch, compute_units(device));
        let order = |operand: &Operand| match operand.order() {
            Some(order) => Ok(order),
            None => bail!("{}: an operand of {:?}", self.name, operand.values.layout()),
        };
        let ((a_along_k, lda), (b_along_k, ldb)) = (order(self.b)?, order(self.a)?);
        let (tile, count) = (plan.tile, |all: usize, of: u32| all.div_ceil(of as usize));
        let (tiles_m, tiles_n) = (count(m, tile.rows), count(n, tile.columns));
        let mut partial = match plan.parts {
            1 => None,
            parts => Some(allocate(device, DType::F32, m * n * self.batch * parts)?),
        };
        let mut arguments = GroupedArguments {
            product: MatmulArguments {
                gemm: GemmArguments {
                    lda: lda as i64,
                    ldb: ldb as i64,
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
                tiles_m: tiles_m as u32,
                tiles_n: tiles_n as u32,
                group: group_of(&plan, tiles_m, compute_units(device)),
                chiplets: 1,
                ..Default::default()
            },
            scales_a: scales(self.b),
            scales_b: scales(self.a),
            grouping,
            result: self.result_type()?,
            ..Default::default()
        };
        let tiles = self.int("tiles", tiles_m * tiles_n)?;
        let batch = self.int("batch", self.batch)?;
        if batch > 65_535 {
            bail!("{}: a batch of {batch} is more than 65,535", self.name);
        }
        let config = LaunchConfig {
            grid_dim: (tiles, plan.parts as u32, batch),
            block_dim: (threads(&arch, self.element, tile), 1, 1),
            shared_mem_bytes: 0,
        };
        let blocks = self
            .b
            .scales
            .as_ref()
            .is_some_and(|scales| scales.rows_share());
        let kernel = kernel_name(self.element, blocks, tile, [a_along_k, !b_along_k]);
        let of = |operand: &'_ Operand| operand.scales.as_ref().map(|scales| scales.values.clone());
        let (scales_a, scales_b) = (of(self.b), of(self.a));
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
                let (c, _written) = write(&mut result, &stream)?;
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
                // SAFETY: the matrices are those that the arguments describe, and the result has room for all of C and, with
                // several parts, the sums for each part's.
                unsafe { launch(&stream, &kernel, config, &arguments) }?;
                if plan.parts > 1 {
                    let config = LaunchConfig {
                        grid_dim: (
                            (m * n * self.batch)
                                .div_ceil(256)
                                .min(8 * compute_units(device)) as u32,
                            1,
                            1,
                        ),
                        block_dim: (256, 1, 1),
                        shared_mem_bytes: 0,
                    };
                    // SAFETY: as above; the sums were given to the same stream.
                    unsafe { launch(&stream, "grouped_sum", config, &arguments) }?;
                }
                Ok(())
            },
        )?;
        Ok(result)
    }
}

/// Tiles of rows that are gone through together, that what runs at once is about as wide as high.
fn group_of(plan: &Plan, tiles_m: usize, units: usize) -> u32 {
    let ratio = f64::from(plan.tile.columns) / f64::from(plan.tile.rows);
    let square = (2.0 * units as f64 * ratio).sqrt().round() as usize;
    square.clamp(1, tiles_m.max(1)) as u32
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

/// Launches a kernel of the module.
///
/// # Safety
/// What the argument says is within the memory that it names.
unsafe fn launch(
    stream: &Stream,
    kernel: &str,
    config: LaunchConfig,
    argument: &GroupedArguments,
) -> Result<()> {
    let function = stream
        .context()
        .kernel(&GROUPED, kernel)
        .map_err(Error::wrap)?;
    let mut builder = stream.launch_builder(&function);
    builder.arg(argument);
    // SAFETY: the kernel's one parameter, and the caller's promise.
    unsafe { builder.launch(config) }.map_err(Error::wrap)?;
    Ok(())
}

/// Checks that groups along k begin at multiples of what scales cover.
pub(crate) fn starts_along_k(name: &str, sizes: &[usize], k: usize) -> Result<Vec<i32>> {
    let mut starts = vec![0i32];
    let mut at = 0usize;
    for (group, &size) in sizes.iter().enumerate() {
        if size % DEPTH != 0 {
            bail!(
                "{name}: group {group} has {size} of k: groups along k have multiples of {DEPTH}"
            );
        }
        at += size;
        match i32::try_from(at) {
            Ok(at) => starts.push(at),
            Err(_) => bail!("{name}: k of {at} is more than 2^31 - 1"),
        }
    }
    if at != k {
        bail!("{name}: the groups have {at} of k together, and the operands {k}");
    }
    Ok(starts)
}
