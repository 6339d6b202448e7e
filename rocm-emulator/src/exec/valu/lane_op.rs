//! One lowered instruction that does the same in every lane, and how its operands are reached.

use std::mem::MaybeUninit;

use super::kernel::{Args, Kernel, MAX_ARGUMENTS};
use super::operand::{ScalarReg, Source};
use super::riders::Riders;
use super::rows::{broadcast, spread_mask};
use crate::exec::wave::{Row, Wave, LANES};
use crate::isa::{Family, Special};

/// Where the vector result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    None,
    Vgpr(u16),
    Agpr(u16),
    /// A scalar result (`v_s_exp_f32` and its kind): lane 0 of a row that no register holds.
    Scalar(ScalarReg),
}

/// One lowered instruction.
pub(super) struct LaneOp {
    pub kernel: Kernel,
    pub sources: [Source; MAX_ARGUMENTS],
    pub count: u8,
    pub dst: Destination,
    /// Bits of the destination's dwords that are written.
    pub write: u32,
    /// Scalar destinations of the lane mask.
    pub mask: [Option<ScalarReg>; 2],
    /// Sources are modified.
    pub modified: bool,
    /// More than sources is modified: always take the general path.
    pub general: bool,
    /// MODE's rounding and denormal fields matter.
    pub float: bool,
    pub riders: Box<Riders>,
    /// Registers used.
    pub vgprs: usize,
    pub agprs: usize,
}

/// Room for operands that are not registers, one pair of rows an argument.
pub(super) type Scratch = [MaybeUninit<[Row; 2]>; MAX_ARGUMENTS];

pub(super) fn new_scratch() -> Scratch {
    [const { MaybeUninit::uninit() }; MAX_ARGUMENTS]
}

impl LaneOp {
    /// Arguments without sources.
    #[inline(always)]
    pub fn args(&self, wave: &mut Wave) -> Args {
        Args {
            src: [std::ptr::null(); MAX_ARGUMENTS],
            dst: self.dst_pointer(wave),
            write: self.write,
            exec: wave.exec_row().0.as_ptr(),
            full: wave.exec_full(),
            lanes: wave.lanes as usize,
            mask: 0,
        }
    }

    /// Pointer to the destination's first row; null if there is none.
    pub fn dst_pointer(&self, wave: &mut Wave) -> *mut u32 {
        match self.dst {
            Destination::None | Destination::Scalar(_) => std::ptr::null_mut(),
            // Through the slice's own pointer, so that the rows after the first are in reach.
            Destination::Vgpr(first) => wave.vgpr[first as usize..].as_mut_ptr().cast(),
            Destination::Agpr(first) => wave.agpr[first as usize..].as_mut_ptr().cast(),
        }
    }

    /// Pointer to a source's first row.
    #[inline(always)]
    pub fn fetch(
        &self,
        index: usize,
        wave: &Wave,
        scratch: &mut MaybeUninit<[Row; 2]>,
    ) -> *const u32 {
        match &self.sources[index] {
            Source::Vgpr(first) => wave.vgpr[*first as usize..].as_ptr().cast(),
            Source::Agpr(first) => wave.agpr[*first as usize..].as_ptr().cast(),
            Source::Rows(rows) => rows.as_ptr().cast(),
            Source::Nothing => std::ptr::null(),
            Source::Ieee => {
                static ROWS: [Row; 2] = [Row::ZERO, Row([u32::MAX; LANES])];
                // GFX12 has no such bit; its min and max always return the number.
                let ieee = wave.mode.ieee && wave.target.family() != Family::Rdna4;
                ROWS[ieee as usize].0.as_ptr()
            }
            Source::Scalar(register) => {
                let row = scratch.as_mut_ptr().cast::<Row>();
                // SAFETY: the scratch has room for two rows, and any bits are a row.
                broadcast(unsafe { &mut *row }, register.read(wave));
                row.cast_const().cast()
            }
            Source::ScalarExtended(register) => {
                let rows = scratch.write([Row([register.read(wave); LANES]), Row::ZERO]);
                rows.as_ptr().cast()
            }
            Source::ScalarPair(register) => {
                let value = register.read_pair(wave);
                let row = scratch.as_mut_ptr().cast::<Row>();
                // SAFETY: as above.
                unsafe {
                    broadcast(&mut *row, value as u32);
                    broadcast(&mut *row.add(1), (value >> 32) as u32);
                }
                row.cast_const().cast()
            }
            Source::Mask(ScalarReg::Named(Special::ExecLo)) => wave.exec_row().0.as_ptr(),
            Source::Mask(register) => {
                let mask = register.read_mask(wave);
                let row = scratch.as_mut_ptr().cast::<Row>();
                // SAFETY: the scratch has room for two rows, and any bits are a row.
                spread_mask(unsafe { &mut *row }, mask);
                row.cast_const().cast()
            }
        }
    }

    /// Write the lane mask to its scalar destinations.
    pub fn write_masks(&self, wave: &mut Wave, mask: u64) {
        for register in self.mask.iter().flatten() {
            register.write_mask(wave, mask);
        }
    }
}
