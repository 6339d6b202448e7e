//! What the rules of wait states ask of a matrix instruction: how long it takes, and where its addend and result lie.

use super::registers::Span;
use crate::isa::{is_gfx940, Accumulator, Factor, Inst, Operand, Target, Traits};

/// The pipeline that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pipeline {
    /// Small formats.
    Narrow,
    /// CDNA3 runs f32 apart.
    Single,
    Double,
    /// RDNA's.
    Wmma,
}

/// A matrix instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub pipeline: Pipeline,
    /// Passes of four cycles; 0 for RDNA's, whose rules do not count them.
    pub passes: u32,
    pub factors: [Option<Span>; 2],
    pub addend: Option<Span>,
    pub result: Span,
    /// `v_mfma_f64_4x4x4`.
    pub smallest_double: bool,
}

/// A matrix instruction's; `None` for others. `span` gives an operand's registers.
pub(crate) fn of(
    target: Target,
    inst: &Inst,
    span: impl Fn(Operand) -> Option<Span>,
) -> Option<Matrix> {
    let columns = &inst.op.columns;
    let name = columns.matrix?.0;
    let (dst, src) = (&inst.dst, &inst.src);
    let result = span(dst[0])?;
    let is = |accumulator| name.is_some_and(|name| name.accumulator == accumulator);
    let takes_f32 = name.is_some_and(|name| name.b == Factor::F32);
    let pipeline = match columns.has(Traits::MFMA) {
        false => Pipeline::Wmma,
        true if is(Accumulator::F64) => Pipeline::Double,
        true if is_gfx940(target) && takes_f32 => Pipeline::Single,
        true => Pipeline::Narrow,
    };
    let cycles = || target.architecture().matrix_cycles(inst.op.name);
    Some(Matrix {
        pipeline,
        passes: match pipeline {
            Pipeline::Wmma => 0,
            _ => cycles().unwrap_or(0) as u32 / 4,
        },
        factors: [span(src[0]), span(src[1])],
        // The sparse forms' third source is an index, and their addend the destination.
        addend: match columns.has(Traits::SPARSE) {
            true => Some(result),
            false => span(src[2]),
        },
        result,
        smallest_double: is(Accumulator::F64)
            && name.is_some_and(|name| name.dimensions == [4, 4, 4]),
    })
}
