//! What an instruction is about to access, for those who count it.

use super::access::Access;
use super::places::Places;
use crate::exec::wave::LANES;

/// What an access does to the LDS or to memory, lane by lane.
pub(crate) struct Footprint<'a> {
    pub access: Access,
    /// Bytes of each lane.
    pub bytes: u32,
    /// LDS offsets or addresses; inactive lanes hold anything.
    pub places: &'a Places,
    /// The lanes that access.
    pub lanes: u64,
}

impl Footprint<'_> {
    /// The numbers of the lanes of `mask` that access.
    pub fn active(&self, mask: u64) -> impl Iterator<Item = usize> {
        let lanes = self.lanes & mask;
        (0..LANES).filter(move |lane| lanes >> lane & 1 != 0)
    }

    /// Ranges of addresses that lanes touch together, with the first of these lanes, until `each` gives false.
    pub fn ranges(&self, mut each: impl FnMut(u64, u64, u32) -> bool) {
        let mut range: Option<(u64, u64, u32)> = None;
        for lane in self.active(u64::MAX) {
            let first = self.places[lane];
            let end = first.wrapping_add(self.bytes.into());
            match &mut range {
                Some(range) if range.1 == first => range.1 = end,
                // Lanes that touch the same place.
                Some(range) if range.0 <= first && end <= range.1 => {}
                _ => {
                    if let Some((first, end, lane)) = range.replace((first, end, lane as u32)) {
                        if !each(first, end, lane) {
                            return;
                        }
                    }
                }
            }
        }
        if let Some((first, end, lane)) = range {
            each(first, end, lane);
        }
    }
}
