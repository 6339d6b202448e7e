//! From a decoded matrix instruction to one that can run.

use std::cell::RefCell;

use super::instruction::{workspace, Addend, Instruction, Workspace};
use super::names::{Form, Matrix};
use super::operands::{Input, Registers};
use super::{layout, names, sparse};
use crate::exec::valu::lowering::{Run, Unimplemented};
use crate::exec::valu::operand::{constant, Source};
use crate::exec::valu::value::Kind;
use crate::isa::{Accumulator, Inst, Modifiers, Operand, Target};

/// Lower a matrix instruction; `None` if it is none.
pub(crate) fn lower(target: Target, lanes: u32, inst: &Inst) -> Result<Option<Run>, Unimplemented> {
    let Some(matrix) = names::read(target, lanes, inst)? else {
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
    let d = registers(inst.dst[0])?;
    let c = if sparse_form {
        // The destination is the addend.
        Addend::Registers(d)
    } else {
        addend(inst, accumulator)?
    };
    let mfma = form == Form::Mfma;
    let b_lanes = (mfma && !negates_by_blgp(&matrix) && mods.blgp != 0 && !sparse_form)
        .then(|| layout::group_pattern(mods.blgp));
    let half = matches!(accumulator, Accumulator::F16 | Accumulator::Bf16);
    let (c_neg, c_abs) = addend_signs(&matrix, mods);
    Ok(Instruction {
        a: Input {
            registers: registers(inst.src[0])?,
            element: matrix.a,
            layout: layout::input(form, lanes as usize, shape, shape.m, matrix.a_per_lane),
            neg: signs(&matrix, mods, 0),
            lanes: None,
        },
        b: Input {
            registers: registers(inst.src[1])?,
            element: matrix.b,
            layout: layout::input(form, lanes as usize, shape, shape.n, matrix.b_per_lane),
            neg: signs(&matrix, mods, 1),
            lanes: b_lanes,
        },
        c,
        d,
        result: layout::result(form, lanes as usize, shape, accumulator),
        accumulator,
        high_half: form == Form::Wmma11 && half && mods.op_sel & 4 != 0,
        packed_result: form == Form::Wmma12 && half,
        clamp: mods.clamp,
        c_abs,
        c_neg,
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

/// MFMA's f64 forms use BLGP as negation of A, B and C (CDNA3 manual); the others permute B by it.
fn negates_by_blgp(matrix: &Matrix) -> bool {
    matrix.form == Form::Mfma && matrix.accumulator == Accumulator::F64
}

/// A bit for each of A, B and C that is negated; of packed elements, for the low ones.
fn neg_bits(matrix: &Matrix, mods: &Modifiers) -> u8 {
    if negates_by_blgp(matrix) {
        mods.blgp | mods.neg
    } else {
        mods.neg
    }
}

/// Whether the even and the odd elements of A (0) or B (1) are negated.
fn signs(matrix: &Matrix, mods: &Modifiers, index: u8) -> [bool; 2] {
    let low = neg_bits(matrix, mods) >> index & 1 == 1;
    if matrix.a.is_integer() {
        [false; 2]
    } else if matrix.form == Form::Mfma {
        [low; 2]
    } else {
        [low, mods.neg_hi >> index & 1 == 1]
    }
}

/// Whether C is negated, and whether its absolute value is taken, which WMMA has in the place of `neg_hi`.
fn addend_signs(matrix: &Matrix, mods: &Modifiers) -> (bool, bool) {
    let neg = neg_bits(matrix, mods) & 4 != 0;
    if matrix.form == Form::Mfma {
        return (neg, false);
    }
    let signed = !matrix.a.is_integer() && matrix.index_bits.is_none();
    (signed && neg, signed && mods.neg_hi & 4 != 0)
}

/// The third source: registers, or a constant in every element.
fn addend(inst: &Inst, accumulator: Accumulator) -> Result<Addend, Unimplemented> {
    if let Some(registers) = Registers::of(inst.src[2]) {
        return Ok(Addend::Registers(registers));
    }
    let kind = match accumulator {
        Accumulator::F64 => Kind::F64,
        Accumulator::F16 => Kind::F16,
        Accumulator::Bf16 => Kind::Bf16,
        Accumulator::F32 => Kind::F32,
        Accumulator::I32 => Kind::B32,
    };
    match inst.src[2] {
        operand @ (Operand::Integer(_) | Operand::Float(_)) => {
            // Resolving checks nothing more than that the constant is one.
            Source::of(operand, kind)?;
            Ok(Addend::Constant(constant(operand, kind)))
        }
        other => Err(Unimplemented::new(format!(
            "{}: {other:?} as the addend",
            inst.op.name
        ))),
    }
}
