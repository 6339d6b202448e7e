//! Beside `warps.cu`.

use super::reference::Reference::*;
use super::reference::{ballot, lanes, mask, Program, Words};

/// The word of another lane.
fn from(words: &[Words], lane: usize, at: usize) -> u32 {
    words[lane][at]
}

pub const PROGRAMS: &[Program] = &[
    (
        "warp_place",
        Warp(|w| lanes(w, |i| [i as u32, i as u32, 32, mask(w.len())])),
    ),
    (
        "shuffle",
        Warp(|w| lanes(w, |i| [from(w, w[i][1] as usize % w.len(), 0), 0, 0, 0])),
    ),
    (
        "shuffle_width",
        Warp(|w| {
            lanes(w, |i| {
                [from(w, i / 8 * 8 + w[i][1] as usize % 4, 0), 0, 0, 0]
            })
        }),
    ),
    (
        "shuffle_up",
        Warp(|w| {
            lanes(w, |i| {
                let by = w[i][2] as usize % 8;
                [
                    from(w, if i >= 3 { i - 3 } else { i }, 0),
                    from(w, if i % 8 >= by { i - by } else { i }, 1),
                    0,
                    0,
                ]
            })
        }),
    ),
    (
        "shuffle_down",
        Warp(|w| {
            lanes(w, |i| {
                let by = w[i][2] as usize % 4;
                let far = match i + 5 {
                    to if to >= 32 => w[i][0],
                    to if to >= w.len() => 0,
                    to => from(w, to, 0),
                };
                [
                    far,
                    from(w, if i % 4 + by < 4 { i + by } else { i }, 1),
                    0,
                    0,
                ]
            })
        }),
    ),
    (
        "shuffle_xor",
        Warp(|w| {
            lanes(w, |i| {
                [from(w, i ^ 1, 0), from(w, i ^ 2, 1), from(w, i ^ 4, 2), 0]
            })
        }),
    ),
    (
        "shuffle_xor_wide",
        Warp(|w| {
            lanes(w, |i| {
                let of = |by: usize, at| w.get(i ^ by).map_or(0, |words| words[at]);
                // A width of 4: earlier segments cannot be reached by less than 4.
                [
                    of(8, 0),
                    of(16, 1),
                    from(w, i ^ (w[i][3] as usize % 4), 2),
                    0,
                ]
            })
        }),
    ),
    (
        "shuffle_types",
        Warp(|w| {
            lanes(w, |i| {
                let source = w[i][2] as usize % w.len();
                let wide = u64::from(w[i ^ 2][3]) << 32 | u64::from(w[i ^ 2][2]);
                [
                    w[source][0],
                    w[source][1],
                    w[i ^ 1][3] & 0xffff,
                    (wide as i64 >> 16) as u32,
                ]
            })
        }),
    ),
    (
        "ballot",
        Warp(|w| {
            let (all, some) = (ballot(w, |w| w[0] & 1 == 1), ballot(w, |w| w[1] & 1 == 1));
            let named = |lane: usize| 0x0f0f_0f0f >> lane & 1;
            lanes(w, |lane| [all, (some & 0x0f0f_0f0f) * named(lane), 0, 0])
        }),
    ),
    (
        "votes",
        Warp(|w| {
            let any = w.iter().any(|w| w[0] % 40 == 0);
            let all = w.iter().all(|w| w[1] % 40 != 0);
            lanes(w, |_| [any.into(), all.into(), 1, 0])
        }),
    ),
    (
        "divergent_ballot",
        Warp(|w| {
            let odd = ballot(w, |w| w[0] & 1 == 1);
            let even = mask(w.len()) & !odd;
            lanes(w, |i| match w[i][0] & 1 {
                1 => [ballot(w, |w| w[1] & 1 == 1) & odd, odd, 0, 0],
                _ => [ballot(w, |w| w[2] & 1 == 1) & even, 0, even, 0],
            })
        }),
    ),
    (
        "match_any",
        Warp(|w| {
            lanes(w, |i| {
                [ballot(w, |other| other[0] % 5 == w[i][0] % 5), 0, 0, 0]
            })
        }),
    ),
    ("match_all", Warp(|w| lanes(w, |_| [1, 1, 0, 0]))),
    (
        "reduce_add",
        Warp(|w| {
            let sum = w.iter().fold(0u32, |sum, w| sum.wrapping_add(w[0]));
            lanes(w, |_| [sum, 0, 0, 0])
        }),
    ),
    (
        "reduce_extremes",
        Warp(|w| {
            let unsigned = || w.iter().map(|w| w[0]);
            let signed = || w.iter().map(|w| w[0] as i32);
            lanes(w, |_| {
                [
                    unsigned().min().unwrap_or(0),
                    unsigned().max().unwrap_or(0),
                    signed().min().unwrap_or(0) as u32,
                    signed().max().unwrap_or(0) as u32,
                ]
            })
        }),
    ),
    (
        "reduce_bits",
        Warp(|w| {
            let and = w.iter().fold(!0, |sum, w| sum & (w[0] | 0xffff));
            let or = w.iter().fold(0, |sum, w| sum | w[1] & 0xff);
            let xor = w.iter().fold(0, |sum, w| sum ^ w[2]);
            lanes(w, |_| [and, or, xor, 0])
        }),
    ),
    (
        "syncwarp",
        Warp(|w| lanes(w, |i| [w[i ^ 1][0], w[i ^ 3][1], 0, 0])),
    ),
    (
        "uneven_warps",
        Block(|words| {
            let mut results = Vec::new();
            for (number, w) in words.chunks(32).enumerate() {
                let mut values: Vec<u32> = w.iter().map(|w| w[0]).collect();
                for _ in 0..=number {
                    let before = values.clone();
                    for (lane, value) in values.iter_mut().enumerate() {
                        *value = value.wrapping_add(before[lane ^ 1]);
                    }
                }
                let votes = if number == 0 {
                    ballot(w, |w| w[1] & 1 == 1)
                } else {
                    0
                };
                results.extend(values.iter().map(|value| [*value, votes, 0, 0]));
            }
            results
        }),
    ),
];
