//! How many wavefronts of a kernel a SIMD holds at once.

/// What limits the wavefronts on a SIMD. Sources: the instruction set manuals' sections on register and LDS
/// allocation, and the tables of LLVM's `AMDGPUBaseInfo`.
struct Machine {
    archs: &'static [&'static str],
    /// Vector registers of a lane, for all wavefronts of a SIMD together.
    vgprs: u64,
    /// They are given out in multiples of this.
    vgpr_granule: u64,
    /// Wavefronts that a SIMD can hold.
    max_waves: u64,
    /// LDS that the SIMDs below share: of a compute unit on CDNA, of a workgroup processor on RDNA.
    lds_bytes: u64,
    simds: u64,
}

const MACHINES: [Machine; 3] = [
    Machine {
        archs: &["gfx90a", "gfx942"],
        vgprs: 512,
        vgpr_granule: 8,
        max_waves: 8,
        lds_bytes: 64 << 10,
        simds: 4,
    },
    Machine {
        archs: &["gfx1030", "gfx1102"],
        vgprs: 1024,
        vgpr_granule: 16,
        max_waves: 16,
        lds_bytes: 128 << 10,
        simds: 4,
    },
    Machine {
        archs: &["gfx1100", "gfx1101", "gfx1200", "gfx1201"],
        vgprs: 1536,
        vgpr_granule: 24,
        max_waves: 16,
        lds_bytes: 128 << 10,
        simds: 4,
    },
];

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

/// Wavefronts on a SIMD, as many as registers and LDS allow; `None` for an architecture that is not in our tables.
pub fn wavefronts_per_simd(arch: &str, demand: &Demand) -> Option<u64> {
    let machine = MACHINES
        .iter()
        .find(|machine| machine.archs.contains(&arch))?;
    let registers = demand.vgprs.max(1).next_multiple_of(machine.vgpr_granule);
    let by_registers = machine.vgprs / registers;
    let waves_of_group = demand.workgroup.div_ceil(demand.wavefront.max(1));
    let by_lds = match demand.lds_bytes {
        0 => machine.max_waves,
        bytes => (machine.lds_bytes / bytes * waves_of_group / machine.simds).max(1),
    };
    Some(by_registers.min(by_lds).min(machine.max_waves))
}
