//! What the kernels of [`GROUPED`](crate::GROUPED) are: their tiles and workgroups.
//!
//! A kernel's name is `grouped_<element>_<rows>x<columns>_<ops>`, as those of [`MATMUL`](crate::MATMUL), with `_blocks` after
//! the element where A's scales are shared by rows; `grouped_sum` adds up the splits of k. All architectures have all of them.
//! `grouped_skinny_<element>_n<columns>` is for few columns, as the `skinny_t_*` of [`GEMM`](crate::GEMM) are, or groups that have
//! few in use.

use rocm_gpus::Architecture;

use crate::by_architecture::Lists;
use crate::matmul::Tile;
use crate::numbers::{experts, grouped};
use crate::processor::Processor;
use crate::skinny::{self, Measures};

/// Elements of k that share a scale, and by which splits of k and groups along k begin.
pub const DEPTH: usize = grouped::SCALE_DEPTH as usize;
/// Columns of C that have one group.
pub const COLUMNS: usize = grouped::GROUP_COLUMNS as usize;

/// The bit from which on a block's number says how many of its [`COLUMNS`] are in use, less one; below it is the group.
pub const GROUP_BITS: u32 = grouped::GROUP_BITS;

// The kernels that number blocks stand before those of products, and have numbers of their own.
const _: () = {
    assert!(experts::EXPERTS_ROWS == grouped::GROUP_COLUMNS);
    assert!(experts::EXPERTS_GROUP_BITS == GROUP_BITS);
};

/// Element types of A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// bfloat16.
    Bf16,
    /// FP8 with 4 bits of exponent and 3 of mantissa (OCP's e4m3), with scales.
    F8e4m3,
}

impl Element {
    /// As kernels' names spell it.
    pub fn name(self) -> &'static str {
        match self {
            Element::Bf16 => "bf16",
            Element::F8e4m3 => "f8e4m3",
        }
    }

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Element::Bf16 => 2,
            Element::F8e4m3 => 1,
        }
    }
}

/// The tiles, largest first.
pub const TILES: [Tile; 2] = [
    Tile {
        rows: 128,
        columns: 128,
    },
    Tile {
        rows: 128,
        columns: 32,
    },
];

/// One more, whose kernels are for operands that both have k together.
pub const ALONG_K: Tile = Tile {
    rows: 128,
    columns: 64,
};

/// A kernel with a tile: a row of kernels/matmul/grouped_kernels.cuh, which says what the columns are.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    /// The element type, and whether rows of A share scales.
    operands: (Element, bool),
    along_k_alone: bool,
    rows: u32,
    columns: u32,
    waves_m: u32,
    waves_n: u32,
}

/// A skinny kernel, likewise.
#[derive(Clone, Copy, Debug)]
struct Skinny {
    operands: (Element, bool),
    measures: Measures,
}

include!(concat!(env!("OUT_DIR"), "/grouped_kernels.rs"));

/// Threads of a workgroup of the tile's kernels, whether rows of A share scales or not. 0 where there is none.
pub fn threads(processor: Processor, element: Element, tile: Tile) -> u32 {
    let wavefront = processor.wavefront();
    let of = |kernel: &&Kernel| kernel.operands.0 == element && kernel.tile() == tile;
    let kernel = KERNELS.of(processor).iter().find(of);
    kernel.map_or(0, |kernel| kernel.waves_m * kernel.waves_n * wavefront)
}

/// The names of the kernels that a processor has, with the threads of their workgroups.
pub fn kernels(processor: Processor) -> Vec<(String, u32)> {
    let mut all = vec![("grouped_sum".to_string(), skinny::THREADS)];
    for kernel in KERNELS.of(processor) {
        let (element, blocks) = kernel.operands;
        let tile = kernel.tile();
        let threads = threads(processor, element, tile);
        let ops = (0..4).map(|ops| [ops & 2 != 0, ops & 1 != 0]);
        let ops = ops.filter(|ops| !kernel.along_k_alone || *ops == [true, false]);
        all.extend(ops.map(|ops| (kernel_name(element, blocks, tile, ops), threads)));
    }
    for Skinny { operands, measures } in SKINNY.of(processor) {
        let name = skinny_name(operands.0, operands.1, measures.columns);
        all.push((name, measures.threads));
    }
    all
}

impl Kernel {
    fn tile(&self) -> Tile {
        Tile {
            rows: self.rows,
            columns: self.columns,
        }
    }
}

/// Multiply-adds of a compute unit (a workgroup processor of RDNA) in a cycle. FP8 has the rate of bytes where units take
/// it, and of f16, to which it is upcast, elsewhere.
pub fn rate(processor: Processor, element: Element) -> u32 {
    let rates = match processor {
        Processor::Amd(target) => target.unit().matrix,
        Processor::Nvidia(Some(unit)) => unit.matrix,
        Processor::Nvidia(None) | Processor::Unknown => return 128,
    };
    match element {
        Element::Bf16 => rates.bf16,
        Element::F8e4m3 if multiplies_fp8(processor) => rates.i8,
        Element::F8e4m3 => rates.f16,
    }
}

/// Whether matrix units multiply FP8 as it is. (Hopper's do by instructions of warp groups alone.)
pub fn multiplies_fp8(processor: Processor) -> bool {
    matches!(
        processor.architecture(),
        Some(Architecture::Cdna3 | Architecture::Cdna4 | Architecture::Rdna4)
    )
}

/// The name of a kernel; `transposed` is of A and of B. `blocks` says that [`DEPTH`] rows of A each share their scales, as
/// weights' do, or all: tiles of more than 32 columns have kernels for those.
pub fn kernel_name(element: Element, blocks: bool, tile: Tile, transposed: [bool; 2]) -> String {
    let [a, b] = transposed.map(|transposed| if transposed { 't' } else { 'n' });
    format!(
        "grouped_{}_{}x{}_{a}{b}",
        spelled(element, blocks && tile.columns > 32),
        tile.rows,
        tile.columns
    )
}

fn spelled(element: Element, blocks: bool) -> String {
    let blocks = match element {
        Element::F8e4m3 if blocks => "_blocks",
        _ => "",
    };
    format!("{}{blocks}", element.name())
}

/// The columns that kernels for few of them take at a time, least first, of all operands.
pub fn skinny_columns(processor: Processor) -> &'static [u32] {
    let lists = SKINNY_COLUMNS.of(processor);
    lists.first().map_or(&[], |(_, columns)| columns)
}

/// The measures of the kernel for so many columns.
///
/// # Panics
/// If [`skinny_columns`] does not list them.
pub fn skinny_shape(processor: Processor, element: Element, columns: u32) -> skinny::Shape {
    let of = |of: &&Skinny| of.operands.0 == element && of.measures.columns == columns;
    let Some(kernel) = SKINNY.of(processor).iter().find(of) else {
        panic!("no grouped kernel of {element:?} for {columns} columns: grouped::skinny_columns lists them");
    };
    kernel.measures.shape(processor, element.bytes(), false)
}

/// Its name; `blocks` as [`kernel_name`]'s.
pub fn skinny_name(element: Element, blocks: bool, columns: u32) -> String {
    format!("grouped_skinny_{}_n{columns}", spelled(element, blocks))
}

/// The header that has what each kernel is, below the kernels' folder.
pub const HEADER: &str = "matmul/grouped.cuh";

/// What makes the kernel of this name of [`HEADER`]'s macros; none of `grouped_sum`, which is the same for all shapes.
pub fn invocation(kernel: &str) -> Option<String> {
    let name = kernel.strip_prefix("grouped_")?;
    if let Some(skinny) = name.strip_prefix("skinny_") {
        let (spelled, columns) = skinny.rsplit_once("_n")?;
        return Some(format!("SKINNY({spelled}, {columns})"));
    }
    let (rest, ops) = name.rsplit_once('_')?;
    let (spelled, tile) = rest.rsplit_once('_')?;
    Some(format!("PRODUCT({spelled}, {tile}, {ops})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked of an element, or of a processor, holds of all rows.
    #[test]
    fn rows_agree() {
        for list in KERNELS.lists() {
            for kernel in list {
                let tile = kernel.tile();
                assert!(TILES.contains(&tile) || tile == ALONG_K, "{kernel:?}");
                assert_eq!(tile == ALONG_K, kernel.along_k_alone, "{kernel:?}");
                let of_tile = list
                    .iter()
                    .filter(|other| other.operands.0 == kernel.operands.0 && other.tile() == tile);
                for other in of_tile {
                    let waves = kernel.waves_m * kernel.waves_n;
                    assert_eq!(other.waves_m * other.waves_n, waves, "{kernel:?} {other:?}");
                }
            }
        }
        for list in SKINNY_COLUMNS.lists() {
            assert!(list.iter().all(|(_, columns)| *columns == list[0].1));
        }
    }
}
