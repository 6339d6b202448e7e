//! DPP: lanes whose source 0 comes from other lanes.

use super::lowering::Unimplemented;
use crate::exec::wave::{Row, Wave, LANES};
use crate::isa::{is_gfx90a, Dpp, Family, Target};

/// Where each lane's source 0 comes from under DPP; `OUTSIDE` where no lane is meant.
pub(super) struct Permutation {
    pub from: [u8; LANES],
    /// Lanes that the row and bank masks let through.
    pub enabled: u64,
    pub bound_ctrl: bool,
    pub fetch_inactive: bool,
}

const OUTSIDE: u8 = u8::MAX;

/// DPP_CTRL (GFX9 and GFX10+ manuals, "DPP").
pub(super) fn permutation(target: Target, dpp: &Dpp) -> Result<Permutation, Unimplemented> {
    let amount = (dpp.ctrl & 15) as usize;
    let gfx9 = target.family() == Family::Cdna;
    let unknown = || Unimplemented::new(format!("DPP control {:#x} on {target}", dpp.ctrl));
    let lane_from = |f: &dyn Fn(usize) -> Option<usize>| -> [u8; LANES] {
        std::array::from_fn(|lane| f(lane).filter(|&l| l < LANES).map_or(OUTSIDE, |l| l as u8))
    };
    let row_of = |lane: usize| lane & !15;
    let from = match dpp.ctrl {
        0..=0xff => {
            lane_from(&|lane| Some((lane & !3) + (dpp.ctrl as usize >> (2 * (lane & 3)) & 3)))
        }
        0x101..=0x10f => {
            lane_from(&|lane| Some(lane + amount).filter(|l| row_of(*l) == row_of(lane)))
        }
        0x111..=0x11f => lane_from(&|lane| {
            lane.checked_sub(amount)
                .filter(|l| row_of(*l) == row_of(lane))
        }),
        0x121..=0x12f => lane_from(&|lane| Some(row_of(lane) + ((lane & 15) + 16 - amount) % 16)),
        0x130 if gfx9 => lane_from(&|lane| Some(lane + 1)),
        0x134 if gfx9 => lane_from(&|lane| Some((lane + 1) % LANES)),
        0x138 if gfx9 => lane_from(&|lane| lane.checked_sub(1)),
        0x13c if gfx9 => lane_from(&|lane| Some((lane + LANES - 1) % LANES)),
        0x140 => lane_from(&|lane| Some(lane ^ 15)),
        0x141 => lane_from(&|lane| Some(lane ^ 7)),
        0x142 if gfx9 => lane_from(&|lane| row_of(lane).checked_sub(1)),
        0x143 if gfx9 => lane_from(&|lane| Some(31).filter(|_| lane >= 32)),
        // GFX90A calls it row_newbcast, GFX10 and later row_share.
        0x150..=0x15f if !gfx9 || is_gfx90a(target) => {
            lane_from(&|lane| Some(row_of(lane) + amount))
        }
        0x160..=0x16f if !gfx9 => lane_from(&|lane| Some(lane ^ amount)),
        _ => return Err(unknown()),
    };
    let mut enabled = 0u64;
    for lane in 0..LANES {
        let row = dpp.row_mask as usize >> (lane / 16) & 1;
        let bank = dpp.bank_mask as usize >> (lane / 4 % 4) & 1;
        enabled |= ((row & bank) as u64) << lane;
    }
    Ok(Permutation {
        from,
        enabled,
        bound_ctrl: dpp.bound_ctrl,
        fetch_inactive: dpp.fetch_inactive,
    })
}

impl Permutation {
    /// DPP8: the same permutation in each group of eight lanes.
    pub fn of_eight(lanes: &[u8; 8], fetch_inactive: bool) -> Permutation {
        Permutation {
            from: std::array::from_fn(|lane| (lane & !7) as u8 + (lanes[lane & 7] & 7)),
            enabled: u64::MAX,
            bound_ctrl: true,
            fetch_inactive,
        }
    }

    /// Lanes whose source lane exists and may be read.
    pub fn valid_lanes(&self, wave: &Wave) -> u64 {
        let readable = if self.fetch_inactive {
            wave.lane_mask()
        } else {
            wave.exec()
        };
        let mut valid = 0;
        for (lane, &from) in self.from.iter().enumerate() {
            if from != OUTSIDE && readable >> from & 1 == 1 {
                valid |= 1u64 << lane;
            }
        }
        valid
    }

    /// Permute, with zero from invalid lanes.
    pub fn apply(&self, row: &mut Row, valid: u64) {
        let source = *row;
        for (lane, &from) in self.from.iter().enumerate() {
            row.0[lane] = if valid >> lane & 1 == 1 {
                source.0[from as usize & (LANES - 1)]
            } else {
                0
            };
        }
    }
}
