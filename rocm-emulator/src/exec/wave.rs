//! The architectural state of one wavefront.

use super::simd::multiversion;
use crate::isa::{Special, Target};

/// First address of the flat aperture onto LDS; no host address reaches it.
pub const SHARED_APERTURE: u64 = 1 << 48;
/// First address of the flat aperture onto scratch.
pub const PRIVATE_APERTURE: u64 = 2 << 48;
/// Bytes that an aperture spans.
pub const APERTURE_BYTES: u64 = 1 << 32;

/// Lanes that a register row has room for; wave32 uses the first half.
pub const LANES: usize = 64;

/// Scalar registers that instructions can name as `s0` and so on.
pub const SGPRS: usize = 106;

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
    /// Accumulation registers in a file of their own (gfx908), possibly none.
    pub agpr: Box<[Row]>,
    /// CDNA2 and later: the vector register that `a0` is. `agpr` is empty there.
    pub accum_offset: Option<u16>,
    /// `s0` to `s105`.
    pub sgpr: [u32; SGPRS],
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
    /// FLAT_SCRATCH: the aperture-relative base of this wave's scratch, 0 in the emulator.
    pub flat_scratch: u64,
    /// XNACK_MASK (GFX9): held, never acted on.
    pub xnack_mask: u64,
    /// Scalar condition code.
    pub scc: bool,
    /// GFX9, MODE's bit 27: M0 offsets the numbers of vector registers in VALU instructions.
    pub vgpr_indexing: bool,
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
            accum_offset: None,
            sgpr: [0; SGPRS],
            vcc: 0,
            exec: 0,
            exec_row: Row::ZERO,
            m0: 0,
            ttmp: [0; 16],
            flat_scratch: 0,
            xnack_mask: 0,
            scc: false,
            vgpr_indexing: false,
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
    #[inline]
    pub fn set_exec(&mut self, exec: u64) {
        let exec = exec & self.lane_mask();
        if exec != self.exec {
            self.exec = exec;
            spread(&mut self.exec_row, exec);
        }
    }

    /// Every lane is active.
    #[inline]
    pub fn exec_full(&self) -> bool {
        self.exec == self.lane_mask()
    }

    /// What a special register reads as, low dword of 64-bit ones.
    pub fn special(&self, register: Special) -> u32 {
        match register {
            Special::VccLo => self.vcc as u32,
            Special::VccHi => (self.vcc >> 32) as u32,
            Special::ExecLo => self.exec as u32,
            Special::ExecHi => (self.exec >> 32) as u32,
            Special::FlatScratchHi => (self.flat_scratch >> 32) as u32,
            Special::XnackMaskHi => (self.xnack_mask >> 32) as u32,
            _ => self.special64(register) as u32,
        }
    }

    /// What a special register reads as in a 64-bit operand.
    pub fn special64(&self, register: Special) -> u64 {
        match register {
            Special::VccLo => self.vcc,
            Special::ExecLo => self.exec,
            Special::FlatScratchLo => self.flat_scratch,
            Special::XnackMaskLo => self.xnack_mask,
            Special::M0 => self.m0.into(),
            Special::Scc => self.scc.into(),
            Special::Vccz => (self.vcc & self.lane_mask() == 0).into(),
            Special::Execz => (self.exec == 0).into(),
            Special::SharedBase => SHARED_APERTURE,
            Special::SharedLimit => SHARED_APERTURE + APERTURE_BYTES - 1,
            Special::PrivateBase => PRIVATE_APERTURE,
            Special::PrivateLimit => PRIVATE_APERTURE + APERTURE_BYTES - 1,
            Special::Ttmp(i) => {
                let dword = |i: usize| u64::from(self.ttmp.get(i).copied().unwrap_or(0));
                dword(i.into()) | dword(usize::from(i) + 1) << 32
            }
            Special::VccHi | Special::ExecHi | Special::FlatScratchHi | Special::XnackMaskHi => {
                self.special(register).into()
            }
            Special::Null | Special::PopsExitingWaveId | Special::LdsDirect => 0,
        }
    }

    /// Write a special register, low dword of 64-bit ones. Read-only ones swallow the write.
    pub fn set_special(&mut self, register: Special, value: u32) {
        let low = |old: u64| old >> 32 << 32 | u64::from(value);
        let high = |old: u64| old & 0xffff_ffff | u64::from(value) << 32;
        match register {
            Special::VccLo => self.vcc = low(self.vcc),
            Special::VccHi => self.vcc = high(self.vcc),
            Special::ExecLo => self.set_exec(low(self.exec)),
            Special::ExecHi => self.set_exec(high(self.exec)),
            Special::FlatScratchLo => self.flat_scratch = low(self.flat_scratch),
            Special::FlatScratchHi => self.flat_scratch = high(self.flat_scratch),
            Special::XnackMaskLo => self.xnack_mask = low(self.xnack_mask),
            Special::XnackMaskHi => self.xnack_mask = high(self.xnack_mask),
            Special::M0 => self.m0 = value,
            Special::Ttmp(i) => {
                if let Some(register) = self.ttmp.get_mut(usize::from(i)) {
                    *register = value;
                }
            }
            _ => {}
        }
    }

    /// Write a special register as a 64-bit operand.
    pub fn set_special64(&mut self, register: Special, value: u64) {
        match register {
            Special::VccLo => self.vcc = value,
            Special::ExecLo => self.set_exec(value),
            Special::FlatScratchLo => self.flat_scratch = value,
            Special::XnackMaskLo => self.xnack_mask = value,
            Special::Ttmp(i) => {
                self.set_special(register, value as u32);
                self.set_special(Special::Ttmp(i.saturating_add(1)), (value >> 32) as u32);
            }
            _ => self.set_special(register, value as u32),
        }
    }
}

multiversion! {
    fn spread(row: &mut Row, mask: u64) {
        for (lane, dword) in row.0.iter_mut().enumerate() {
            *dword = 0u32.wrapping_sub((mask >> lane) as u32 & 1);
        }
    }
}
