//! Beside `atomics.cu`.

use half::{bf16, f16};

use super::reference::Reference::*;
use super::reference::{Program, Words};

fn sum64(words: &[Words], of: impl Fn(&Words) -> u64) -> u64 {
    words
        .iter()
        .fold(0, |sum, words| sum.wrapping_add(of(words)))
}

fn put64(memory: &mut [u32], at: usize, value: u64) {
    memory[2 * at] = value as u32;
    memory[2 * at + 1] = (value >> 32) as u32;
}

fn pair(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// So many additions of numbers in the type, one after the other.
fn halves(words: &[Words], of: impl Fn(&Words) -> f32) -> u16 {
    let add = |sum: f16, words: &Words| f16::from_f32(sum.to_f32() + of(words));
    words.iter().fold(f16::ZERO, add).to_bits()
}

fn bfloats(words: &[Words], of: f32) -> u16 {
    let add = |sum: bf16, _: &Words| bf16::from_f32(sum.to_f32() + of);
    words.iter().fold(bf16::ZERO, add).to_bits()
}

pub const PROGRAMS: &[Program] = &[
    (
        "atomic_integers",
        Memory(|_, w, m| {
            m[0] = sum64(w, |w| w[0].into()) as u32;
            m[1] = sum64(w, |w| w[1].into()) as u32;
            m[2] = (sum64(w, |w| w[2].into()) as u32).wrapping_neg();
            put64(m, 2, sum64(w, |w| u64::from(w[3]) << 4));
        }),
    ),
    (
        "atomic_extremes",
        Memory(|_, w, m| {
            m[0] = w.iter().map(|w| w[0]).max().unwrap_or(0);
            m[1] = w.iter().map(|w| w[1] as i32).max().unwrap_or(0).max(0) as u32;
            let least = w.iter().map(|w| -i64::from(w[3]) * 3).min().unwrap_or(0);
            put64(m, 2, least.min(0) as u64);
        }),
    ),
    (
        "atomic_bits",
        Memory(|_, w, m| {
            m[0] = w.iter().fold(0, |all, w| all | w[0] & 0xff0);
            m[1] = w.iter().fold(0, |all, w| all ^ w[1]);
            put64(
                m,
                2,
                w.iter().fold(0, |all, w| all | u64::from(w[3] & 0xf) << 40),
            );
        }),
    ),
    (
        "atomic_floats",
        Memory(|_, w, m| {
            m[0] = (sum64(w, |w| u64::from(w[0] % 16)) as f32).to_bits();
            put64(
                m,
                1,
                (sum64(w, |w| u64::from(w[1] % 1024)) as f64 * 0.5).to_bits(),
            );
        }),
    ),
    (
        "atomic_halves",
        Memory(|_, w, m| {
            m[0] = pair(halves(w, |w| (w[0] % 4) as f32), halves(w, |_| 1.0));
            m[1] = pair(halves(w, |w| (w[1] % 4) as f32), halves(w, |_| 2.0));
        }),
    ),
    (
        "atomic_bfloats",
        Memory(|_, w, m| {
            m[0] = pair(0, bfloats(w, 1.0));
            m[1] = pair(bfloats(w, 0.5), bfloats(w, -1.0));
        }),
    ),
    (
        "atomic_wrap",
        Memory(|_, w, m| {
            for _ in w {
                m[0] = if m[0] >= 10 { 0 } else { m[0] + 1 };
                m[1] = if m[1] == 0 || m[1] > 10 { 10 } else { m[1] - 1 };
            }
        }),
    ),
    (
        "atomic_exchange",
        Memory(|_, _, m| {
            (m[0], m[1]) = (77, 1.5f32.to_bits());
            put64(m, 1, 1 << 33);
        }),
    ),
    (
        "atomic_cas",
        Memory(|_, w, m| {
            m[0] = sum64(w, |w| w[0].into()) as u32;
            put64(m, 1, sum64(w, |w| u64::from(w[1]) * 5));
            m[4] = (sum64(w, |w| w[2].into()) as u32 & 0xffff) << 16;
        }),
    ),
    (
        "atomic_shared",
        Memory(|_, w, m| m[0] = sum64(w, |w| w[0].into()) as u32),
    ),
    (
        "last_block",
        Memory(|launch, w, m| {
            for (at, block) in w.chunks(launch.block as usize).enumerate() {
                m[16 + at] = block[0][0];
                m[1] = m[1].wrapping_add(block[0][0]);
            }
        }),
    ),
];
