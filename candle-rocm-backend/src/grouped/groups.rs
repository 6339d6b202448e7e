//! Which rows belong to which group.

use candle_core::{bail, DType, Device, Result, Tensor};
use candle_rocm_kernels::grouped::{COLUMNS, GROUP_BITS};

use crate::ops::launch::int;

/// Rows of one matrix that belong to groups: those of a group lie together, and each group begins at a multiple of
/// [`RowGroups::ALIGNMENT`].
///
/// Rows between a group's last one and the next group only fill it up: their results are those of any other row of the
/// group, or 0. Where gradients are wanted their elements must be 0, for those of the group's matrix are sums over all rows.
///
/// Kernels read the numbers on the device; nothing of them is on the host.
#[derive(Clone, Debug)]
pub struct RowGroups {
    /// Of each 128 rows the group and how many are in use, or -1 for none, as kernels take it: i32.
    numbers: Tensor,
    /// Where each group begins, and the last ends, in rows: i32, one more than there are groups.
    starts: Tensor,
    rows: usize,
    groups: usize,
    /// Rows of a group, on average.
    usual: usize,
}

impl RowGroups {
    /// Groups begin at multiples of so many rows.
    pub const ALIGNMENT: usize = COLUMNS;

    /// Groups of so many rows, 0 included, one after another, each filled up to a multiple of 128.
    ///
    /// # Errors
    /// More rows than an i32 counts, or the device has not the memory.
    pub fn from_sizes(sizes: &[usize], device: &Device) -> Result<Self> {
        if sizes.len() >> GROUP_BITS != 0 {
            bail!(
                "RowGroups: {} groups are more than 2^{GROUP_BITS} - 1",
                sizes.len()
            );
        }
        let (mut numbers, mut starts, mut rows) = (Vec::new(), vec![0], 0);
        for (group, size) in sizes.iter().enumerate() {
            let blocks = size.div_ceil(Self::ALIGNMENT);
            numbers.extend((0..blocks).map(|block| number(group, size - block * Self::ALIGNMENT)));
            rows += blocks * Self::ALIGNMENT;
            starts.push(place(rows)?);
        }
        let usual = sizes.iter().sum::<usize>().div_ceil(sizes.len().max(1));
        Self::made(numbers, starts, [rows, usual], device)
    }

    /// The group of each row, as DeepGEMM's `m_indices` has it: of the groups 0 to `groups`, -1 for rows that are padding.
    /// They are read to the host, once, and checked.
    ///
    /// # Errors
    /// Not a vector of i32, u32 or i64; a group twice, out of order or beyond `groups`; one that begins elsewhere than at a
    /// multiple of 128.
    pub fn of_rows(indices: &Tensor, groups: usize) -> Result<Self> {
        let rows = indices.dims1()?;
        if groups >> GROUP_BITS != 0 {
            bail!("RowGroups: {groups} groups are more than 2^{GROUP_BITS} - 1");
        }
        let all = indices.to_dtype(DType::I64)?.to_vec1::<i64>()?;
        let (mut numbers, mut of_blocks) = (Vec::new(), Vec::new());
        let (mut starts, mut next, mut used) = (vec![0; groups + 1], 0, 0);
        for (at, block) in all.chunks(Self::ALIGNMENT).enumerate() {
            let first = at * Self::ALIGNMENT;
            let group = block[0];
            let end = block.iter().position(|&of| of != group);
            let end = end.unwrap_or(block.len());
            if let Some(other) = block[end..].iter().position(|&of| of != -1) {
                bail!(
                    "RowGroups: row {} is of group {}, within 128 rows of group {group}: groups begin at multiples of 128",
                    first + end + other,
                    block[end + other]
                );
            }
            if group >= groups as i64 || group < -1 || (group >= 0 && group + 1 < next) {
                bail!(
                    "RowGroups: row {first} is of group {group}, after {} of {groups}",
                    next - 1
                );
            }
            if group >= next {
                for start in &mut starts[next as usize..=group as usize] {
                    *start = place(first)?;
                }
                next = group + 1;
            } else if group >= 0 && of_blocks.last() != Some(&group) {
                bail!("RowGroups: group {group} is there a second time, at row {first}");
            }
            of_blocks.push(group);
            used += if group < 0 { 0 } else { end };
            numbers.push(if group < 0 {
                -1
            } else {
                number(group as usize, end)
            });
        }
        let end = of_blocks
            .iter()
            .rposition(|&of| of >= 0)
            .map_or(0, |at| at + 1);
        let end = place((end * Self::ALIGNMENT).min(rows))?;
        for start in &mut starts[next as usize..] {
            *start = end;
        }
        // A group ends where the next begins: blocks in between would be its.
        for (group, pair) in starts.windows(2).enumerate() {
            let blocks =
                pair[0] as usize / Self::ALIGNMENT..(pair[1] as usize).div_ceil(Self::ALIGNMENT);
            if let Some(at) = of_blocks[blocks.clone()]
                .iter()
                .position(|&of| of != group as i64)
            {
                let row = (blocks.start + at) * Self::ALIGNMENT;
                bail!("RowGroups: row {row} is padding after group {group}: all of a block of 128 rows is; leave it out");
            }
        }
        Self::made(
            numbers,
            starts,
            [rows, used.div_ceil(groups.max(1))],
            indices.device(),
        )
    }

    fn made(
        numbers: Vec<i32>,
        starts: Vec<i32>,
        [rows, usual]: [usize; 2],
        device: &Device,
    ) -> Result<Self> {
        // A tensor of nothing has no address.
        let numbers = if numbers.is_empty() {
            vec![-1]
        } else {
            numbers
        };
        let groups = starts.len() - 1;
        let (numbers, starts) = (Tensor::new(numbers, device)?, Tensor::new(starts, device)?);
        Ok(Self::on_device(numbers, starts, [rows, groups, usual]))
    }

    /// Of what a kernel made: a number for each block of rows, and where each of the groups begins, and the last ends.
    pub(crate) fn on_device(
        numbers: Tensor,
        starts: Tensor,
        [rows, groups, usual]: [usize; 3],
    ) -> Self {
        Self {
            numbers,
            starts,
            rows,
            groups,
            usual,
        }
    }

    /// Rows, with those that fill groups up.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Groups, empty ones included.
    pub fn groups(&self) -> usize {
        self.groups
    }

    pub(crate) fn numbers(&self) -> &Tensor {
        &self.numbers
    }

    /// Rows of a group, on average.
    pub(crate) fn usual(&self) -> usize {
        self.usual
    }

    /// Where each group begins, and the last one ends: i32, in rows.
    pub fn starts(&self) -> &Tensor {
        &self.starts
    }
}

/// Of a block of rows of `group`, so many or more of which are in use.
pub(crate) fn number(group: usize, in_use: usize) -> i32 {
    (group | (in_use.clamp(1, COLUMNS) - 1) << GROUP_BITS) as i32
}

/// A number of rows as kernels take it.
fn place(rows: usize) -> Result<i32> {
    Ok(int("RowGroups", "rows", rows)? as i32)
}
