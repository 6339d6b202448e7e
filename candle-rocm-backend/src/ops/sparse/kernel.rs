//! Launching the kernels of module `sparse`.

use std::sync::OnceLock;

use candle_core::{CudaDevice, CudaStorage, DType, Result, Tensor};
use candle_rocm_kernels::SPARSE;
use candle_rocm_runtime::{DeviceRepr, LaunchConfig};

use super::super::launch::{allocate, grid, int, launch_of, Arg, THREADS};
use super::super::node::plain;
use super::super::operands::{gpu, is_wide, width};
use super::super::sort::argsort;
use super::pattern::{Pattern, NAME};

/// Threads at most that share a stored number, or the columns of the result.
const MOST_ACROSS: usize = 32;

candle_rocm_kernels::kernel_argument! { SPARSE_PROBLEM,
    /// `SparseProblem` of kernels/sparse/sparse.cuh.
    #[derive(Clone, Copy, Debug, Default)]
    struct Problem {
        columns: u64,
        places: u64,
        offsets: u64,
        values: u64,
        dense: u64,
        gradient: u64,
        result: u64,
        rows: u64,
        stored: u64,
        inner: u32,
        across: u32,
        width: u32,
        lanes: u32,
        wide: u32,
        unused: u32,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernels' parameter.
unsafe impl DeviceRepr for Problem {}

/// What a kernel of a pattern reads and writes beside it.
#[derive(Default)]
struct Memory<'a> {
    values: Option<&'a Tensor>,
    dense: Option<&'a Tensor>,
    gradient: Option<&'a Tensor>,
    /// In place of the pattern's columns.
    columns: Option<&'a Tensor>,
}

impl Pattern {
    fn problem(&self) -> Problem {
        Problem {
            rows: self.rows as u64,
            stored: self.stored as u64,
            inner: self.inner as u32,
            width: self.width as u32,
            ..Problem::default()
        }
    }

    /// The matrix with these values by contiguous rows.
    pub(super) fn product(&self, values: &Tensor, dense: &Tensor) -> Result<CudaStorage> {
        let device = gpu(NAME, dense)?;
        let across = dense.elem_count() / self.inner;
        let (values, wide) = (values.contiguous()?, is_wide(across, &[dense]));
        let dtype = dense.dtype();
        let (kernel, lanes, blocks) = if across == 1 {
            // Two numbers a thread before there are more threads.
            let of_row = self.stored.div_ceil(self.rows).div_ceil(2);
            let lanes = of_row.next_power_of_two().min(THREADS as usize);
            ("vector", lanes, 1)
        } else {
            let vectors = across.div_ceil(width(dtype, wide));
            let lanes = vectors.next_power_of_two().min(MOST_ACROSS);
            ("matrix", lanes, vectors.div_ceil(lanes))
        };
        let problem = Problem {
            across: int(NAME, "columns", across)?,
            lanes: lanes as u32,
            wide: u32::from(wide),
            ..self.problem()
        };
        let mut result = allocate(device, dtype, self.rows * across)?;
        let of_rows = self.rows.div_ceil(THREADS as usize / lanes);
        let memory = Memory {
            values: Some(&values),
            dense: Some(dense),
            ..Memory::default()
        };
        let kernel = format!("sparse_{kernel}_{}", dtype.as_str());
        let config = grid(of_rows, blocks, THREADS)?;
        // SAFETY: indices were checked when the pattern was made; `result` has a row for each of the matrix'.
        unsafe { self.launch(device, &kernel, config, problem, &memory, &mut result) }?;
        Ok(result)
    }

    /// For each value the product of its rows of the result's gradient and of `dense`.
    pub(super) fn sampled(&self, gradient: &Tensor, dense: &Tensor) -> Result<CudaStorage> {
        let device = gpu(NAME, dense)?;
        let across = dense.elem_count() / self.inner;
        let wide = is_wide(across, &[gradient, dense]);
        let vectors = across.div_ceil(width(dense.dtype(), wide));
        let lanes = vectors.next_power_of_two().min(MOST_ACROSS);
        let problem = Problem {
            across: int(NAME, "columns", across)?,
            lanes: lanes as u32,
            wide: u32::from(wide),
            ..self.problem()
        };
        let mut result = allocate(device, dense.dtype(), self.stored)?;
        let memory = Memory {
            dense: Some(dense),
            gradient: Some(gradient),
            ..Memory::default()
        };
        let kernel = format!("sparse_sampled_{}", dense.dtype().as_str());
        let config = grid(self.stored.div_ceil(THREADS as usize / lanes), 1, THREADS)?;
        // SAFETY: indices were checked when the pattern was made; `result` has a number for each value.
        unsafe { self.launch(device, &kernel, config, problem, &memory, &mut result) }?;
        Ok(result)
    }

    /// The transposed matrix' pattern, whose values are this one's.
    pub(super) fn transposed(&self) -> Result<&Self> {
        if let Some(turned) = self.turned.get() {
            return Ok(turned);
        }
        let order = argsort(&self.columns, true)?;
        let sorted = self.columns.index_select(&order, 0)?;
        let mut both = allocate(gpu(NAME, &order)?, DType::U32, 2 * self.stored)?;
        let memory = Memory {
            columns: Some(&order),
            ..Memory::default()
        };
        let config = grid(self.stored.div_ceil(THREADS as usize), 1, THREADS)?;
        let (device, problem) = (gpu(NAME, &order)?, self.problem());
        let kernel = "sparse_transposed_u32";
        // SAFETY: the order has a place for each stored number, and the kernel leaves two numbers for each.
        unsafe { self.launch(device, kernel, config, problem, &memory, &mut both) }?;
        let both = plain(both, &(2, self.stored).into());
        let turned = Self {
            rows: self.inner,
            inner: self.rows,
            stored: self.stored,
            width: 0,
            columns: both.get(0)?,
            // Padding is behind the last row.
            offsets: Some(offsets(&sorted, self.inner)?),
            places: Some(both.get(1)?),
            turned: OnceLock::new(),
        };
        Ok(self.turned.get_or_init(|| Box::new(turned)))
    }

    /// Launches a kernel of the pattern.
    ///
    /// # Safety
    /// The problem and the memory are the kernel's, and the result has what it writes.
    unsafe fn launch(
        &self,
        device: &CudaDevice,
        kernel: &str,
        config: LaunchConfig,
        problem: Problem,
        memory: &Memory,
        result: &mut CudaStorage,
    ) -> Result<()> {
        let args = [
            Arg::Read(Some(memory.columns.unwrap_or(&self.columns))),
            Arg::Read(self.places.as_ref()),
            Arg::Read(self.offsets.as_ref()),
            Arg::Read(memory.values),
            Arg::Read(memory.dense),
            Arg::Read(memory.gradient),
            Arg::Write(result),
        ];
        let argument =
            |[columns, places, offsets, values, dense, gradient, result]: [u64; 7]| Problem {
                columns,
                places,
                offsets,
                values,
                dense,
                gradient,
                result,
                ..problem
            };
        // SAFETY: the caller's promise.
        unsafe { launch_of(device, &SPARSE, kernel, config, args, argument) }
    }
}

/// Where each of so many rows begins among stored numbers of these rows, which are in order.
pub(super) fn offsets(rows: &Tensor, count: usize) -> Result<Tensor> {
    if rows.elem_count() == 0 {
        return Tensor::zeros(count + 1, DType::U32, rows.device());
    }
    let device = gpu(NAME, rows)?;
    let mut result = allocate(device, DType::U32, count + 1)?;
    let problem = Problem {
        rows: count as u64,
        stored: rows.elem_count() as u64,
        ..Problem::default()
    };
    let memory = [Arg::Read(Some(rows)), Arg::Write(&mut result)];
    let argument = |[columns, result]: [u64; 2]| Problem {
        columns,
        result,
        ..problem
    };
    let config = grid((count + 1).div_ceil(THREADS as usize), 1, THREADS)?;
    let kernel = "sparse_offsets_u32";
    // SAFETY: the kernel's argument; a number for each row, and one more.
    unsafe { launch_of(device, &SPARSE, kernel, config, memory, argument) }?;
    Ok(plain(result, &(count + 1).into()))
}
