//! Beside `matrices.cu`. Layouts are the manual's: lane 4 g + t has rows g and g + 8, columns from 2 t on.

use half::{bf16, f16};

use super::reference::Reference::*;
use super::reference::{lanes, Program, Words};

/// c + a * b of a warp's registers, each of which has so many elements; sums begin as 1, 2, 3, 4.
fn product(
    words: &[Words],
    each: usize,
    registers: impl Fn(&Words) -> ([u32; 4], [u32; 2]),
    element: impl Fn(u32, usize) -> f64,
) -> Vec<[f64; 4]> {
    let depth = 8 * each;
    let (mut a, mut b) = (vec![vec![0.0; depth]; 16], vec![vec![0.0; 8]; depth]);
    for (lane, words) in words.iter().enumerate() {
        let (g, t) = (lane / 4, lane % 4);
        let (left, right) = registers(words);
        for e in 0..each {
            let k = each * t + e;
            a[g][k] = element(left[0], e);
            a[g + 8][k] = element(left[1], e);
            a[g][k + 4 * each] = element(left[2], e);
            a[g + 8][k + 4 * each] = element(left[3], e);
            b[k][g] = element(right[0], e);
            b[k + 4 * each][g] = element(right[1], e);
        }
    }
    let sum =
        |row: usize, column: usize| -> f64 { (0..depth).map(|k| a[row][k] * b[k][column]).sum() };
    (0..32)
        .map(|lane| {
            let (g, t) = (lane / 4, lane % 4);
            [
                1.0 + sum(g, 2 * t),
                2.0 + sum(g, 2 * t + 1),
                3.0 + sum(g + 8, 2 * t),
                4.0 + sum(g + 8, 2 * t + 1),
            ]
        })
        .collect()
}

/// Of whole warps alone.
fn whole(words: &[Words], of: impl Fn(&[Words]) -> Vec<Words>) -> Vec<Words> {
    match words.len() {
        32 => of(words),
        count => vec![[0; 4]; count],
    }
}

fn half(bits: u32, at: usize) -> f64 {
    f16::from_bits((bits >> (16 * at)) as u16).to_f64()
}

/// The registers that the programs make of a thread's words.
fn made(w: &Words, one: u32, kept: u32) -> ([u32; 4], [u32; 2]) {
    (
        w.map(|word| one | word & kept),
        [w[0], w[1]].map(|word| one | word >> 3 & kept),
    )
}

/// 0.5 + a * b with a[r][k] = r + 2 k and b[k][c] = k - c, so many columns; a lane reads four elements.
fn formula(words: &[Words], columns: usize) -> Vec<Words> {
    whole(words, |w| {
        lanes(w, |lane| {
            std::array::from_fn(|i| {
                let (row, column) = ((4 * lane + i) / columns, (4 * lane + i) % columns);
                let term = |k: usize| (row + 2 * k) as f32 * (k as f32 - column as f32);
                (0.5 + (0..16).map(term).sum::<f32>()).to_bits()
            })
        })
    })
}

pub const PROGRAMS: &[Program] = &[
    (
        "mma_f16",
        Warp(|w| {
            whole(w, |w| {
                let sums = product(w, 2, |w| made(w, 0x3c00_3c00, 0x0380_0380), half);
                sums.iter()
                    .map(|sums| sums.map(|sum| (sum as f32).to_bits()))
                    .collect()
            })
        }),
    ),
    (
        "mma_bf16",
        Warp(|w| {
            whole(w, |w| {
                let element =
                    |bits: u32, at: usize| bf16::from_bits((bits >> (16 * at)) as u16).to_f64();
                let sums = product(w, 2, |w| made(w, 0x3f80_3f80, 0x0070_0070), element);
                sums.iter()
                    .map(|sums| sums.map(|sum| (sum as f32).to_bits()))
                    .collect()
            })
        }),
    ),
    (
        "mma_s8",
        Warp(|w| {
            whole(w, |w| {
                let registers = |w: &Words| (*w, [w[1] ^ w[2], w[0] ^ w[3]]);
                let sums = product(w, 4, registers, |bits, at| {
                    f64::from((bits >> (8 * at)) as i8)
                });
                sums.iter()
                    .map(|sums| sums.map(|sum| sum as i32 as u32))
                    .collect()
            })
        }),
    ),
    (
        "mma_f16_sums",
        Warp(|w| {
            whole(w, |w| {
                let sums = product(w, 2, |w| made(w, 0x3c00_3c00, 0x0300_0300), half);
                let word = |sum: f64| u32::from(f16::from_f64(sum).to_bits());
                // The program's sums begin as 1, 1, 1, 2.
                sums.iter()
                    .map(|s| {
                        [
                            word(s[0]) | word(s[1] - 1.0) << 16,
                            word(s[2] - 2.0) | word(s[3] - 2.0) << 16,
                            0,
                            0,
                        ]
                    })
                    .collect()
            })
        }),
    ),
    (
        "load_matrices",
        Warp(|w| {
            whole(w, |w| {
                lanes(w, |lane| {
                    std::array::from_fn(|m| w[8 * m + lane / 4][lane % 4])
                })
            })
        }),
    ),
    (
        "load_turned",
        Warp(|w| {
            whole(w, |w| {
                let element =
                    |row: usize, column: usize| w[row][column / 2] >> (16 * (column % 2)) & 0xffff;
                lanes(w, |lane| {
                    let (g, t) = (lane / 4, lane % 4);
                    let turned =
                        |m: usize| element(8 * m + 2 * t, g) | element(8 * m + 2 * t + 1, g) << 16;
                    [turned(0), turned(1), w[g][t], 0]
                })
            })
        }),
    ),
    ("wmma_half", Warp(|w| formula(w, 16))),
    ("wmma_bfloat_columns", Warp(|w| formula(w, 32))),
    ("wmma_tall", Warp(|w| formula(w, 8))),
];
