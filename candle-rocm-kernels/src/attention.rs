//! What the kernels of [`FORWARD`](crate::FORWARD) and [`BACKWARD`](crate::BACKWARD) are: which heads they take, and what
//! a workgroup makes. The host chooses by these tables, which say what `kernels/attention/forward.cu` and `backward.cu`
//! do.
//!
//! A kernel's name is `attention_<dtype>_<elements>`, with `f16` or `bf16` and the most elements that a head may have;
//! after `attention` those of gradients have `backward_keys` or `backward_queries`.

use rocm_gpus::{Accumulation, MatrixUnit};

use crate::processor::Processor;

/// What a kernel makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Attention's result, of a tile of queries.
    Forward,
    /// The gradients of a tile of keys and of their values.
    BackwardKeys,
    /// The gradient of a tile of queries.
    BackwardQueries,
}

impl Pass {
    /// All of them.
    pub const ALL: [Pass; 3] = [Pass::Forward, Pass::BackwardKeys, Pass::BackwardQueries];
}

/// What a workgroup of a kernel makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The most elements of a head; a kernel takes every multiple of 8 up to it.
    pub elements: u32,
    /// Queries, or keys.
    pub rows: u32,
    /// Work-items.
    pub threads: u32,
    /// Workgroups that share a tile of rows, each with its part of the elements.
    pub parts: u32,
    /// Bytes of LDS that a launch asks for, beside what the kernel has of its own: all of it on NVIDIA's GPUs, where rows
    /// are copied straight there.
    pub dynamic_lds: u32,
}

/// The most elements of a head that each kernel takes. Those of gradients end with the last but one.
pub const ELEMENTS: [u32; 5] = [32, 64, 128, 256, 512];

/// Bytes of `AttentionProblem`, a kernel's one argument.
pub const PROBLEM_BYTES: u64 = 248;
/// Bytes of `AttentionGradients`, that of the kernels of gradients.
pub const GRADIENTS_BYTES: u64 = 352;

/// Queries and work-items of a workgroup of [`delta_name`]'s kernels.
pub const DELTA_ROWS: u32 = 64;
/// See [`DELTA_ROWS`].
pub const DELTA_THREADS: u32 = 256;

/// Of the kernels for [`ELEMENTS`], in order: rows of a wavefront, wavefronts, parts.
type Shapes = &'static [[u32; 3]];

/// The shapes of a pass, by the matrix unit.
struct Table {
    mfma: Shapes,
    /// Those where sums have registers of their own, which leaves fewer to what is not a sum, if they are others.
    mfma_separate: Option<Shapes>,
    wmma: Shapes,
    dot: Shapes,
    nvidia: Shapes,
    /// What a launch of NVIDIA's asks for.
    nvidia_lds_kib: &'static [u32],
}

const FORWARD: Table = Table {
    mfma: &[[32, 4, 1], [32, 4, 1], [32, 4, 1], [32, 4, 1], [32, 4, 2]],
    mfma_separate: None,
    wmma: &[[16, 8, 1], [16, 8, 1], [16, 8, 1], [16, 4, 1], [16, 2, 4]],
    dot: &[[16, 4, 1], [16, 4, 1], [16, 4, 1], [8, 8, 1], [8, 4, 2]],
    nvidia: &[[32, 4, 1], [32, 4, 1], [32, 4, 1], [32, 4, 2]],
    nvidia_lds_kib: &[19, 35, 51, 90],
};
const BACKWARD_KEYS: Table = Table {
    mfma: &[[32, 4, 1], [32, 4, 1], [32, 8, 1], [32, 4, 2]],
    mfma_separate: Some(&[[32, 4, 1], [32, 4, 1], [32, 4, 1], [32, 4, 2]]),
    wmma: &[[16, 8, 1], [16, 8, 1], [16, 4, 1], [16, 2, 2]],
    dot: &[[16, 4, 1], [16, 4, 1], [16, 4, 1], [8, 4, 2]],
    nvidia: &[[32, 4, 1], [32, 4, 1], [16, 8, 1], [16, 4, 2]],
    nvidia_lds_kib: &[10, 51, 98, 35],
};
const BACKWARD_QUERIES: Table = Table {
    mfma: &[[32, 4, 1], [32, 4, 1], [32, 4, 1], [32, 4, 1]],
    mfma_separate: None,
    wmma: &[[16, 8, 1], [16, 8, 1], [16, 4, 1], [16, 2, 1]],
    dot: &[[16, 4, 1], [16, 4, 1], [16, 4, 1], [8, 4, 1]],
    nvidia: &[[32, 4, 1], [32, 4, 1], [32, 4, 1], [16, 4, 2]],
    nvidia_lds_kib: &[33, 65, 98, 34],
};

/// The tiles of the kernels that a processor has for a pass, those for the smallest heads first.
pub fn tiles(processor: Processor, pass: Pass) -> Vec<Tile> {
    let table = match pass {
        Pass::Forward => FORWARD,
        Pass::BackwardKeys => BACKWARD_KEYS,
        Pass::BackwardQueries => BACKWARD_QUERIES,
    };
    let (shapes, lanes, lds_kib) = match processor {
        Processor::Nvidia(Some(_)) => (table.nvidia, 32, table.nvidia_lds_kib),
        Processor::Nvidia(None) | Processor::Unknown => return Vec::new(),
        Processor::Amd(target) => {
            let unit = target.unit();
            let shapes = match unit.matrix_unit {
                MatrixUnit::Mfma => table
                    .mfma_separate
                    .filter(|_| unit.accumulation == Accumulation::Separate)
                    .unwrap_or(table.mfma),
                MatrixUnit::Wmma => table.wmma,
                MatrixUnit::Dot => table.dot,
            };
            (shapes, unit.wavefront, &[][..])
        }
    };
    let of_shape = |(at, &[rows, waves, parts]): (usize, &[u32; 3])| Tile {
        elements: ELEMENTS[at],
        rows: rows * waves,
        threads: lanes * waves,
        parts,
        dynamic_lds: lds_kib.get(at).copied().unwrap_or(0) << 10,
    };
    shapes.iter().enumerate().map(of_shape).collect()
}

/// The tile of a pass's kernel for heads of so many elements, a multiple of 8; none if the processor has no kernel for
/// them.
pub fn tile(processor: Processor, pass: Pass, elements: u32) -> Option<Tile> {
    let wanted =
        |tile: &Tile| elements.is_multiple_of(8) && (1..=tile.elements).contains(&elements);
    tiles(processor, pass).into_iter().find(wanted)
}

/// The kernel's name. `dtype` is `f16` or `bf16`.
pub fn kernel_name(pass: Pass, dtype: &str, tile: Tile) -> String {
    let of_pass = match pass {
        Pass::Forward => "",
        Pass::BackwardKeys => "backward_keys_",
        Pass::BackwardQueries => "backward_queries_",
    };
    format!("attention_{of_pass}{dtype}_{}", tile.elements)
}

/// The name of the kernel of each query's product of its result and that one's gradient, which the others need.
pub fn delta_name(dtype: &str) -> String {
    format!("attention_backward_delta_{dtype}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_multiprocessor_has_the_lds_that_launches_ask_for() {
        let least = ["sm_80", "sm_86", "sm_90"].map(|arch| {
            let unit = Processor::of(arch).multiprocessor();
            let unit = unit.expect("one of NVIDIA's");
            unit.lds_bytes_of_workgroup
        });
        let least = least.into_iter().min().unwrap_or(0);
        for pass in Pass::ALL {
            let tiles = tiles(Processor::of("sm_86"), pass);
            assert_eq!(tiles.len(), 4);
            for tile in tiles {
                assert!((1..=least).contains(&tile.dynamic_lds), "{pass:?} {tile:?}");
            }
            let of_amd = super::tiles(Processor::of("gfx942"), pass);
            assert!(of_amd.len() >= 4 && of_amd.iter().all(|tile| tile.dynamic_lds == 0));
        }
    }
}
