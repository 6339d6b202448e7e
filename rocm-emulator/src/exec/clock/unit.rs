//! What HIP counts as a multiprocessor, while it is played back: SIMDs, and the LDS of each compute unit.

use super::record::LdsUse;
use super::simd::Simd;
use rocm_gpus::Timing;

/// SIMDs that share a way to the LDS.
pub(super) const PAIR: usize = 2;

/// The LDS of a compute unit.
#[derive(Clone, Default)]
struct Lds {
    free: u64,
    busy: u64,
    workgroups: u32,
}

#[derive(Clone)]
pub(super) struct Unit {
    pub simds: Vec<Simd>,
    lds: Vec<Lds>,
    /// When each pair of SIMDs has got what it asked of the LDS.
    pair_free: Vec<u64>,
}

impl Unit {
    pub fn new(unit: &rocm_gpus::Unit) -> Unit {
        let simds = unit.simds as usize;
        Unit {
            simds: vec![Simd::default(); simds],
            lds: vec![Lds::default(); unit.compute_units as usize],
            pair_free: vec![0; simds.div_ceil(PAIR)],
        }
    }

    /// Give a workgroup LDS: its compute unit's, or, if it has several, that of the one whose LDS fewer have.
    pub fn enter(&mut self, compute_unit: Option<usize>) -> usize {
        let least = || {
            let each = self.lds.iter().enumerate();
            each.min_by_key(|(_, lds)| lds.workgroups)
                .map_or(0, |(at, _)| at)
        };
        let at = compute_unit.unwrap_or_else(least);
        self.lds[at].workgroups += 1;
        at
    }

    /// A workgroup with that LDS has ended.
    pub fn leave(&mut self, lds: usize) {
        self.lds[lds].workgroups -= 1;
    }

    /// When what a wavefront of a SIMD asks of an LDS is done.
    pub fn ask(&mut self, [lds, simd]: [usize; 2], of: LdsUse, timing: &Timing, at: u64) -> u64 {
        let lds = &mut self.lds[lds];
        let pair = &mut self.pair_free[simd / PAIR];
        let cycles = u64::from(of.cycles);
        let moved = u64::from(of.bytes).div_ceil(timing.lds_bytes_of_pair.into());
        let service = cycles.max(moved);
        let start = at.max(lds.free).max(*pair);
        lds.free = start + cycles;
        lds.busy += cycles;
        *pair = start + service;
        start + service + u64::from(timing.lds)
    }

    /// Most that an LDS of it was busy.
    pub fn lds_busy(&self) -> u64 {
        self.lds.iter().map(|lds| lds.busy).max().unwrap_or(0)
    }
}
