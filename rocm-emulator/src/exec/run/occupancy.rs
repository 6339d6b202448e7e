//! How many workgroups a GPU holds at once.

use crate::codeobject::Kernel;

/// Workgroups of `items` work-items with so many bytes of LDS (the kernel's own included) that one multiprocessor, a
/// compute unit or on RDNA a workgroup processor, holds: the least that wavefronts, registers and LDS allow. 0 when
/// one alone does not fit.
pub fn workgroups_per_multiprocessor(kernel: &Kernel, items: u32, lds: u32) -> u32 {
    let target = kernel.target;
    let waves = items.div_ceil(kernel.wavefront_size.max(1)).max(1);
    let (registers, unit) = (target.facts().vgprs, target.unit());
    let lanes = kernel.wavefront_size / unit.wavefront.min(kernel.wavefront_size);
    let by_registers = unit.simds * (registers / (kernel.descriptor.vgprs.max(1) * lanes.max(1)));
    let most_waves = unit.threads() / kernel.wavefront_size;
    let by_waves = by_registers.min(most_waves) / waves;
    if lds > unit.lds_bytes_of_workgroup {
        return 0;
    }
    by_waves.min(unit.lds_bytes.checked_div(lds).unwrap_or(u32::MAX))
}
