//! Matrix instructions against a plain matrix product, through the layouts that AMD documents.
//!
//! The element positions are written here a second time, as functions from (row, column, block) to (lane,
//! element), the way AMD's matrix instruction calculator prints them. Inputs are small multiples of a power
//! of two, so that every sum is exact and its order does not matter.

mod valu_support;

use rocm_emulator::exec::Wave;
use rocm_emulator::isa::Target;
use valu_support::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Type {
    F64,
    F32,
    F16,
    Bf16,
    Fp8,
    Bf8,
    I8,
    U8,
    I4,
    U4,
    I32,
}

impl Type {
    fn bits(self) -> usize {
        match self {
            Type::F64 => 64,
            Type::F32 | Type::I32 => 32,
            Type::F16 | Type::Bf16 => 16,
            Type::Fp8 | Type::Bf8 | Type::I8 | Type::U8 => 8,
            Type::I4 | Type::U4 => 4,
        }
    }

    /// A random value and its bits.
    fn draw(self, random: &mut Random, target: Target) -> (f64, u64) {
        let value = small(random);
        match self {
            Type::F64 => (value as f64, (value as f64).to_bits()),
            Type::F32 => (value as f64, value.to_bits() as u64),
            Type::F16 => (value as f64, half::f16::from_f32(value).to_bits() as u64),
            Type::Bf16 => (value as f64, half::bf16::from_f32(value).to_bits() as u64),
            Type::Fp8 | Type::Bf8 => {
                // Sign, and one of 0.5, 0.75, 1, 1.5, 2, 3: exponents around the bias.
                let fraction_bits = if self == Type::Fp8 { 3 } else { 2 };
                let fnuz = target == Target::Gfx942;
                let bias = if self == Type::Fp8 { 7 } else { 15 } + fnuz as u64;
                let draw = random.bits();
                let (negative, exponent, half) = (draw & 1, draw >> 1 & 0xff, draw >> 9 & 1);
                let exponent = exponent % 3;
                let code = negative << 7
                    | (bias + exponent - 1) << fraction_bits
                    | half << (fraction_bits - 1);
                let magnitude = [0.5, 1.0, 2.0][exponent as usize] * [1.0, 1.5][half as usize];
                (if negative == 1 { -magnitude } else { magnitude }, code)
            }
            Type::I8 => {
                let byte = random.bits() as u8;
                (byte as i8 as f64, byte as u64)
            }
            Type::U8 => {
                let byte = random.bits() as u8;
                (byte as f64, byte as u64)
            }
            Type::I4 => {
                let nibble = random.bits() as u8 & 15;
                (
                    (nibble as i8 - if nibble > 7 { 16 } else { 0 }) as f64,
                    nibble as u64,
                )
            }
            Type::U4 => {
                let nibble = random.bits() as u8 & 15;
                (nibble as f64, nibble as u64)
            }
            Type::I32 => {
                let small = random.bits() as i16 as i32;
                (small as f64, small as u32 as u64)
            }
        }
    }

    fn read(self, bits: u64) -> f64 {
        match self {
            Type::F64 => f64::from_bits(bits),
            Type::F32 => f32::from_bits(bits as u32) as f64,
            Type::F16 => half::f16::from_bits(bits as u16).to_f64(),
            Type::Bf16 => half::bf16::from_bits(bits as u16).to_f64(),
            Type::I32 => bits as u32 as i32 as f64,
            other => panic!("{other:?} is no result type"),
        }
    }
}

#[derive(Clone, Copy)]
struct Shape {
    m: usize,
    k: usize,
    blocks: usize,
}

/// (lane, element) of A's row `i` or B's column `i`.
fn input_place(
    target: Target,
    shape: Shape,
    kind: Type,
    i: usize,
    k: usize,
    block: usize,
) -> (usize, usize) {
    let Shape { m, blocks, .. } = shape;
    match target {
        Target::Gfx1100 => (i, k),
        Target::Gfx1201 => {
            let per_lane = shape.k / 2;
            (i + 16 * (k / per_lane), k % per_lane)
        }
        _ if kind == Type::F64 && m == 4 => (i + 4 * block + 16 * k, 0),
        _ if blocks > 1 => (i + m * block, k),
        _ => {
            let per_lane = m * shape.k / 64;
            (i + m * (k / per_lane), k % per_lane)
        }
    }
}

/// (lane, element) of the result.
fn result_place(
    target: Target,
    shape: Shape,
    kind: Type,
    i: usize,
    j: usize,
    block: usize,
) -> (usize, usize) {
    match target {
        Target::Gfx1100 => (j + 16 * (i % 2), i / 2),
        Target::Gfx1201 => (j + 16 * (i / 8), i % 8),
        _ => match (shape.m, kind) {
            (16, Type::F64) => (j + 16 * (i % 4), i / 4),
            (4, Type::F64) => (j + 4 * block + 16 * i, 0),
            (32, _) => (j + 32 * (i / 4 % 2), 16 * block + 4 * (i / 8) + i % 4),
            (16, _) => (j + 16 * (i / 4), 4 * block + i % 4),
            _ => (j + 4 * block, i),
        },
    }
}

fn write_element(
    wave: &mut Wave,
    register: usize,
    lane: usize,
    element: usize,
    bits: usize,
    value: u64,
) {
    if bits == 64 {
        wave.vgpr[register + 2 * element].0[lane] = value as u32;
        wave.vgpr[register + 2 * element + 1].0[lane] = (value >> 32) as u32;
        return;
    }
    let (place, shift) = (element * bits / 32, element * bits % 32);
    let mask = (u32::MAX >> (32 - bits)) << shift;
    let dword = &mut wave.vgpr[register + place].0[lane];
    *dword = *dword & !mask | (value as u32) << shift;
}

fn read_element(wave: &Wave, register: usize, lane: usize, element: usize, bits: usize) -> u64 {
    let dword = |index: usize| wave.vgpr[register + index].0[lane] as u64;
    if bits == 64 {
        return dword(2 * element) | dword(2 * element + 1) << 32;
    }
    dword(element * bits / 32) >> (element * bits % 32) & (u32::MAX >> (32 - bits)) as u64
}

/// Registers: A from v0, B from v32, C and D from v64.
fn check(target: Target, line: &str, shape: Shape, a: Type, b: Type, c: Type) {
    let mut random = Random::new(line.len() as u64 * 31 + shape.k as u64);
    let Shape { m, k, blocks } = shape;
    let mut wave = wave(target);
    let mut dense_a = vec![0.0; blocks * m * k];
    let mut dense_b = dense_a.clone();
    let mut dense_c = vec![0.0; blocks * m * m];
    // GFX11 keeps one 16-bit result in each register.
    let c_bits = if target == Target::Gfx1100 {
        32
    } else {
        c.bits()
    };
    for block in 0..blocks {
        for i in 0..m {
            for inner in 0..k {
                for (dense, kind, register) in [(&mut dense_a, a, 0), (&mut dense_b, b, 32)] {
                    let (value, bits) = kind.draw(&mut random, target);
                    dense[(block * m + i) * k + inner] = value;
                    let (lane, element) = input_place(target, shape, kind, i, inner, block);
                    write_element(&mut wave, register, lane, element, kind.bits(), bits);
                    if target == Target::Gfx1100 {
                        // The upper half-wave repeats the lower.
                        write_element(&mut wave, register, lane + 16, element, kind.bits(), bits);
                    }
                }
            }
            for j in 0..m {
                let (value, bits) = c.draw(&mut random, target);
                dense_c[(block * m + i) * m + j] = value;
                let (lane, element) = result_place(target, shape, c, i, j, block);
                write_element(&mut wave, 64, lane, element, c_bits, bits);
            }
        }
    }
    // EXEC does not matter to matrix instructions.
    wave.set_exec(0x5);
    run(&mut wave, &[line]);
    for block in 0..blocks {
        for i in 0..m {
            for j in 0..m {
                let exact: f64 = (0..k)
                    .map(|inner| {
                        dense_a[(block * m + i) * k + inner] * dense_b[(block * m + j) * k + inner]
                    })
                    .sum::<f64>()
                    + dense_c[(block * m + i) * m + j];
                let want = match c {
                    Type::F16 => half::f16::from_f64(exact).to_f64(),
                    Type::Bf16 => half::bf16::from_f64(exact).to_f64(),
                    _ => exact,
                };
                let (lane, element) = result_place(target, shape, c, i, j, block);
                let bits = read_element(&wave, 64, lane, element, c_bits);
                assert_eq!(
                    c.read(bits),
                    want,
                    "{target}: {line}: row {i}, column {j}, block {block}"
                );
            }
        }
    }
}

fn shape(m: usize, k: usize, blocks: usize) -> Shape {
    Shape { m, k, blocks }
}

#[test]
fn mfma_of_gfx942() {
    use Type::*;
    let cases: &[(&str, Shape, Type, Type, Type)] = &[
        (
            "v_mfma_f32_32x32x1_2b_f32 v[64:95], v0, v32, v[64:95]",
            shape(32, 1, 2),
            F32,
            F32,
            F32,
        ),
        (
            "v_mfma_f32_16x16x1_4b_f32 v[64:79], v0, v32, v[64:79]",
            shape(16, 1, 4),
            F32,
            F32,
            F32,
        ),
        (
            "v_mfma_f32_4x4x1_16b_f32 v[64:67], v0, v32, v[64:67]",
            shape(4, 1, 16),
            F32,
            F32,
            F32,
        ),
        (
            "v_mfma_f32_32x32x2_f32 v[64:79], v0, v32, v[64:79]",
            shape(32, 2, 1),
            F32,
            F32,
            F32,
        ),
        (
            "v_mfma_f32_16x16x4_f32 v[64:67], v0, v32, v[64:67]",
            shape(16, 4, 1),
            F32,
            F32,
            F32,
        ),
        (
            "v_mfma_f32_32x32x4_xf32 v[64:79], v[0:1], v[32:33], v[64:79]",
            shape(32, 4, 1),
            F32,
            F32,
            F32,
        ),
        (
            "v_mfma_f32_16x16x8_xf32 v[64:67], v[0:1], v[32:33], v[64:67]",
            shape(16, 8, 1),
            F32,
            F32,
            F32,
        ),
        (
            "v_mfma_f32_32x32x4_2b_f16 v[64:95], v[0:1], v[32:33], v[64:95]",
            shape(32, 4, 2),
            F16,
            F16,
            F32,
        ),
        (
            "v_mfma_f32_16x16x4_4b_f16 v[64:79], v[0:1], v[32:33], v[64:79]",
            shape(16, 4, 4),
            F16,
            F16,
            F32,
        ),
        (
            "v_mfma_f32_4x4x4_16b_f16 v[64:67], v[0:1], v[32:33], v[64:67]",
            shape(4, 4, 16),
            F16,
            F16,
            F32,
        ),
        (
            "v_mfma_f32_32x32x8_f16 v[64:79], v[0:1], v[32:33], v[64:79]",
            shape(32, 8, 1),
            F16,
            F16,
            F32,
        ),
        (
            "v_mfma_f32_16x16x16_f16 v[64:67], v[0:1], v[32:33], v[64:67]",
            shape(16, 16, 1),
            F16,
            F16,
            F32,
        ),
        (
            "v_mfma_f32_32x32x4_2b_bf16 v[64:95], v[0:1], v[32:33], v[64:95]",
            shape(32, 4, 2),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_f32_32x32x8_bf16 v[64:79], v[0:1], v[32:33], v[64:79]",
            shape(32, 8, 1),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_f32_16x16x16_bf16 v[64:67], v[0:1], v[32:33], v[64:67]",
            shape(16, 16, 1),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_i32_32x32x4_2b_i8 v[64:95], v0, v32, v[64:95]",
            shape(32, 4, 2),
            I8,
            I8,
            I32,
        ),
        (
            "v_mfma_i32_4x4x4_16b_i8 v[64:67], v0, v32, v[64:67]",
            shape(4, 4, 16),
            I8,
            I8,
            I32,
        ),
        (
            "v_mfma_i32_32x32x16_i8 v[64:79], v[0:1], v[32:33], v[64:79]",
            shape(32, 16, 1),
            I8,
            I8,
            I32,
        ),
        (
            "v_mfma_i32_16x16x32_i8 v[64:67], v[0:1], v[32:33], v[64:67]",
            shape(16, 32, 1),
            I8,
            I8,
            I32,
        ),
        (
            "v_mfma_f64_16x16x4_f64 v[64:71], v[0:1], v[32:33], v[64:71]",
            shape(16, 4, 1),
            F64,
            F64,
            F64,
        ),
        (
            "v_mfma_f64_4x4x4_4b_f64 v[64:65], v[0:1], v[32:33], v[64:65]",
            shape(4, 4, 4),
            F64,
            F64,
            F64,
        ),
        (
            "v_mfma_f32_32x32x16_fp8_fp8 v[64:79], v[0:1], v[32:33], v[64:79]",
            shape(32, 16, 1),
            Fp8,
            Fp8,
            F32,
        ),
        (
            "v_mfma_f32_16x16x32_fp8_bf8 v[64:67], v[0:1], v[32:33], v[64:67]",
            shape(16, 32, 1),
            Fp8,
            Bf8,
            F32,
        ),
        (
            "v_mfma_f32_16x16x32_bf8_fp8 v[64:67], v[0:1], v[32:33], v[64:67]",
            shape(16, 32, 1),
            Bf8,
            Fp8,
            F32,
        ),
    ];
    for &(line, shape, a, b, c) in cases {
        check(Target::Gfx942, line, shape, a, b, c);
    }
}

#[test]
fn mfma_of_gfx90a() {
    use Type::*;
    let cases: &[(&str, Shape, Type, Type, Type)] = &[
        (
            "v_mfma_f32_32x32x2bf16 v[64:95], v0, v32, v[64:95]",
            shape(32, 2, 2),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_f32_32x32x4bf16 v[64:79], v0, v32, v[64:79]",
            shape(32, 4, 1),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_f32_16x16x8bf16 v[64:67], v0, v32, v[64:67]",
            shape(16, 8, 1),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_f32_16x16x16bf16_1k v[64:67], v[0:1], v[32:33], v[64:67]",
            shape(16, 16, 1),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_f32_32x32x8bf16_1k v[64:79], v[0:1], v[32:33], v[64:79]",
            shape(32, 8, 1),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_f32_32x32x4bf16_1k v[64:95], v[0:1], v[32:33], v[64:95]",
            shape(32, 4, 2),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_f32_16x16x16f16 v[64:67], v[0:1], v[32:33], v[64:67]",
            shape(16, 16, 1),
            F16,
            F16,
            F32,
        ),
        (
            "v_mfma_f32_32x32x1f32 v[64:95], v0, v32, v[64:95]",
            shape(32, 1, 2),
            F32,
            F32,
            F32,
        ),
        (
            "v_mfma_f32_4x4x1f32 v[64:67], v0, v32, v[64:67]",
            shape(4, 1, 16),
            F32,
            F32,
            F32,
        ),
        (
            "v_mfma_i32_32x32x8i8 v[64:79], v0, v32, v[64:79]",
            shape(32, 8, 1),
            I8,
            I8,
            I32,
        ),
        (
            "v_mfma_i32_16x16x16i8 v[64:67], v0, v32, v[64:67]",
            shape(16, 16, 1),
            I8,
            I8,
            I32,
        ),
        (
            "v_mfma_f64_16x16x4f64 v[64:71], v[0:1], v[32:33], v[64:71]",
            shape(16, 4, 1),
            F64,
            F64,
            F64,
        ),
    ];
    for &(line, shape, a, b, c) in cases {
        check(Target::Gfx90a, line, shape, a, b, c);
    }
}

#[test]
fn mfma_of_gfx950() {
    use Type::*;
    let cases: &[(&str, Shape, Type, Type, Type)] = &[
        (
            "v_mfma_f32_32x32x16_f16 v[64:79], v[0:3], v[32:35], v[64:79]",
            shape(32, 16, 1),
            F16,
            F16,
            F32,
        ),
        (
            "v_mfma_f32_32x32x16_bf16 v[64:79], v[0:3], v[32:35], v[64:79]",
            shape(32, 16, 1),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_i32_32x32x32_i8 v[64:79], v[0:3], v[32:35], v[64:79]",
            shape(32, 32, 1),
            I8,
            I8,
            I32,
        ),
        (
            "v_mfma_f32_16x16x32_f16 v[64:67], v[0:3], v[32:35], v[64:67]",
            shape(16, 32, 1),
            F16,
            F16,
            F32,
        ),
        (
            "v_mfma_f32_16x16x32_bf16 v[64:67], v[0:3], v[32:35], v[64:67]",
            shape(16, 32, 1),
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_mfma_i32_16x16x64_i8 v[64:67], v[0:3], v[32:35], v[64:67]",
            shape(16, 64, 1),
            I8,
            I8,
            I32,
        ),
        // Its floats of eight bits are those of GFX12.
        (
            "v_mfma_f32_32x32x16_fp8_bf8 v[64:79], v[0:1], v[32:33], v[64:79]",
            shape(32, 16, 1),
            Fp8,
            Bf8,
            F32,
        ),
    ];
    for &(line, shape, a, b, c) in cases {
        check(Target::Gfx950, line, shape, a, b, c);
    }
}

#[test]
fn wmma_of_gfx11() {
    use Type::*;
    let cases: &[(&str, Type, Type, Type)] = &[
        (
            "v_wmma_f32_16x16x16_f16 v[64:71], v[0:7], v[32:39], v[64:71]",
            F16,
            F16,
            F32,
        ),
        (
            "v_wmma_f32_16x16x16_bf16 v[64:71], v[0:7], v[32:39], v[64:71]",
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_wmma_f16_16x16x16_f16 v[64:71], v[0:7], v[32:39], v[64:71]",
            F16,
            F16,
            F16,
        ),
        (
            "v_wmma_bf16_16x16x16_bf16 v[64:71], v[0:7], v[32:39], v[64:71]",
            Bf16,
            Bf16,
            Bf16,
        ),
        (
            "v_wmma_i32_16x16x16_iu8 v[64:71], v[0:3], v[32:35], v[64:71] neg_lo:[1,1,0]",
            I8,
            I8,
            I32,
        ),
        (
            "v_wmma_i32_16x16x16_iu8 v[64:71], v[0:3], v[32:35], v[64:71] neg_lo:[1,0,0]",
            I8,
            U8,
            I32,
        ),
        (
            "v_wmma_i32_16x16x16_iu8 v[64:71], v[0:3], v[32:35], v[64:71]",
            U8,
            U8,
            I32,
        ),
        (
            "v_wmma_i32_16x16x16_iu4 v[64:71], v[0:1], v[32:33], v[64:71] neg_lo:[0,1,0]",
            U4,
            I4,
            I32,
        ),
    ];
    for &(line, a, b, c) in cases {
        check(Target::Gfx1100, line, shape(16, 16, 1), a, b, c);
    }
}

#[test]
fn wmma_of_gfx12() {
    use Type::*;
    let cases: &[(&str, usize, Type, Type, Type)] = &[
        (
            "v_wmma_f32_16x16x16_f16 v[64:71], v[0:3], v[32:35], v[64:71]",
            16,
            F16,
            F16,
            F32,
        ),
        (
            "v_wmma_f32_16x16x16_bf16 v[64:71], v[0:3], v[32:35], v[64:71]",
            16,
            Bf16,
            Bf16,
            F32,
        ),
        (
            "v_wmma_f16_16x16x16_f16 v[64:67], v[0:3], v[32:35], v[64:67]",
            16,
            F16,
            F16,
            F16,
        ),
        (
            "v_wmma_bf16_16x16x16_bf16 v[64:67], v[0:3], v[32:35], v[64:67]",
            16,
            Bf16,
            Bf16,
            Bf16,
        ),
        (
            "v_wmma_f32_16x16x16_fp8_bf8 v[64:71], v[0:1], v[32:33], v[64:71]",
            16,
            Fp8,
            Bf8,
            F32,
        ),
        (
            "v_wmma_f32_16x16x16_fp8_fp8 v[64:71], v[0:1], v[32:33], v[64:71]",
            16,
            Fp8,
            Fp8,
            F32,
        ),
        (
            "v_wmma_i32_16x16x16_iu8 v[64:71], v[0:1], v[32:33], v[64:71] neg_lo:[1,1,0]",
            16,
            I8,
            I8,
            I32,
        ),
        (
            "v_wmma_i32_16x16x16_iu4 v[64:71], v0, v32, v[64:71] neg_lo:[1,1,0]",
            16,
            I4,
            I4,
            I32,
        ),
        (
            "v_wmma_i32_16x16x32_iu4 v[64:71], v[0:1], v[32:33], v[64:71]",
            32,
            U4,
            U4,
            I32,
        ),
    ];
    for &(line, k, a, b, c) in cases {
        check(Target::Gfx1201, line, shape(16, k, 1), a, b, c);
    }
}

#[test]
fn wmma_of_gfx11_keeps_the_other_half_of_sixteen_bit_results() {
    let mut wave = wave(Target::Gfx1100);
    for register in 0..8 {
        set(&mut wave, register, 0x3c00_3c00);
        set(&mut wave, 32 + register, 0x3c00_3c00);
        set(&mut wave, 64 + register, 0x4000_1234);
    }
    // Sixteen products of one, and two from the high halves of C.
    run(
        &mut wave,
        &["v_wmma_f16_16x16x16_f16 v[64:71], v[0:7], v[32:39], v[64:71] op_sel:[0,0,1]"],
    );
    for register in 64..72 {
        assert!(wave.vgpr[register].0[..32]
            .iter()
            .all(|&dword| dword == 0x4c80_1234));
    }
}

#[test]
fn mfma_broadcasts_and_negations() {
    let mut wave = wave(Target::Gfx942);
    // Block b of A is all b + 1, of B all 1: a 4x4x1 product is its block's number.
    for lane in 0..64 {
        wave.vgpr[0].0[lane] = ((lane / 4 + 1) as f32).to_bits();
        wave.vgpr[32].0[lane] = 1f32.to_bits();
        wave.vgpr[33].0[lane] = (lane as f32).to_bits();
    }
    run(
        &mut wave,
        &[
            // Groups of four blocks share the third of each.
            "v_mfma_f32_4x4x1_16b_f32 v[64:67], v0, v32, 0 cbsz:2 abid:2",
            // B of every quarter is the third quarter's.
            "v_mfma_f32_4x4x1_16b_f32 v[68:71], v32, v33, 1.0 blgp:6",
            "v_mfma_f32_4x4x1_16b_f32 v[72:75], v32, v33, 0 blgp:3",
        ],
    );
    for lane in 0..64 {
        let value = |register: usize| f32::from_bits(wave.vgpr[register].0[lane]);
        assert_eq!(value(64), (lane / 4 / 4 * 4 + 2 + 1) as f32, "lane {lane}");
        assert_eq!(value(68), (32 + lane % 16 + 1) as f32, "lane {lane}");
        assert_eq!(value(72), ((lane + 16) % 64) as f32, "lane {lane}");
    }
    // f64: BLGP negates. A = 1, B = 2, C = 3, all elements.
    for (register, value) in [(0, 1.0f64), (32, 2.0), (64, 3.0)] {
        for pair in 0..4 {
            set64(&mut wave, register + 2 * pair, value.to_bits());
        }
    }
    run(
        &mut wave,
        &["v_mfma_f64_16x16x4_f64 v[64:71], v[0:1], v[32:33], v[64:71] neg:[1,0,1]"],
    );
    assert_eq!(f64::from_bits(get64(&wave, 70)), -11.0);
}

#[test]
fn sparse_products_put_elements_where_the_index_says() {
    // A row of A: 8 stored halves in 16 dense ones (two lanes' worth), all 1; B's row k is k + 1. The index
    // picks elements 1 and 3 of every four.
    let mut wave = wave(Target::Gfx942);
    for lane in 0..64 {
        for register in 0..2 {
            wave.vgpr[register].0[lane] = 0x3c00_3c00;
        }
        for element in 0..8 {
            let k = 8 * (lane / 16) + element;
            let bits = half::f16::from_f32((k + 1) as f32).to_bits() as u64;
            write_element(&mut wave, 32, lane, element, 16, bits);
        }
        // Pairs (1, 3): 0b1101, twice; the second set picks (0, 2): 0b1000.
        wave.vgpr[40].0[lane] = 0x88dd;
    }
    let zero = |wave: &mut Wave| (64..68).for_each(|register| set(wave, register, 0));
    zero(&mut wave);
    run(
        &mut wave,
        &["v_smfmac_f32_16x16x32_f16 v[64:67], v[0:1], v[32:35], v40"],
    );
    // k = 1, 3, 5, ... 31: values 2, 4, ... 32.
    assert_eq!(
        f32::from_bits(get(&wave, 64)),
        (1..=16).map(|i| 2.0 * i as f32).sum()
    );
    zero(&mut wave);
    run(
        &mut wave,
        &["v_smfmac_f32_16x16x32_f16 v[64:67], v[0:1], v[32:35], v40 abid:1"],
    );
    assert_eq!(
        f32::from_bits(get(&wave, 64)),
        (0..16).map(|i| 2.0 * i as f32 + 1.0).sum()
    );
}
