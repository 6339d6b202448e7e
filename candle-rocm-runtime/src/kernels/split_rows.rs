//! Launches of few long rows: the pair of kernels that [`candle_rocm_kernels::split_rows`] has instead of one.

use std::ffi::c_void;
use std::sync::Arc;

use candle_rocm_kernels::launch_heuristics::Row;
use candle_rocm_kernels::split_rows::{splits, SplitArgument, THREADS};

use super::function::{LoadedFunction, SplitFunction};
use super::module::embedded;
use super::submit::{give_to_stream, LaunchConfig};
use crate::base::error::Result;
use crate::base::inline_list::InlineList;
use crate::device::gpu::Device;
use crate::memory::workspace::Workspace;
use crate::stream::queue::Stream;

/// A launch of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitLaunch {
    rows: u32,
    splits: u32,
    row: Row,
}

impl SplitFunction {
    fn pair(&self, device: &Arc<Device>) -> Result<&[Arc<LoadedFunction>; 2]> {
        if let Some(pair) = self.pair.get() {
            return Ok(pair);
        }
        let module = embedded(device, self.split.module)?;
        let [first, second] = &self.names;
        let pair = [module.function(first)?, module.function(second)?];
        Ok(self.pair.get_or_init(|| pair))
    }

    /// Gives both to the stream, with the arguments of the kernel that they replace.
    ///
    /// # Safety
    /// `given` are those arguments, in number, order and type, each of which points to a live value; `launch` is of the
    /// rows that they describe.
    #[cold]
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        launch: SplitLaunch,
        given: &[*mut c_void],
    ) -> Result<()> {
        let SplitLaunch { rows, splits, row } = launch;
        let device = stream.context().device();
        let pair = self.pair(device)?;
        let partial = Workspace::new(stream, self.split.partial_bytes(rows, splits, row))?;
        let aligned = |&pointer: &usize| {
            // SAFETY: the caller's promise; the table's test says that this argument is a pointer.
            let address = unsafe { given[pointer].cast::<u64>().read() };
            address.is_multiple_of(16)
        };
        let wide = u32::from(row.divides() && self.split.pointers.iter().all(aligned));
        let (one, null, address) = (1f64, 0u64, partial.address());
        let config = LaunchConfig {
            grid_dim: (splits, rows, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        for (of, kernel) in self.split.kernels.iter().zip(pair) {
            let mut arguments = InlineList::<*mut c_void, 16>::new();
            arguments.extend(of.arguments.iter().map(|argument| match argument {
                SplitArgument::Given(number) => given[*number],
                SplitArgument::Partial => pointer_to(&address),
                SplitArgument::Splits => pointer_to(&splits),
                SplitArgument::Wide => pointer_to(&wide),
                SplitArgument::One => pointer_to(&one),
                SplitArgument::Null => pointer_to(&null),
            }));
            // SAFETY: the arguments are the kernel's, as the table's test says; what a split leaves fits the workspace,
            // and the rest is the caller's promise.
            unsafe { give_to_stream(stream, kernel, config, arguments.as_mut_ptr(), false) }?;
        }
        partial.free()
    }
}

impl SplitLaunch {
    /// How a launch of so many rows should be split, if it should.
    pub fn of(split: &SplitFunction, rows: u32, row: Row, compute_units: u32) -> Option<Self> {
        let splits = splits(rows, row, compute_units, split.split.reads_once)?;
        Some(Self { rows, splits, row })
    }
}

fn pointer_to<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}
