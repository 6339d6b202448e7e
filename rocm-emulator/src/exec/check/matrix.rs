//! What the rules of wait states ask of a matrix instruction: how long it takes, and where its addend and result lie.

use super::registers::Span;
use crate::isa::{is_gfx940, Operand, Target};

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
    name: &str,
    dst: &[Operand; 2],
    src: &[Operand; 4],
    span: impl Fn(Operand) -> Option<Span>,
) -> Option<Matrix> {
    let cdna = name
        .strip_prefix("v_mfma_")
        .or(name.strip_prefix("v_smfmac_"));
    let rdna = name.starts_with("v_wmma_") || name.starts_with("v_swmmac_");
    if cdna.is_none() && !rdna {
        return None;
    }
    let result = span(dst[0])?;
    let pipeline = match cdna {
        None => Pipeline::Wmma,
        Some(shape) if shape.starts_with("f64") => Pipeline::Double,
        Some(shape) if is_gfx940(target) && takes_f32(shape) => Pipeline::Single,
        Some(_) => Pipeline::Narrow,
    };
    // The sparse forms' third source is an index, and their addend the destination.
    let sparse = name.contains("smfmac") || name.contains("swmmac");
    Some(Matrix {
        pipeline,
        passes: match pipeline {
            Pipeline::Wmma => 0,
            _ => target.architecture().matrix_cycles(name).unwrap_or(0) as u32 / 4,
        },
        factors: [span(src[0]), span(src[1])],
        addend: match sparse {
            true => Some(result),
            false => span(src[2]),
        },
        result,
        smallest_double: name.starts_with("v_mfma_f64_4x4x4"),
    })
}

/// `f32_32x32x2_f32` and older spellings, but not `xf32`.
fn takes_f32(shape: &str) -> bool {
    let Some((_, factors)) = shape.split_once('_') else {
        return false;
    };
    factors.ends_with("f32") && !factors.ends_with("xf32")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xf32_is_a_narrow_format() {
        assert!(takes_f32("f32_32x32x2_f32") && takes_f32("f32_32x32x1_2b_f32"));
        assert!(!takes_f32("f32_32x32x4_xf32") && !takes_f32("f32_16x16x16_f16"));
    }
}
