//! Operations under rounding modes other than nearest-even: lane by lane, in [`super::soft`].
//!
//! The tables' operations round to nearest, which is what compilers leave MODE at. When a kernel changes
//! it, the instructions that round are computed here instead; those that are exact need nothing.

use super::kernel::MAX_ARGUMENTS;
use super::soft::{convert, from_integer, fused, Format, Rounding, F16, F32, F64};
use super::value::Kind;
use crate::exec::{Mode, Row, LANES};

/// How an instruction that rounds computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Add,
    Sub,
    Subrev,
    Mul,
    /// Three sources, or two and the destination.
    Fma,
    /// With the product rounded by itself.
    Mad,
    FromFloat(Format),
    FromSigned(u32),
    FromUnsigned(u32),
}

/// An instruction that rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directed {
    form: Form,
    format: Format,
}

/// The rounding form of an instruction, by its name.
pub(super) fn find(name: &str) -> Option<Directed> {
    let rest = name.strip_prefix("v_")?;
    let rest = rest.strip_prefix("pk_").unwrap_or(rest);
    let conversion = match rest {
        "cvt_f32_f64" => Some((Form::FromFloat(F64), F32)),
        "cvt_f16_f32" => Some((Form::FromFloat(F32), F16)),
        "cvt_f32_i32" => Some((Form::FromSigned(32), F32)),
        "cvt_f32_u32" => Some((Form::FromUnsigned(32), F32)),
        "cvt_f16_i16" => Some((Form::FromSigned(16), F16)),
        "cvt_f16_u16" => Some((Form::FromUnsigned(16), F16)),
        _ => None,
    };
    if let Some((form, format)) = conversion {
        return Some(Directed { form, format });
    }
    let (operation, format) = rest.rsplit_once('_')?;
    let form = match operation {
        "add" => Form::Add,
        "sub" => Form::Sub,
        "subrev" => Form::Subrev,
        "mul" => Form::Mul,
        "fma" | "fmac" | "fmamk" | "fmaak" | "fma_mix" | "fma_mixlo" | "fma_mixhi" => Form::Fma,
        "mad" | "mac" | "madmk" | "madak" => Form::Mad,
        _ => return None,
    };
    let format = match (operation, format) {
        // The sources are f32 by then; the narrow result of these rounds twice.
        ("fma_mixlo" | "fma_mixhi", _) => return None,
        (_, "f16") => F16,
        (_, "f32") => F32,
        (_, "f64") => F64,
        _ => return None,
    };
    Some(Directed { form, format })
}

impl Directed {
    /// MODE's rounding field for the result's format.
    pub fn rounding(&self, mode: &Mode) -> u8 {
        if self.format == F32 {
            mode.round_f32
        } else {
            mode.round_f64_f16
        }
    }

    /// Compute every lane of `result` from the prepared sources.
    pub fn run(
        &self,
        rounding: u8,
        kinds: &[Kind; MAX_ARGUMENTS],
        sources: &[[Row; 2]; MAX_ARGUMENTS],
        packed: bool,
        result: &mut [Row; 2],
        lanes: usize,
    ) {
        let rounding = Rounding::of(rounding);
        for lane in 0..lanes.min(LANES) {
            if !packed {
                let value = |index: usize| {
                    let [low, high] = &sources[index];
                    match kinds[index].dwords() {
                        2 => low.0[lane] as u64 | (high.0[lane] as u64) << 32,
                        _ if kinds[index].is_half() => low.0[lane] as u64 & 0xffff,
                        _ => low.0[lane] as u64,
                    }
                };
                let bits = self.one(value(0), value(1), value(2), rounding);
                result[0].0[lane] = bits as u32;
                result[1].0[lane] = (bits >> 32) as u32;
            } else if self.format == F32 {
                for (half, row) in result.iter_mut().enumerate() {
                    let value = |index: usize| sources[index][half].0[lane] as u64;
                    row.0[lane] = self.one(value(0), value(1), value(2), rounding) as u32;
                }
            } else {
                let mut word = 0;
                for half in 0..2 {
                    let value =
                        |index: usize| (sources[index][0].0[lane] >> (16 * half)) as u64 & 0xffff;
                    let bits = self.one(value(0), value(1), value(2), rounding) as u32;
                    word |= bits << (16 * half);
                }
                result[0].0[lane] = word;
            }
        }
    }

    fn one(&self, a: u64, b: u64, c: u64, rounding: Rounding) -> u64 {
        let format = self.format;
        let fma = |a, b, c| fused(format, a, b, c, 0, rounding);
        // A zero addend with the product's sign leaves the product's sign alone.
        let mul = |a: u64, b: u64| fma(a, b, (a ^ b) & format.negate(0));
        match self.form {
            Form::Add => fma(a, format.one(), b),
            Form::Sub => fma(a, format.one(), format.negate(b)),
            Form::Subrev => fma(b, format.one(), format.negate(a)),
            Form::Mul => mul(a, b),
            Form::Fma => fma(a, b, c),
            Form::Mad => fma(mul(a, b), format.one(), c),
            Form::FromFloat(from) => convert(from, a, format, rounding),
            Form::FromSigned(bits) => {
                let shift = 64 - bits;
                from_integer((a << shift) as i64 >> shift, format, rounding)
            }
            Form::FromUnsigned(_) => from_integer(a as i64, format, rounding),
        }
    }
}
