//! From a decoded matrix instruction to one that can run.

use std::cell::RefCell;

use super::instruction::{workspace, Addend, Instruction, Workspace};
use super::names::{Accumulator, Form, Matrix};
use super::operands::{Input, Registers};
use super::{layout, names, sparse};
use crate::exec::valu::lowering::{Run, Unimplemented};
use crate::exec::valu::operand::{constant, Source};
use crate::exec::valu::value::Kind;
use crate::isa::{Inst, Operand, Target};

/// Lower a matrix instruction; `None` if it is none.
pub(crate) fn lower(target: Target, lanes: u32, inst: &Inst) -> Result<Option<Run>, Unimplemented> {
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
    let half = matches!(accumulator, Accumulator::F16 | Accumulator::Bf16);
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
        high_half: form == Form::Wmma11 && half && mods.op_sel & 4 != 0,
        packed_result: form == Form::Wmma12 && half,
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
