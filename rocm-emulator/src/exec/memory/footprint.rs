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
}
