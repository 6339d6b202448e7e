//! What a code object holds.

use std::fmt;
use std::sync::Arc;

use super::descriptor::KernelDescriptor;
use super::metadata::{KernelArg, PrintfFormats};
use crate::isa::Target;

/// A kernel: what the metadata, the descriptor and the symbol table say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The (mangled) name.
    pub name: String,
    /// Architecture that it is compiled for.
    pub target: Target,
    /// The kernel descriptor.
    pub descriptor: KernelDescriptor,
    /// Arguments by offset, the explicit ones first, then the hidden ones.
    pub args: Vec<KernelArg>,
    /// Bytes of the kernarg segment, hidden arguments included.
    pub kernarg_size: u32,
    /// Alignment of the kernarg segment in bytes.
    pub kernarg_align: u32,
    /// LDS bytes that every workgroup has, dynamic LDS not included.
    pub group_segment_fixed_size: u32,
    /// Scratch bytes for each lane.
    pub private_segment_fixed_size: u32,
    /// Lanes in a wavefront: 32 or 64.
    pub wavefront_size: u32,
    /// Work-items that a workgroup may have.
    pub max_flat_workgroup_size: u32,
    /// The one workgroup size that the kernel was compiled for, if it says so.
    pub required_workgroup_size: Option<[u32; 3]>,
    /// Vector registers that the code uses (CDNA: accumulation registers included).
    pub vgpr_count: u32,
    /// Accumulation registers that the code uses (CDNA).
    pub agpr_count: u32,
    /// Scalar registers that the code uses.
    pub sgpr_count: u32,
    /// Vector registers spilled to scratch.
    pub vgpr_spill_count: u32,
    /// Scalar registers spilled.
    pub sgpr_spill_count: u32,
    /// The stack's size is not known to the compiler.
    pub uses_dynamic_stack: bool,
    /// Virtual address of the descriptor within the code object.
    pub descriptor_address: u64,
    /// Virtual address of the first instruction within the code object.
    pub entry: u64,
    /// Bytes of code from `entry` on, as the symbol table has it; up to the segment's end without a symbol.
    pub code_size: u64,
}

impl Kernel {
    /// Bytes of the arguments that a launch passes, that is, without the hidden ones.
    pub fn explicit_kernarg_size(&self) -> u32 {
        self.args
            .iter()
            .filter(|arg| !arg.kind.is_hidden())
            .map(|arg| arg.offset + arg.size)
            .max()
            .unwrap_or(0)
    }

    /// The arguments that a launch passes.
    pub fn explicit_args(&self) -> impl Iterator<Item = &KernelArg> {
        self.args.iter().filter(|arg| !arg.kind.is_hidden())
    }
}

/// A `__device__` or `__constant__` variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// The (mangled) name.
    pub name: String,
    /// Virtual address within the code object.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// A loadable segment.
#[derive(Clone, PartialEq, Eq)]
pub struct Segment {
    /// Virtual address.
    pub address: u64,
    /// Bytes from the file.
    pub data: Vec<u8>,
    /// Bytes in memory; those after `data` are zero.
    pub memory_size: u64,
    /// Holds instructions.
    pub executable: bool,
    /// May be written by kernels.
    pub writable: bool,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("address", &self.address)
            .field("bytes", &self.data.len())
            .field("memory_size", &self.memory_size)
            .field("executable", &self.executable)
            .field("writable", &self.writable)
            .finish()
    }
}

/// What a relocation stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelocationKind {
    /// Symbol + addend, 64 bits.
    Abs64,
    /// Symbol + addend, 32 bits; must fit.
    Abs32,
    /// Low dword of symbol + addend.
    Abs32Lo,
    /// High dword of symbol + addend.
    Abs32Hi,
    /// Symbol + addend - place, 64 bits.
    Rel64,
    /// Symbol + addend - place, 32 bits; must fit.
    Rel32,
    /// Low dword of symbol + addend - place.
    Rel32Lo,
    /// High dword of symbol + addend - place.
    Rel32Hi,
    /// Load base + addend, 64 bits.
    Relative64,
}

/// A relocation that the linker left to the loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Virtual address of the place.
    pub offset: u64,
    /// What is stored there.
    pub kind: RelocationKind,
    /// The symbol's virtual address; 0 for [`RelocationKind::Relative64`].
    pub symbol: u64,
    /// Added to the symbol's address.
    pub addend: i64,
}

/// A parsed code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeObject {
    /// Architecture that it is compiled for.
    pub target: Target,
    /// Code object version: 3 to 6.
    pub version: u32,
    /// Kernels in the metadata's order.
    pub kernels: Vec<Arc<Kernel>>,
    /// Formats of buffered `printf`s.
    pub printf_formats: PrintfFormats,
    /// Device variables.
    pub globals: Vec<Global>,
    /// Loadable segments by address.
    pub segments: Vec<Segment>,
    /// Relocations for the loader.
    pub relocations: Vec<Relocation>,
    /// Largest alignment that a section asks for, at least 256.
    pub align: u64,
}

impl CodeObject {
    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&Arc<Kernel>> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The segment bytes from a virtual address on: file contents, not the zeroes that follow them.
    pub fn bytes_at(&self, address: u64) -> Option<&[u8]> {
        self.segments.iter().find_map(|segment| {
            let offset = address.checked_sub(segment.address)?;
            segment.data.get(usize::try_from(offset).ok()?..)
        })
    }

    /// The instruction words of a kernel.
    pub fn code(&self, kernel: &Kernel) -> &[u8] {
        let bytes = self.bytes_at(kernel.entry).unwrap_or_default();
        let size = usize::try_from(kernel.code_size).unwrap_or(usize::MAX);
        &bytes[..size.min(bytes.len())]
    }
}
