//! How many workgroups a GPU holds at once.

use crate::codeobject::Kernel;

/// Workgroups of `items` work-items with so many bytes of LDS (the kernel's own included) that one multiprocessor, a
/// compute unit or on RDNA a workgroup processor, holds: the least that wavefronts, registers and LDS allow. 0 when
/// one alone does not fit.
pub fn workgroups_per_multiprocessor(kernel: &Kernel, items: u32, lds: u32) -> u32 {
    workgroups_per_share(kernel, items, lds, 1)
}

/// Workgroups that a multiprocessor holds in the kernel's mode: in RDNA's CU mode each has one of the compute units.
pub(super) fn workgroups_in_mode(kernel: &Kernel, items: u32, lds: u32) -> u32 {
    let shares = match kernel.descriptor.wgp_mode {
        true => 1,
        false => kernel.target.unit().compute_units,
    };
    shares * workgroups_per_share(kernel, items, lds, shares)
}

/// Workgroups that one of so many equal shares of a multiprocessor holds.
fn workgroups_per_share(kernel: &Kernel, items: u32, lds: u32, shares: u32) -> u32 {
    let target = kernel.target;
    let waves = items.div_ceil(kernel.wavefront_size.max(1)).max(1);
    let (registers, unit) = (target.facts().vgprs, target.unit());
    let lanes = kernel.wavefront_size / unit.wavefront.min(kernel.wavefront_size);
    let simds = unit.simds / shares;
    let by_registers = simds * (registers / (kernel.descriptor.vgprs.max(1) * lanes.max(1)));
    let most_waves = unit.threads() / kernel.wavefront_size / shares;
    let by_waves = by_registers.min(most_waves) / waves;
    if lds > unit.lds_bytes_of_workgroup {
        return 0;
    }
    let bytes = unit.lds_bytes / shares;
    by_waves.min(bytes.checked_div(lds).unwrap_or(u32::MAX))
}
