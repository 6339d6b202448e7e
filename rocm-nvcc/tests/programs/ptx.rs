//! Beside `ptx.cu`.

use half::{bf16, f16};

use super::floats::half_word;
use super::integers::{byte_permute, dot};
use super::reference::Reference::*;
use super::reference::{ballot, lanes, mask, word, Program};

fn half(bits: u32) -> f32 {
    f16::from_bits(bits as u16).to_f32()
}

fn pair(low: f32, high: f32) -> u32 {
    u32::from(f16::from_f32(low).to_bits()) | u32::from(f16::from_f32(high).to_bits()) << 16
}

/// Bits of `a` from `from` on, so many; the manual's definition, bit by bit.
fn field(a: u32, from: u32, count: u32, signed: bool) -> u32 {
    let bit = |at: u32| a >> at & 1;
    let sign = if signed && count != 0 {
        bit((from + count - 1).min(31))
    } else {
        0
    };
    (0..32).fold(0, |all, at| {
        let one = if at < count && from + at <= 31 {
            bit(from + at)
        } else {
            sign
        };
        all | one << at
    })
}

fn insert(a: u32, b: u32, to: u32, count: u32) -> u32 {
    let places = (0..count).filter(|at| to + at <= 31);
    places.fold(b, |all, at| {
        all & !(1 << (to + at)) | (a >> at & 1) << (to + at)
    })
}

pub const PROGRAMS: &[Program] = &[
    (
        "ptx_arithmetic",
        Thread(|w| {
            let [a, b, c, _] = w;
            [
                a.wrapping_add(b),
                a.wrapping_mul(b).wrapping_add(c),
                ((u64::from(a) * u64::from(b)) >> 32) as u32,
                ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32,
            ]
        }),
    ),
    (
        "ptx_floats",
        Thread(|w| {
            let [a, b, c, _] = w.map(f32::from_bits);
            let most = if a.is_nan() || b.is_nan() {
                f32::NAN
            } else {
                a.max(b)
            };
            let most = if a == 0.0 && b == 0.0 && a.is_sign_positive() {
                a
            } else {
                most
            };
            let most = if a == 0.0 && b == 0.0 && b.is_sign_positive() {
                b
            } else {
                most
            };
            [
                word(a.mul_add(b, c)),
                word(most),
                word((w[3] % 100) as f32 + 1.0),
                word(-a),
            ]
        }),
    ),
    (
        "ptx_approximate",
        Near(1e-5, |w| {
            let x = f64::from((w[0] % 4096) as f32 / 512.0 + 0.125);
            [(-x).exp2(), x.tanh(), 1.0 / x.sqrt(), x.log2()]
        }),
    ),
    (
        "ptx_half_pairs",
        Thread(|w| {
            let c = w[0] & 0x3bff_3bff;
            let x = w[1] & 0x3fff_3fff;
            let bfloat = |bits: u32| bf16::from_bits(bits as u16).to_f32();
            let double = u32::from(bf16::from_f32(2.0 * bfloat(x >> 16)).to_bits());
            let y = w[2] & 0x3bff_3bff;
            let sum = half(y) + half(y >> 16);
            [
                pair(2.0 + half(c), 6.0 + half(c >> 16)),
                x & 0xffff | double << 16,
                pair(sum, half(y >> 16)),
                0,
            ]
        }),
    ),
    (
        "ptx_bits",
        Thread(|w| {
            let [a, b, c, d] = w;
            let any = (0..32).fold(0, |all, at| {
                let row = (a >> at & 1) << 2 | (b >> at & 1) << 1 | c >> at & 1;
                all | (0xe2 >> row & 1) << at
            });
            [
                any,
                byte_permute(a, b, c),
                field(a, b % 40, c % 40, false),
                insert(a, d, b % 40, c % 40),
            ]
        }),
    ),
    (
        "ptx_signed_fields",
        Thread(|w| {
            let [a, b, c, d] = w;
            let both = u64::from(b) << 32 | u64::from(a);
            let last = 31u32.checked_sub((d >> 8).leading_zeros());
            [
                field(a, b % 40, c % 40, true),
                ((both << (c & 31)) >> 32) as u32,
                (a as i32 >> (b % 40).min(31)) as u32,
                last.unwrap_or(!0),
            ]
        }),
    ),
    (
        "ptx_loads",
        Reading(|m, w| {
            let m = &m[w[0] as usize % 4 * 4..];
            [
                m[0],
                m[0] ^ m[1] << 1 ^ m[2] << 2 ^ m[3] << 3,
                m[1],
                m[0] & 0xffff,
            ]
        }),
    ),
    (
        "ptx_stores",
        Memory(|_, _, m| (0..).zip(m).for_each(|(at, word)| *word = 3 * at)),
    ),
    (
        "ptx_shared",
        Block(|b| lanes(b, |i| [b[i ^ 1][2], b[i][1], 0, 0])),
    ),
    (
        "ptx_async_copy",
        Reading(|m, w| {
            let from = w[0] as usize % 4 * 4;
            [
                m[from],
                m[from + 3],
                if w[1] & 4 == 4 { m[4] } else { 0 },
                0,
            ]
        }),
    ),
    (
        "ptx_predicates",
        Thread(|w| {
            let (a, b) = (f32::from_bits(w[0]), f32::from_bits(w[1]));
            let least = (w[0] as i32).min(w[1] as i32) as u32;
            // In words: greater, or not to be compared.
            let above = a > b || a.is_nan() || b.is_nan();
            [least, if w[2] & 1 == 1 { 7 } else { 9 }, above.into(), 0]
        }),
    ),
    (
        "ptx_conversions",
        Thread(|w| {
            let x = f32::from_bits(w[0]);
            [
                half_word(f16::from_f32(x)),
                x as i32 as u32,
                pair((w[1] % 2048) as f32, 1.5),
                (w[2] as i32 >> 20).clamp(0, 255) as u32,
            ]
        }),
    ),
    (
        "ptx_special",
        Placed(|p, _| {
            [
                p.in_block(),
                p.block(),
                mask(p.in_block() as usize % 32),
                p.launch.block,
            ]
        }),
    ),
    (
        "ptx_shuffles",
        Warp(|w| {
            lanes(w, |i| {
                let (up, within) = if i >= 2 { (i - 2, 1) } else { (i, 0) };
                [
                    w[i ^ 1][0],
                    w[up][1],
                    within,
                    w[i / 8 * 8 + w[i][3] as usize % 4][2],
                ]
            })
        }),
    ),
    (
        "ptx_votes",
        Warp(|w| {
            let votes = ballot(w, |w| w[0] & 1 == 1);
            let sum = w.iter().fold(0u32, |sum, w| sum.wrapping_add(w[2]));
            lanes(w, |i| {
                [
                    votes,
                    mask(w.len()),
                    sum,
                    ballot(w, |other| other[3] % 3 == w[i][3] % 3),
                ]
            })
        }),
    ),
    (
        "ptx_atomics",
        Memory(|_, w, m| {
            m[0] = w.iter().fold(0, |sum, w| sum.wrapping_add(w[0]));
            m[1] = w.iter().map(|w| w[1] as i32).max().unwrap_or(0).max(0) as u32;
            m[2] = (w.iter().map(|w| w[2] % 16).sum::<u32>() as f32).to_bits();
        }),
    ),
    (
        "ptx_dot",
        Thread(|w| {
            [
                dot(w[0], w[1], w[2], (true, true)),
                dot(w[0], w[1], w[2], (false, true)),
                0,
                0,
            ]
        }),
    ),
];
