//! The instruction words of a loaded kernel.

use super::registers::RegisterFile;
use crate::codeobject::LoadedKernel;
use crate::isa::{self, Inst};

/// The instruction at an address, for messages and traces.
fn decode_at(kernel: &LoadedKernel, pc: u64) -> Option<Inst> {
    isa::decode(kernel.kernel.target, &words_at(kernel, pc)).ok()
}

/// The same with its operands as numbers of the kernel's registers.
pub(crate) fn placed_at(kernel: &LoadedKernel, pc: u64) -> Option<Inst> {
    let mut inst = decode_at(kernel, pc)?;
    RegisterFile::of(&kernel.kernel.descriptor).number(&mut inst);
    Some(inst)
}

/// At most four dwords of code from `pc` on, as many as the longest instruction has; none outside the code.
pub(crate) fn words_at(kernel: &LoadedKernel, pc: u64) -> Vec<u32> {
    if !kernel.code.contains(&pc) {
        return Vec::new();
    }
    let count = ((kernel.code.end - pc) / 4).min(4);
    (0..count)
        // SAFETY: the loaded code object's segment is live while its kernel is, and `pc` lies in it.
        .map(|i| unsafe { ((pc + 4 * i) as *const u32).read_unaligned() })
        .collect()
}

/// Where the branch at `pc` goes: its 16-bit immediate counts dwords from the next instruction.
pub(crate) fn branch_target(kernel: &LoadedKernel, pc: u64) -> u64 {
    let low = words_at(kernel, pc).first().copied().unwrap_or(0) as u16;
    (pc + 4).wrapping_add_signed(i64::from(low as i16) * 4)
}

/// The instruction at an address as text.
pub(crate) fn text_at(kernel: &LoadedKernel, pc: u64) -> String {
    let target = kernel.kernel.target;
    decode_at(kernel, pc).map_or_else(
        || "(no instruction)".to_string(),
        |inst| isa::disassemble(target, &inst, pc),
    )
}
