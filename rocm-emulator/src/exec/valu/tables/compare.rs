//! Compares: `v_cmp_*`, and under the same names `v_cmpx_*`.

use super::rows::{operations, Table};
use crate::exec::valu::kernel::entry;
use crate::exec::valu::value::F16;

/// The bit of a class mask that a floating-point number has (ISA manuals, `v_cmp_class`): 0 signalling NaN,
/// 1 quiet NaN, 2 -inf, 3 -normal, 4 -denormal, 5 -0, 6 +0, 7 +denormal, 8 +normal, 9 +inf. `exponent` and
/// `fraction` are its fields.
#[inline(always)]
fn class_bit(
    negative: bool,
    exponent: u32,
    exponent_max: u32,
    fraction_is_zero: bool,
    quiet: bool,
) -> u32 {
    let magnitude = if exponent == exponent_max {
        0
    } else if exponent != 0 {
        1
    } else if !fraction_is_zero {
        2
    } else {
        3
    };
    let number = if negative {
        2 + magnitude
    } else {
        9 - magnitude
    };
    if exponent == exponent_max && !fraction_is_zero {
        quiet as u32
    } else {
        number
    }
}

#[inline(always)]
fn in_class_f16(bits: u16, mask: u32) -> bool {
    let bit = class_bit(
        bits >> 15 == 1,
        bits as u32 >> 10 & 0x1f,
        0x1f,
        bits & 0x3ff == 0,
        bits >> 9 & 1 == 1,
    );
    mask >> bit & 1 == 1
}

#[inline(always)]
fn in_class_f32(bits: u32, mask: u32) -> bool {
    let bit = class_bit(
        bits >> 31 == 1,
        bits >> 23 & 0xff,
        0xff,
        bits & 0x7f_ffff == 0,
        bits >> 22 & 1 == 1,
    );
    mask >> bit & 1 == 1
}

#[inline(always)]
fn in_class_f64(bits: u64, mask: u32) -> bool {
    let bit = class_bit(
        bits >> 63 == 1,
        (bits >> 52) as u32 & 0x7ff,
        0x7ff,
        bits << 12 == 0,
        bits >> 51 & 1 == 1,
    );
    mask >> bit & 1 == 1
}

/// Rows for one type: `suffix of the name => condition`.
macro_rules! compares {
    ($table:ident, $type:ty, $name:literal, |$a:ident, $b:ident| { $($condition:literal => $body:expr,)* }) => { $({
        #[inline(always)]
        fn operation($a: $type, $b: $type) -> bool { $body }
        $table.add(&[concat!("v_cmp_", $condition, "_", $name)], entry(operation));
    })* };
}

macro_rules! integer_compares {
    ($table:ident, $($type:ty, $name:literal;)*) => { $(
        compares! { $table, $type, $name, |a, b| {
            "lt" => a < b, "eq" => a == b, "le" => a <= b,
            "gt" => a > b, "ne" => a != b, "ge" => a >= b,
            "f" => { let _ = (a, b); false }, "t" => { let _ = (a, b); true },
        } }
    )* };
}

macro_rules! float_compares {
    ($table:ident, $($type:ty, $name:literal;)*) => { $(
        compares! { $table, $type, $name, |a, b| {
            "lt" => a < b, "eq" => a == b, "le" => a <= b,
            "gt" => a > b, "lg" => (a < b) | (a > b), "ge" => a >= b,
            "o" => !unordered(a, b), "u" => unordered(a, b),
            "nge" => !(a >= b), "nlg" => !((a < b) | (a > b)), "ngt" => !(a > b),
            "nle" => !(a <= b), "neq" => a != b, "nlt" => !(a < b),
            "f" => { let _ = (a, b); false },
            "tru" => { let _ = (a, b); true }, "t" => { let _ = (a, b); true },
        } }
    )* };
}

/// Whether either is NaN.
#[inline(always)]
#[allow(clippy::eq_op)]
fn unordered<T: PartialEq + Copy>(a: T, b: T) -> bool {
    (a != a) | (b != b)
}

// A negated comparison differs from the opposite one when an operand is NaN.
#[allow(clippy::neg_cmp_op_on_partial_ord)]
pub(super) fn add(table: &mut Table) {
    integer_compares! { table,
        u16, "u16"; i16, "i16"; u32, "u32"; i32, "i32"; u64, "u64"; i64, "i64";
    }
    float_compares! { table, F16, "f16"; f32, "f32"; f64, "f64"; }
    operations! { table, entry;
        "v_cmp_class_f16" (a: u16, mask: u16) -> bool = in_class_f16(a, mask.into());
        "v_cmp_class_f32" (a: u32, mask: u32) -> bool = in_class_f32(a, mask);
        "v_cmp_class_f64" (a: u64, mask: u32) -> bool = in_class_f64(a, mask);
    }
}
