//! Typed buffer instructions: what a lane's components are in memory. ISA manuals, "Buffer data"; rounding to nearest.

use half::f16;

use crate::isa::{BufferFormat, NumberFormat};

/// A float of `exponent_bits` and `fraction_bits` without a sign, as f32.
fn unsigned_float(bits: u32, fraction_bits: u32) -> f32 {
    // Such floats have f16's exponent: with a sign of zero and the fraction's missing bits they are one.
    f16::from_bits((bits << (10 - fraction_bits)) as u16).to_f32()
}

/// The nearest float without a sign, for `fraction_bits` of fraction; what is negative is zero.
fn to_unsigned_float(value: f32, fraction_bits: u32) -> u32 {
    if value.is_nan() {
        return u32::MAX >> (32 - 5 - fraction_bits);
    }
    let dropped = 10 - fraction_bits;
    let half = u32::from(f16::from_f32(value.max(0.0)).to_bits());
    let even = half >> dropped & 1;
    let rounded = half + (1 << (dropped - 1)) - 1 + even;
    (rounded >> dropped).min(31 << fraction_bits)
}

fn mask(bits: u8) -> u32 {
    u32::MAX >> (32 - u32::from(bits))
}

fn extended(value: u32, bits: u8) -> i32 {
    let shift = 32 - u32::from(bits);
    (value << shift) as i32 >> shift
}

/// A component's bits as the 32 bits of a register.
fn decode(value: u32, bits: u8, number: NumberFormat) -> u32 {
    let signed = extended(value, bits);
    let largest = f64::from(mask(bits));
    match number {
        NumberFormat::Unorm => ((f64::from(value) / largest) as f32).to_bits(),
        NumberFormat::Snorm => {
            let largest = f64::from(mask(bits) >> 1);
            ((f64::from(signed) / largest).max(-1.0) as f32).to_bits()
        }
        NumberFormat::Uscaled => (value as f32).to_bits(),
        NumberFormat::Sscaled => (signed as f32).to_bits(),
        NumberFormat::Uint => value,
        NumberFormat::Sint => signed as u32,
        NumberFormat::Float => match bits {
            32 => value,
            16 => f16::from_bits(value as u16).to_f32().to_bits(),
            _ => unsigned_float(value, u32::from(bits) - 5).to_bits(),
        },
    }
}

/// A register's 32 bits as a component's; integers and scaled numbers that do not fit become the nearest that do.
fn encode(value: u32, bits: u8, number: NumberFormat) -> u32 {
    let float = f64::from(f32::from_bits(value));
    let highest = i64::from(mask(bits));
    let (low, high) = (-(highest >> 1) - 1, highest >> 1);
    let scaled = |value: f64, largest: i64| (value * largest as f64).round_ties_even() as i64;
    let number = match number {
        NumberFormat::Unorm => scaled(float.clamp(0.0, 1.0), highest),
        NumberFormat::Snorm => scaled(float.clamp(-1.0, 1.0), high),
        NumberFormat::Uscaled => (float as i64).clamp(0, highest),
        NumberFormat::Sscaled => (float as i64).clamp(low, high),
        NumberFormat::Uint => i64::from(value).min(highest),
        NumberFormat::Sint => i64::from(value as i32).clamp(low, high),
        NumberFormat::Float => match bits {
            32 => value.into(),
            16 => f16::from_f32(f32::from_bits(value)).to_bits().into(),
            _ => to_unsigned_float(f32::from_bits(value), u32::from(bits) - 5).into(),
        },
    };
    number as u32 & mask(bits)
}

fn is_integer(number: NumberFormat) -> bool {
    matches!(number, NumberFormat::Uint | NumberFormat::Sint)
}

/// The components of an element in memory, little-endian, as registers hold them. What it does not have is zero, the
/// fourth component one.
pub(super) fn load(format: BufferFormat, element: u128) -> [u32; 4] {
    let mut shift = 0;
    let mut components = [0, 0, 0, one(format)];
    for (component, &bits) in components.iter_mut().zip(&format.bits) {
        if bits == 0 {
            break;
        }
        let value = (element >> shift) as u32 & mask(bits);
        *component = decode(value, bits, format.number);
        shift += u32::from(bits);
    }
    components
}

/// The element that has these components.
pub(super) fn store(format: BufferFormat, components: [u32; 4]) -> u128 {
    let mut shift = 0;
    let mut element = 0;
    for (component, &bits) in components.iter().zip(&format.bits) {
        if bits == 0 {
            break;
        }
        element |= u128::from(encode(*component, bits, format.number)) << shift;
        shift += u32::from(bits);
    }
    element
}

/// A component that is always one.
pub(super) fn one(format: BufferFormat) -> u32 {
    match is_integer(format.number) {
        true => 1,
        false => 1.0f32.to_bits(),
    }
}

/// A component as the 16 bits of a D16 instruction.
pub(super) fn narrow(format: BufferFormat, component: u32) -> u16 {
    match is_integer(format.number) {
        true => component as u16,
        false => f16::from_f32(f32::from_bits(component)).to_bits(),
    }
}

/// The 32 bits of a component of a D16 instruction.
pub(super) fn widen(format: BufferFormat, component: u16) -> u32 {
    match format.number {
        NumberFormat::Uint => component.into(),
        NumberFormat::Sint => component as i16 as u32,
        _ => f16::from_bits(component).to_f32().to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(bits: [u8; 4], number: NumberFormat) -> BufferFormat {
        BufferFormat { bits, number }
    }

    #[test]
    fn components_and_back() {
        let unorm = format([8, 8, 8, 8], NumberFormat::Unorm);
        let components = load(unorm, 0xff00_8001);
        assert_eq!(components[1], (128.0f32 / 255.0).to_bits());
        assert_eq!(components[3], 1.0f32.to_bits());
        assert_eq!(store(unorm, components), 0xff00_8001);
        let snorm = format([16, 16, 0, 0], NumberFormat::Snorm);
        let components = load(snorm, 0x7fff_8000);
        assert_eq!(components[..2], [-1.0, 1.0].map(f32::to_bits));
        assert_eq!(components[2..], [0, 1.0f32.to_bits()]);
        let packed = format([10, 10, 10, 2], NumberFormat::Sint);
        assert_eq!(load(packed, 0x8000_03ff), [u32::MAX, 0, 0, -2i32 as u32]);
        assert_eq!(store(packed, [1000, 0, 0, 0]), 0x1ff);
    }

    #[test]
    fn small_floats() {
        let floats = format([11, 11, 10, 0], NumberFormat::Float);
        // 1.0 has exponent 15.
        let element = 15 << 6 | (16 << 6 | 32) << 11 | (14 << 5) << 22;
        let components = load(floats, element);
        assert_eq!(components[..3], [1.0, 3.0, 0.5].map(f32::to_bits));
        assert_eq!(store(floats, components), element);
        assert_eq!(store(floats, [(-1.0f32).to_bits(), 0, 0, 0]), 0);
        assert_eq!(store(floats, [f32::INFINITY.to_bits(), 0, 0, 0]), 31 << 6);
    }
}
