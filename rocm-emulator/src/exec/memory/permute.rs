//! The lane permutations that share the format of DS instructions; they touch no LDS.

use super::lowering::{Lowering, Registers};
use super::places::each_lane;
use crate::exec::wave::{Row, Wave};
use crate::isa::{Inst, Operand, Role};

/// How lanes exchange a dword.
pub(crate) struct Permute {
    form: Form,
    data: Registers,
    dst: Registers,
}

#[derive(Clone, Copy)]
enum Form {
    /// Lane i receives what lane `address / 4` holds; of inactive lanes too, or zero.
    Pull { inactive: bool },
    /// Lane `address / 4` receives what lane i holds.
    Push,
    /// A fixed pattern, in the offset.
    Swizzle,
}

impl Permute {
    /// `None` for what is no permutation.
    pub fn lower(inst: &Inst, lowering: &Lowering) -> Option<Permute> {
        let form = match inst.op.columns.role {
            Role::PermutePull => Form::Pull { inactive: false },
            Role::PermutePullInactive => Form::Pull { inactive: true },
            Role::PermutePush => Form::Push,
            Role::Swizzle => Form::Swizzle,
            _ => return None,
        };
        let data = match (form, inst.src[0]) {
            // The swizzle's data is its first operand: the field that addresses elsewhere.
            (Form::Swizzle, operand) if operand != Operand::None => operand,
            _ => inst.src[1],
        };
        Some(Permute {
            form,
            data: lowering.registers(data, 1)?,
            dst: lowering.registers(inst.dst[0], 1)?,
        })
    }

    /// Execute, with the register that addresses lanes and the instruction's offset.
    pub fn run(&self, address: u16, offset: u32, wave: &mut Wave) {
        let (exec, lanes) = (wave.exec(), wave.lanes);
        let from = self.data.rows(wave)[0];
        let address = wave.vgpr[usize::from(address)];
        let named = |lane: usize| address.0[lane].wrapping_add(offset) / 4 % lanes;
        let to = &mut self.dst.rows(wave)[0];
        match self.form {
            Form::Pull { inactive: true } => {
                each_lane(exec, lanes, |lane| {
                    to.0[lane] = from.0[named(lane) as usize]
                });
            }
            Form::Pull { inactive: false } => each_lane(exec, lanes, |lane| {
                to.0[lane] = read_active(&from, exec, named(lane));
            }),
            Form::Push => {
                let mut pushed = Row::ZERO;
                each_lane(exec, lanes, |lane| {
                    pushed.0[named(lane) as usize] = from.0[lane];
                });
                each_lane(exec, lanes, |lane| to.0[lane] = pushed.0[lane]);
            }
            Form::Swizzle => each_lane(exec, lanes, |lane| {
                to.0[lane] = read_active(&from, exec, swizzle(offset, lane as u32));
            }),
        }
    }
}

/// What a lane holds, zero for an inactive one.
#[inline(always)]
fn read_active(from: &Row, exec: u64, lane: u32) -> u32 {
    match exec >> lane & 1 {
        0 => 0,
        _ => from.0[lane as usize],
    }
}

/// Source lane of `ds_swizzle_b32`: the four modes of the offset field.
fn swizzle(pattern: u32, lane: u32) -> u32 {
    let group = lane & !31;
    let within = lane & 31;
    let (low, middle, high) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
    if pattern >= 0xe000 {
        // FFT: the bits of the lane are reversed where the mask leaves them.
        let reversed = (within << 27).reverse_bits();
        return group | (reversed & !low | within & low) & 31;
    }
    if pattern >= 0xc000 {
        // Rotate by `middle` lanes, toward lower lanes if bit 10 is set; masked lane bits stay.
        let moved = if high & 1 != 0 {
            within.wrapping_sub(middle)
        } else {
            within + middle
        };
        return group | (within & low) | (moved & 31 & !low);
    }
    if pattern & 0x8000 != 0 {
        return lane & !3 | pattern >> (2 * (lane & 3)) & 3;
    }
    group | ((within & low | middle) ^ high)
}

#[cfg(test)]
mod tests {
    use super::swizzle;

    #[test]
    fn swizzle_modes() {
        // Bit mask: xor with 1, and broadcast of lane 0 in each group of 32.
        assert_eq!(swizzle(0x041f, 4), 5);
        assert_eq!(swizzle(0x0000, 45), 32);
        assert_eq!(swizzle(0x001f | 3 << 5, 8), 11);
        // Quad permutation [3, 2, 1, 0].
        assert_eq!(swizzle(0x8000 | 0b00_01_10_11, 4), 7);
        assert_eq!(swizzle(0x8000 | 0b00_01_10_11, 7), 4);
        // Rotation by three lanes in the whole group of 32.
        assert_eq!(swizzle(0xc000 | 3 << 5, 0), 3);
        assert_eq!(swizzle(0xc000 | 1 << 10 | 3 << 5, 0), 29);
        // Reversed bits.
        assert_eq!(swizzle(0xe000, 1), 16);
        assert_eq!(swizzle(0xe000, 33), 48);
    }
}
