//! Where what lies in the memory that the ranks of a communicator share: records of ranks, channels between two, slots,
//! boxes.

use candle_rocm_kernels::numbers::communication::ALL_REDUCE_WORKGROUPS;

/// Ranks of a communicator at most.
pub(in crate::communication) const MOST_RANKS: usize = 64;

/// Bytes of a page, and of what is written by one rank alone.
const PAGE: usize = 4096;
const RECORD: usize = 256;
const HALF: usize = RECORD / 2;

/// Bytes of all slots and boxes of collectives together, half of them slots, and of all slots of channels, at most.
const COLLECTIVE_BYTES: usize = 32 << 20;
const CHANNEL_BYTES: usize = 16 << 20;

/// Bytes of what a rank's workgroups say of their waiting.
const AWAITS: usize = ALL_REDUCE_WORKGROUPS as usize * 4;

/// Words between the flags of two ranks.
pub(super) const FLAG_STRIDE: u32 = (RECORD / 4) as u32;

/// Where what lies, by the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Ranks.
    pub world: usize,
}

/// A word of a rank's record, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The number of its last message; the GPU writes it.
    Flag = 0,
    /// Its process, once it has come.
    Process = 16,
    /// Two words: a number that its process alone has.
    Instance = 24,
    /// Its GPU's number in the process, and 1.
    Gpu = 32,
    /// Not 0 once it has left.
    Left = 36,
    /// Not 0 once it is to wait no more; the GPU reads it.
    Abort = 40,
    /// The rank that it found to be gone, and 1.
    Culprit = 44,
    /// How far its beginning is.
    Stage = 48,
    /// Two words: the address of its slots and boxes where all ranks reach it, else 0.
    Slots = 56,
    /// How many multiprocessors its GPU has.
    Multiprocessors = 64,
    /// The rank that its GPU is not to wait for any more, and 1; the GPU reads it.
    Doubt = 68,
    /// The rank that its GPU waited for in vain, and 1; the GPU writes it.
    GaveUp = 72,
}

/// A word of the channel from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChannelWord {
    /// The sender's last message.
    Sent = 0,
    /// The message whose reading the sender waits for.
    SenderWants = 4,
    /// The last message that was read.
    Read = HALF as isize,
    /// The message that the receiver waits for.
    ReceiverWants = HALF as isize + 4,
}

impl Layout {
    /// A word of a rank.
    pub fn word(&self, rank: usize, word: Word) -> usize {
        PAGE + rank * RECORD + word as usize
    }

    /// A word of a channel.
    pub fn channel(&self, from: usize, to: usize, word: ChannelWord) -> usize {
        self.channels() + (from * self.world + to) * RECORD + word as usize
    }

    /// What a workgroup of a rank's all-reduces waits for.
    pub fn awaits(&self, rank: usize, workgroup: usize) -> usize {
        PAGE + (self.world * RECORD).next_multiple_of(PAGE) + rank * AWAITS + workgroup * 4
    }

    fn channels(&self) -> usize {
        self.awaits(self.world, 0).next_multiple_of(PAGE)
    }

    /// Bytes of a slot of collectives.
    pub fn slot_bytes(&self) -> usize {
        (COLLECTIVE_BYTES / (4 * self.world) / PAGE * PAGE).min(1 << 20)
    }

    /// The first of a rank's two slots.
    pub fn slots(&self, rank: usize) -> usize {
        let channels = (self.world * self.world * RECORD).next_multiple_of(PAGE);
        self.channels() + channels + rank * 2 * self.slot_bytes()
    }

    /// Bytes of a rank's box.
    pub fn box_bytes(&self) -> usize {
        COLLECTIVE_BYTES / (2 * self.world) / PAGE * PAGE
    }

    /// A rank's box.
    pub fn boxes(&self, rank: usize) -> usize {
        self.slots(self.world) + rank * self.box_bytes()
    }

    /// Bytes of a channel's slot.
    pub fn channel_slot_bytes(&self) -> usize {
        let share = CHANNEL_BYTES / (2 * self.world * self.world);
        (share / PAGE * PAGE).clamp(PAGE, 128 << 10)
    }

    /// The first of a channel's two slots.
    pub fn channel_slots(&self, from: usize, to: usize) -> usize {
        self.boxes(self.world) + (from * self.world + to) * 2 * self.channel_slot_bytes()
    }

    /// All bytes.
    pub fn bytes(&self) -> usize {
        self.channel_slots(self.world, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        for world in [1, 2, 3, 8, MOST_RANKS] {
            let layout = Layout { world };
            let last = world - 1;
            assert!(layout.word(last, Word::GaveUp) + 4 <= layout.awaits(0, 0));
            assert!(layout.awaits(last, ALL_REDUCE_WORKGROUPS as usize) <= layout.channels());
            let channel = layout.channel(last, last, ChannelWord::ReceiverWants);
            assert!(channel + 4 <= layout.slots(0));
            assert_eq!(layout.slots(0) % PAGE, 0);
            assert_eq!(layout.slots(world), layout.boxes(0));
            assert_eq!(layout.boxes(world), layout.channel_slots(0, 0));
            assert_eq!(layout.bytes() % PAGE, 0);
            assert!(layout.slot_bytes() >= 64 << 10 && layout.channel_slot_bytes() >= PAGE);
        }
        // Both limits, and some pages.
        let most = COLLECTIVE_BYTES + CHANNEL_BYTES + (1 << 20);
        assert!(Layout { world: 8 }.bytes() < most);
    }
}
