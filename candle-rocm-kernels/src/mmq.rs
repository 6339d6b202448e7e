//! How products of quantised matrices with many vectors are made: module `mmq`.

use crate::numbers::mmq;

/// Elements of a block of quantised vectors.
pub const CHUNK: u32 = mmq::BLOCK_ELEMENTS;
/// Bytes of such a block: 16 of scales, as the matrix's format wants them, and the elements.
pub const BLOCK_BYTES: u32 = mmq::BLOCK_BYTES;
/// Threads of every workgroup.
pub const THREADS: u32 = mmq::THREADS;
/// Rows of a matrix to a workgroup.
pub const TILE_ROWS: u32 = mmq::ROWS;
/// Workgroups in a direction in which the kernels go on in steps of the grid.
pub const MOST_WORKGROUPS: u32 = 1 << 15;
