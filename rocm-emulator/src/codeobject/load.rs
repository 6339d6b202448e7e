//! A code object in a device's memory.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::{CodeObject, CodeObjectError, Global, Kernel, Relocation, RelocationKind};
use crate::memory::{AllocationKind, Memory};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A number that no code object has yet.
pub(super) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// A code object whose segments lie in device memory, at the distances from each other that the linker chose.
#[derive(Clone, Debug)]
pub struct LoadedCodeObject {
    /// Different for every load in the process: a key for caches of decoded instructions.
    pub id: u64,
    /// What was loaded.
    pub object: Arc<CodeObject>,
    /// The allocation that holds the segments; pass it to [`Memory::free`] to unload.
    pub allocation: u64,
    /// Added to a virtual address of the code object to get the device address.
    pub base: u64,
    kernels: Arc<[LoadedKernel]>,
}

/// A kernel at its place in device memory.
#[derive(Clone, Debug)]
pub struct LoadedKernel {
    /// The code object's id, see [`LoadedCodeObject::id`].
    pub code_object: u64,
    /// What the code object says about the kernel.
    pub kernel: Arc<Kernel>,
    /// Device address of the first instruction.
    pub entry: u64,
    /// Device address of the kernel descriptor.
    pub descriptor: u64,
    /// Device addresses of the executable segment that holds the kernel; functions that it calls lie there too.
    pub code: Range<u64>,
}

impl CodeObject {
    /// Copy the segments into one [`AllocationKind::Code`] allocation and apply the relocations.
    ///
    /// # Errors
    /// When the memory has no room, or a relocation does not fit its place.
    pub fn load(self: &Arc<Self>, memory: &Memory) -> Result<LoadedCodeObject, CodeObjectError> {
        let malformed = |what: &str| CodeObjectError::Malformed(what.into());
        let (Some(first), Some(last)) = (self.segments.first(), self.segments.last()) else {
            return Err(malformed("no loadable segment"));
        };
        let low = first.address & !(self.align - 1);
        let span = last.address + last.memory_size - low;
        let mut image = vec![
            0u8;
            usize::try_from(span)
                .map_err(|_| malformed("larger than the address space"))?
        ];
        for segment in &self.segments {
            let at = (segment.address - low) as usize;
            image[at..at + segment.data.len()].copy_from_slice(&segment.data);
        }
        // Allocations are aligned to 256 bytes; sections may ask for more.
        let slack = if self.align > 256 { self.align } else { 0 };
        let allocation = memory
            .allocate(span + slack, AllocationKind::Code)
            .map_err(|error| CodeObjectError::Memory(error.to_string()))?;
        let start = allocation.next_multiple_of(self.align);
        let base = start.wrapping_sub(low);
        let placed = self
            .relocations
            .iter()
            .try_for_each(|relocation| apply(relocation, base, low, &mut image))
            .and_then(|()| {
                memory
                    .write(start, &image)
                    .map_err(|error| CodeObjectError::Memory(error.to_string()))
            });
        if let Err(error) = placed {
            // The allocation was made above, so freeing it cannot fail.
            let _ = memory.free(allocation);
            return Err(error);
        }
        let id = next_id();
        let kernels = self
            .kernels
            .iter()
            .filter_map(|kernel| {
                let segment = self.segments.iter().find(|segment| {
                    (segment.address..segment.address + segment.memory_size).contains(&kernel.entry)
                })?;
                let code = base.wrapping_add(segment.address);
                Some(LoadedKernel {
                    code_object: id,
                    kernel: kernel.clone(),
                    entry: base.wrapping_add(kernel.entry),
                    descriptor: base.wrapping_add(kernel.descriptor_address),
                    code: code..code + segment.data.len() as u64,
                })
            })
            .collect();
        Ok(LoadedCodeObject {
            id,
            object: self.clone(),
            allocation,
            base,
            kernels,
        })
    }
}

impl LoadedCodeObject {
    /// The kernel of that (mangled) name.
    pub fn kernel(&self, name: &str) -> Option<&LoadedKernel> {
        self.kernels
            .iter()
            .find(|loaded| loaded.kernel.name == name)
    }

    /// Every kernel, in the metadata's order.
    pub fn kernels(&self) -> &[LoadedKernel] {
        &self.kernels
    }

    /// Device address and size in bytes of a `__device__` or `__constant__` variable.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        let Global { address, size, .. } = self
            .object
            .globals
            .iter()
            .find(|global| global.name == name)?;
        Some((self.base.wrapping_add(*address), *size))
    }
}

fn apply(
    relocation: &Relocation,
    base: u64,
    low: u64,
    image: &mut [u8],
) -> Result<(), CodeObjectError> {
    use RelocationKind::*;
    let Relocation {
        offset,
        kind,
        symbol,
        addend,
    } = *relocation;
    let error = |reason: &str| CodeObjectError::Relocation {
        kind: format!("{kind:?}"),
        offset,
        reason: reason.into(),
    };
    let place = base.wrapping_add(offset);
    let absolute = base.wrapping_add(symbol).wrapping_add_signed(addend);
    let relative = absolute.wrapping_sub(place);
    let (value, bytes) = match kind {
        Abs64 | Relative64 => (absolute, 8),
        Rel64 => (relative, 8),
        Abs32Lo => (absolute & 0xffff_ffff, 4),
        Abs32Hi => (absolute >> 32, 4),
        Rel32Lo => (relative & 0xffff_ffff, 4),
        Rel32Hi => (relative >> 32, 4),
        Abs32 if absolute >> 32 == 0 => (absolute, 4),
        Rel32 if i32::try_from(relative as i64).is_ok() => (relative, 4),
        Abs32 | Rel32 => return Err(error("the address does not fit in 32 bits")),
    };
    offset
        .checked_sub(low)
        .and_then(|at| usize::try_from(at).ok())
        .and_then(|at| image.get_mut(at..)?.get_mut(..bytes))
        .ok_or_else(|| error("the place is outside the segments"))?
        .copy_from_slice(&value.to_le_bytes()[..bytes]);
    Ok(())
}
