//! Launching the kernels of module `linalg`.

use candle_core::{CudaDevice, CudaStorage, DType, Result, Tensor};
use candle_rocm_kernels::LINALG;
use candle_rocm_runtime::DeviceRepr;

use super::super::launch::{allocate, grid, int, launch_of, Arg, THREADS};
use super::call::{Call, Triangle};

/// Elements of a workgroup's matrices in LDS, with one more for each row (`SmallMatrices` of the kernels).
const ELEMENTS: usize = 64 * 65;
/// Threads of a workgroup are a multiple of all wavefronts.
const WAVEFRONT: usize = 64;

candle_rocm_kernels::kernel_argument! { LINALG_PROBLEM,
    /// `LinalgProblem` of kernels/linalg/linalg.cuh.
    #[derive(Clone, Copy, Debug, Default)]
    struct Problem {
        matrices: u64,
        right: u64,
        result: u64,
        rows: u64,
        batch: u64,
        n: u32,
        columns: u32,
        lanes: u32,
        together: u32,
        across: u32,
        tiles: u32,
        upper: u32,
        transposed: u32,
        unit: u32,
        unused: u32,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernels' parameter.
unsafe impl DeviceRepr for Problem {}

/// How matrices and columns are dealt to workgroups.
struct Split {
    lanes: usize,
    together: usize,
    across: usize,
    tiles: usize,
}

impl Split {
    fn of(call: &Call) -> Self {
        let lanes = call.n.next_power_of_two();
        let free = THREADS as usize / lanes;
        let across = call.columns.max(1).next_power_of_two().min(free);
        let fit = ELEMENTS / (call.n * (call.n + 1));
        Self {
            lanes,
            together: (free / across).min(fit).min(call.batch),
            across,
            tiles: call.columns.max(1).div_ceil(across),
        }
    }

    fn threads(&self) -> u32 {
        let used = self.lanes * self.together * self.across;
        used.next_multiple_of(WAVEFRONT) as u32
    }

    fn workgroups(&self, call: &Call) -> usize {
        call.batch.div_ceil(self.together) * self.tiles
    }
}

/// Launches a kernel on matrices, and a right side.
fn launched(
    call: &Call,
    device: &CudaDevice,
    kernel: &str,
    [matrices, right]: [Option<&Tensor>; 2],
    [result, rows]: [Arg; 2],
    told: Problem,
    dtype: DType,
) -> Result<()> {
    let split = Split::of(call);
    let problem = Problem {
        batch: call.batch as u64,
        n: call.n as u32,
        columns: int(call.name, "columns", call.columns)?,
        lanes: split.lanes as u32,
        together: split.together as u32,
        across: split.across as u32,
        tiles: int(call.name, "tiles of columns", split.tiles)?,
        ..told
    };
    let memory = [Arg::Read(matrices), Arg::Read(right), result, rows];
    let argument = |[matrices, right, result, rows]: [u64; 4]| Problem {
        matrices,
        right,
        result,
        rows,
        ..problem
    };
    let kernel = format!("linalg_{kernel}_{}", dtype.as_str());
    let config = grid(split.workgroups(call), 1, split.threads())?;
    // SAFETY: the kernel's argument; results have the operands' elements, and the matrices of a workgroup fit its LDS.
    unsafe { launch_of(device, &LINALG, &kernel, config, memory, argument) }
}

/// Decompositions, and the rows' order.
pub(super) fn lu(
    call: &Call,
    device: &CudaDevice,
    a: &Tensor,
) -> Result<(CudaStorage, CudaStorage)> {
    let mut lu = allocate(device, a.dtype(), a.elem_count())?;
    let mut rows = allocate(device, DType::U32, call.batch * call.n)?;
    let to = [Arg::Write(&mut lu), Arg::Write(&mut rows)];
    let told = Problem::default();
    launched(call, device, "lu", [Some(a), None], to, told, a.dtype())?;
    Ok((lu, rows))
}

pub(super) fn cholesky(call: &Call, device: &CudaDevice, a: &Tensor) -> Result<CudaStorage> {
    let mut l = allocate(device, a.dtype(), a.elem_count())?;
    let to = [Arg::Write(&mut l), Arg::Null];
    let (from, told) = ([Some(a), None], Problem::default());
    launched(call, device, "cholesky", from, to, told, a.dtype())?;
    Ok(l)
}

pub(super) fn triangular(
    call: &Call,
    device: &CudaDevice,
    a: &Tensor,
    b: &Tensor,
    triangle: Triangle,
) -> Result<CudaStorage> {
    let mut x = allocate(device, b.dtype(), b.elem_count())?;
    let to = [Arg::Write(&mut x), Arg::Null];
    let told = Problem {
        upper: u32::from(triangle.upper),
        transposed: u32::from(triangle.transposed),
        unit: u32::from(triangle.unit),
        ..Problem::default()
    };
    let from = [Some(a), Some(b)];
    launched(call, device, "triangular", from, to, told, b.dtype())?;
    Ok(x)
}
