//! Kernels that another runtime has loaded: found by the descriptor that a dispatch packet names, in memory.

use std::ops::Range;
use std::sync::Arc;

use super::load::next_id;
use super::{CodeObjectError, Kernel, KernelDescriptor, LoadedKernel};
use crate::isa::Target;

/// ELF program header type of the dynamic section.
const PT_DYNAMIC: u64 = 2;
/// Tags of the dynamic section.
const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
/// Bytes of a symbol, and of an entry of the dynamic section.
const SYMBOL: u64 = 24;
const ENTRY: u64 = 16;
/// What kernels' descriptors are called after them.
const DESCRIPTOR_SUFFIX: &str = ".kd";

/// A code object that another runtime has loaded: a number for it, different from that of every other.
pub fn placed_code_object() -> u64 {
    next_id()
}

/// A kernel in memory.
#[derive(Clone, Debug)]
pub struct Placed<'a> {
    /// The GPU that runs it.
    pub target: Target,
    /// As faults and traces call it.
    pub name: &'a str,
    /// The address of its descriptor.
    pub descriptor: u64,
    /// The bytes there. What AMD's older `amd_kernel_code_t` has in the same place means the same, sizes aside.
    pub bytes: [u8; KernelDescriptor::SIZE],
    /// The code object's number: [`placed_code_object`].
    pub code_object: u64,
    /// Addresses that hold its code.
    pub code: Range<u64>,
    /// Bytes of scratch of a work-item, as the packet has them.
    pub scratch: u32,
}

impl LoadedKernel {
    /// The kernel of a descriptor in memory. Its arguments are not known, and none of its LDS is its own: packets say how
    /// much there is.
    ///
    /// # Errors
    /// The descriptor is none, or its code is not where code is.
    pub fn placed(placed: &Placed) -> Result<LoadedKernel, CodeObjectError> {
        let descriptor = KernelDescriptor::decode(&placed.bytes, placed.target)?;
        let entry = placed
            .descriptor
            .wrapping_add_signed(descriptor.entry_byte_offset);
        if !placed.code.contains(&entry) || !entry.is_multiple_of(4) {
            return Err(CodeObjectError::Malformed(format!(
                "kernel {}: entry {entry:#x} is not in the code {:#x}..{:#x}",
                placed.name, placed.code.start, placed.code.end
            )));
        }
        let kernel = Kernel {
            name: placed.name.to_owned(),
            target: placed.target,
            args: Vec::new(),
            kernarg_size: 0,
            kernarg_align: 16,
            group_segment_fixed_size: 0,
            private_segment_fixed_size: placed.scratch,
            wavefront_size: match descriptor.wavefront_size32 {
                true => 32,
                false => 64,
            },
            max_flat_workgroup_size: 1024,
            required_workgroup_size: None,
            vgpr_count: descriptor.vgprs,
            agpr_count: descriptor.agprs,
            sgpr_count: descriptor.sgprs,
            vgpr_spill_count: 0,
            sgpr_spill_count: 0,
            uses_dynamic_stack: false,
            descriptor_address: placed.descriptor,
            entry,
            code_size: placed.code.end - entry,
            descriptor,
        };
        Ok(LoadedKernel {
            code_object: placed.code_object,
            kernel: Arc::new(kernel),
            entry,
            descriptor: placed.descriptor,
            code: placed.code.clone(),
        })
    }
}

/// The kernel whose descriptor is `offset` bytes into a code object's segments, as they lie in memory: what the dynamic
/// symbols call it. `None` where these are no such segments.
pub fn kernel_name(image: &[u8], offset: u64) -> Option<&str> {
    let image = Image(image);
    if !image.0.starts_with(b"\x7fELF") {
        return None;
    }
    let (headers, size, count) = (
        image.number(32, 8)?,
        image.number(54, 2)?,
        image.number(56, 2)?,
    );
    let mut headers = (0..count).map(|header| headers + header * size);
    let dynamic = headers.find(|header| image.number(*header, 4) == Some(PT_DYNAMIC))?;
    let (dynamic, bytes) = (
        image.number(dynamic + 16, 8)?,
        image.number(dynamic + 40, 8)?,
    );
    let (mut hash, mut strings, mut symbols) = (None, None, None);
    for entry in 0..bytes / ENTRY {
        let at = dynamic + entry * ENTRY;
        let value = image.number(at + 8, 8);
        match image.number(at, 8)? {
            DT_NULL => break,
            DT_HASH => hash = value,
            DT_STRTAB => strings = value,
            DT_SYMTAB => symbols = value,
            _ => {}
        }
    }
    // The second number of a hash table is that of symbols.
    let (strings, symbols, count) = (strings?, symbols?, image.number(hash? + 4, 4)?);
    let mut symbols = (0..count).map(|symbol| symbols + symbol * SYMBOL);
    let symbol = symbols.find(|symbol| image.number(*symbol + 8, 8) == Some(offset))?;
    let name = image.text(strings + image.number(symbol, 4)?)?;
    Some(name.strip_suffix(DESCRIPTOR_SUFFIX).unwrap_or(name))
}

/// Bytes at offsets that may be wrong.
struct Image<'a>(&'a [u8]);

impl<'a> Image<'a> {
    fn number(&self, at: u64, bytes: usize) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let found = self.0.get(at..at.checked_add(bytes)?)?;
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(found);
        Some(u64::from_le_bytes(number))
    }

    fn text(&self, at: u64) -> Option<&'a str> {
        let rest = self.0.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }
}
