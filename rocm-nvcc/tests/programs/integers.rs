//! Beside `integers.cu`.

use super::reference::Reference::*;
use super::reference::{word, Program};

/// What each part of two words makes, put together again. Parts are of so many bits, and unsigned.
fn parts(bits: u32, a: u32, b: u32, of: impl Fn(i32, i32) -> i32) -> u32 {
    let part = |x: u32, at: u32| (u64::from(x) >> at & ((1 << bits) - 1)) as i32;
    (0..32).step_by(bits as usize).fold(0, |all, at| {
        all | ((of(part(a, at), part(b, at)) as u64 & ((1 << bits) - 1)) << at) as u32
    })
}

/// An unsigned part as a signed number.
fn signed(bits: u32, x: i32) -> i32 {
    x << (32 - bits) >> (32 - bits)
}

fn clamp(bits: u32, x: i32) -> i32 {
    x.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
}

fn wide(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn sign_of_24(x: u32) -> i32 {
    (x << 8) as i32 >> 8
}

/// The f32 next to a number of 64 bits, on this side of it or equal.
pub fn directed(x: f64, up: bool) -> f32 {
    let near = x as f32;
    match (up, f64::from(near)) {
        (false, back) if back > x => near.next_down(),
        (true, back) if back < x => near.next_up(),
        _ => near,
    }
}

pub fn byte_permute(a: u32, b: u32, selector: u32) -> u32 {
    (0..4).fold(0, |all, at| {
        let choice = selector >> (4 * at);
        let byte = (wide(b, a) >> (8 * (choice & 7))) as u32 & 0xff;
        let byte = match (choice & 8, byte & 0x80) {
            (0, _) => byte,
            (_, 0) => 0,
            _ => 0xff,
        };
        all | byte << (8 * at)
    })
}

/// Sums of products of signed or unsigned bytes.
pub fn dot(a: u32, b: u32, c: u32, signs: (bool, bool)) -> u32 {
    let byte = |x: u32, at: u32, sign: bool| match sign {
        true => i32::from((x >> at) as i8),
        false => i32::from((x >> at) as u8),
    };
    (0..4).fold(c, |sum, i| {
        sum.wrapping_add((byte(a, 8 * i, signs.0) * byte(b, 8 * i, signs.1)) as u32)
    })
}

pub const PROGRAMS: &[Program] = &[
    (
        "count_bits",
        Thread(|w| {
            let first = if w[2] == 0 {
                0
            } else {
                w[2].trailing_zeros() + 1
            };
            [
                w[0].leading_zeros(),
                w[1].count_ones(),
                first,
                w[3].reverse_bits(),
            ]
        }),
    ),
    (
        "count_bits_64",
        Thread(|w| {
            let x = wide(w[0], w[1]);
            let first = if x == 0 { 0 } else { x.trailing_zeros() + 1 };
            [
                x.leading_zeros(),
                x.count_ones(),
                first,
                (x.reverse_bits() >> 32) as u32,
            ]
        }),
    ),
    (
        "high_products",
        Thread(|w| {
            let (a, b) = (wide(w[0], w[1]), wide(w[2], w[3]));
            let unsigned = (u128::from(a) * u128::from(b)) >> 64;
            let signed = (i128::from(a as i64) * i128::from(b as i64)) >> 64;
            [
                ((i64::from(w[0] as i32) * i64::from(w[1] as i32)) >> 32) as u32,
                ((u64::from(w[0]) * u64::from(w[1])) >> 32) as u32,
                (unsigned >> 32) as u32,
                signed as u32,
            ]
        }),
    ),
    (
        "products_24",
        Thread(|w| {
            let low = |x: u32| x & 0xff_ffff;
            [
                sign_of_24(w[0]).wrapping_mul(sign_of_24(w[1])) as u32,
                low(w[0]).wrapping_mul(low(w[1])),
                0,
                0,
            ]
        }),
    ),
    (
        "averages",
        Thread(|w| {
            let (a, b) = (i64::from(w[0] as i32), i64::from(w[1] as i32));
            let (c, d) = (u64::from(w[0]), u64::from(w[1]));
            [
                ((a + b) >> 1) as u32,
                ((c + d) >> 1) as u32,
                ((a + b + 1) >> 1) as u32,
                w[0].abs_diff(w[1]).wrapping_add(w[2]),
            ]
        }),
    ),
    (
        "funnel_shifts",
        Thread(|w| {
            let both = wide(w[1], w[0]);
            let (by, held) = (w[2] & 31, (w[2] % 40).min(32));
            [
                ((both << by) >> 32) as u32,
                (both >> by) as u32,
                ((both << held) >> 32) as u32,
                (both >> held) as u32,
            ]
        }),
    ),
    (
        "byte_permute",
        Thread(|w| {
            [
                // What is beyond three bits of each choice does not count, unlike prmt's.
                byte_permute(w[0], w[1], w[2] & 0x7777),
                byte_permute(w[0], w[1], 0x5140),
                0,
                0,
            ]
        }),
    ),
    (
        "dot_products",
        Thread(|w| {
            let [a, b, c, _] = w;
            let short = |x: u32, at: u32| i64::from((x >> at) as i16);
            let low = short(a, 0) * i64::from(b as i8) + short(a, 16) * i64::from((b >> 8) as i8);
            let (x, y) = (u64::from(a & 0xffff), u64::from(a >> 16));
            let high = x * u64::from(b >> 16 & 0xff) + y * u64::from(b >> 24);
            [
                dot(a, b, c, (true, true)),
                dot(a, b, c, (false, false)),
                (low as u32).wrapping_add(c),
                (high as u32).wrapping_add(c),
            ]
        }),
    ),
    (
        "four_bytes",
        Thread(|w| {
            let [a, b, ..] = w;
            [
                parts(8, a, b, |a, b| a + b),
                parts(8, a, b, |a, b| clamp(8, signed(8, a) - signed(8, b))),
                parts(8, a, b, |a, b| -i32::from(a != b)),
                parts(8, a, b, |a, b| (a - b).abs()),
            ]
        }),
    ),
    (
        "four_bytes_more",
        Thread(|w| {
            let [a, b, ..] = w;
            [
                parts(8, a, b, |a, b| signed(8, a).max(signed(8, b))),
                parts(8, a, b, |a, b| -i32::from(a > b)),
                parts(8, a, b, |a, b| (a + b + 1) >> 1),
                parts(8, a, b, |a, b| a - b),
            ]
        }),
    ),
    (
        "two_shorts",
        Thread(|w| {
            let [a, b, ..] = w;
            [
                parts(16, a, b, |a, b| a + b),
                parts(16, a, b, |a, b| clamp(16, signed(16, a) + signed(16, b))),
                parts(16, a, b, |a, b| a.min(b)),
                parts(16, a, b, |a, _| -a),
            ]
        }),
    ),
    (
        "float_to_integer",
        // Rust's `as` holds what does not fit, as NVIDIA's instructions do.
        Thread(|w| {
            let x = f32::from_bits(w[0]);
            [
                x.round_ties_even() as i32 as u32,
                x as u32,
                x.ceil() as i32 as u32,
                ((x.floor() as i64) >> 16) as u32,
            ]
        }),
    ),
    (
        "directed_rounding",
        Thread(|w| {
            let x = f64::from_bits(wide(w[0], w[1]));
            let toward_zero = directed(x, x < 0.0);
            [
                word(toward_zero),
                word(directed(x, true)),
                word(directed(x, false)),
                word(w[2] as i32 as f32),
            ]
        }),
    ),
    (
        "fused_and_not",
        Thread(|w| {
            let [a, b, c, _] = w.map(f32::from_bits);
            [
                word(a.mul_add(b, c)),
                word(a * b + c),
                word(a / b),
                word(a.sqrt()),
            ]
        }),
    ),
    (
        "minima",
        Thread(|w| {
            let (a, b) = (i64::from(w[0]), i64::from(w[1] as i32));
            [
                w[0].min(w[1]),
                (w[0] as i32).max(w[1] as i32) as u32,
                w[0].max(w[1] & 7),
                a.min(b) as u32,
            ]
        }),
    ),
    (
        "read_only_loads",
        Reading(|m, w| [m[w[0] as usize % 4], m[1].wrapping_add(m[3]), m[2], m[5]]),
    ),
    (
        "vectors",
        Placed(|p, w| {
            let bytes = w.map(|word| word as u8);
            [
                w[0] ^ w[1] ^ w[2],
                u32::from_le_bytes(bytes),
                p.launch.block,
                p.launch.grid,
            ]
        }),
    ),
    ("copies", Thread(|w| [0xabab_abab, w[3], 8, 0])),
];
