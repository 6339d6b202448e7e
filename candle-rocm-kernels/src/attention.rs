//! What the kernels of [`FORWARD`](crate::FORWARD) are: which heads they take, and what a workgroup makes. The host
//! chooses by this table, which says what `kernels/attention/forward.cu` does.
//!
//! A kernel's name is `attention_<dtype>_<elements>`, with `f16` or `bf16` and the most elements that a head may have.

use rocm_gpus::{CodeTarget, MatrixUnit};

use crate::nvidia::Multiprocessor;

/// What a workgroup of a kernel makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The most elements of a head; a kernel takes every multiple of 8 up to it.
    pub elements: u32,
    /// Queries.
    pub queries: u32,
    /// Work-items.
    pub threads: u32,
    /// Workgroups that share a tile of queries, each with its part of the elements.
    pub parts: u32,
}

/// The most elements of a head that each kernel takes.
pub const ELEMENTS: [u32; 5] = [32, 64, 128, 256, 512];

/// Bytes of `AttentionProblem`, a kernel's one argument.
pub const PROBLEM_BYTES: u64 = 248;

/// Of the kernels for [`ELEMENTS`], in order: queries of a wavefront, wavefronts, parts.
type Shapes = &'static [[u32; 3]];
const MFMA: Shapes = &[[32, 4, 1], [32, 4, 1], [32, 4, 1], [32, 4, 1], [32, 4, 2]];
const WMMA: Shapes = &[[16, 8, 1], [16, 8, 1], [16, 8, 1], [16, 4, 1], [16, 2, 4]];
const DOT: Shapes = &[[16, 4, 1], [16, 4, 1], [16, 4, 1], [8, 8, 1], [8, 4, 2]];
const NVIDIA: Shapes = &[[16, 4, 1], [16, 4, 1], [16, 4, 1], [16, 4, 2]];

/// The tiles of the kernels that `arch` (a processor's name, such as `gfx942`) has, those for the smallest heads first.
pub fn tiles(arch: &str) -> Vec<Tile> {
    let (shapes, lanes) = if Multiprocessor::of(arch).is_some() {
        (NVIDIA, 32)
    } else {
        let Ok(target) = arch.parse::<CodeTarget>() else {
            return Vec::new();
        };
        let unit = target.unit();
        let shapes = match unit.matrix_unit {
            MatrixUnit::Mfma => MFMA,
            MatrixUnit::Wmma => WMMA,
            MatrixUnit::Dot => DOT,
        };
        (shapes, unit.wavefront)
    };
    let of_shape = |(elements, &[queries, waves, parts]): (u32, &[u32; 3])| Tile {
        elements,
        queries: queries * waves,
        threads: lanes * waves,
        parts,
    };
    ELEMENTS.into_iter().zip(shapes).map(of_shape).collect()
}

/// The kernel's tile for heads of so many elements, a multiple of 8; none if `arch` has no kernel for them.
pub fn tile(arch: &str, elements: u32) -> Option<Tile> {
    let wanted =
        |tile: &Tile| elements.is_multiple_of(8) && (1..=tile.elements).contains(&elements);
    tiles(arch).into_iter().find(wanted)
}

/// The kernel's name. `dtype` is `f16` or `bf16`.
pub fn kernel_name(dtype: &str, tile: Tile) -> String {
    format!("attention_{dtype}_{}", tile.elements)
}
