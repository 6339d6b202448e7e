//! Conversions between number formats.

use super::rows::{operations, Table};
use crate::exec::valu::fp8::Fp8;
use crate::exec::valu::kernel::entry;
use crate::exec::valu::value::{f32_to_bf16, f32_to_f16, Acc, Bf16, F16};

/// f32 to f16 toward zero: values past the largest f16 become it, and only infinities stay infinite.
#[inline(always)]
fn f16_toward_zero(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let sign = (bits >> 16) as u16 & 0x8000;
    let nearest = f32_to_f16(f32::from_bits(magnitude));
    let back = crate::exec::valu::value::f16_to_f32(nearest);
    // Rounded up: the next f16 towards zero has the bits one less. Covers overflow to infinity too.
    let truncated = nearest - (back > f32::from_bits(magnitude)) as u16;
    sign | truncated
}

#[inline(always)]
fn pair(low: u16, high: u16) -> u32 {
    low as u32 | (high as u32) << 16
}

/// A fraction in -1..=1 to a signed 16-bit integer.
#[inline(always)]
fn signed_norm(value: f32) -> u16 {
    (value.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16 as u16
}

/// A fraction in 0..=1 to an unsigned 16-bit integer.
#[inline(always)]
fn unsigned_norm(value: f32) -> u16 {
    (value.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16
}

#[inline(always)]
fn replace_byte(into: u32, index: u32, byte: u8) -> u32 {
    let shift = 8 * (index & 3);
    into & !(0xff << shift) | (byte as u32) << shift
}

/// The two values in the low half of a dword.
#[inline(always)]
fn decoded(format: Fp8, a: u32) -> u64 {
    let one = |code: u32| format.decode(code as u8).to_bits() as u64;
    one(a) | one(a >> 8) << 32
}

#[inline(always)]
fn encoded(format: Fp8, a: f32, b: f32) -> u16 {
    format.encode(a) as u16 | (format.encode(b) as u16) << 8
}

#[inline(always)]
fn dot4(a_format: Fp8, a: u32, b_format: Fp8, b: u32, c: f32) -> f32 {
    (0..4).fold(c, |sum, i| {
        let code = |value: u32| (value >> (8 * i)) as u8;
        a_format
            .decode(code(a))
            .mul_add(b_format.decode(code(b)), sum)
    })
}

pub(super) fn add(table: &mut Table) {
    // Rust's `as` saturates and turns NaN into zero, as the hardware does.
    operations! { table, entry;
        "v_cvt_f32_i32" (a: i32) -> f32 = a as f32;
        "v_cvt_f32_u32" (a: u32) -> f32 = a as f32;
        "v_cvt_i32_f32" (a: f32) -> i32 = a as i32;
        "v_cvt_u32_f32" (a: f32) -> u32 = a as u32;
        "v_cvt_rpi_i32_f32" | "v_cvt_nearest_i32_f32" (a: f32) -> i32 = (a as f64 + 0.5).floor() as i32;
        "v_cvt_flr_i32_f32" | "v_cvt_floor_i32_f32" (a: f32) -> i32 = a.floor() as i32;
        "v_cvt_f32_ubyte0" (a: u32) -> f32 = (a & 0xff) as f32;
        "v_cvt_f32_ubyte1" (a: u32) -> f32 = (a >> 8 & 0xff) as f32;
        "v_cvt_f32_ubyte2" (a: u32) -> f32 = (a >> 16 & 0xff) as f32;
        "v_cvt_f32_ubyte3" (a: u32) -> f32 = (a >> 24) as f32;
        // A signed nibble in sixteenths.
        "v_cvt_off_f32_i4" (a: u32) -> f32 = ((a << 28) as i32 >> 28) as f32 / 16.0;

        "v_cvt_f16_f32" (a: f32) -> F16 = F16(a);
        "v_cvt_f32_f16" (a: F16) -> f32 = a.0;
        "v_cvt_f16_u16" (a: u16) -> F16 = F16(a as f32);
        "v_cvt_f16_i16" (a: i16) -> F16 = F16(a as f32);
        "v_cvt_u16_f16" (a: F16) -> u16 = a.0 as u16;
        "v_cvt_i16_f16" (a: F16) -> i16 = a.0 as i16;
        "v_cvt_i32_i16" (a: i16) -> i32 = a as i32;
        "v_cvt_u32_u16" (a: u16) -> u32 = a as u32;
        "v_cvt_norm_i16_f16" (a: F16) -> u16 = signed_norm(a.0);
        "v_cvt_norm_u16_f16" (a: F16) -> u16 = unsigned_norm(a.0);

        "v_cvt_f64_f32" (a: f32) -> f64 = a as f64;
        "v_cvt_f32_f64" (a: f64) -> f32 = a as f32;
        "v_cvt_f64_i32" (a: i32) -> f64 = a as f64;
        "v_cvt_f64_u32" (a: u32) -> f64 = a as f64;
        "v_cvt_i32_f64" (a: f64) -> i32 = a as i32;
        "v_cvt_u32_f64" (a: f64) -> u32 = a as u32;

        "v_cvt_pkrtz_f16_f32" | "v_cvt_pk_rtz_f16_f32" (a: f32, b: f32) -> u32 =
            pair(f16_toward_zero(a), f16_toward_zero(b));
        "v_cvt_pk_f16_f32" (a: f32, b: f32) -> u32 = pair(f32_to_f16(a), f32_to_f16(b));
        "v_cvt_f32_bf16" (a: Bf16) -> f32 = a.0;
        "v_cvt_pk_bf16_f32" (a: f32, b: f32) -> u32 = pair(f32_to_bf16(a), f32_to_bf16(b));
        "v_cvt_pknorm_i16_f32" | "v_cvt_pk_norm_i16_f32" (a: f32, b: f32) -> u32 = pair(signed_norm(a), signed_norm(b));
        "v_cvt_pknorm_u16_f32" | "v_cvt_pk_norm_u16_f32" (a: f32, b: f32) -> u32 = pair(unsigned_norm(a), unsigned_norm(b));
        "v_cvt_pknorm_i16_f16" | "v_cvt_pk_norm_i16_f16" (a: F16, b: F16) -> u32 = pair(signed_norm(a.0), signed_norm(b.0));
        "v_cvt_pknorm_u16_f16" | "v_cvt_pk_norm_u16_f16" (a: F16, b: F16) -> u32 = pair(unsigned_norm(a.0), unsigned_norm(b.0));
        "v_cvt_f32_fp8" (a: u32) -> f32 = Fp8::E4M3.decode(a as u8);
        "v_cvt_f32_bf8" (a: u32) -> f32 = Fp8::E5M2.decode(a as u8);
        "v_cvt_f32_fp8 fnuz" (a: u32) -> f32 = Fp8::E4M3Fnuz.decode(a as u8);
        "v_cvt_f32_bf8 fnuz" (a: u32) -> f32 = Fp8::E5M2Fnuz.decode(a as u8);
        "v_cvt_pk_f32_fp8" (a: u32) -> u64 = decoded(Fp8::E4M3, a);
        "v_cvt_pk_f32_bf8" (a: u32) -> u64 = decoded(Fp8::E5M2, a);
        "v_cvt_pk_f32_fp8 fnuz" (a: u32) -> u64 = decoded(Fp8::E4M3Fnuz, a);
        "v_cvt_pk_f32_bf8 fnuz" (a: u32) -> u64 = decoded(Fp8::E5M2Fnuz, a);
        "v_cvt_pk_fp8_f32" (a: f32, b: f32) -> u16 = encoded(Fp8::E4M3, a, b);
        "v_cvt_pk_bf8_f32" (a: f32, b: f32) -> u16 = encoded(Fp8::E5M2, a, b);
        "v_cvt_pk_fp8_f32 fnuz" (a: f32, b: f32) -> u16 = encoded(Fp8::E4M3Fnuz, a, b);
        "v_cvt_pk_bf8_f32 fnuz" (a: f32, b: f32) -> u16 = encoded(Fp8::E5M2Fnuz, a, b);
        "v_cvt_sr_fp8_f32" (a: f32, random: u32) -> u32 = Fp8::E4M3.encode_stochastic(a, random) as u32;
        "v_cvt_sr_bf8_f32" (a: f32, random: u32) -> u32 = Fp8::E5M2.encode_stochastic(a, random) as u32;
        "v_cvt_sr_fp8_f32 fnuz" (a: f32, random: u32) -> u32 = Fp8::E4M3Fnuz.encode_stochastic(a, random) as u32;
        "v_cvt_sr_bf8_f32 fnuz" (a: f32, random: u32) -> u32 = Fp8::E5M2Fnuz.encode_stochastic(a, random) as u32;
        "v_dot4_f32_fp8_fp8" (a: u32, b: u32, c: f32) -> f32 = dot4(Fp8::E4M3, a, Fp8::E4M3, b, c);
        "v_dot4_f32_fp8_bf8" (a: u32, b: u32, c: f32) -> f32 = dot4(Fp8::E4M3, a, Fp8::E5M2, b, c);
        "v_dot4_f32_bf8_fp8" (a: u32, b: u32, c: f32) -> f32 = dot4(Fp8::E5M2, a, Fp8::E4M3, b, c);
        "v_dot4_f32_bf8_bf8" (a: u32, b: u32, c: f32) -> f32 = dot4(Fp8::E5M2, a, Fp8::E5M2, b, c);

        "v_cvt_pk_u16_u32" (a: u32, b: u32) -> u32 = pair(a.min(0xffff) as u16, b.min(0xffff) as u16);
        "v_cvt_pk_i16_i32" (a: i32, b: i32) -> u32 =
            pair(a.clamp(-0x8000, 0x7fff) as u16, b.clamp(-0x8000, 0x7fff) as u16);
        "v_cvt_pk_i16_f32" (a: f32, b: f32) -> u32 = pair(a as i16 as u16, b as i16 as u16);
        "v_cvt_pk_u16_f32" (a: f32, b: f32) -> u32 = pair(a as u16, b as u16);
        "v_cvt_pk_u8_f32" (a: f32, index: u32, into: u32) -> u32 = replace_byte(into, index, a as u8);
        "v_cvt_pkaccum_u8_f32" (a: f32, index: u32, d: Acc<u32>) -> u32 = replace_byte(d.0, index, a as u8);
    }
}
