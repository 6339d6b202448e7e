//! How many wavefronts of a kernel a SIMD holds at once, by the table of `rocm-gpus`.

use rocm_gpus::CodeTarget;

/// What a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Vector registers of a lane; on CDNA those for accumulation included.
    pub vgprs: u64,
    /// LDS of a workgroup in bytes.
    pub lds_bytes: u64,
    /// Work-items of a workgroup.
    pub workgroup: u64,
    /// Lanes of a wavefront.
    pub wavefront: u64,
}

/// Wavefronts on a SIMD, as many as registers and LDS allow, on the GPU `arch`; of a generic target, on that with the fewest
/// registers. `None` for a target that is not in the table.
pub fn wavefronts_per_simd(arch: &str, demand: &Demand) -> Option<u64> {
    let target: CodeTarget = arch.parse().ok()?;
    let unit = target.unit();
    let most = u64::from(unit.waves_per_simd);
    let registers = demand.vgprs.max(1);
    let by_registers =
        u64::from(target.vgprs()) / registers.next_multiple_of(target.vgpr_granule().into());
    let waves_of_group = demand.workgroup.div_ceil(demand.wavefront.max(1));
    let by_lds = match demand.lds_bytes {
        0 => most,
        bytes => {
            (u64::from(unit.lds_bytes) / bytes * waves_of_group / u64::from(unit.simds)).max(1)
        }
    };
    Some(by_registers.min(by_lds).min(most))
}
