//! Structured sparsity: of every four elements of a row of A two are stored, and an index says which.

use super::layout::MAX_INPUT;
use super::multiply::{Number, Shape};
use super::names::Form;
use super::operands::{Input, Registers};
use crate::exec::valu::lowering::Unimplemented;
use crate::exec::{Wave, LANES};
use crate::isa::Inst;

/// Where the index of each lane is.
pub(super) struct Index {
    registers: Registers,
    /// Which of the index sets in the register applies.
    shift: u32,
    /// Elements of A in a lane.
    per_lane: usize,
}

impl Index {
    /// `bits` of index belong to a lane's elements; a register holds several such sets, chosen by ABID
    /// (SMFMAC, when CBSZ is zero) or `index_key` (SWMMAC, in op_sel).
    pub fn new(
        inst: &Inst,
        form: Form,
        bits: u32,
        per_lane: usize,
    ) -> Result<Index, Unimplemented> {
        let registers = Registers::of(inst.src[2]).ok_or_else(|| {
            Unimplemented::new(format!(
                "{}: {:?} as the sparsity index",
                inst.op.name, inst.src[2]
            ))
        })?;
        let sets = (32 / bits).max(1);
        let set = match form {
            Form::Mfma if inst.mods.cbsz == 0 => inst.mods.abid as u32,
            Form::Mfma => 0,
            _ => inst.mods.op_sel as u32,
        };
        Ok(Index {
            registers,
            shift: (set % sets) * bits % 32,
            per_lane,
        })
    }

    /// A with its zeroes put back, stored by k.
    pub fn gather<T: Number>(
        &self,
        wave: &Wave,
        a: &Input,
        shape: Shape,
        out: &mut [T; MAX_INPUT],
    ) {
        let lanes = wave.lanes as usize;
        let index = *self.registers.row(wave, 0);
        out[..shape.m * shape.k].fill(T::ZERO);
        let mut values = [T::ZERO; LANES];
        for element in 0..self.per_lane {
            a.element(wave, element, &mut values);
            for (lane, &value) in values.iter().enumerate().take(lanes) {
                let place = index.0[lane] >> ((self.shift + 2 * element as u32) & 31) & 3;
                // A lane's elements expand to twice as many consecutive k.
                let k = lane / shape.m * 2 * self.per_lane + element / 2 * 4 + place as usize;
                out[k % shape.k * shape.m + lane % shape.m] = value;
            }
        }
    }
}
