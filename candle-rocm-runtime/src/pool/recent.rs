//! Small blocks freed last, kept as they are for requests of the same size on the same stream.

use super::segments::{GRANULE, SMALL};
use crate::order::key::StreamKey;

/// Blocks of one size, freed last on one stream. Elsewhere they count as in use.
struct Recent {
    stream: StreamKey,
    size: usize,
    count: usize,
    blocks: [u64; Recent::MOST],
}

impl Recent {
    /// Blocks of one size.
    const MOST: usize = 8;
    /// Sizes and streams; those that fall on the same place share it by turns.
    const PLACES: usize = 64;

    const EMPTY: Self = Self {
        stream: StreamKey { raw: 0, thread: 0 },
        size: 0,
        count: 0,
        blocks: [0; Self::MOST],
    };

    fn place(stream: StreamKey, size: usize) -> usize {
        let granules = size / GRANULE;
        // Sizes of a model differ in many bits or in few, streams by their address and thread.
        (granules ^ granules >> 6 ^ stream.raw >> 4 ^ stream.thread as usize) % Self::PLACES
    }
}

/// The small blocks freed last.
#[derive(Default)]
pub(super) struct RecentBlocks(Vec<Recent>);

impl RecentBlocks {
    /// The address of a block of just this size, freed last on this very stream.
    #[inline]
    pub fn take(&mut self, size: usize, stream: StreamKey) -> Option<u64> {
        let recent = self.0.get_mut(Recent::place(stream, size))?;
        if recent.count == 0 || recent.size != size || recent.stream != stream {
            return None;
        }
        recent.count -= 1;
        Some(recent.blocks[recent.count])
    }

    /// Keeps a block, if it is small and there is room.
    #[inline]
    pub fn keep(&mut self, ptr: u64, size: usize, stream: StreamKey) -> bool {
        // Larger blocks are worth joining at once. So is the rest of a cut, which no request has the size of.
        if size >= SMALL || !size.is_multiple_of(GRANULE) {
            return false;
        }
        if self.0.is_empty() {
            self.0.resize_with(Recent::PLACES, || Recent::EMPTY);
        }
        let recent = &mut self.0[Recent::place(stream, size)];
        if recent.count == 0 {
            (recent.stream, recent.size) = (stream, size);
        } else if recent.count == Recent::MOST || recent.size != size || recent.stream != stream {
            return false;
        }
        recent.blocks[recent.count] = ptr;
        recent.count += 1;
        true
    }

    /// Takes out all blocks, each with the stream it was freed on.
    pub fn drain(&mut self) -> Vec<(u64, StreamKey)> {
        let mut all = Vec::new();
        for recent in &mut self.0 {
            let blocks = &recent.blocks[..std::mem::take(&mut recent.count)];
            all.extend(blocks.iter().map(|&ptr| (ptr, recent.stream)));
        }
        all
    }
}
