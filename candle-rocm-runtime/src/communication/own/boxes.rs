//! The boxes by which the ranks of an all-reduce in one launch exchange their pieces: a workgroup has an area for packets,
//! and one for pieces with flags.

use candle_rocm_kernels::numbers::communication::{
    ALL_REDUCE_THREADS, ALL_REDUCE_WORKGROUPS, AREA_FLAGS, RING_PACKETS, RING_PIECES,
};

use super::layout::Layout;

/// Bytes that a workgroup reads with 16 a work-item: a piece of packets, and what other pieces are multiples of.
pub(super) const ROW: u32 = 16 * ALL_REDUCE_THREADS;

/// Bytes of a workgroup's area for packets, which are twice their data.
const PACKETS: u32 = RING_PACKETS * 2 * ROW;

/// Bytes of a piece with flags, at most. (Two H200: 512 MiB take 1,797 us so, and 2,144 by half of it.)
const MOST_PIECE: u32 = 16 * ROW;

/// Bytes of a rank's boxes in its GPU's memory, at most, and of one box.
const NEAR_BYTES: usize = 72 << 20;

/// Workgroups that read and write the host's memory at most: more of them do not make it faster.
const FAR_WORKGROUPS: u32 = 64;

/// Bytes up to which an all-reduce over two GPUs goes by packets. Over more each is sent all, and so they are less. (Two
/// H200: 1 MiB takes 10 us by packets and 13 by pieces; 128 KiB through the host's memory 15 and 17, 512 KiB 43 and 29.)
const NEAR_PACKETS: u64 = 1 << 20;
const FAR_PACKETS: u64 = 128 << 10;

/// How boxes are divided, the same at all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boxes {
    /// Whether they are in GPUs' memory: each rank has one for each other, which writes it. In the host's memory each writes
    /// its own.
    pub is_near: bool,
    /// Workgroups of a launch at most, each of which has its areas.
    pub workgroups: u32,
    /// Bytes of a piece with flags, at most.
    pub piece: u32,
    /// Bytes up to which packets are faster.
    pub packets_bytes: u64,
}

impl Boxes {
    /// Boxes of so many bytes for GPUs of which the smallest has so many multiprocessors: a workgroup for each, so that all
    /// run at once.
    fn of(bytes: usize, multiprocessors: u32) -> Self {
        let least = PACKETS + AREA_FLAGS + RING_PIECES * ROW;
        let room = u32::try_from(bytes).unwrap_or(u32::MAX) / least;
        let workgroups = multiprocessors.min(ALL_REDUCE_WORKGROUPS).min(room).max(1);
        let share = u32::try_from(bytes).unwrap_or(u32::MAX) / workgroups;
        let piece = (share - PACKETS - AREA_FLAGS) / RING_PIECES / ROW * ROW;
        Self {
            is_near: true,
            workgroups,
            piece: piece.min(MOST_PIECE),
            packets_bytes: 0,
        }
    }

    /// Those in GPUs' memory.
    pub fn near(layout: &Layout, multiprocessors: u32) -> Self {
        let others = layout.world.max(2) - 1;
        Self {
            packets_bytes: NEAR_PACKETS / others as u64,
            ..Self::of(NEAR_BYTES / others, multiprocessors)
        }
    }

    /// Those in the host's memory.
    pub fn far(layout: &Layout, multiprocessors: u32) -> Self {
        let others = layout.world.max(2) - 1;
        Self {
            is_near: false,
            packets_bytes: FAR_PACKETS / others as u64,
            ..Self::of(layout.box_bytes(), multiprocessors.min(FAR_WORKGROUPS))
        }
    }

    /// Where a workgroup's area of each kind begins: its kind's first, and the bytes of one.
    pub fn packets(&self) -> (u32, u32) {
        (0, PACKETS)
    }

    /// Likewise, of pieces with flags.
    pub fn pieces(&self) -> (u32, u32) {
        (
            self.workgroups * PACKETS,
            AREA_FLAGS + RING_PIECES * self.piece,
        )
    }

    /// Bytes of a box.
    pub fn bytes(&self) -> usize {
        let (first, area) = self.pieces();
        first as usize + self.workgroups as usize * area as usize
    }

    /// Where a rank's box for another begins, in those that are in its GPU's memory.
    pub fn between(&self, rank: usize, other: usize) -> usize {
        debug_assert_ne!(rank, other);
        (other - usize::from(other > rank)) * self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::MOST_RANKS;
    use super::*;

    #[test]
    fn boxes_have_room() {
        for world in [1, 2, 3, 8, MOST_RANKS] {
            let layout = Layout { world };
            for multiprocessors in [1, 2, 60, 304] {
                let far = Boxes::far(&layout, multiprocessors);
                assert!(far.bytes() <= layout.box_bytes(), "{far:?}");
                let near = Boxes::near(&layout, multiprocessors);
                assert!(near.bytes() * (world.max(2) - 1) <= NEAR_BYTES, "{near:?}");
                for boxes in [near, far] {
                    assert!(boxes.workgroups >= 1 && boxes.workgroups <= multiprocessors);
                    assert!(boxes.piece >= ROW && boxes.piece % ROW == 0);
                }
            }
        }
        let two = Boxes::near(&Layout { world: 2 }, 132);
        assert_eq!(
            (two.workgroups, two.piece),
            (ALL_REDUCE_WORKGROUPS, MOST_PIECE)
        );
    }
}
