//! Matrix instructions are described by what they compute: formats, shape and blocks, from the column of the operation and
//! from what its operands hold.

use super::elements::Element;
use super::multiply::Shape;
use crate::exec::valu::fp8::Fp8;
use crate::exec::valu::lowering::Unimplemented;
use crate::isa::{
    Accumulator, Architecture, Factor, Family, Inst, MatrixColumn, Operand, Target, Traits,
};

/// The families of layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Mfma,
    Wmma11,
    Wmma12,
}

/// What a matrix instruction and its operands say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    pub form: Form,
    pub shape: Shape,
    pub accumulator: Accumulator,
    pub a: Element,
    pub b: Element,
    /// Elements of A and B in a lane.
    pub a_per_lane: usize,
    pub b_per_lane: usize,
    /// Sparse forms: bits of the index that one lane's A elements take.
    pub index_bits: Option<u32>,
}

/// What a matrix instruction is; `None` if it is none.
pub(super) fn read(
    target: Target,
    lanes: u32,
    inst: &Inst,
) -> Result<Option<Matrix>, Unimplemented> {
    let columns = &inst.op.columns;
    let Some(MatrixColumn(name)) = columns.matrix else {
        return Ok(None);
    };
    let error = |text: String| Unimplemented::new(format!("{}: {text}", inst.op.name));
    let name = name.ok_or_else(|| error("no such matrix instruction".into()))?;
    let sparse = columns.has(Traits::SPARSE);
    let form = match target.family() {
        Family::Cdna => Form::Mfma,
        Family::Rdna4 => Form::Wmma12,
        _ => Form::Wmma11,
    };
    let [m, n, k] = name.dimensions;
    let signed = |place: u8| inst.mods.neg >> place & 1 == 1;
    let (a, b) = (
        element(name.a, signed(0), target),
        element(name.b, signed(1), target),
    );
    let lanes = lanes as usize;
    // What the operands hold decides how many blocks there are and how k is split.
    let per_lane = |operand: Operand, element: Element| match operand {
        Operand::Vgpr { dwords, .. } | Operand::Agpr { dwords, .. } => {
            Ok(dwords as usize * 32 / element.bits())
        }
        other => Err(error(format!("{other:?} as a matrix operand"))),
    };
    let a_per_lane = per_lane(inst.src[0], a)?;
    let b_per_lane = per_lane(inst.src[1], b)?;
    let blocks = match form {
        Form::Mfma => b_per_lane * lanes / (n * k).max(1),
        _ => 1,
    };
    let shape = Shape { m, n, k, blocks };
    let dense_a = if sparse { 2 * a_per_lane } else { a_per_lane };
    let repeats = if form == Form::Wmma11 { lanes / 16 } else { 1 };
    let fits = [4, 16, 32].contains(&n)
        && m == n
        && blocks.is_power_of_two()
        && lanes.is_multiple_of(n)
        && dense_a * lanes == m * k * blocks * repeats
        && b_per_lane * lanes == n * k * blocks * repeats;
    if !fits {
        return Err(error(format!(
            "operands of {a_per_lane} and {b_per_lane} elements a lane do not make {m}x{n}x{k}"
        )));
    }
    let index_bits = sparse.then_some(2 * a_per_lane as u32);
    Ok(Some(Matrix {
        form,
        shape,
        accumulator: name.accumulator,
        a,
        b,
        a_per_lane,
        b_per_lane,
        index_bits,
    }))
}

/// `signed` is what the instruction says of integers whose name does not tell.
fn element(factor: Factor, signed: bool, target: Target) -> Element {
    let fnuz = target.architecture() == Architecture::Cdna3;
    match factor {
        Factor::F64 => Element::F64,
        Factor::F32 => Element::F32,
        Factor::Xf32 => Element::Xf32,
        Factor::F16 => Element::F16,
        Factor::Bf16 => Element::Bf16,
        Factor::Fp8 if fnuz => Element::Fp8(Fp8::E4M3Fnuz),
        Factor::Bf8 if fnuz => Element::Fp8(Fp8::E5M2Fnuz),
        Factor::Fp8 => Element::Fp8(Fp8::E4M3),
        Factor::Bf8 => Element::Fp8(Fp8::E5M2),
        Factor::I8 => Element::Int8 { signed: true },
        Factor::Iu8 => Element::Int8 { signed },
        Factor::Iu4 => Element::Int4 { signed },
    }
}
