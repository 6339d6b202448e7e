//! Element formats of A and B.

use crate::exec::simd::multiversion;
use crate::exec::valu::fp8::Fp8;
use crate::exec::valu::value::{bf16_to_f32, f16_to_f32};
use crate::exec::{Row, LANES};

/// What A or B is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F16,
    Bf16,
    F32,
    /// f32 of which the hardware uses 10 fraction bits.
    Xf32,
    F64,
    Fp8(Fp8),
    Int8 {
        signed: bool,
    },
    Int4 {
        signed: bool,
    },
}

impl Element {
    /// Bits of one element.
    pub fn bits(self) -> usize {
        match self {
            Element::F64 => 64,
            Element::F32 | Element::Xf32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::Fp8(_) | Element::Int8 { .. } => 8,
            Element::Int4 { .. } => 4,
        }
    }

    pub fn is_integer(self) -> bool {
        matches!(self, Element::Int8 { .. } | Element::Int4 { .. })
    }
}

/// Round to 10 fraction bits, ties to even.
#[inline(always)]
fn round_xf32(value: f32) -> f32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0xfff + (bits >> 13 & 1)) & !0x1fff;
    f32::from_bits(if bits & 0x7f80_0000 == 0x7f80_0000 {
        bits
    } else {
        rounded
    })
}

multiversion! {
    fn unpack_f16(row: &Row, shift: u32, values: &mut [f32; LANES]) {
        for (value, dword) in values.iter_mut().zip(&row.0) {
            *value = f16_to_f32((dword >> shift) as u16);
        }
    }

    fn unpack_bf16(row: &Row, shift: u32, values: &mut [f32; LANES]) {
        for (value, dword) in values.iter_mut().zip(&row.0) {
            *value = bf16_to_f32((dword >> shift) as u16);
        }
    }

    /// A field of `bits` bits, signed or not.
    pub(super) fn unpack_integers(
        row: &Row, shift: u32, bits: u32, signed: bool, values: &mut [i32; LANES],
    ) {
        for (value, dword) in values.iter_mut().zip(&row.0) {
            let left = dword << ((32 - bits - shift) & 31);
            let (arithmetic, logical) = (left as i32 >> (32 - bits), left >> (32 - bits));
            *value = if signed { arithmetic } else { logical as i32 };
        }
    }
}

/// The field at `shift` of each lane's dword, as f32.
pub(super) fn unpack_floats(element: Element, row: &Row, shift: u32, values: &mut [f32; LANES]) {
    match element {
        Element::F16 => unpack_f16(row, shift, values),
        Element::Bf16 => unpack_bf16(row, shift, values),
        Element::Fp8(format) => {
            for (value, dword) in values.iter_mut().zip(&row.0) {
                *value = format.decode((dword >> shift) as u8);
            }
        }
        Element::Xf32 => {
            for (value, dword) in values.iter_mut().zip(&row.0) {
                *value = round_xf32(f32::from_bits(*dword));
            }
        }
        _ => {
            for (value, dword) in values.iter_mut().zip(&row.0) {
                *value = f32::from_bits(*dword);
            }
        }
    }
}
