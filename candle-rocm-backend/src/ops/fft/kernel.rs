//! Launching the kernels of module `fft`.

use candle_core::{CudaDevice, CudaStorage, DType, Result, Tensor};
use candle_rocm_kernels::numbers::fft as flags;
use candle_rocm_kernels::FFT;
use candle_rocm_runtime::DeviceRepr;

use super::super::launch::{allocate, compute_units, grid, int, launch_of, Arg, THREADS};
use super::call::Call;

/// Transforms of a workgroup at least whose elements are side by side in memory.
const SIDE_BY_SIDE: usize = 8;

candle_rocm_kernels::kernel_argument! { FFT_PROBLEM,
    /// `FftProblem` of kernels/fft/fft.cuh.
    #[derive(Clone, Copy, Debug, Default)]
    struct Problem {
        source: u64,
        filter: u64,
        result: u64,
        transforms: u64,
        radices: u64,
        n: u32,
        together: u32,
        units: u32,
        in_step: u32,
        in_transform: u32,
        out_step: u32,
        out_transform: u32,
        pitch: u32,
        total: u32,
        there: u32,
        kept: u32,
        length: u32,
        flags: u32,
        unused: u32,
        scale: f64,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernels' parameter.
unsafe impl DeviceRepr for Problem {}

/// A transform whose length has small prime factors alone, with what is done to elements before and after it.
struct Transform<'a> {
    call: &'a Call,
    device: &'a CudaDevice,
    dtype: DType,
    batch: usize,
    n: usize,
    there: usize,
    kept: usize,
    load: u32,
    store: u32,
    scale: f64,
}

/// The transform of a contiguous tensor.
pub(super) fn transformed(call: &Call, device: &CudaDevice, x: &Tensor) -> Result<CudaStorage> {
    let flag = |wanted: bool, flag: u32| if wanted { flag } else { 0 };
    let whole = Transform {
        call,
        device,
        dtype: x.dtype(),
        batch: call.batch,
        n: call.length,
        there: call.there(),
        kept: call.kept(),
        load: flag(call.real_source, flags::FFT_SOURCE_REAL)
            | flag(call.inverse, flags::FFT_LOAD_SWAPPED)
            | flag(call.load_doubled, flags::FFT_LOAD_DOUBLED),
        store: flag(call.real_result, flags::FFT_RESULT_REAL)
            | flag(call.inverse, flags::FFT_STORE_SWAPPED_LAST)
            | flag(call.store_doubled, flags::FFT_STORE_DOUBLED),
        scale: call.scale,
    };
    if radices(call.length).is_some() {
        return whole.run(Arg::Read(Some(x)), None);
    }
    let n = (2 * call.length - 1).next_power_of_two();
    let filter = Transform {
        batch: 1,
        n,
        there: n,
        kept: n,
        load: flags::FFT_MAKE_FILTER,
        store: 0,
        scale: 1.0,
        ..whole
    };
    let filter = filter.run(Arg::Null, None)?;
    let by_chirp = Transform {
        n,
        kept: n,
        load: whole.load | flags::FFT_LOAD_CHIRP,
        store: 0,
        scale: 1.0,
        ..whole
    };
    let by_chirp = by_chirp.run(Arg::Read(Some(x)), None)?;
    let back = Transform {
        n,
        there: n,
        load: flags::FFT_LOAD_SWAPPED_LAST,
        store: whole.store | flags::FFT_STORE_SWAPPED | flags::FFT_STORE_CHIRP,
        scale: whole.scale / n as f64,
        ..whole
    };
    back.run(Arg::Left(&by_chirp), Some(&filter))
}

impl Transform<'_> {
    /// Elements of a workgroup (`FFT_ELEMENTS` of the kernels).
    fn most(&self) -> usize {
        match self.dtype {
            DType::F64 => 1024,
            _ => 2048,
        }
    }

    /// The transform, in one step or in two.
    fn run(&self, source: Arg, filter: Option<&CudaStorage>) -> Result<CudaStorage> {
        if self.n <= self.most() {
            let step = Problem {
                n: self.n as u32,
                units: 1,
                in_step: 1,
                out_step: 1,
                there: self.there as u32,
                kept: self.kept as u32,
                flags: self.load | self.store,
                scale: self.scale,
                ..Problem::default()
            };
            return self.step(step, source, filter);
        }
        let first = largest_divisor(self.n);
        let second = self.n / first;
        let [all, first, second] = [self.n, first, second].map(|size| size as u32);
        let columns = Problem {
            n: first,
            units: second,
            in_step: second,
            in_transform: 1,
            out_step: second,
            out_transform: 1,
            total: all,
            there: self.there as u32,
            kept: all,
            flags: self.load,
            scale: 1.0,
            ..Problem::default()
        };
        let columns = self.step(columns, source, filter)?;
        let rows = Problem {
            n: second,
            units: first,
            in_step: 1,
            in_transform: second,
            out_step: first,
            out_transform: 1,
            there: all,
            kept: self.kept as u32,
            flags: self.store,
            scale: self.scale,
            ..Problem::default()
        };
        self.step(rows, Arg::Left(&columns), None)
    }

    /// Launches one step.
    fn step(
        &self,
        told: Problem,
        source: Arg,
        filter: Option<&CudaStorage>,
    ) -> Result<CudaStorage> {
        let n = told.n as usize;
        let transforms = self.batch * told.units as usize;
        int(self.call.name, "transforms", transforms)?;
        let together = self.together(n, transforms, told.in_step.max(told.out_step) > 1);
        let problem = Problem {
            transforms: transforms as u64,
            radices: radices(n).unwrap_or_default(),
            together: together as u32,
            pitch: if together > 1 { told.n + 1 } else { told.n },
            length: self.call.length as u32,
            ..told
        };
        let parts = match problem.flags & flags::FFT_RESULT_REAL {
            0 => 2,
            _ => 1,
        };
        let count = self.batch * problem.kept as usize * parts;
        let mut result = allocate(self.device, self.dtype, count)?;
        let filter = filter.map_or(Arg::Null, Arg::Left);
        let memory = [source, filter, Arg::Write(&mut result)];
        let argument = |[source, filter, result]: [u64; 3]| Problem {
            source,
            filter,
            result,
            ..problem
        };
        let kernel = format!("fft_step_{}", self.dtype.as_str());
        let config = grid(transforms.div_ceil(together), 1, THREADS)?;
        // SAFETY: the kernel's argument; source and result have the elements that it says.
        unsafe { launch_of(self.device, &FFT, &kernel, config, memory, argument) }?;
        Ok(result)
    }

    /// Transforms of a workgroup: those that its LDS holds, and fewer where the GPU has no work otherwise.
    fn together(&self, n: usize, transforms: usize, side_by_side: bool) -> usize {
        let most = self.most();
        let fit = (most / n).min((most + most / 32) / (n + 1)).max(1);
        let least = if side_by_side { SIDE_BY_SIDE } else { 1 };
        let fill = transforms.div_ceil(compute_units(self.device));
        fit.min(fill.max(least)).min(transforms)
    }
}

/// The passes' radices, four bits each, if the length has no other prime factors.
fn radices(n: usize) -> Option<u64> {
    let (mut rest, mut radices, mut passes) = (n, 0, 0);
    for radix in [4, 2, 3, 5, 7] {
        while rest.is_multiple_of(radix) {
            rest /= radix;
            radices |= (radix as u64) << (4 * passes);
            passes += 1;
        }
    }
    (rest == 1).then_some(radices)
}

/// The largest divisor of a number that is not above its root.
fn largest_divisor(n: usize) -> usize {
    let root = (1..).take_while(|d| d * d <= n).last().unwrap_or(1);
    let divides = |d: &usize| n.is_multiple_of(*d);
    (1..=root).rev().find(divides).unwrap_or(1)
}
