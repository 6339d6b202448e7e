//! Beside `groups.cu`.

use super::reference::Reference::*;
use super::reference::{ballot, lanes, Program, Words};

/// `of` each group of so many threads.
fn tiles(words: &[Words], size: usize, of: impl Fn(&[Words]) -> Vec<Words>) -> Vec<Words> {
    words.chunks(size).flat_map(of).collect()
}

fn sum(words: &[Words], at: usize) -> u32 {
    words
        .iter()
        .fold(0, |sum, words| sum.wrapping_add(words[at]))
}

/// The ranks of lanes among those for which it holds.
fn members(words: &[Words], of: impl Fn(&Words) -> bool) -> Vec<usize> {
    (0..words.len()).filter(|&lane| of(&words[lane])).collect()
}

pub const PROGRAMS: &[Program] = &[
    (
        "block_place",
        Placed(|p, _| [p.in_block(), p.launch.block, p.block(), p.launch.block]),
    ),
    (
        "grid_place",
        Placed(|p, _| {
            [
                p.thread,
                p.launch.grid * p.launch.block,
                p.block(),
                p.launch.grid,
            ]
        }),
    ),
    (
        "tile_place",
        Placed(|p, _| [p.in_block() % 8, 8, p.in_block() / 8, p.launch.block / 8]),
    ),
    (
        "tile_shuffles",
        Warp(|w| {
            tiles(w, 8, |t| {
                lanes(t, |i| {
                    [
                        t[5][0],
                        t[if i >= 2 { i - 2 } else { i }][1],
                        t[if i < 5 { i + 3 } else { i }][2],
                        t[i ^ 4][3],
                    ]
                })
            })
        }),
    ),
    (
        "tile_votes",
        Warp(|w| {
            tiles(w, 4, |t| {
                let any = t.iter().any(|w| w[0] % 4 == 0);
                let all = t.iter().all(|w| w[1] % 4 != 0);
                lanes(t, |i| {
                    [
                        any.into(),
                        all.into(),
                        ballot(t, |w| w[2] & 1 == 1),
                        ballot(t, |w| w[3] % 2 == t[i][3] % 2),
                    ]
                })
            })
        }),
    ),
    (
        "tile_reduce",
        Warp(|w| {
            tiles(w, 8, |t| {
                let most = t.iter().map(|w| w[1]).max().unwrap_or(0);
                let least = t.iter().map(|w| w[2]).min().unwrap_or(0);
                let xor = t.iter().fold(0, |sum, w| sum ^ w[3]);
                lanes(t, |_| [sum(t, 0), most, least, xor])
            })
        }),
    ),
    (
        "tile_scan",
        Warp(|w| {
            tiles(w, 8, |t| {
                lanes(t, |i| [sum(&t[..=i], 0), sum(&t[..i], 1), 0, 0])
            })
        }),
    ),
    (
        "coalesced",
        Warp(|w| {
            let group = members(w, |w| w[0] % 3 == 0);
            let total = group
                .iter()
                .fold(0u32, |sum, lane| sum.wrapping_add(w[*lane][2]));
            lanes(w, |i| match group.iter().position(|lane| *lane == i) {
                Some(rank) => [rank as u32 + 1, group.len() as u32, w[group[0]][1], total],
                None => [0; 4],
            })
        }),
    ),
    (
        "coalesced_ballot",
        Warp(|w| {
            let group = members(w, |w| w[0] % 3 != 0);
            let bits: u32 = (0..)
                .zip(&group)
                .map(|(rank, lane)| (w[*lane][1] & 1) << rank)
                .sum();
            lanes(w, |i| match group.iter().position(|lane| *lane == i) {
                Some(rank) => [bits, w[group[rank.saturating_sub(1)]][2], 0, 0],
                None => [0; 4],
            })
        }),
    ),
    (
        "cub_warp_reduce",
        Warp(|w| {
            tiles(w, 8, |t| {
                let most = t.iter().map(|w| w[1]).max().unwrap_or(0);
                lanes(t, |i| {
                    if i == 0 {
                        [sum(t, 0), most, 0, 0]
                    } else {
                        [0; 4]
                    }
                })
            })
        }),
    ),
    (
        "cub_warp_scan",
        Warp(|w| {
            tiles(w, 8, |t| {
                lanes(t, |i| [sum(&t[..=i], 0), sum(&t[..i], 1), sum(t, 1), 0])
            })
        }),
    ),
    (
        "cub_block_reduce",
        Block(|b| {
            let least = b.iter().map(|w| w[1]).min().unwrap_or(0);
            lanes(b, |i| {
                if i == 0 {
                    [sum(b, 0), least, sum(&b[..37], 2), 0]
                } else {
                    [0; 4]
                }
            })
        }),
    ),
    (
        "cub_block_scan",
        Block(|b| {
            let most = |i: usize| b[..=i].iter().map(|w| w[3]).max().unwrap_or(0);
            lanes(b, |i| {
                [sum(&b[..=i], 0), sum(&b[..i], 1), sum(b, 1), most(i)]
            })
        }),
    ),
    (
        "block_votes",
        Block(|b| {
            let count = b.iter().filter(|w| w[0] & 1 == 1).count() as u32;
            let or = b.iter().any(|w| w[1] % 64 == 0);
            let and = b.iter().all(|w| w[2] % 64 != 0);
            lanes(b, |_| [count, or.into(), and.into(), 1])
        }),
    ),
    (
        "dynamic_shared",
        Block(|b| lanes(b, |i| [b[b.len() - 1 - i][0], 0, 0, 0])),
    ),
    (
        "constant_memory",
        Thread(|w| [[3, 1, 4, 1][w[0] as usize % 4], 0, 0, 0]),
    ),
];
