//! Operations under rounding modes other than nearest-even: lane by lane, in [`super::soft`].
//!
//! The tables' operations round to nearest, which is what compilers leave MODE at. When a kernel changes
//! it, the instructions that round are computed here instead; those that are exact need nothing.

use super::kernel::MAX_ARGUMENTS;
use super::soft::{convert, from_integer, fused, Format, Rounding, F16, F32, F64};
use super::value::Kind;
use crate::exec::{Mode, Row, LANES};
use crate::isa::{FloatFormat, Rounded};

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

impl Directed {
    /// Of an operation's column.
    pub fn of((rounded, format): (Rounded, FloatFormat)) -> Directed {
        Directed {
            form: match rounded {
                Rounded::Add => Form::Add,
                Rounded::Sub => Form::Sub,
                Rounded::Subrev => Form::Subrev,
                Rounded::Mul => Form::Mul,
                Rounded::Fma => Form::Fma,
                Rounded::Mad => Form::Mad,
                Rounded::FromF32 => Form::FromFloat(F32),
                Rounded::FromF64 => Form::FromFloat(F64),
                Rounded::FromI16 => Form::FromSigned(16),
                Rounded::FromI32 => Form::FromSigned(32),
                Rounded::FromU16 => Form::FromUnsigned(16),
                Rounded::FromU32 => Form::FromUnsigned(32),
            },
            format: match format {
                FloatFormat::F16 => F16,
                FloatFormat::F32 => F32,
                FloatFormat::F64 => F64,
            },
        }
    }

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
