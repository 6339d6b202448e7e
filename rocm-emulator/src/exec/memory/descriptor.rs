//! Buffer descriptors: where the elements of a buffer lie, and which of them are within its range. ISA manuals,
//! "Buffer resource descriptor", "Buffer addressing", "Range checking".

use crate::exec::wave::Wave;
use crate::isa::{BufferFormat, Family, Target};

/// The swizzle bit in the second dword of a buffer descriptor.
pub(crate) const SWIZZLE: u32 = 1 << 31;

/// What one lane accesses, before the buffer's layout: the structure's number, bytes into it, bytes that the
/// wavefront adds.
#[derive(Clone, Copy)]
pub(super) struct Element {
    pub index: u64,
    pub offset: u64,
    pub soffset: u64,
    pub bytes: u32,
    /// The instruction gives an index.
    pub indexed: bool,
}

/// The four dwords of a buffer descriptor.
#[derive(Clone, Copy)]
pub(super) struct Descriptor {
    dwords: [u32; 4],
    target: Target,
}

impl Descriptor {
    /// The descriptor that four scalar registers hold.
    pub fn read(wave: &Wave, first: u16) -> Descriptor {
        let dword = |at: usize| wave.sgpr.get(usize::from(first) + at).copied().unwrap_or(0);
        Descriptor {
            dwords: std::array::from_fn(dword),
            target: wave.target,
        }
    }

    fn bits(&self, dword: usize, first: u32, width: u32) -> u32 {
        self.dwords[dword] >> first & ((1 << width) - 1)
    }

    fn is_gfx9(&self) -> bool {
        self.target.family() == Family::Cdna
    }

    /// Whether it is the wavefront's scratch, whose descriptor launches make: swizzled, and without a format, which
    /// no other buffer is.
    pub fn scratch(&self) -> bool {
        self.dwords[1] & SWIZZLE != 0 && self.dwords[3] == 0
    }

    fn base(&self) -> u64 {
        u64::from(self.dwords[0]) | u64::from(self.bits(1, 0, 16)) << 32
    }

    /// Bytes from a structure to the next.
    fn stride(&self) -> u64 {
        let low = self.bits(1, 16, 14);
        // GFX9 has four more bits where the format is, if the lane's number is added to the index.
        let high = match self.adds_lane() && self.is_gfx9() {
            true => self.bits(3, 15, 4) << 14,
            false => 0,
        };
        (low | high).into()
    }

    fn records(&self) -> u64 {
        self.dwords[2].into()
    }

    /// Whether the lane's number is added to the index.
    pub fn adds_lane(&self) -> bool {
        self.bits(3, 23, 1) != 0
    }

    /// Bytes of a structure that follow each other in memory, where structures are interleaved.
    fn swizzled(&self) -> Option<u64> {
        match self.target.family() {
            Family::Cdna | Family::Rdna2 => (self.dwords[1] & SWIZZLE != 0).then_some(4),
            Family::Rdna3 | Family::Rdna4 => match self.bits(1, 30, 2) {
                0 => None,
                size => Some(2 << size),
            },
        }
    }

    /// Structures that are interleaved with each other.
    fn index_stride(&self) -> u64 {
        8 << self.bits(3, 21, 2)
    }

    /// The format of an element for instructions that do not name one.
    pub fn format(&self) -> Option<BufferFormat> {
        let code = match self.target.family() {
            // Data format, then number format above it.
            Family::Cdna => self.bits(3, 15, 4) | self.bits(3, 12, 3) << 4,
            Family::Rdna2 => self.bits(3, 12, 7),
            Family::Rdna3 | Family::Rdna4 => self.bits(3, 12, 6),
        };
        BufferFormat::of(self.target, code as u8)
    }

    /// Where each component of a value comes from or goes to: 0, 1, or 4 and more for the element's components.
    pub fn selects(&self) -> [u8; 4] {
        std::array::from_fn(|component| self.bits(3, 3 * component as u32, 3) as u8)
    }

    /// The address of an element.
    pub fn address(&self, element: &Element) -> u64 {
        let Element { index, offset, .. } = *element;
        let stride = self.stride();
        let within = match self.swizzled() {
            Some(size) => {
                let group = self.index_stride();
                let row = (index / group * stride + offset / size * size) * group;
                row + index % group * size + offset % size
            }
            None => index * stride + offset,
        };
        self.base()
            .wrapping_add(element.soffset)
            .wrapping_add(within)
    }

    /// Whether an element is within the buffer's range.
    pub fn holds(&self, element: &Element) -> bool {
        let (stride, records) = (self.stride(), self.records());
        let bytes = u64::from(element.bytes);
        let end = element.offset.saturating_add(bytes);
        let raw = {
            let start = element.soffset.wrapping_add(element.index * stride);
            start.saturating_add(end) <= records
        };
        if stride == 0 {
            return raw;
        }
        let structured = element.index < records;
        if self.is_gfx9() {
            // Records are structures for instructions with an index, and bytes for others.
            return if element.indexed { structured } else { raw };
        }
        match self.bits(3, 28, 2) {
            0 => structured && end <= stride,
            1 => structured,
            2 => records != 0,
            _ if self.swizzled().is_some() => structured && end <= stride,
            _ => raw,
        }
    }
}
