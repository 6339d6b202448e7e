//! Sorts of rows of any length, by the kernels of [`candle_rocm_kernels::radix_sort`].

use std::ffi::c_void;

use candle_rocm_kernels::radix_sort::{
    chunks, counts_bytes, rows_together, tiles, RadixSort, RankedRows, Selecting, ShortRows,
    SortedDtype, INDEX_BYTES, ORDER_OF_KEYS, SCAN_CHUNKS, SCAN_TILES, THREADS,
};
use candle_rocm_kernels::RADIX_SORT;

use super::module::{embedded, LoadedModule};
use super::ready::addresses_of;
use super::submit::{give_to_stream, LaunchConfig};
use crate::base::error::{Error, Result};
use crate::base::inline_list::InlineList;
use crate::memory::in_capture;
use crate::memory::workspace::Workspace;
use crate::stream::queue::Stream;

/// Workgroups for a compute unit beyond which more are of no use.
const WORKGROUPS_PER_UNIT: u64 = 32;
/// The most columns of a row.
const MOST_COLUMNS: u64 = i32::MAX as u64;

/// Rows to sort, which follow one another in memory. Equal elements stay in order; a NaN is the largest element, and -0
/// equals 0.
#[derive(Clone, Copy, Debug)]
pub struct SortRows {
    /// The elements' type and the direction.
    pub dtype: SortedDtype,
    /// Rows.
    pub rows: u32,
    /// Elements of a row, fewer than 2^31.
    pub columns: u64,
    /// How many of the first columns in order are written, of a row of as many.
    pub kept: u64,
    /// The address of the elements.
    pub source: u64,
    /// Where the columns (u32) are written in order; 0: nowhere.
    pub index: u64,
    /// Where the elements are written in order; 0: nowhere.
    pub values: u64,
}

/// A launch on this many workgroups of [`THREADS`].
fn line(workgroups: u64) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (workgroups as u32, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// Sorts rows on the stream.
///
/// # Safety
/// The addresses are of memory on the stream's device that has `rows` times `columns` elements, and room for `rows` times
/// `kept` columns and elements, for as long as the work given to the stream so far lasts.
///
/// # Errors
/// Rows of 2^31 elements and more, or fewer elements than are kept; the device has not the memory for the keys and columns
/// of the rows that are sorted together; or HIP refuses.
pub unsafe fn sort_rows(stream: &Stream, sort: &SortRows) -> Result<()> {
    let SortRows { columns, kept, .. } = *sort;
    if columns > MOST_COLUMNS || kept > columns {
        return Err(Error::invalid(format!(
            "a sort of rows of {columns} elements, of which {kept} are kept: a row has fewer than 2^31, and keeps no more \
             than it has"
        )));
    }
    if sort.rows == 0 || kept == 0 {
        return Ok(());
    }
    stream.enter()?;
    let module = embedded(stream.context().device(), &RADIX_SORT)?;
    let is_short = columns <= sort.dtype.short_columns().into();
    if is_short && !sort.dtype.selects_of_short(sort.rows, columns, kept) {
        // SAFETY: the caller's promise.
        return unsafe { sort_short(stream, &module, sort, 0) };
    }
    let together = rows_together(sort.rows, columns as u32);
    let scratch = match sort.dtype.selects(columns, kept) {
        true => Scratch::Selects(SelectScratch::new(stream, sort, together)?),
        false => Scratch::Moves(MoveScratch::new(stream, sort, together)?),
    };
    for first in (0..sort.rows).step_by(together as usize) {
        let part = sort.part(first, together);
        match &scratch {
            // SAFETY: the caller's promise for these rows, for which the scratch memory has room.
            Scratch::Selects(scratch) => unsafe { select(stream, &module, &part, scratch) }?,
            // SAFETY: as above.
            Scratch::Moves(scratch) => unsafe { sort_long(stream, &module, &part, scratch) }?,
        }
    }
    match scratch {
        Scratch::Selects(scratch) => scratch.free(),
        Scratch::Moves(scratch) => scratch.free(),
    }
}

/// What launches for long rows leave each other.
enum Scratch<'a> {
    Selects(SelectScratch<'a>),
    Moves(MoveScratch<'a>),
}

impl SortRows {
    /// As many of the rows, from this one on.
    fn part(&self, first: u32, rows: u32) -> Self {
        let (before, written) = (
            u64::from(first) * self.columns,
            u64::from(first) * self.kept,
        );
        let beyond = |address: u64, bytes: u64| match address {
            0 => 0,
            address => address + bytes,
        };
        Self {
            rows: rows.min(self.rows - first),
            source: self.source + self.dtype.bytes() * before,
            index: beyond(self.index, INDEX_BYTES * written),
            values: beyond(self.values, self.dtype.bytes() * written),
            ..*self
        }
    }
}

/// Sorts rows that fit a workgroup. At `names`, unless 0, are the numbers (u32) that columns go by.
///
/// # Safety
/// As [`sort_rows`]; there are as many names as elements.
unsafe fn sort_short(
    stream: &Stream,
    module: &LoadedModule,
    sort: &SortRows,
    names: u64,
) -> Result<()> {
    let info = stream.context().device().info();
    let (columns, kept) = (sort.columns as u32, sort.kept as u32);
    if let Some(plan) = RankedRows::of(&sort.dtype, sort.rows, columns, info.compute_units) {
        // SAFETY: the caller's promise.
        return unsafe { rank_short(stream, module, sort, names, &plan) };
    }
    let plan = ShortRows::of(&sort.dtype, columns, info.wavefront_size);
    let wanted = u64::from(sort.rows.div_ceil(plan.together));
    let most = u64::from(info.compute_units.max(1)) * WORKGROUPS_PER_UNIT;
    let config = LaunchConfig {
        grid_dim: (wanted.min(most) as u32, 1, 1),
        block_dim: (plan.threads * plan.together, 1, 1),
        shared_mem_bytes: plan.lds_bytes,
    };
    let SortedDtype {
        infinity, order, ..
    } = sort.dtype;
    let mut arguments = addresses_of![
        sort.source,
        names,
        sort.index,
        sort.values,
        sort.rows,
        columns,
        kept,
        plan.threads,
        infinity,
        order
    ];
    // SAFETY: the arguments are the kernel's, as `radix_sort` says, and the rest is the caller's promise.
    unsafe { give(stream, module, sort.dtype.rows, config, &mut arguments) }
}

/// Ranks the elements of few rows that fit a workgroup.
///
/// # Safety
/// As [`sort_short`].
unsafe fn rank_short(
    stream: &Stream,
    module: &LoadedModule,
    sort: &SortRows,
    names: u64,
    plan: &RankedRows,
) -> Result<()> {
    let config = LaunchConfig {
        grid_dim: (sort.rows * plan.parts, 1, 1),
        block_dim: (plan.threads, 1, 1),
        shared_mem_bytes: plan.lds_bytes,
    };
    let SortedDtype {
        infinity, order, ..
    } = sort.dtype;
    let (columns, kept, parts) = (sort.columns as u32, sort.kept as u32, plan.parts);
    let mut arguments = addresses_of![
        sort.source,
        names,
        sort.index,
        sort.values,
        columns,
        kept,
        parts,
        order,
        infinity
    ];
    // SAFETY: the arguments are the kernel's, as `radix_sort` says, and the rest is the caller's promise.
    unsafe { give(stream, module, sort.dtype.rank, config, &mut arguments) }
}

/// What the launches that move elements leave each other. Between two digits keys and columns are in the buffer of the
/// digit's parity.
struct MoveScratch<'a> {
    keys: [Option<Workspace<'a>>; 2],
    columns: [Option<Workspace<'a>>; 2],
    counts: Workspace<'a>,
    starts: Workspace<'a>,
}

impl<'a> MoveScratch<'a> {
    /// That of so many rows at once.
    fn new(stream: &'a Stream, sort: &SortRows, rows: u32) -> Result<Self> {
        let (rows, columns) = (u64::from(rows), sort.columns as u32);
        let elements = rows * sort.columns;
        let digits = sort.dtype.shifts().count();
        // The last digit's keys are not kept.
        let pair = |bytes: u64| -> Result<[Option<Workspace<'a>>; 2]> {
            let of = |parity: usize| {
                (digits > parity + 1)
                    .then(|| Workspace::new(stream, bytes * elements))
                    .transpose()
            };
            Ok([of(0)?, of(1)?])
        };
        Ok(Self {
            keys: pair(sort.dtype.bytes())?,
            columns: pair(INDEX_BYTES)?,
            counts: Workspace::new(stream, counts_bytes(rows * u64::from(tiles(columns))))?,
            starts: Workspace::new(stream, counts_bytes(rows * u64::from(chunks(columns))))?,
        })
    }

    fn free(self) -> Result<()> {
        let buffers = self.keys.into_iter().chain(self.columns).flatten();
        for buffer in buffers.chain([self.counts, self.starts]) {
            buffer.free()?;
        }
        Ok(())
    }
}

/// Sorts rows that fit no workgroup.
///
/// # Safety
/// As [`sort_rows`]; the scratch memory is of as many rows at least.
unsafe fn sort_long(
    stream: &Stream,
    module: &LoadedModule,
    sort: &SortRows,
    scratch: &MoveScratch,
) -> Result<()> {
    let (columns, kept) = (sort.columns as u32, sort.kept as u32);
    let rows = u64::from(sort.rows);
    let of_row = chunks(columns);
    let [workgroups, chunked] = [tiles(columns), of_row].map(|each| line(rows * u64::from(each)));
    let SortedDtype {
        infinity, order, ..
    } = sort.dtype;
    let address = |buffer: &Option<Workspace>| buffer.as_ref().map_or(0, Workspace::address);
    let (counts, starts) = (scratch.counts.address(), scratch.starts.address());
    let (mut from, mut index, mut given) = (sort.source, 0, order);
    let digits = sort.dtype.shifts().count();
    for (digit, shift) in sort.dtype.shifts().enumerate() {
        let is_last = digit + 1 == digits;
        let keys = if is_last {
            0
        } else {
            address(&scratch.keys[digit % 2])
        };
        let (moved, values, wanted) = match is_last {
            true => (sort.index, sort.values, kept),
            false => (address(&scratch.columns[digit % 2]), 0, columns),
        };
        let mut count = addresses_of![from, counts, columns, shift, infinity, given];
        let mut scan = addresses_of![counts, starts, columns];
        let mut scan_chunks = addresses_of![starts, of_row];
        let mut move_tiles = addresses_of![
            from,
            index,
            keys,
            moved,
            values,
            sort.source,
            counts,
            starts,
            columns,
            wanted,
            infinity,
            shift,
            given,
            order
        ];
        let run = |kernel: &str, config, arguments: &mut [*mut c_void]| {
            // SAFETY: the arguments are the kernel's, as `radix_sort` says; the rest is the caller's promise.
            unsafe { give(stream, module, kernel, config, arguments) }
        };
        run(sort.dtype.count, workgroups, &mut count)?;
        run(SCAN_TILES, chunked, &mut scan)?;
        if of_row > 1 {
            run(SCAN_CHUNKS, line(rows), &mut scan_chunks)?;
        }
        run(sort.dtype.moved, workgroups, &mut move_tiles)?;
        (from, index, given) = (keys, moved, ORDER_OF_KEYS);
    }
    Ok(())
}

/// What the launches that select elements leave each other.
struct SelectScratch<'a> {
    /// Selections, and words behind them.
    zeros: Workspace<'a>,
    elements: Workspace<'a>,
    columns: Workspace<'a>,
}

impl<'a> SelectScratch<'a> {
    /// That of so many rows at once.
    fn new(stream: &'a Stream, sort: &SortRows, rows: u32) -> Result<Self> {
        let units = stream.context().device().info().compute_units;
        let selecting = Selecting::of(rows, sort.columns as u32, units);
        let written = u64::from(rows) * sort.kept;
        Ok(Self {
            zeros: Workspace::new(stream, selecting.zero_bytes)?,
            elements: Workspace::new(stream, sort.dtype.bytes() * written)?,
            columns: Workspace::new(stream, INDEX_BYTES * written)?,
        })
    }

    fn free(self) -> Result<()> {
        self.zeros.free()?;
        self.elements.free()?;
        self.columns.free()
    }
}

/// Sorts the first elements of rows that fit no workgroup, once they are selected.
///
/// # Safety
/// As [`sort_rows`]; the scratch memory is of as many rows at least.
unsafe fn select(
    stream: &Stream,
    module: &LoadedModule,
    sort: &SortRows,
    scratch: &SelectScratch,
) -> Result<()> {
    let (columns, kept) = (sort.columns as u32, sort.kept as u32);
    let info = stream.context().device().info();
    let selecting = Selecting::of(sort.rows, columns, info.compute_units);
    let SortedDtype {
        infinity, order, ..
    } = sort.dtype;
    let Selecting {
        parts, of_group, ..
    } = selecting;
    let rows = u64::from(sort.rows);
    let zeros = scratch.zeros.address();
    // SAFETY: the scratch memory has so many bytes for as many rows.
    unsafe { clear(stream, zeros, selecting.zero_bytes) }?;
    // From the highest digit on.
    let mut shifts = InlineList::<u32, 8>::new();
    shifts.extend(sort.dtype.shifts());
    for shift in shifts.as_slice().iter().rev() {
        let mut arguments = addresses_of![
            sort.source,
            zeros,
            columns,
            kept,
            parts,
            *shift,
            infinity,
            order
        ];
        let config = line(rows * u64::from(parts));
        // SAFETY: the arguments are the kernel's, as `radix_sort` says, and the rest is the caller's promise.
        unsafe { give(stream, module, sort.dtype.select, config, &mut arguments) }?;
    }
    let words = zeros + selecting.selection_bytes;
    let (elements, taken) = (scratch.elements.address(), scratch.columns.address());
    let mut arguments = addresses_of![
        sort.source,
        zeros,
        words,
        elements,
        taken,
        columns,
        kept,
        of_group,
        order,
        infinity
    ];
    let config = line(rows * u64::from(tiles(columns)));
    // SAFETY: as above; as many elements are taken of each row as there is room for.
    unsafe { give(stream, module, sort.dtype.take, config, &mut arguments) }?;
    let selected = SortRows {
        columns: sort.kept,
        source: elements,
        ..*sort
    };
    // SAFETY: the elements that were taken have their columns beside them; the results are the caller's promise.
    unsafe { sort_short(stream, module, &selected, taken) }
}

/// Makes memory zeros.
///
/// # Safety
/// There are so many bytes.
unsafe fn clear(stream: &Stream, address: u64, bytes: u64) -> Result<()> {
    if in_capture::zeros(stream, address, bytes as usize)? {
        return Ok(());
    }
    let hip = stream.context().device().hip();
    // SAFETY: the caller's promise.
    let status =
        unsafe { (hip.hipMemsetAsync)(address as *mut c_void, 0, bytes as usize, stream.raw()) };
    hip.check(status, || format!("clearing {bytes} bytes"))
}

/// Gives a kernel to the stream.
///
/// # Safety
/// As [`give_to_stream`].
unsafe fn give(
    stream: &Stream,
    module: &LoadedModule,
    kernel: &str,
    config: LaunchConfig,
    arguments: &mut [*mut c_void],
) -> Result<()> {
    let kernel = module.function(kernel)?;
    // SAFETY: the caller's promise.
    unsafe { give_to_stream(stream, &kernel, config, arguments.as_mut_ptr(), false) }
}

/// Sorts rows instead of a kernel of Candle's, with its arguments.
///
/// # Safety
/// `given` are those arguments, in number, order and type, each of which points to a live value; they describe so many
/// rows of so many columns.
#[cold]
pub(crate) unsafe fn replace(
    replaced: &RadixSort,
    stream: &Stream,
    rows: u32,
    columns: u64,
    given: &[*mut c_void],
) -> Result<()> {
    // SAFETY: the caller's promise: the first two arguments are pointers, to the elements and to the result.
    let [source, index] = [0, 1].map(|at| unsafe { given[at].cast::<u64>().read() });
    let sort = SortRows {
        dtype: replaced.dtype,
        rows,
        columns,
        kept: columns,
        source,
        index,
        values: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { sort_rows(stream, &sort) }
}
