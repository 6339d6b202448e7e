//! Scalar memory: loads into SGPRs, GFX9's stores and atomics, and the clocks that share the format.

use super::access::{misaligned, Access, Outcome};
use super::atomics::{self, AtomicOp};
use super::context::Context;
use super::lowering::Lowering;
use crate::exec::counters::Class;
use crate::exec::scalar::{time, Destination, Source};
use crate::exec::wave::Wave;
use crate::isa::{Element as Moved, Inst, Operand, Role, Traits};

/// Most dwords that a scalar load fetches.
const MAX_DWORDS: usize = 16;

/// What a scalar load fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Dwords(u8),
    /// Bytes, and whether the sign is extended (GFX12).
    Small(u8, bool),
}

enum Kind {
    Load(Element),
    Store(Element),
    Atomic {
        op: &'static AtomicOp,
        returns: bool,
    },
    Time,
}

/// A scalar memory instruction.
pub(crate) struct ScalarMemoryOp {
    kind: Kind,
    /// Through a buffer descriptor: dwords that are out of range read zero and are not written.
    buffer: bool,
    base: Source,
    soffset: Option<Source>,
    offset: i64,
    dst: Destination,
    site: u32,
}

impl Element {
    fn of(moved: Moved) -> Option<Element> {
        Some(match moved {
            Moved::B32 => Element::Dwords(1),
            Moved::B64 => Element::Dwords(2),
            Moved::B96 => Element::Dwords(3),
            Moved::B128 => Element::Dwords(4),
            Moved::B256 => Element::Dwords(8),
            Moved::B512 => Element::Dwords(16),
            Moved::U8 => Element::Small(1, false),
            Moved::I8 => Element::Small(1, true),
            Moved::U16 => Element::Small(2, false),
            Moved::I16 => Element::Small(2, true),
            _ => return None,
        })
    }

    fn bytes(self) -> u32 {
        match self {
            Element::Dwords(count) => 4 * u32::from(count),
            Element::Small(bytes, _) => bytes.into(),
        }
    }

    fn align(self) -> u32 {
        self.bytes().min(4)
    }
}

impl ScalarMemoryOp {
    pub fn lower(inst: &Inst, lowering: &Lowering) -> Option<ScalarMemoryOp> {
        let columns = &inst.op.columns;
        let element = || Element::of(columns.moves?);
        let kind = match columns.role {
            Role::Load => Kind::Load(element()?),
            Role::Store => Kind::Store(element()?),
            Role::Update => Kind::Atomic {
                op: atomics::named(&columns.row)?,
                returns: inst.mem.returns,
            },
            Role::Time => Kind::Time,
            _ => return None,
        };
        let dwords = match kind {
            Kind::Load(Element::Dwords(count)) | Kind::Store(Element::Dwords(count)) => count,
            Kind::Load(_) | Kind::Store(_) => 1,
            Kind::Atomic { op, .. } => op.dwords(),
            Kind::Time => 2,
        };
        let timed = matches!(kind, Kind::Time);
        Some(ScalarMemoryOp {
            base: if timed {
                Source::ZERO
            } else {
                Source::lower(inst.src[0])?
            },
            soffset: match inst.src[1] {
                Operand::None => None,
                operand => Some(Source::lower(operand)?),
            },
            offset: inst.mem.offset.into(),
            dst: Destination::lower(inst.dst[0], dwords.into())?,
            site: lowering.site(),
            buffer: columns.has(Traits::DESCRIPTOR),
            kind,
        })
    }

    pub fn run(&self, wave: &mut Wave, cx: &mut Context) -> Outcome {
        cx.count(Class::Scalar);
        let Some((access, bytes, align)) = self.shape() else {
            let now = time(cx.start);
            self.dst.write64(wave, now);
            return Ok(());
        };
        let Some((address, bytes)) = self.address(wave, bytes) else {
            if let Kind::Load(element) = self.kind {
                self.write(wave, element, [0; MAX_DWORDS]);
            }
            return Ok(());
        };
        if address % u64::from(align) != 0 {
            return Err(misaligned(access, address, bytes, align, None));
        }
        cx.check(self.site, access, address, bytes, None)?;
        // SAFETY: the range and the alignment were checked.
        unsafe { self.access(wave, address as *mut u8, bytes as usize) };
        Ok(())
    }

    /// What it does, to how many bytes, and their alignment; `None` for a clock.
    fn shape(&self) -> Option<(Access, u32, u32)> {
        Some(match self.kind {
            Kind::Time => return None,
            Kind::Load(element) => (Access::Load, element.bytes(), element.align()),
            Kind::Store(element) => (Access::Store, element.bytes(), element.align()),
            Kind::Atomic { op, .. } => {
                let bytes = op.update.bytes();
                (Access::Atomic, bytes, bytes)
            }
        })
    }

    /// The address, and how many of the bytes are accessed; `None` where the buffer ends before.
    fn address(&self, wave: &Wave, bytes: u32) -> Option<(u64, u32)> {
        let soffset = self.soffset.map_or(0, |source| source.read32(wave));
        let offset = self.offset.wrapping_add(soffset.into());
        let mut base = self.base.read64(wave);
        let mut accessed = bytes;
        if self.buffer {
            let (stride, records) = self.descriptor(wave);
            base &= (1 << 48) - 1;
            let size = u64::from(records) * u64::from(stride.max(1));
            let room = size.saturating_sub(offset as u64);
            if room < bytes.into() {
                // An atomic is done whole or not at all, as what is smaller than a dword.
                let is_cut = !matches!(self.kind, Kind::Atomic { .. });
                accessed = if is_cut { room as u32 & !3 } else { 0 };
            }
            if accessed == 0 {
                return None;
            }
        }
        Some((base.wrapping_add_signed(offset), accessed))
    }

    /// Address, bytes and kind of the access that [`ScalarMemoryOp::run`] would make now, if it makes any.
    pub fn footprint(&self, wave: &Wave) -> Option<(u64, u32, Access)> {
        let (access, bytes, _) = self.shape()?;
        let (address, bytes) = self.address(wave, bytes)?;
        Some((address, bytes, access))
    }

    /// # Safety
    /// The place is valid for `bytes` bytes, and aligned for an atomic.
    unsafe fn access(&self, wave: &mut Wave, at: *mut u8, bytes: usize) {
        let mut dwords = [0u32; MAX_DWORDS];
        match self.kind {
            Kind::Load(element) => {
                // SAFETY: the caller's promise; an element is at most as long as the array.
                unsafe {
                    std::ptr::copy_nonoverlapping(at, dwords.as_mut_ptr().cast::<u8>(), bytes);
                }
                self.write(wave, element, dwords);
            }
            Kind::Store(_) => {
                dwords = self.data(wave);
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(dwords.as_ptr().cast::<u8>(), at, bytes) };
            }
            Kind::Atomic { op, returns } => {
                dwords = self.data(wave);
                let wide = |at: usize| u64::from(dwords[at]) | u64::from(dwords[at + 1]) << 32;
                let (data, compare) = match bytes {
                    4 => (dwords[0].into(), dwords[1].into()),
                    _ => (wide(0), wide(2)),
                };
                // SAFETY: as above.
                let old = unsafe { op.update.apply_shared(at, data, compare) };
                match (returns, bytes) {
                    (false, _) => {}
                    (true, 4) => self.dst.write32(wave, old as u32),
                    (true, _) => self.dst.write64(wave, old),
                }
            }
            Kind::Time => {}
        }
    }

    /// What is stored: the registers from the first on, or those that there are.
    fn data(&self, wave: &Wave) -> [u32; MAX_DWORDS] {
        let mut dwords = [0; MAX_DWORDS];
        match self.dst {
            Destination::Register(first) => {
                let registers = wave.sgpr[usize::from(first)..].iter();
                dwords
                    .iter_mut()
                    .zip(registers)
                    .for_each(|(dword, register)| *dword = *register);
            }
            other => {
                let value = other.source().read64(wave);
                (dwords[0], dwords[1]) = (value as u32, (value >> 32) as u32);
            }
        }
        dwords
    }

    /// Stride and number of records of the buffer descriptor.
    fn descriptor(&self, wave: &Wave) -> (u32, u32) {
        let dword = |at: usize| match self.base {
            Source::Register(first) => wave.sgpr.get(usize::from(first) + at).copied().unwrap_or(0),
            _ => 0,
        };
        (dword(1) >> 16 & 0x3fff, dword(2))
    }

    fn write(&self, wave: &mut Wave, element: Element, dwords: [u32; MAX_DWORDS]) {
        match (element, self.dst) {
            (Element::Small(1, true), dst) => dst.write32(wave, dwords[0] as i8 as u32),
            (Element::Small(2, true), dst) => dst.write32(wave, dwords[0] as i16 as u32),
            (Element::Small(..), dst) | (Element::Dwords(1), dst) => dst.write32(wave, dwords[0]),
            (Element::Dwords(count), Destination::Register(first)) => {
                let (first, count) = (usize::from(first), usize::from(count));
                // Lowering checked that the registers exist.
                wave.sgpr[first..first + count].copy_from_slice(&dwords[..count]);
            }
            (Element::Dwords(_), dst) => {
                dst.write64(wave, u64::from(dwords[0]) | u64::from(dwords[1]) << 32);
            }
        }
    }
}
