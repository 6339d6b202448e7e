//! Which lane and register hold which element.
//!
//! In every layout, lanes that follow one another hold elements of consecutive rows of A, or consecutive
//! columns of B and the result, in groups as wide as the matrix. So a layout is a list of runs: element e of
//! lane group g starts at a place in the dense matrix, which is stored by k for A and B and by row for the
//! result.
//!
//! Sources: CDNA3 ISA manual, "Matrix Arithmetic Instructions"; RDNA3 and RDNA4 ISA manuals, "Wave Matrix
//! Multiply Accumulate"; AMD's matrix instruction calculator, which prints the same tables.

use super::multiply::Shape;
use super::names::Form;
use crate::exec::LANES;
use crate::isa::Accumulator;

/// Most elements of A or B, all blocks together.
pub(super) const MAX_INPUT: usize = 64 * 16;
/// Most elements of the result, all blocks together.
pub(super) const MAX_RESULT: usize = 64 * 32;

/// Runs of a matrix.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Lanes in a group.
    pub width: usize,
    /// Groups in the wavefront.
    pub groups: usize,
    /// First place of (element, group), at `element * groups + group`; none for lanes that repeat others.
    pub bases: Vec<Option<usize>>,
}

/// A (`width` = m) or B (`width` = n), of which each lane holds `per_lane` elements with consecutive k.
pub(super) fn input(
    form: Form,
    lanes: usize,
    shape: Shape,
    width: usize,
    per_lane: usize,
) -> Layout {
    let groups = lanes / width;
    let mut bases = Vec::with_capacity(groups * per_lane);
    for element in 0..per_lane {
        for group in 0..groups {
            bases.push(match form {
                // Groups go through the blocks first, then through k.
                Form::Mfma => {
                    let (block, k_group) = (group % shape.blocks, group / shape.blocks);
                    Some((block * shape.k + k_group * per_lane + element) * width)
                }
                // Each lane holds a whole row of A or column of B; the other groups repeat the first.
                Form::Wmma11 => (group == 0).then_some(element * width),
                Form::Wmma12 => Some((group * per_lane + element) * width),
            });
        }
    }
    Layout {
        width,
        groups,
        bases,
    }
}

/// C and D.
pub(super) fn result(form: Form, lanes: usize, shape: Shape, accumulator: Accumulator) -> Layout {
    let Shape { m, n, blocks, .. } = shape;
    let groups = lanes / n;
    let per_lane = m * n * blocks / lanes;
    let mut bases = Vec::with_capacity(groups * per_lane);
    for element in 0..per_lane {
        for group in 0..groups {
            let (block, row) = match form {
                Form::Mfma if accumulator == Accumulator::F64 => {
                    (group % blocks, element * (groups / blocks) + group / blocks)
                }
                // 4x4: one block a group, one row an element.
                Form::Mfma if m == 4 => (group, element),
                // Runs of four rows, dealt to the groups in turn.
                Form::Mfma => {
                    let per_block = per_lane / blocks;
                    let within = element % per_block;
                    (
                        element / per_block,
                        within / 4 * 4 * groups + 4 * group + within % 4,
                    )
                }
                // Rows are dealt to the groups one by one.
                Form::Wmma11 => (0, element * groups + group),
                Form::Wmma12 => (0, group * per_lane + element),
            };
            bases.push(Some((block * m + row) * n));
        }
    }
    Layout {
        width: n,
        groups,
        bases,
    }
}

/// MFMA's BLGP: the lane that each lane of B comes from.
pub(super) fn group_pattern(blgp: u8) -> [u8; LANES] {
    std::array::from_fn(|lane| {
        (match blgp {
            // One half for both.
            1 => lane % 32,
            2 => 32 + lane % 32,
            // Rotated by 16 lanes.
            3 => (lane + 16) % 64,
            // One quarter for all.
            4..=7 => 16 * (blgp as usize - 4) + lane % 16,
            _ => lane,
        }) as u8
    })
}
