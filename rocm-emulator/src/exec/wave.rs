//! The architectural state of one wavefront.

use crate::isa::Target;

/// Lanes that a register row has room for; wave32 uses the first half.
pub const LANES: usize = 64;

/// One vector register: a dword per lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Row(pub [u32; LANES]);

impl Row {
    /// All lanes zero.
    pub const ZERO: Row = Row([0; LANES]);
}

/// The MODE register's floating-point fields (ISA manuals, "Mode register").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// f32 rounding: 0 nearest even, 1 toward +inf, 2 toward -inf, 3 toward zero.
    pub round_f32: u8,
    /// f64 and f16 rounding, the same values.
    pub round_f64_f16: u8,
    /// f32 denormals: bit 0 inputs kept, bit 1 outputs kept.
    pub denorm_f32: u8,
    /// f64 and f16 denormals, the same bits.
    pub denorm_f64_f16: u8,
    /// Clamp turns NaN into zero (before GFX12).
    pub dx10_clamp: bool,
    /// IEEE handling of signalling NaN in min/max (before GFX12).
    pub ieee: bool,
}

/// One wavefront's registers.
pub struct Wave {
    /// The GPU.
    pub target: Target,
    /// Lanes in this wavefront: 32 or 64.
    pub lanes: u32,
    /// Vector registers, as many as the kernel allocates.
    pub vgpr: Box<[Row]>,
    /// Accumulation registers (CDNA), possibly none.
    pub agpr: Box<[Row]>,
    /// `s0` to `s105`.
    pub sgpr: [u32; 106],
    /// VCC; wave32 uses the low dword.
    pub vcc: u64,
    /// EXEC; change it with [`Wave::set_exec`].
    exec: u64,
    /// EXEC as a row: all ones in active lanes, zero elsewhere, to blend with.
    exec_row: Row,
    /// M0.
    pub m0: u32,
    /// Trap temporaries.
    pub ttmp: [u32; 16],
    /// Scalar condition code.
    pub scc: bool,
    /// Floating-point modes.
    pub mode: Mode,
    /// Program counter: a byte address in the device's address space.
    pub pc: u64,
}

impl Wave {
    /// A wave with zeroed registers and every lane active.
    pub fn new(target: Target, lanes: u32, vgprs: usize, agprs: usize, mode: Mode) -> Wave {
        let mut wave = Wave {
            target,
            lanes,
            vgpr: vec![Row::ZERO; vgprs].into_boxed_slice(),
            agpr: vec![Row::ZERO; agprs].into_boxed_slice(),
            sgpr: [0; 106],
            vcc: 0,
            exec: 0,
            exec_row: Row::ZERO,
            m0: 0,
            ttmp: [0; 16],
            scc: false,
            mode,
            pc: 0,
        };
        wave.set_exec(u64::MAX);
        wave
    }

    /// Bits that exist in a lane mask of this wave.
    pub fn lane_mask(&self) -> u64 {
        u64::MAX >> (64 - self.lanes)
    }

    /// The active lanes.
    pub fn exec(&self) -> u64 {
        self.exec
    }

    /// EXEC as a row of all-ones and zeroes.
    pub fn exec_row(&self) -> &Row {
        &self.exec_row
    }

    /// Set the active lanes.
    pub fn set_exec(&mut self, exec: u64) {
        self.exec = exec & self.lane_mask();
        for (lane, mask) in self.exec_row.0.iter_mut().enumerate() {
            *mask = 0u32.wrapping_sub((self.exec >> lane) as u32 & 1);
        }
    }
}
