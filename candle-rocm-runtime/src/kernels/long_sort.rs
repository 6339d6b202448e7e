//! Launches of sorts whose rows do not fit LDS: the kernels that [`candle_rocm_kernels::long_sort`] has instead of one.

use std::ffi::c_void;
use std::sync::Arc;

use candle_rocm_kernels::long_sort::{
    is_long, merges, rows_together, INDEX_BYTES, KEY_BYTES, RUN, THREADS,
};
use candle_rocm_kernels::SORT;

use super::function::{LoadedFunction, SortFunction};
use super::module::embedded;
use super::submit::{give_to_stream, LaunchConfig};
use crate::base::error::Result;
use crate::base::inline_list::InlineList;
use crate::device::gpu::Device;
use crate::memory::workspace::Workspace;
use crate::stream::queue::Stream;

/// Workgroups for a compute unit: as many as it holds at once of this size.
const WORKGROUPS_PER_UNIT: u64 = 8;

/// A launch of these kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortLaunch {
    rows: u32,
    columns: u32,
}

impl SortLaunch {
    /// Of so many rows, if their columns do not fit the device's LDS.
    pub fn of(rows: u32, columns: u64, device: &Device) -> Option<Self> {
        is_long(columns, device.info().max_lds_bytes.into()).then_some(Self {
            rows,
            // Of 2^31 columns and more the geometry has refused the launch.
            columns: columns as u32,
        })
    }

    fn elements(self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }
}

/// Where the kernels sort some rows: addresses of two buffers each, between which the merges go to and fro.
#[derive(Clone, Copy)]
struct Places {
    source: u64,
    keys: [u64; 2],
    /// The first is the result.
    indices: [u64; 2],
}

impl SortFunction {
    fn kernels(&self, device: &Arc<Device>) -> Result<&[Arc<LoadedFunction>; 3]> {
        if let Some(kernels) = self.kernels.get() {
            return Ok(kernels);
        }
        let module = embedded(device, &SORT)?;
        let [keys, runs, merge] = self.sort.kernels();
        let kernels = [
            module.function(keys)?,
            module.function(runs)?,
            module.function(merge)?,
        ];
        Ok(self.kernels.get_or_init(|| kernels))
    }

    /// Gives all to the stream, with the arguments of the kernel that they replace.
    ///
    /// # Safety
    /// `given` are those arguments, in number, order and type, each of which points to a live value; `launch` is of the
    /// rows that they describe.
    ///
    /// # Errors
    /// The device has not the memory for 20 bytes for each element that is sorted at once, or HIP refuses.
    #[cold]
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        launch: SortLaunch,
        given: &[*mut c_void],
    ) -> Result<()> {
        let kernels = self.kernels(stream.context().device())?;
        let element_bytes = kernels[0].element_bytes;
        // SAFETY: the caller's promise: the first two arguments are pointers, to the elements and to the result.
        let [source, result] = [0, 1].map(|at| unsafe { given[at].cast::<u64>().read() });
        let part_of = |rows| SortLaunch { rows, ..launch };
        let part = part_of(rows_together(launch.rows, launch.columns));
        let keys = Workspace::new(stream, 2 * KEY_BYTES * part.elements())?;
        let indices = Workspace::new(stream, INDEX_BYTES * part.elements())?;
        for first in (0..launch.rows).step_by(part.rows as usize) {
            let before = part_of(first).elements();
            let places = Places {
                source: source + element_bytes * before,
                keys: [keys.address(), keys.address() + KEY_BYTES * part.elements()],
                indices: [result + INDEX_BYTES * before, indices.address()],
            };
            let part = part_of(part.rows.min(launch.rows - first));
            // SAFETY: the caller's promise for these rows; the workspaces have room for them.
            unsafe { sort(stream, kernels, part, self.sort.flip, places) }?;
        }
        keys.free()?;
        indices.free()
    }
}

/// Gives the kernels that sort some rows to the stream.
///
/// # Safety
/// There are so many elements at the source, and room for so many keys and indices at the other places.
unsafe fn sort(
    stream: &Stream,
    [make_keys, sort_runs, merge]: &[Arc<LoadedFunction>; 3],
    part: SortLaunch,
    flip: u64,
    places: Places,
) -> Result<()> {
    let SortLaunch { rows, columns } = part;
    let Places {
        source,
        keys,
        indices,
    } = places;
    let count = part.elements();
    let each = count.div_ceil(THREADS.into());
    let runs = u64::from(rows) * u64::from(columns.div_ceil(RUN));
    // The last merge writes the result, which is the first of the indices' places.
    let (mut from, mut to) = match merges(columns).count() % 2 {
        0 => (0, 1),
        _ => (1, 0),
    };
    let arguments = [
        address(&source),
        address(&keys[from]),
        address(&count),
        address(&flip),
    ];
    // SAFETY: the arguments are the kernel's, as `long_sort` says, and the rest is the caller's promise.
    unsafe { enqueue(stream, make_keys, each, &arguments) }?;
    let arguments = [
        address(&keys[from]),
        address(&indices[from]),
        address(&rows),
        address(&columns),
    ];
    // SAFETY: as above.
    unsafe { enqueue(stream, sort_runs, runs, &arguments) }?;
    let null = 0u64;
    for run in merges(columns) {
        let is_last = run >= columns.div_ceil(2);
        let arguments = [
            address(&keys[from]),
            address(&indices[from]),
            address(if is_last { &null } else { &keys[to] }),
            address(&indices[to]),
            address(&count),
            address(&columns),
            address(&run),
        ];
        // SAFETY: as above.
        unsafe { enqueue(stream, merge, each, &arguments) }?;
        (from, to) = (to, from);
    }
    Ok(())
}

/// Gives a kernel to the stream, on a grid that no more workgroups than `wanted` have work on.
///
/// # Safety
/// As [`give_to_stream`].
unsafe fn enqueue(
    stream: &Stream,
    kernel: &LoadedFunction,
    wanted: u64,
    arguments: &[*mut c_void],
) -> Result<()> {
    let units = u64::from(stream.context().device().info().compute_units.max(1));
    let config = LaunchConfig {
        grid_dim: (wanted.min(units * WORKGROUPS_PER_UNIT) as u32, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    };
    let mut list = InlineList::<*mut c_void, 8>::new();
    list.extend(arguments.iter().copied());
    // SAFETY: the caller's promise.
    unsafe { give_to_stream(stream, kernel, config, list.as_mut_ptr(), false) }
}

fn address<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}
