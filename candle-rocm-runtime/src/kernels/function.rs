//! What is known of a kernel on a GPU.

use std::sync::{Arc, OnceLock};

use candle_rocm_kernels::convolution::Transposed;
use candle_rocm_kernels::launch_heuristics::LaunchHeuristic;
use candle_rocm_kernels::radix_sort::RadixSort;
use candle_rocm_kernels::split_rows::SplitRows;
use candle_rocm_kernels::symbols::LastArgument;

use crate::base::hip::types::hipFunction_t;

/// What a launch needs to know of a kernel.
pub(crate) struct LoadedFunction {
    pub(crate) raw: hipFunction_t,
    pub(crate) name: String,
    /// The largest workgroup it was compiled for.
    pub(crate) max_threads: u32,
    /// LDS bytes it has of its own.
    pub(crate) static_lds: u32,
    /// What it is launched with, whatever is asked for.
    pub(crate) heuristic: LaunchHeuristic,
    /// Bytes of the elements it reads.
    pub(crate) element_bytes: u64,
    /// An argument behind those that hosts pass.
    pub(crate) last_argument: Option<LastArgument>,
    /// What is launched instead where this kernel is slow or cannot be launched.
    pub(crate) instead: Option<Box<Instead>>,
}

// SAFETY: HIP's functions may be used from any thread.
unsafe impl Send for LoadedFunction {}
// SAFETY: as above; they are never changed.
unsafe impl Sync for LoadedFunction {}

/// A kernel that a pair may replace.
pub(crate) struct SplitFunction {
    pub split: SplitRows,
    pub names: [String; 2],
    /// Loaded when first launched. Embedded modules stay loaded.
    pub pair: OnceLock<[Arc<LoadedFunction>; 2]>,
}

/// What is launched instead of a kernel, on some grids.
pub(crate) enum Instead {
    /// For few long rows.
    Split(SplitFunction),
    /// For sorts of rows.
    Sort(RadixSort),
    /// For transposed convolutions.
    Transposed(Transposed),
}

impl Instead {
    /// That of a kernel of an embedded module, if there is something.
    pub fn of(module: &str, kernel: &str) -> Option<Box<Self>> {
        let split = SplitRows::of(module, kernel).map(|split| {
            Self::Split(SplitFunction {
                split,
                names: split.names(kernel),
                pair: OnceLock::new(),
            })
        });
        let sort = || RadixSort::of(module, kernel).map(Self::Sort);
        let transposed = || Transposed::of(module, kernel).map(Self::Transposed);
        split.or_else(sort).or_else(transposed).map(Box::new)
    }
}
