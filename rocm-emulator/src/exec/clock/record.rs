//! What a wavefront did, step by step, as far as time depends on it.

use crate::exec::memory::{Access, Footprint};
use crate::exec::program::{Op, Step};
use crate::exec::watch::lds_service;
use crate::exec::wave::{Wave, LANES};
use crate::isa::Target;

/// A step that was executed.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// Bytes from the kernel's first instruction.
    pub offset: i32,
    /// What it asked of LDS or memory: a number in [`WaveRecord::lds`] or [`WaveRecord::accesses`].
    pub detail: u32,
}

/// No detail.
pub(super) const NOTHING: u32 = u32::MAX;

/// What an instruction asked of the LDS.
#[derive(Clone, Copy, Default)]
pub(super) struct LdsUse {
    /// Cycles in which the LDS serves it.
    pub cycles: u32,
    /// Bytes of all lanes.
    pub bytes: u32,
}

/// What an instruction asked of memory.
#[derive(Clone, Copy)]
pub(super) struct MemoryUse {
    /// The first of its lines in [`WaveRecord::lines`], and how many there are.
    pub first: u32,
    pub count: u32,
    /// Bytes of all lanes.
    pub bytes: u32,
    pub access: Access,
}

/// A wavefront's.
#[derive(Default)]
pub(crate) struct WaveRecord {
    pub(super) entries: Vec<Entry>,
    pub(super) lds: Vec<LdsUse>,
    pub(super) accesses: Vec<MemoryUse>,
    /// Numbers of cache lines.
    pub(super) lines: Vec<u64>,
}

impl WaveRecord {
    /// Write down a step that the wavefront is about to execute.
    pub fn note(&mut self, target: Target, entry: u64, step: &Step, wave: &Wave) {
        let detail = match &step.op {
            Op::Lds(op) => {
                let mut of = LdsUse::default();
                op.footprints(wave, |access| {
                    of.cycles += lds_service(target, wave.lanes, &access).0 as u32;
                    of.bytes += access.bytes * access.lanes.count_ones();
                });
                self.lds.push(of);
                self.lds.len() as u32 - 1
            }
            Op::Memory(op) => {
                let mut detail = NOTHING;
                op.footprint(wave, |access| detail = self.memory(target, &access));
                detail
            }
            Op::Buffer(op) => {
                let mut detail = NOTHING;
                // Dwords before a buffer's end, of elements that it cuts, are few, and take no time of their own.
                op.footprints(wave, |access| {
                    if detail == NOTHING {
                        detail = self.memory(target, &access);
                    }
                });
                detail
            }
            _ => NOTHING,
        };
        self.entries.push(Entry {
            offset: step.pc.wrapping_sub(entry) as i32,
            detail,
        });
    }

    fn memory(&mut self, target: Target, access: &Footprint) -> u32 {
        let line = u64::from(target.unit().line_bytes);
        let first = self.lines.len();
        let mut touched = [0u64; 2 * LANES];
        let mut count = 0;
        for lane in access.active(u64::MAX) {
            let start = access.places[lane];
            let end = start.wrapping_add(u64::from(access.bytes) - 1);
            for line in [start / line, end / line] {
                if count == 0 || touched[count - 1] != line {
                    touched[count] = line;
                    count += 1;
                }
            }
        }
        let touched = &mut touched[..count];
        touched.sort_unstable();
        self.lines
            .extend(touched.chunk_by(|a, b| a == b).map(|same| same[0]));
        self.accesses.push(MemoryUse {
            first: first as u32,
            count: (self.lines.len() - first) as u32,
            bytes: access.bytes * access.lanes.count_ones(),
            access: access.access,
        });
        self.accesses.len() as u32 - 1
    }
}
