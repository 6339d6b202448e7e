//! MUBUF instructions: raw and structured buffers with their range check, and scratch through a descriptor.

use super::access::{Access, Outcome};
use super::action::Action;
use super::context::Context;
use super::footprint::Footprint;
use super::lowering::Lowering;
use super::places::{check_alignment, scratch_places, Places};
use crate::exec::counters::Class;
use crate::exec::scalar::Source;
use crate::exec::wave::{Row, Wave, LANES};
use crate::isa::{Inst, Operand};

/// The swizzle bit in the second dword of a buffer descriptor: it marks scratch.
pub(crate) const SWIZZLE: u32 = 1 << 31;

/// A buffer instruction.
pub(crate) struct BufferOp {
    descriptor: u16,
    index: Option<u16>,
    voffset: Option<u16>,
    soffset: Source,
    offset: i64,
    site: u32,
    action: Action,
}

impl BufferOp {
    pub fn lower(inst: &Inst, lowering: &Lowering) -> Option<BufferOp> {
        let name = inst.op.name.strip_prefix("buffer_")?;
        let action = Action::lower(name, inst, inst.src[3], lowering)?;
        let Operand::Sgpr {
            first: descriptor, ..
        } = inst.src[1]
        else {
            return None;
        };
        let both = inst.mem.idxen && inst.mem.offen;
        let vaddr = match inst.src[0] {
            Operand::Vgpr { .. } => {
                let rows = if both { 2 } else { 1 };
                Some(lowering.registers(inst.src[0], rows)?.first)
            }
            _ => None,
        };
        Some(BufferOp {
            descriptor,
            index: vaddr.filter(|_| inst.mem.idxen),
            voffset: vaddr
                .map(|first| first + u16::from(both))
                .filter(|_| inst.mem.offen),
            soffset: Source::lower(inst.src[2])?,
            offset: inst.mem.offset.into(),
            site: lowering.site(),
            action,
        })
    }

    pub fn run(&self, wave: &mut Wave, cx: &mut Context) -> Outcome {
        let exec = wave.exec();
        if exec == 0 {
            return Ok(());
        }
        cx.count(Class::Memory);
        cx.counters.lane_operations += u64::from(exec.count_ones());
        self.action.count(cx, exec.count_ones());
        let (bytes, access) = (self.action.bytes(), self.action.access());
        let descriptor = self.descriptor(wave);
        if descriptor.scratch() {
            // Scratch is interleaved by lane there: the scalar offset counts bytes of the whole wavefront.
            let base = i64::from(self.soffset.read32(wave) / wave.lanes) + self.offset;
            let zero = Row::ZERO;
            let voffset = self
                .voffset
                .map_or(&zero, |first| &wave.vgpr[usize::from(first)]);
            let places = scratch_places(base, voffset, exec, bytes, access, cx)?;
            // SAFETY: `scratch_places` checked every active lane.
            return unsafe { self.action.run(wave, cx, &places) };
        }
        let (places, inside) = self.places(&descriptor, wave);
        for lane in (0..LANES).filter(|lane| inside >> lane & 1 != 0) {
            cx.check(self.site, access, places[lane], bytes, Some(lane as u32))?;
        }
        if access == Access::Atomic {
            check_alignment(&places, inside, bytes)?;
        }
        if let Action::Load(_, rows) = &self.action {
            // Loads out of range return zero.
            let outside = exec & !inside;
            for row in rows.rows(wave) {
                for lane in (0..LANES).filter(|lane| outside >> lane & 1 != 0) {
                    row.0[lane] = 0;
                }
            }
        }
        wave.set_exec(inside);
        // SAFETY: every lane that is left active was checked.
        let done = unsafe { self.action.run(wave, cx, &places) };
        wave.set_exec(exec);
        done
    }

    fn descriptor(&self, wave: &Wave) -> Descriptor {
        let dword = |at: u16| {
            wave.sgpr
                .get(usize::from(self.descriptor + at))
                .copied()
                .unwrap_or(0)
        };
        Descriptor([dword(0), dword(1), dword(2)])
    }

    /// Every active lane's address, and the lanes that are within the buffer's range.
    fn places(&self, descriptor: &Descriptor, wave: &Wave) -> (Places, u64) {
        let Descriptor([low, high, records]) = *descriptor;
        let bytes = self.action.bytes();
        let soffset = self.soffset.read32(wave);
        let zero = Row::ZERO;
        let row =
            |register: Option<u16>| register.map_or(&zero, |first| &wave.vgpr[usize::from(first)]);
        let base = u64::from(low) | u64::from(high & 0xffff) << 32;
        let stride = u64::from(high >> 16 & 0x3fff);
        let mut places: Places = [0; LANES];
        let mut inside = 0u64;
        let (indices, offsets) = (row(self.index), row(self.voffset));
        let exec = wave.exec();
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            let offset = (self.offset as u64).wrapping_add(offsets.0[lane].into());
            let index = u64::from(indices.0[lane]);
            // ISA manuals, "Range checking": structured buffers count records, raw ones bytes.
            let fits = if stride == 0 {
                offset
                    .wrapping_add(soffset.into())
                    .saturating_add(bytes.into())
                    <= records.into()
            } else {
                index < records.into() && offset + u64::from(bytes) <= stride
            };
            places[lane] = base
                .wrapping_add(soffset.into())
                .wrapping_add(index * stride + offset);
            if fits {
                inside |= 1 << lane;
            }
        }
        (places, inside)
    }

    /// The access to global memory that [`BufferOp::run`] would make now; none where the buffer is scratch.
    pub fn footprint(&self, wave: &Wave, each: impl FnOnce(Footprint)) {
        let descriptor = self.descriptor(wave);
        if descriptor.scratch() {
            return;
        }
        let (places, lanes) = self.places(&descriptor, wave);
        each(Footprint {
            access: self.action.access(),
            bytes: self.action.bytes(),
            places: &places,
            lanes,
        });
    }
}

/// The first three dwords of a buffer descriptor.
struct Descriptor([u32; 3]);

impl Descriptor {
    fn scratch(&self) -> bool {
        self.0[1] & SWIZZLE != 0
    }
}
