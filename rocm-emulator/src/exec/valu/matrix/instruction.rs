//! A matrix instruction at work: elements into dense matrices, their product, and the result into registers.

use super::layout::{Layout, MAX_INPUT, MAX_RESULT};
use super::multiply::{self, Number, Shape};
use super::operands::{Input, Registers};
use super::sparse;
use crate::exec::valu::value::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::exec::wave::{Row, Wave, LANES};
use crate::isa::Accumulator;

/// The C operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Addend {
    Registers(Registers),
    /// A constant in every element, as the accumulator's bits.
    Constant(u64),
}

/// A lowered matrix instruction.
pub(super) struct Instruction {
    pub shape: Shape,
    pub a: Input,
    pub b: Input,
    pub c: Addend,
    pub d: Registers,
    pub result: Layout,
    pub accumulator: Accumulator,
    /// f16/bf16 results of GFX11: the half of each register that holds them.
    pub high_half: bool,
    /// Two f16/bf16 results in each register (GFX12).
    pub packed_result: bool,
    pub clamp: bool,
    /// abs, then neg, of the addend.
    pub c_abs: bool,
    pub c_neg: bool,
    /// MFMA's CBSZ and ABID: the block of A that blocks of the result share.
    pub broadcast: (u32, usize),
    /// SMFMAC and SWMMAC: where in A's row the non-zero elements are.
    pub sparse: Option<sparse::Index>,
}

/// Room for the matrices of one instruction; kept a thread, because clearing it would cost as much as the
/// product.
pub(super) struct Workspace<T> {
    a: [T; MAX_INPUT],
    b: [T; MAX_INPUT],
    c: [T; MAX_RESULT],
}

/// Room filled with zeroes.
pub(super) fn workspace<T: Copy>(zero: T) -> Box<Workspace<T>> {
    Box::new(Workspace {
        a: [zero; MAX_INPUT],
        b: [zero; MAX_INPUT],
        c: [zero; MAX_RESULT],
    })
}

impl Instruction {
    pub fn run<T: Number>(&self, wave: &mut Wave, space: &mut Workspace<T>) {
        let shape = self.shape;
        match &self.sparse {
            None => self.a.gather(wave, &mut space.a),
            Some(index) => index.gather(wave, &self.a, shape, &mut space.a),
        }
        self.b.gather(wave, &mut space.b);
        let count = shape.blocks * shape.m * shape.n;
        // Integers are summed from zero, so that clamp sees the exact sum.
        if T::INTEGER {
            space.c[..count].fill(T::ZERO);
        } else {
            self.load_addend(wave, &mut space.c);
        }
        for block in 0..shape.blocks {
            let (bits, within) = self.broadcast;
            let group = (1usize << bits) - 1;
            let a_block = (block & !group | within & group) % shape.blocks;
            multiply::multiply(
                shape,
                &space.a[a_block * shape.m * shape.k..],
                &space.b[block * shape.n * shape.k..],
                &mut space.c[block * shape.m * shape.n..],
            );
        }
        if T::INTEGER {
            self.add_integers(wave, &mut space.c);
        }
        self.store(wave, &space.c);
    }

    /// C into the dense matrix.
    fn load_addend<T: Number>(&self, wave: &Wave, c: &mut [T]) {
        let sign = |value: T| {
            let value = if self.c_abs { value.abs() } else { value };
            if self.c_neg {
                value.neg()
            } else {
                value
            }
        };
        match self.c {
            Addend::Constant(bits) => {
                let count = self.shape.blocks * self.shape.m * self.shape.n;
                c[..count].fill(sign(self.widen(bits)));
            }
            Addend::Registers(registers) if self.accumulator == Accumulator::F32 => {
                let width = self.result.width;
                self.each_run(|element, lanes, base| {
                    let row = &registers.row(wave, element).0[lanes];
                    for (value, &bits) in c[base..base + width].iter_mut().zip(row) {
                        *value = T::from_bits(bits as u64);
                    }
                });
                if self.c_abs || self.c_neg {
                    c.iter_mut().for_each(|value| *value = sign(*value));
                }
            }
            Addend::Registers(registers) => {
                self.each_run(|element, lanes, base| {
                    for (lane, value) in lanes.zip(&mut c[base..]) {
                        *value = sign(self.widen(self.read(wave, registers, element, lane)));
                    }
                });
            }
        }
    }

    /// Add C to integer sums, wrapping or saturating.
    fn add_integers<T: Number>(&self, wave: &Wave, c: &mut [T]) {
        let width = self.result.width;
        let constant = match self.c {
            Addend::Constant(bits) => Row([bits as u32; LANES]),
            Addend::Registers(_) => Row::ZERO,
        };
        self.each_run(|element, lanes, base| {
            let row = match self.c {
                Addend::Constant(_) => &constant,
                Addend::Registers(registers) => registers.row(wave, element),
            };
            for (value, &bits) in c[base..base + width].iter_mut().zip(&row.0[lanes]) {
                *value = value.add_integer(T::from_bits(bits as u64), self.clamp);
            }
        });
    }

    /// Call with (element of a lane, lanes, first position in the dense matrix) for each run of the result.
    fn each_run(&self, mut f: impl FnMut(usize, std::ops::Range<usize>, usize)) {
        let width = self.result.width;
        for (place, &base) in self.result.bases.iter().enumerate() {
            if let Some(base) = base {
                let (element, group) = (place / self.result.groups, place % self.result.groups);
                f(element, group * width..(group + 1) * width, base);
            }
        }
    }

    /// Bits of a lane's element of C.
    #[inline(always)]
    fn read(&self, wave: &Wave, registers: Registers, element: usize, lane: usize) -> u64 {
        let dword = |index: usize| registers.row(wave, index).0[lane];
        match self.accumulator {
            Accumulator::F64 => dword(2 * element) as u64 | (dword(2 * element + 1) as u64) << 32,
            Accumulator::F32 | Accumulator::I32 => dword(element) as u64,
            Accumulator::F16 | Accumulator::Bf16 => {
                let (register, shift) = self.half_place(element);
                (dword(register) >> shift) as u64 & 0xffff
            }
        }
    }

    /// Register and shift of a 16-bit result.
    fn half_place(&self, element: usize) -> (usize, u32) {
        if self.packed_result {
            (element / 2, 16 * (element as u32 & 1))
        } else {
            (element, 16 * self.high_half as u32)
        }
    }

    #[inline(always)]
    fn widen<T: Number>(&self, bits: u64) -> T {
        match self.accumulator {
            Accumulator::F16 => T::from_bits(f16_to_f32(bits as u16).to_bits() as u64),
            Accumulator::Bf16 => T::from_bits(bf16_to_f32(bits as u16).to_bits() as u64),
            _ => T::from_bits(bits),
        }
    }

    /// The dense matrix into D.
    fn store<T: Number>(&self, wave: &mut Wave, c: &[T]) {
        let mut runs = |f: &mut dyn FnMut(&mut Wave, usize, usize, T)| {
            self.each_run(|element, lanes, base| {
                for (lane, &value) in lanes.zip(&c[base..]) {
                    f(wave, element, lane, value);
                }
            });
        };
        let d = self.d;
        match self.accumulator {
            Accumulator::F64 => runs(&mut |wave, element, lane, value| {
                let bits = value.to_bits();
                d.row_mut(wave, 2 * element).0[lane] = bits as u32;
                d.row_mut(wave, 2 * element + 1).0[lane] = (bits >> 32) as u32;
            }),
            Accumulator::F32 | Accumulator::I32 => {
                let width = self.result.width;
                self.each_run(|element, lanes, base| {
                    let row = &mut d.row_mut(wave, element).0[lanes];
                    for (dword, value) in row.iter_mut().zip(&c[base..base + width]) {
                        *dword = value.to_bits() as u32;
                    }
                });
            }
            Accumulator::F16 | Accumulator::Bf16 => {
                let narrow = |value: T| {
                    let value = f32::from_bits(value.to_bits() as u32);
                    match self.accumulator {
                        Accumulator::F16 => f32_to_f16(value),
                        _ => f32_to_bf16(value),
                    }
                };
                runs(&mut |wave, element, lane, value| {
                    let (register, shift) = self.half_place(element);
                    let dword = &mut d.row_mut(wave, register).0[lane];
                    *dword = *dword & !(0xffff << shift) | (narrow(value) as u32) << shift;
                });
            }
        }
    }
}
