//! How many cycles the LDS needs for an instruction.

use crate::exec::memory::{Access, Footprint};
use crate::exec::wave::LANES;
use crate::isa::Target;

/// Banks, each of one dword.
const BANKS: usize = 32;
/// Bytes that all banks together give in a cycle.
const CYCLE_BYTES: u32 = 128;
/// Most dwords that the lanes of a group touch: 32 lanes of one, unaligned.
const MOST_WORDS: usize = 64;

/// Groups of four lanes that are served together in reads of 12 and 16 bytes: 0 to 3 with 20 to 23, and so on.
const PAIRED: [[usize; 2]; 4] = [[0, 5], [1, 4], [2, 7], [3, 6]];

/// Cycles that the LDS needs for one instruction of a wavefront, and how many of them are due to bank conflicts.
///
/// `offsets` are the LDS offsets of the lanes, in order, `None` for inactive lanes; `bytes` what each accesses (1 to
/// 16), `store` whether it writes. A wavefront has as many lanes as `offsets`: 32 or 64.
///
/// The model: 32 banks of a dword; the LDS serves as many lanes at once as have 128 bytes together, that is 32 lanes of
/// up to 4 bytes, 16 of 8, 8 of 12 or 16. In such a group each bank gives one dword a cycle, to all lanes that ask for
/// the same one; the group takes as many cycles as the most different dwords that it wants of one bank, and each
/// beyond the first is a conflict. Groups are consecutive lanes, but for reads of 12 and 16 bytes on GPUs whose
/// `Unit::lds_pairs_wide_reads` says so: there lanes 0 to 3 go with 20 to 23, 4 to 7 with 16 to 19, 8 to 11 with 28 to
/// 31, 12 to 15 with 24 to 27, and so on from lane 32. Atomics of one dword from several lanes take a cycle each.
///
/// `rocm-gpus` has the sources. Assumed, as nobody published it: reads of 12 bytes as of 16. Instructions of two
/// addresses count as two accesses. Lane permutations touch no bank.
pub fn lds_cycles(target: Target, store: bool, bytes: u32, offsets: &[Option<u32>]) -> (u64, u64) {
    let mut places = [0; LANES];
    let mut lanes = 0;
    for (lane, offset) in offsets.iter().take(places.len()).enumerate() {
        if let Some(offset) = offset {
            places[lane] = u64::from(*offset);
            lanes |= 1 << lane;
        }
    }
    let footprint = Footprint {
        access: if store { Access::Store } else { Access::Load },
        bytes: bytes.clamp(1, 16),
        places: &places,
        lanes,
    };
    cycles(target, offsets.len() as u32, &footprint)
}

pub(crate) fn cycles(target: Target, lanes: u32, access: &Footprint) -> (u64, u64) {
    let together = (CYCLE_BYTES / access.bytes.next_power_of_two().max(4)).min(32) as usize;
    let paired =
        together == 8 && access.access == Access::Load && target.unit().lds_pairs_wide_reads;
    // Of the first 32 lanes.
    let of_number = |group: usize| {
        if paired {
            let [one, other] = PAIRED[group].map(|quad| 0b1111u64 << (4 * quad));
            one | other
        } else {
            (u64::MAX >> (64 - together)) << (group * together)
        }
    };
    let (mut all, mut conflicts) = (0, 0);
    for first in (0..lanes as usize).step_by(32) {
        for group in 0..32 / together {
            let mask = of_number(group) << first;
            let needed = of_group(access, mask);
            all += needed;
            conflicts += needed.saturating_sub(1);
        }
    }
    (all, conflicts)
}

/// The most different dwords of one bank that those of these lanes want that access.
fn of_group(access: &Footprint, lanes: u64) -> u64 {
    let atomic = access.access == Access::Atomic;
    let mut words = [(0u64, 0usize); MOST_WORDS];
    let mut count = 0;
    for lane in access.active(lanes) {
        let first = access.places[lane];
        for word in first / 4..=(first + u64::from(access.bytes) - 1) / 4 {
            words[count] = (word, if atomic { lane } else { 0 });
            count += 1;
        }
    }
    let words = &mut words[..count];
    words.sort_unstable();
    let mut banks = [0u64; BANKS];
    for (i, word) in words.iter().enumerate() {
        if i == 0 || words[i - 1] != *word {
            banks[word.0 as usize % BANKS] += 1;
        }
    }
    banks.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::lds_cycles;
    use crate::isa::Target;

    fn strided(target: Target, store: bool, bytes: u32, stride: u32) -> (u64, u64) {
        let offsets: Vec<_> = (0..target.wavefront_size())
            .map(|lane| Some(lane * stride))
            .collect();
        lds_cycles(target, store, bytes, &offsets)
    }

    /// The counters of an MI300X for reads at a stride, for one instruction: (bytes, stride, conflicts).
    const MEASURED: [(u32, u32, u64); 13] = [
        (4, 4, 0),
        (4, 8, 2),
        (4, 16, 6),
        (4, 32, 14),
        (4, 64, 30),
        (4, 128, 62),
        (8, 8, 0),
        (8, 16, 4),
        (8, 64, 28),
        (8, 128, 60),
        (16, 16, 0),
        (16, 32, 8),
        (16, 128, 56),
    ];

    #[test]
    fn strided_reads_conflict_as_measured() {
        for (bytes, stride, conflicts) in MEASURED {
            let found = strided(Target::Gfx942, false, bytes, stride);
            assert_eq!(found.1, conflicts, "{bytes} bytes at a stride of {stride}");
            let groups = u64::from(bytes / 4) * 2;
            assert_eq!(found.0, groups + conflicts);
            // A wavefront of half the lanes has half the conflicts.
            let rdna = strided(Target::Gfx1100, false, bytes, stride);
            assert_eq!(rdna, (found.0 / 2, found.1 / 2));
        }
    }

    #[test]
    fn one_dword_for_all_lanes_is_one_cycle() {
        assert_eq!(strided(Target::Gfx942, false, 4, 0), (2, 0));
        // Bytes of the same dwords.
        assert_eq!(strided(Target::Gfx1030, true, 1, 1), (1, 0));
        assert_eq!(strided(Target::Gfx1201, false, 2, 2), (1, 0));
    }

    #[test]
    fn wide_reads_pair_lanes_except_on_rdna4() {
        // Lanes 0 to 3 and 20 to 23 read the same banks, the others each their own.
        let offsets: Vec<_> = (0..32u32)
            .map(|lane| {
                let quad = [0, 1, 2, 3, 4, 0, 6, 7][lane as usize / 4];
                let apart = if lane / 4 == 5 { 4096 } else { 0 };
                Some(apart + 16 * (4 * (quad & 1) + lane % 4) + 128 * quad)
            })
            .collect();
        let conflicts = |target, store| lds_cycles(target, store, 16, &offsets).1;
        // 0 with 5 (as 0), 1 with 4, 2 with 7, 3 with 6.
        assert_eq!(conflicts(Target::Gfx1100, false), 1);
        assert_eq!(conflicts(Target::Gfx1030, false), 1);
        // 4 with 5 (as 0), of consecutive lanes.
        assert_eq!(conflicts(Target::Gfx1201, false), 1);
        assert_eq!(conflicts(Target::Gfx1100, true), 1);
        // Each row of four lanes moved by half the banks where the pairs want it: conflicts elsewhere.
        let swizzled: Vec<_> = (0..32u32)
            .map(|lane| {
                let half = [0, 0, 0, 0, 1, 1, 1, 1][lane as usize / 4];
                Some(128 * (lane / 4) + 64 * half + 16 * (lane % 4))
            })
            .collect();
        assert_eq!(lds_cycles(Target::Gfx942, false, 16, &swizzled), (4, 0));
        assert_eq!(lds_cycles(Target::Gfx1201, false, 16, &swizzled), (8, 4));
        assert_eq!(lds_cycles(Target::Gfx942, true, 16, &swizzled), (8, 4));
    }

    #[test]
    fn inactive_lanes_want_nothing() {
        let mut offsets = [None; 64];
        assert_eq!(lds_cycles(Target::Gfx942, false, 4, &offsets), (0, 0));
        offsets[7] = Some(12);
        offsets[9] = Some(12 + 128);
        assert_eq!(lds_cycles(Target::Gfx942, false, 4, &offsets), (2, 1));
        offsets[9] = None;
        offsets[40] = Some(12 + 128);
        assert_eq!(lds_cycles(Target::Gfx942, false, 4, &offsets), (2, 0));
    }
}
