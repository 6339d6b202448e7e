//! What the kernels of [`ATTENTION_FORWARD`](crate::ATTENTION_FORWARD) and
//! [`ATTENTION_BACKWARD`](crate::ATTENTION_BACKWARD) are: which heads they take, and what a workgroup makes. The host
//! chooses by the lists of `kernels/attention/attention_kernels.cuh`.
//!
//! A kernel's name is `attention_<dtype>_<elements>`, with `f16` or `bf16` and the most elements that a head may have;
//! after `attention` those of gradients have `backward_keys` or `backward_queries`.

use crate::by_architecture::Lists;
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
    pub head_tiles: u32,
    /// Bytes of LDS that a launch asks for, beside what the kernel has of its own: all of it on NVIDIA's GPUs, where rows
    /// are copied straight there.
    pub dynamic_lds: u32,
}

/// The most elements of a head that each kernel takes. Those of gradients end with the last but one.
pub const ELEMENTS: [u32; 5] = [32, 64, 128, 256, 512];

/// Queries and work-items of a workgroup of [`delta_name`]'s kernels.
pub const DELTA_ROWS: u32 = 64;
/// See [`DELTA_ROWS`].
pub const DELTA_THREADS: u32 = 256;

/// A kernel: a row of kernels/attention/attention_kernels.cuh, which says what the columns are.
#[derive(Clone, Copy, Debug)]
struct Shape {
    elements: u32,
    made: u32,
    rows: u32,
    waves: u32,
    lds_kib: u32,
}

include!(concat!(env!("OUT_DIR"), "/attention_kernels.rs"));

/// The tiles of the kernels that a processor has for a pass, those for the smallest heads first; none of NVIDIA's that plans
/// know nothing of.
pub fn tiles(processor: Processor, pass: Pass) -> Vec<Tile> {
    if processor == Processor::Nvidia(None) {
        return Vec::new();
    }
    let shapes = match pass {
        Pass::Forward => &FORWARD_KERNELS,
        Pass::BackwardKeys => &BACKWARD_KEYS,
        Pass::BackwardQueries => &BACKWARD_QUERIES,
    };
    let lanes = processor.wavefront();
    let of_shape = |shape: &Shape| Tile {
        elements: shape.elements,
        rows: shape.rows * shape.waves,
        threads: lanes * shape.waves,
        head_tiles: shape.elements / shape.made,
        dynamic_lds: shape.lds_kib << 10,
    };
    shapes.of(processor).iter().map(of_shape).collect()
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
    fn heads_are_those_of_the_lists() {
        let last = ELEMENTS.len() - 1;
        for gpu in rocm_gpus::Gpu::all() {
            let elements = |pass| {
                let tiles = tiles(Processor::of(gpu.name()), pass);
                tiles.iter().map(|tile| tile.elements).collect::<Vec<_>>()
            };
            assert_eq!(elements(Pass::Forward), ELEMENTS, "{gpu}");
            assert_eq!(elements(Pass::BackwardKeys), ELEMENTS[..last], "{gpu}");
            assert_eq!(elements(Pass::BackwardQueries), ELEMENTS[..last], "{gpu}");
        }
    }

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
