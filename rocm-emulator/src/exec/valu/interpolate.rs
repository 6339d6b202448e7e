//! VINTERP: the steps of interpolating an attribute over a triangle, from what the lanes of each four hold (RDNA3 and
//! RDNA4 ISA manuals, "VINTERP"). The lanes that hold it need not be active.

use super::lowering::{Run, Unimplemented};
use super::results::{clamp, flush};
use super::rows::expanded;
use super::soft::{self, Rounding};
use super::value::Kind;
use crate::exec::wave::{Row, Wave, LANES};
use crate::isa::{Family, Inst, Operand, Traits};

/// A source: its register, its format, and of each four lanes the one that all read, if it is one.
struct Source {
    register: usize,
    kind: Kind,
    lane: Option<usize>,
    high: bool,
    negate: bool,
}

impl Source {
    /// The lanes' values as f32.
    fn read(&self, wave: &Wave) -> Row {
        let row = &wave.vgpr[self.register];
        let mut rows = [Row::ZERO; 2];
        for lane in 0..LANES {
            let from = self.lane.map_or(lane, |of_four| lane & !3 | of_four);
            rows[0].0[lane] = match self.kind {
                Kind::F16 => row.0[from] >> (16 * u32::from(self.high)) & 0xffff,
                _ => row.0[from],
            };
        }
        flush(self.kind, &wave.mode, 1, &mut rows);
        let nearest = Rounding::NearestEven;
        for bits in &mut rows[0].0 {
            if self.kind == Kind::F16 {
                *bits = soft::convert(soft::F16, u64::from(*bits), soft::F32, nearest) as u32;
            }
            *bits ^= u32::from(self.negate) << 31;
        }
        rows[0]
    }
}

fn register(inst: &Inst, operand: Operand) -> Result<usize, Unimplemented> {
    match operand {
        Operand::Vgpr { first, .. } => Ok(first.into()),
        other => Err(Unimplemented::new(format!(
            "{}: {other:?} where a vector register must be",
            inst.op.name
        ))),
    }
}

/// Lower an interpolation.
pub(super) fn lower(inst: &Inst) -> Result<Run, Unimplemented> {
    let columns = &inst.op.columns;
    let first_step = columns.has(Traits::FIRST_STEP);
    let half = columns.has(Traits::HALF_PRECISION);
    // The first step gives an f32 from the attribute's halves, the second a half from the first's f32.
    let kinds = match (half, first_step) {
        (false, _) => [Kind::F32; 3],
        (true, true) => [Kind::F16, Kind::F32, Kind::F16],
        (true, false) => [Kind::F16, Kind::F32, Kind::F32],
    };
    let lanes = match first_step {
        true => [Some(1), None, Some(0)],
        false => [Some(2), None, None],
    };
    let source = |place: usize| -> Result<Source, Unimplemented> {
        Ok(Source {
            register: register(inst, inst.src[place])?,
            kind: kinds[place],
            lane: lanes[place],
            high: inst.mods.op_sel >> place & 1 != 0,
            negate: inst.mods.neg >> place & 1 != 0,
        })
    };
    let sources = [source(0)?, source(1)?, source(2)?];
    let dst = register(inst, inst.dst[0])?;
    let kind = match half && !first_step {
        true => Kind::F16,
        false => Kind::F32,
    };
    let toward_zero = columns.has(Traits::TOWARD_ZERO);
    let (high, clamps) = (inst.mods.op_sel & 8 != 0, inst.mods.clamp);
    Ok(Box::new(move |wave| {
        let [a, b, c] = [0, 1, 2].map(|place| sources[place].read(wave));
        let mode = wave.mode;
        let rounding = |field: u8| Rounding::of(if toward_zero { 3 } else { field });
        let mut rows = [Row::ZERO; 2];
        for lane in 0..LANES {
            let [a, b, c] = [&a, &b, &c].map(|row| u64::from(row.0[lane]));
            let sum = soft::fused(soft::F32, a, b, c, 0, rounding(mode.round_f32));
            rows[0].0[lane] = match kind {
                Kind::F16 => {
                    let rounding = rounding(mode.round_f64_f16);
                    soft::convert(soft::F32, sum, soft::F16, rounding) as u32
                }
                _ => sum as u32,
            };
        }
        flush(kind, &mode, 2, &mut rows);
        if clamps {
            let nan_to_zero = mode.dx10_clamp || wave.target.family() == Family::Rdna4;
            clamp(kind, nan_to_zero, &mut rows);
        }
        let (shift, mask) = match (kind, high) {
            (Kind::F16, true) => (16, 0xffff_0000),
            (Kind::F16, false) => (0, 0xffff),
            _ => (0, u32::MAX),
        };
        let active = expanded(wave.exec());
        for (lane, old) in wave.vgpr[dst].0.iter_mut().enumerate() {
            let written = active.0[lane] & mask;
            *old = *old & !written | rows[0].0[lane] << shift & written;
        }
    }))
}
