//! Matrix instructions: MFMA and SMFMAC of CDNA, WMMA and SWMMAC of RDNA3 and RDNA4.
//!
//! An instruction is a shape, element formats, and layouts that say which lane and register hold which
//! element ([`layout`]). Elements are gathered into small dense matrices, multiplied in a tight loop
//! ([`multiply`]), and scattered back. EXEC is ignored, as the manuals say of these instructions.
//!
//! # Fidelity
//! Sums are accumulated in the order of k with one fused multiply-add each, from the C operand on; the
//! hardware's order and intermediate rounding are not documented. `xf32` inputs are rounded to 10 fraction
//! bits, ties to even. f16 and bf16 results are rounded once, at the end.

mod elements;
mod layout;
mod multiply;
mod names;
mod sparse;

use std::cell::RefCell;

use super::cross_lane::Run;
use super::operand::{constant, Source};
use super::value::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, Kind};
use super::Unimplemented;
use crate::exec::{Row, Wave, LANES};
use crate::isa::{Inst, Operand, Target};
use elements::Element;
use layout::Layout;
use multiply::{Number, Shape};
use names::{Accumulator, Form, Matrix};

/// A register operand of a matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registers {
    Vgpr(usize),
    Agpr(usize),
}

impl Registers {
    fn of(operand: Operand) -> Option<Registers> {
        match operand {
            Operand::Vgpr { first, .. } => Some(Registers::Vgpr(first as usize)),
            Operand::Agpr { first, .. } => Some(Registers::Agpr(first as usize)),
            _ => None,
        }
    }

    fn row(self, wave: &Wave, index: usize) -> &Row {
        match self {
            Registers::Vgpr(first) => &wave.vgpr[first + index],
            Registers::Agpr(first) => &wave.agpr[first + index],
        }
    }

    fn row_mut(self, wave: &mut Wave, index: usize) -> &mut Row {
        match self {
            Registers::Vgpr(first) => &mut wave.vgpr[first + index],
            Registers::Agpr(first) => &mut wave.agpr[first + index],
        }
    }
}

/// The C operand.
#[derive(Clone, Copy, Debug)]
enum Addend {
    Registers(Registers),
    /// A constant in every element, as the accumulator's bits.
    Constant(u64),
}

/// A lowered matrix instruction.
struct Instruction {
    shape: Shape,
    a: Input,
    b: Input,
    c: Addend,
    d: Registers,
    result: Layout,
    accumulator: Accumulator,
    /// f16/bf16 results of GFX11: the half of each register that holds them.
    high_half: bool,
    /// Two f16/bf16 results in each register (GFX12).
    packed_result: bool,
    clamp: bool,
    /// abs, then neg, of the addend.
    c_abs: bool,
    c_neg: bool,
    /// MFMA's CBSZ and ABID: the block of A that blocks of the result share.
    broadcast: (u32, usize),
    /// SMFMAC and SWMMAC: where in A's row the non-zero elements are.
    sparse: Option<sparse::Index>,
}

/// A or B.
struct Input {
    registers: Registers,
    element: Element,
    layout: Layout,
    /// Negate the even and the odd elements of each register.
    neg: [bool; 2],
    /// BLGP: the lane that each lane takes its data from.
    lanes: Option<[u8; LANES]>,
}

/// Room for the matrices of one instruction; kept a thread, because clearing it would cost as much as the
/// product.
struct Workspace<T> {
    a: [T; layout::MAX_INPUT],
    b: [T; layout::MAX_INPUT],
    c: [T; layout::MAX_RESULT],
}

/// Lower a matrix instruction; `None` if it is none.
pub(super) fn lower(target: Target, lanes: u32, inst: &Inst) -> Result<Option<Run>, Unimplemented> {
    let Some(matrix) = names::parse(target, lanes, inst)? else {
        return Ok(None);
    };
    let instruction = prepare(lanes, inst, matrix)?;
    let run: Run = match instruction.accumulator {
        Accumulator::F64 => Box::new(move |wave| {
            thread_local!(static SPACE: RefCell<Box<Workspace<f64>>> = RefCell::new(workspace(0.0)));
            SPACE.with_borrow_mut(|space| instruction.run(wave, space));
        }),
        Accumulator::I32 => Box::new(move |wave| {
            thread_local!(static SPACE: RefCell<Box<Workspace<i32>>> = RefCell::new(workspace(0)));
            SPACE.with_borrow_mut(|space| instruction.run(wave, space));
        }),
        _ => Box::new(move |wave| {
            thread_local!(static SPACE: RefCell<Box<Workspace<f32>>> = RefCell::new(workspace(0.0)));
            SPACE.with_borrow_mut(|space| instruction.run(wave, space));
        }),
    };
    Ok(Some(run))
}

fn workspace<T: Copy>(zero: T) -> Box<Workspace<T>> {
    Box::new(Workspace {
        a: [zero; layout::MAX_INPUT],
        b: [zero; layout::MAX_INPUT],
        c: [zero; layout::MAX_RESULT],
    })
}

fn prepare(lanes: u32, inst: &Inst, matrix: Matrix) -> Result<Instruction, Unimplemented> {
    let name = inst.op.name;
    let registers = |operand: Operand| {
        Registers::of(operand)
            .ok_or_else(|| Unimplemented::new(format!("{name}: {operand:?} as a matrix operand")))
    };
    let Matrix {
        shape,
        accumulator,
        form,
        ..
    } = matrix;
    let mods = &inst.mods;
    let sparse_form = matrix.index_bits.is_some();
    let kind = match accumulator {
        Accumulator::F64 => Kind::F64,
        Accumulator::F16 => Kind::F16,
        Accumulator::Bf16 => Kind::Bf16,
        Accumulator::F32 => Kind::F32,
        Accumulator::I32 => Kind::B32,
    };
    let d = registers(inst.dst[0])?;
    let c = if sparse_form {
        // The destination is the addend.
        Addend::Registers(d)
    } else {
        match Registers::of(inst.src[2]) {
            Some(registers) => Addend::Registers(registers),
            None => match inst.src[2] {
                operand @ (Operand::Integer(_) | Operand::Float(_)) => {
                    // Resolving checks nothing more than that the constant is one.
                    Source::of(operand, kind)?;
                    Addend::Constant(constant(operand, kind))
                }
                other => {
                    return Err(Unimplemented::new(format!(
                        "{name}: {other:?} as the addend"
                    )))
                }
            },
        }
    };
    let mfma = form == Form::Mfma;
    // MFMA's f64 forms use BLGP as negation of A, B and C (CDNA3 manual); the others permute B by it.
    let negates_by_blgp = mfma && accumulator == Accumulator::F64;
    let neg_bits = if negates_by_blgp {
        mods.blgp | mods.neg
    } else {
        mods.neg
    };
    let signs = |index: u8| {
        if matrix.a.is_integer() {
            [false; 2]
        } else if mfma {
            [neg_bits >> index & 1 == 1; 2]
        } else {
            [neg_bits >> index & 1 == 1, mods.neg_hi >> index & 1 == 1]
        }
    };
    let b_lanes = (mfma && !negates_by_blgp && mods.blgp != 0 && !sparse_form)
        .then(|| layout::group_pattern(mods.blgp));
    let wmma_addend_signs = !mfma && !matrix.a.is_integer() && !sparse_form;
    Ok(Instruction {
        a: Input {
            registers: registers(inst.src[0])?,
            element: matrix.a,
            layout: layout::input(form, lanes as usize, shape, shape.m, matrix.a_per_lane),
            neg: signs(0),
            lanes: None,
        },
        b: Input {
            registers: registers(inst.src[1])?,
            element: matrix.b,
            layout: layout::input(form, lanes as usize, shape, shape.n, matrix.b_per_lane),
            neg: signs(1),
            lanes: b_lanes,
        },
        c,
        d,
        result: layout::result(form, lanes as usize, shape, accumulator),
        accumulator,
        high_half: form == Form::Wmma11
            && matches!(accumulator, Accumulator::F16 | Accumulator::Bf16)
            && mods.op_sel & 4 != 0,
        packed_result: form == Form::Wmma12
            && matches!(accumulator, Accumulator::F16 | Accumulator::Bf16),
        clamp: mods.clamp,
        c_abs: wmma_addend_signs && mods.neg_hi & 4 != 0,
        c_neg: if mfma {
            neg_bits & 4 != 0
        } else {
            wmma_addend_signs && mods.neg & 4 != 0
        },
        broadcast: if mfma && !sparse_form {
            (mods.cbsz as u32, mods.abid as usize)
        } else {
            (0, 0)
        },
        sparse: match matrix.index_bits {
            Some(bits) => Some(sparse::Index::new(inst, form, bits, matrix.a_per_lane)?),
            None => None,
        },
        shape,
    })
}

impl Instruction {
    fn run<T: Number>(&self, wave: &mut Wave, space: &mut Workspace<T>) {
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

impl Input {
    /// Elements into the dense matrix.
    fn gather<T: Number>(&self, wave: &Wave, out: &mut [T]) {
        let width = self.layout.width;
        let mut values = [T::ZERO; LANES];
        for (element, bases) in self.layout.bases.chunks(self.layout.groups).enumerate() {
            self.element(wave, element, &mut values);
            for (group, base) in bases.iter().enumerate() {
                if let Some(base) = *base {
                    out[base..base + width]
                        .copy_from_slice(&values[group * width..(group + 1) * width]);
                }
            }
        }
    }

    /// One element of every lane.
    fn element<T: Number>(&self, wave: &Wave, element: usize, values: &mut [T; LANES]) {
        let bits = self.element.bits();
        let (register, shift) = (element * bits / 32, element * bits % 32);
        let low = self.registers.row(wave, register);
        if bits == 64 {
            let high = self.registers.row(wave, register + 1);
            for (value, (low, high)) in values.iter_mut().zip(low.0.iter().zip(&high.0)) {
                *value = T::from_bits(*low as u64 | (*high as u64) << 32);
            }
        } else {
            T::unpack(self.element, low, shift as u32, values);
        }
        if self.neg[element & 1] {
            for value in values.iter_mut() {
                *value = value.neg();
            }
        }
        if let Some(from) = &self.lanes {
            let source = *values;
            for (value, &lane) in values.iter_mut().zip(from) {
                *value = source[lane as usize & (LANES - 1)];
            }
        }
    }
}
