//! What the name of a matrix instruction says: formats and shape.

/// The format of A's or B's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    F64,
    F32,
    Xf32,
    F16,
    Bf16,
    Fp8,
    Bf8,
    I8,
    /// The instruction says whether they are signed.
    Iu8,
    Iu4,
}

/// What C and D are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accumulator {
    F64,
    F32,
    F16,
    Bf16,
    I32,
}

const FACTORS: [(&str, Factor); 10] = [
    ("f64", Factor::F64),
    ("f32", Factor::F32),
    ("xf32", Factor::Xf32),
    ("f16", Factor::F16),
    ("bf16", Factor::Bf16),
    ("fp8", Factor::Fp8),
    ("bf8", Factor::Bf8),
    ("i8", Factor::I8),
    ("iu8", Factor::Iu8),
    ("iu4", Factor::Iu4),
];

const ACCUMULATORS: [(&str, Accumulator); 5] = [
    ("f64", Accumulator::F64),
    ("f32", Accumulator::F32),
    ("f16", Accumulator::F16),
    ("bf16", Accumulator::Bf16),
    ("i32", Accumulator::I32),
];

/// A product's formats and dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixName {
    pub accumulator: Accumulator,
    /// m, n and k.
    pub dimensions: [usize; 3],
    pub a: Factor,
    pub b: Factor,
}

/// A matrix instruction's column; it has no name where no emulated GPU's semantics are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixColumn(pub Option<MatrixName>);

impl MatrixColumn {
    /// Of what stands behind `v_mfma_`.
    pub fn of(text: &str) -> MatrixColumn {
        MatrixColumn(parse(text))
    }
}

fn named<T: Copy>(list: &[(&str, T)], name: &str) -> Option<T> {
    list.iter().find(|row| row.0 == name).map(|row| row.1)
}

fn parse(text: &str) -> Option<MatrixName> {
    let (accumulator, rest) = text.split_once('_')?;
    let accumulator = named(&ACCUMULATORS, accumulator)?;
    let (dimensions, types) = dimensions(rest)?;
    let types: Vec<&str> = types
        .split('_')
        .filter(|part| !part.is_empty() && *part != "1k" && !is_block_count(part))
        .collect();
    let (a, b) = match types[..] {
        [both] => (both, both),
        [a, b] => (a, b),
        _ => return None,
    };
    Some(MatrixName {
        accumulator,
        dimensions,
        a: named(&FACTORS, a)?,
        b: named(&FACTORS, b)?,
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

/// `2b`, `4b`, `16b`.
fn is_block_count(part: &str) -> bool {
    part.strip_suffix('b').is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_spellings() {
        let read = |text| parse(text).map(|it| (it.accumulator, it.dimensions, it.a, it.b));
        let single = (Accumulator::F32, [32, 32, 1], Factor::F32, Factor::F32);
        assert_eq!(read("f32_32x32x1_2b_f32"), Some(single));
        assert_eq!(read("f32_32x32x1f32"), Some(single));
        let bf16 = (Accumulator::F32, [32, 32, 4], Factor::Bf16, Factor::Bf16);
        assert_eq!(read("f32_32x32x4bf16_1k"), Some(bf16));
        let small = (Accumulator::F32, [32, 32, 4], Factor::Xf32, Factor::Xf32);
        assert_eq!(read("f32_32x32x4_xf32"), Some(small));
        let two = (Accumulator::F32, [16, 16, 32], Factor::Fp8, Factor::Bf8);
        assert_eq!(read("f32_16x16x32_fp8_bf8"), Some(two));
        assert_eq!(read("f32_16x16x128_f8f6f4"), None);
        assert_eq!(read("ld_scale_b32"), None);
    }
}
