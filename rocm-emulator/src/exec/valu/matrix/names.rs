//! Matrix instructions are named by what they compute: formats, shape and blocks are read from the mnemonic.
//!
//! `v_mfma_f32_32x32x8_f16`, older spellings `v_mfma_f32_32x32x8f16` and `v_mfma_f32_32x32x4bf16_1k`, with
//! blocks `v_mfma_f32_32x32x1_2b_f32`, with two input formats `v_mfma_f32_16x16x32_fp8_bf8`,
//! `v_wmma_i32_16x16x16_iu8`, and the sparse `v_smfmac_*` and `v_swmmac_*`.

use super::elements::Element;
use super::multiply::Shape;
use crate::exec::valu::fp8::Fp8;
use crate::exec::valu::lowering::Unimplemented;
use crate::isa::{Architecture, Family, Inst, Operand, Target};

/// The families of layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Mfma,
    Wmma11,
    Wmma12,
}

/// What C and D are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accumulator {
    F64,
    F32,
    F16,
    Bf16,
    I32,
}

/// What a mnemonic and its operands say.
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

/// How names begin, and whether such instructions are sparse.
const PREFIXES: [(&str, bool); 4] = [
    ("v_mfma_", false),
    ("v_smfmac_", true),
    ("v_wmma_", false),
    ("v_swmmac_", true),
];

/// Read a matrix instruction's name; `None` if it is none.
pub(super) fn parse(
    target: Target,
    lanes: u32,
    inst: &Inst,
) -> Result<Option<Matrix>, Unimplemented> {
    let name = inst.op.name;
    let unknown = || Unimplemented::new(format!("{name}: no such matrix instruction"));
    let Some((prefix, sparse)) = PREFIXES
        .into_iter()
        .find(|(prefix, _)| name.starts_with(prefix))
    else {
        return Ok(None);
    };
    let form = match target.family() {
        Family::Cdna => Form::Mfma,
        Family::Rdna4 => Form::Wmma12,
        _ => Form::Wmma11,
    };
    let (accumulator, rest) = name[prefix.len()..].split_once('_').ok_or_else(unknown)?;
    let accumulator = accumulator_named(accumulator).ok_or_else(unknown)?;
    let ([m, n, k], types) = dimensions(rest).ok_or_else(unknown)?;
    let types: Vec<&str> = types
        .split('_')
        .filter(|part| !part.is_empty() && *part != "1k" && !is_block_count(part))
        .collect();
    let (first, second) = match types[..] {
        [both] => (both, both),
        [a, b] => (a, b),
        _ => return Err(unknown()),
    };
    let element = |text: &str, place: u8| {
        let signed = inst.mods.neg >> place & 1 == 1;
        element_named(text, signed, target).ok_or_else(unknown)
    };
    let (a, b) = (element(first, 0)?, element(second, 1)?);
    let lanes = lanes as usize;
    // What the operands hold decides how many blocks there are and how k is split.
    let per_lane = |operand: Operand, element: Element| match operand {
        Operand::Vgpr { dwords, .. } | Operand::Agpr { dwords, .. } => {
            Ok(dwords as usize * 32 / element.bits())
        }
        other => Err(Unimplemented::new(format!(
            "{name}: {other:?} as a matrix operand"
        ))),
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
        && lanes % n == 0
        && dense_a * lanes == m * k * blocks * repeats
        && b_per_lane * lanes == n * k * blocks * repeats;
    if !fits {
        return Err(Unimplemented::new(format!(
            "{name}: operands of {a_per_lane} and {b_per_lane} elements a lane do not make {m}x{n}x{k}"
        )));
    }
    let index_bits = sparse.then_some(2 * a_per_lane as u32);
    Ok(Some(Matrix {
        form,
        shape,
        accumulator,
        a,
        b,
        a_per_lane,
        b_per_lane,
        index_bits,
    }))
}

fn accumulator_named(text: &str) -> Option<Accumulator> {
    Some(match text {
        "f64" => Accumulator::F64,
        "f32" => Accumulator::F32,
        "f16" => Accumulator::F16,
        "bf16" => Accumulator::Bf16,
        "i32" => Accumulator::I32,
        _ => return None,
    })
}

/// `16x16x32_f16` or `16x16x32f16`: m, n and k, and what follows.
fn dimensions(text: &str) -> Option<([usize; 3], &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != 'x')?;
    // In `4x4x4xf32` the last x belongs to the type.
    let shape = text[..end].trim_end_matches('x');
    let dims: Vec<usize> = shape
        .split('x')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    Some((dims.try_into().ok()?, &text[shape.len()..]))
}

/// `signed` is what the instruction says of integers whose name does not tell.
fn element_named(text: &str, signed: bool, target: Target) -> Option<Element> {
    let fnuz = target.architecture() == Architecture::Cdna3;
    Some(match text {
        "f64" => Element::F64,
        "f32" => Element::F32,
        "xf32" => Element::Xf32,
        "f16" => Element::F16,
        "bf16" => Element::Bf16,
        "fp8" if fnuz => Element::Fp8(Fp8::E4M3Fnuz),
        "bf8" if fnuz => Element::Fp8(Fp8::E5M2Fnuz),
        "fp8" => Element::Fp8(Fp8::E4M3),
        "bf8" => Element::Fp8(Fp8::E5M2),
        "i8" => Element::Int8 { signed: true },
        "iu8" => Element::Int8 { signed },
        "iu4" => Element::Int4 { signed },
        _ => return None,
    })
}

/// `2b`, `4b`, `16b`.
fn is_block_count(part: &str) -> bool {
    part.strip_suffix('b').is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}
