//! Casts to FP8 and products of it, beside plain Rust: casts byte by byte, products by sums in f64 of what the operands
//! stand for.

mod common;

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::fp8::{self, Fp8Matrix, ScaleFormat, Share, BLOCK};
use candle_rocm_backend::grouped::RowGroups;
use candle_rocm_runtime::gemm::tune;
use candle_rocm_testing::process::{alone, is_child};
use candle_rocm_testing::random::asked;
use common::{device, normal, numbers, Random};
use float8::F8E4M3;

/// Says how many drawn products each form is tested with.
const CASES: &str = "CANDLE_ROCM_FP8_CASES";

fn cases() -> usize {
    asked(CASES).unwrap_or(12) as usize
}

/// Numbers of several sizes, that scales differ.
fn drawn(random: &mut Random, count: usize) -> Vec<f32> {
    let numbers = normal(random, count);
    let scaled = numbers.chunks(64).flat_map(|few| {
        let size = 2f32.powi(random.below(12) as i32 - 6);
        few.iter().map(move |x| x * size)
    });
    scaled.collect()
}

/// What a matrix stands for, in f64.
fn stands_for(x: &Fp8Matrix) -> Result<Vec<f64>> {
    let (data, scales) = (x.data().dims().to_vec(), numbers(&x.unpacked_scales()?)?);
    let bytes = x.data().to_device(&Device::Cpu)?.contiguous()?;
    let bytes = bytes.flatten_all()?.to_vec1::<F8E4M3>()?;
    let [rows, k] = data[data.len() - 2..] else {
        panic!("a matrix")
    };
    let [of_rows, of_k] = x.shares();
    let place = |share: Share, at: usize| match share {
        Share::One => at,
        Share::Block => at / BLOCK,
        Share::All => 0,
    };
    let factors = |row: usize, k: usize| {
        place(of_rows, row) * of_k.factors(data[data.len() - 1]) + place(of_k, k)
    };
    let each = of_rows.factors(rows) * of_k.factors(k);
    let of = |(at, x): (usize, &F8E4M3)| {
        let matrix = at / (rows * k);
        f64::from(x.to_f32()) * scales[matrix * each + factors(at / k % rows, at % k)]
    };
    Ok(bytes.iter().enumerate().map(of).collect())
}

/// The element type's rounding of what is exactly `x`, as a relative error and a smallest one.
fn rounding(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F32 => (2f64.powi(-24), 2f64.powi(-149)),
        DType::F16 => (2f64.powi(-11), 2f64.powi(-25)),
        _ => (2f64.powi(-8), 2f64.powi(-134)),
    }
}

/// Operands of a product, in f64: m x k and n x k.
struct Exact<'a> {
    a: &'a [f64],
    b: &'a [f64],
    n: usize,
    k: usize,
}

impl Exact<'_> {
    /// Holds a result's row to sums in f64: within the bound of f32's sums in any order (half a unit in the last place for
    /// each of k, of the sum of magnitudes; two more for the factors), and its own rounding.
    fn assert_row(
        &self,
        found: &[f64],
        row: usize,
        addend: Option<&[f64]>,
        dtype: DType,
        what: &str,
    ) {
        let a = &self.a[row * self.k..][..self.k];
        for column in 0..self.n {
            let b = &self.b[column * self.k..][..self.k];
            let (mut sum, mut magnitudes) = (0., 0.);
            for (a, b) in a.iter().zip(b) {
                sum += a * b;
                magnitudes += (a * b).abs();
            }
            let more = addend.map_or(0., |addend| addend[column]);
            let (relative, least) = rounding(dtype);
            let bound = (self.k + 4) as f64 * 2f64.powi(-24) * magnitudes
                + 2. * relative * (sum + more).abs()
                + 2f64.powi(-24) * more.abs()
                + least;
            let (found, expected) = (found[column], sum + more);
            assert!(
                (found - expected).abs() <= bound || (found.is_nan() && expected.is_nan()),
                "{what}, row {row}, column {column}: {found} for {expected}, {bound} allowed"
            );
        }
    }
}

/// A largest magnitude's factor and its inverse, by the rule that docs/kernels/fp8.md states.
fn factor(largest: f32, format: ScaleFormat) -> (f32, f32) {
    let largest = largest.max(1e-4);
    if format == ScaleFormat::F32 {
        return (largest / 448., 448. / largest);
    }
    let scale = f64::from(largest / 448.).log2().ceil().exp2();
    (scale as f32, (1. / scale) as f32)
}

const FORMATS: [ScaleFormat; 3] = [
    ScaleFormat::F32,
    ScaleFormat::PowersOfTwo,
    ScaleFormat::PackedPowersOfTwo,
];

/// Holds a cast of (rows, k) to the rule, element by element.
fn assert_cast(
    x: &[f32],
    (rows, k): (usize, usize),
    cast: &Fp8Matrix,
    format: ScaleFormat,
    what: &str,
) -> Result<()> {
    let [of_rows, of_k] = cast.shares();
    let shared = |share: Share, of: usize, at: usize| match share {
        Share::One => of == at,
        Share::Block => of / BLOCK == at / BLOCK,
        Share::All => true,
    };
    let bytes = cast
        .data()
        .to_device(&Device::Cpu)?
        .flatten_all()?
        .to_vec1::<F8E4M3>()?;
    let scales = cast
        .unpacked_scales()?
        .to_device(&Device::Cpu)?
        .contiguous()?
        .to_vec2::<f32>()?;
    let place = |share: Share, at: usize| match share {
        Share::One => at,
        Share::Block => at / BLOCK,
        Share::All => 0,
    };
    let (mut of_group, factors) = (
        std::collections::BTreeMap::new(),
        (of_rows.factors(rows), of_k.factors(k)),
    );
    assert_eq!(
        (scales.len(), scales.first().map_or(factors.1, Vec::len)),
        factors,
        "{what}"
    );
    for row in 0..rows {
        for column in 0..k {
            assert!(shared(of_rows, row, row) && shared(of_k, column, column));
            let x = x[row * k + column];
            let (largest, finite) = of_group
                .entry((place(of_rows, row), place(of_k, column)))
                .or_insert((0f32, true));
            *largest = largest.max(x.abs());
            *finite &= x.is_finite();
        }
    }
    for row in 0..rows {
        for column in 0..k {
            let group = (place(of_rows, row), place(of_k, column));
            let (largest, finite) = of_group[&group];
            let (found, byte) = (scales[group.0][group.1], bytes[row * k + column]);
            if !finite {
                assert!(
                    found.is_nan() && byte.to_bits() == 0,
                    "{what}, ({row}, {column}): {found}, {byte:?}"
                );
                continue;
            }
            let (scale, inverse) = factor(largest, format);
            let expected = F8E4M3::from_f32(x[row * k + column] * inverse);
            let expected = if expected.to_f32() == 0. {
                F8E4M3::from_bits(0)
            } else {
                expected
            };
            assert_eq!(found, scale, "{what}, ({row}, {column})");
            assert_eq!(
                byte.to_bits(),
                expected.to_bits(),
                "{what}, ({row}, {column}) of {}",
                x[row * k + column]
            );
        }
    }
    Ok(())
}

#[test]
fn casts_are_those_of_plain_rust() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(8);
    for (rows, k) in [
        (1, 1),
        (3, 7),
        (5, 128),
        (130, 200),
        (129, 256),
        (2, 1000),
        (7, 0),
        (1, 9000),
    ] {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let mut x = drawn(&mut random, rows * k);
            if x.len() > 700 {
                (x[3], x[300], x[500], x[650]) = (f32::NAN, -0., f32::INFINITY, 1e-30);
            }
            let x = Tensor::from_vec(x, (rows, k), &Device::Cpu)?.to_dtype(dtype)?;
            let rounded: Vec<f32> = x.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
            for place in [Device::Cpu, device.clone()] {
                let x = x.to_device(&place)?;
                for format in FORMATS {
                    let what = format!(
                        "{rows} x {k} of {dtype:?}, {format:?}, {:?}",
                        place.location()
                    );
                    let of = (rows, k);
                    assert_cast(
                        &rounded,
                        of,
                        &fp8::cast_per_token(&x, format)?,
                        format,
                        &format!("token {what}"),
                    )?;
                    assert_cast(
                        &rounded,
                        of,
                        &fp8::cast_per_block(&x, format)?,
                        format,
                        &format!("block {what}"),
                    )?;
                    if format == ScaleFormat::PackedPowersOfTwo {
                        assert!(fp8::cast_per_channel(&x, format).is_err());
                        continue;
                    }
                    assert_cast(
                        &rounded,
                        of,
                        &fp8::cast_per_channel(&x, format)?,
                        format,
                        &format!("channel {what}"),
                    )?;
                    assert_cast(
                        &rounded,
                        of,
                        &fp8::cast_per_tensor(&x, format)?,
                        format,
                        &format!("tensor {what}"),
                    )?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_batch_is_cast_matrix_by_matrix() -> Result<()> {
    let device = device()?;
    let x = Tensor::from_vec(
        drawn(&mut Random::new(9), 3 * 130 * 136),
        (3, 130, 136),
        &device,
    )?;
    let casts: [fn(&Tensor, ScaleFormat) -> Result<Fp8Matrix>; 4] = [
        fp8::cast_per_token,
        fp8::cast_per_block,
        fp8::cast_per_channel,
        fp8::cast_per_tensor,
    ];
    for cast in casts {
        let all = cast(&x, ScaleFormat::F32)?;
        let (of_all, mut one_by_one) = (stands_for(&all)?, Vec::new());
        for matrix in 0..3 {
            one_by_one.extend(stands_for(&cast(&x.get(matrix)?, ScaleFormat::F32)?)?);
        }
        assert!(of_all == one_by_one);
        assert_eq!(
            numbers(&all.dequantize(DType::F32)?)?,
            of_all
                .iter()
                .map(|&x| f64::from(x as f32))
                .collect::<Vec<_>>()
        );
    }
    Ok(())
}

#[test]
fn gated_values_are_cast_as_swiglu_and_a_cast() -> Result<()> {
    let device = device()?;
    for (rows, k) in [(5, 256), (3, 100), (2, 7)] {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let x = drawn(&mut Random::new(10), rows * 2 * k);
            let x = Tensor::from_vec(x, (rows, 2 * k), &device)?.to_dtype(dtype)?;
            let one = fp8::swiglu_cast_per_token(&x, ScaleFormat::F32)?;
            let two = fp8::cast_per_token(
                &candle_rocm_backend::ops::swiglu_packed(&x)?,
                ScaleFormat::F32,
            )?;
            let differing = stands_for(&one)?
                .iter()
                .zip(stands_for(&two)?)
                .filter(|(one, two)| **one != *two)
                .count();
            assert_eq!(differing, 0, "{rows} x {k} of {dtype:?}");
        }
    }
    Ok(())
}

/// Bytes 0 to 255, each times one: a product with 1 in one place of k gives what the byte stands for.
#[test]
fn every_byte_stands_for_what_it_is_in_a_product() -> Result<()> {
    let device = device()?;
    let bytes: Vec<F8E4M3> = (0..=255).map(F8E4M3::from_bits).collect();
    // A row has 128 of the bytes in k, and each row of the other operand has a 1 at one k.
    let data = Tensor::from_vec(bytes.clone(), (2, 128), &device)?;
    let ones: Vec<F8E4M3> = (0..128 * 128)
        .map(|at| F8E4M3::from_f32(if at / 128 == at % 128 { 1. } else { 0. }))
        .collect();
    let ones = Tensor::from_vec(ones, (128, 128), &device)?;
    let factor = |rows: usize| Tensor::ones((rows, 1), DType::F32, &device);
    let ones = Fp8Matrix::new(&ones, &factor(1)?, Share::Block, Share::Block)?;
    let a = Fp8Matrix::new(&data, &factor(2)?, Share::One, Share::Block)?;
    // The NaN of each half makes its row NaN, and is 0 where the factor is put right.
    assert!(numbers(&fp8::gemm_nt(&a, &ones, None, DType::F32)?)?
        .iter()
        .all(|x| x.is_nan()));
    assert!(a
        .unpacked_scales()?
        .flatten_all()?
        .to_vec1::<f32>()?
        .iter()
        .all(|x| x.is_nan()));
    let a = Fp8Matrix::new(a.data(), &factor(2)?, Share::One, Share::Block)?;
    for found in [numbers(&fp8::gemm_nt(&a, &ones, None, DType::F32)?)?, {
        let turned = fp8::gemm_nt(&ones, &a, None, DType::F32)?;
        numbers(&turned.t()?.contiguous()?)?
    }] {
        for (byte, found) in bytes.iter().zip(found) {
            let expected = if byte.is_nan() {
                0.
            } else {
                f64::from(byte.to_f32())
            };
            assert_eq!(found, expected, "byte {:#x}", byte.to_bits());
        }
    }
    // So it is on the CPU.
    let cpu = Device::Cpu;
    let on_host = Fp8Matrix::new(
        &data.to_device(&cpu)?,
        &factor(2)?.to_device(&cpu)?,
        Share::One,
        Share::Block,
    )?;
    assert_eq!(
        on_host
            .data()
            .flatten_all()?
            .to_vec1::<F8E4M3>()?
            .iter()
            .map(|x| x.to_bits())
            .collect::<Vec<_>>(),
        a.data()
            .to_device(&cpu)?
            .flatten_all()?
            .to_vec1::<F8E4M3>()?
            .iter()
            .map(|x| x.to_bits())
            .collect::<Vec<_>>()
    );
    assert!(on_host
        .unpacked_scales()?
        .flatten_all()?
        .to_vec1::<f32>()?
        .iter()
        .all(|x| x.is_nan()));
    Ok(())
}

/// A cast of drawn numbers by one of the recipes.
fn operand(
    random: &mut Random,
    dims: &[usize],
    blocks: bool,
    device: &Device,
) -> Result<Fp8Matrix> {
    let count = dims.iter().product();
    let x = Tensor::from_vec(drawn(random, count), dims, device)?;
    let format = random.choose(&FORMATS);
    match (blocks, random.below(4)) {
        (_, 0) if format != ScaleFormat::PackedPowersOfTwo => fp8::cast_per_tensor(&x, format),
        (_, 1) if format != ScaleFormat::PackedPowersOfTwo => fp8::cast_per_channel(&x, format),
        (true, _) => fp8::cast_per_block(&x, format),
        (false, _) => fp8::cast_per_token(&x, format),
    }
}

const RESULTS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

#[test]
fn drawn_products_are_sums_of_what_the_operands_stand_for() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(11);
    for case in 0..cases() {
        let of = |random: &mut Random, most: usize| {
            let limit = random.choose(&[8, most]);
            1 + random.below(limit)
        };
        let (m, n, k) = (
            of(&mut random, 200),
            of(&mut random, 200),
            of(&mut random, 600),
        );
        // In 16ths, which vectors of rows and k can do with.
        let (m, n, k) = match random.below(3) {
            0 => (
                m.next_multiple_of(16),
                n.next_multiple_of(16),
                k.next_multiple_of(128),
            ),
            _ => (m, n, k),
        };
        let batch = 1 + random.below(2);
        let (blocks, a_first, b_first) = (
            random.below(2) == 0,
            random.below(3) == 0,
            random.below(3) == 0,
        );
        // Whose k comes first: a transposed view of its transpose.
        let made =
            |random: &mut Random, rows: usize, k_first: bool, blocks: bool| -> Result<Fp8Matrix> {
                if !k_first {
                    return operand(random, &[batch, rows, k], blocks, &device);
                }
                let x =
                    Tensor::from_vec(drawn(random, batch * rows * k), (batch, k, rows), &device)?;
                fp8::cast_per_block(&x, ScaleFormat::F32)
            };
        let (a, b) = (
            made(&mut random, m, a_first, false)?,
            made(&mut random, n, b_first, blocks)?,
        );
        let dtype = random.choose(&RESULTS);
        let addend = match random.below(2) {
            0 => None,
            _ => Some(
                Tensor::from_vec(drawn(&mut random, batch * m * n), (batch, m, n), &device)?
                    .to_dtype(dtype)?,
            ),
        };
        let gemm = match (a_first, b_first) {
            (false, false) => fp8::gemm_nt,
            (false, true) => fp8::gemm_nn,
            (true, false) => fp8::gemm_tt,
            (true, true) => fp8::gemm_tn,
        };
        let found = gemm(&a, &b, addend.as_ref(), dtype)?;
        assert_eq!((found.dims(), found.dtype()), (&[batch, m, n][..], dtype));
        let (a, b) = (
            if a_first { a.t()? } else { a },
            if b_first { b.t()? } else { b },
        );
        let (of_a, of_b, found) = (stands_for(&a)?, stands_for(&b)?, numbers(&found)?);
        let addend = addend.as_ref().map(numbers).transpose()?;
        let what = format!("case {case}: {batch} of {m} x {n} x {k}, {:?} and {:?}, k first {a_first} {b_first}, {dtype:?}", a.shares(), b.shares());
        for matrix in 0..batch {
            let exact = Exact {
                a: &of_a[matrix * m * k..][..m * k],
                b: &of_b[matrix * n * k..][..n * k],
                n,
                k,
            };
            for row in 0..m {
                let at = (matrix * m + row) * n;
                exact.assert_row(
                    &found[at..at + n],
                    row,
                    addend.as_ref().map(|of| &of[at..at + n]),
                    dtype,
                    &what,
                );
            }
        }
    }
    Ok(())
}

/// Few rows and a long k, which is summed in parts.
#[test]
fn k_in_parts_is_added_up() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(12);
    for (m, n, k) in [(1, 130, 4096), (5, 64, 3000)] {
        let a = fp8::cast_per_token(
            &Tensor::from_vec(drawn(&mut random, m * k), (m, k), &device)?,
            ScaleFormat::F32,
        )?;
        let b = fp8::cast_per_block(
            &Tensor::from_vec(drawn(&mut random, n * k), (n, k), &device)?,
            ScaleFormat::F32,
        )?;
        let found = numbers(&fp8::gemm_nt(&a, &b, None, DType::F32)?)?;
        let (of_a, of_b) = (stands_for(&a)?, stands_for(&b)?);
        let exact = Exact {
            a: &of_a,
            b: &of_b,
            n,
            k,
        };
        for row in 0..m {
            exact.assert_row(&found[row * n..][..n], row, None, DType::F32, "parts");
        }
    }
    Ok(())
}

/// What quantising costs: 1 - 2 sum(xy) / sum(x^2 + y^2) beside the product of the numbers as they were.
#[test]
fn quantised_products_differ_little_from_exact_ones() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(13);
    let (m, n, k) = (40, 48, 512);
    let (x, y) = (normal(&mut random, m * k), normal(&mut random, n * k));
    let (a, b) = (
        Tensor::from_vec(x.clone(), (m, k), &device)?,
        Tensor::from_vec(y.clone(), (n, k), &device)?,
    );
    for format in FORMATS {
        let (a, b) = (
            fp8::cast_per_token(&a, format)?,
            fp8::cast_per_block(&b, format)?,
        );
        let found = numbers(&fp8::gemm_nt(&a, &b, None, DType::BF16)?)?;
        let (mut both, mut squares) = (0., 0.);
        for row in 0..m {
            for column in 0..n {
                let exact = common::dot(&x[row * k..][..k], &y[column * k..][..k]);
                let found = found[row * n + column];
                both += exact * found;
                squares += exact * exact + found * found;
            }
        }
        let difference = 1. - 2. * both / squares;
        assert!(difference < 1e-3, "{format:?}: {difference}");
    }
    Ok(())
}

/// Groups' sizes, some of them empty.
fn sizes(random: &mut Random, groups: usize, most: usize) -> Vec<usize> {
    (0..groups)
        .map(|_| {
            if random.below(3) == 0 {
                0
            } else {
                random.below(most)
            }
        })
        .collect()
}

#[test]
fn rows_are_multiplied_with_their_groups_matrix() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(14);
    for case in 0..cases().div_ceil(3) {
        let sizes = sizes(&mut random, 4, 200);
        let groups = RowGroups::from_sizes(&sizes, &device)?;
        let (rows, n, k) = (groups.rows(), 1 + random.below(150), 1 + random.below(300));
        let a = operand(&mut random, &[rows, k], false, &device)?;
        let b = operand(&mut random, &[sizes.len(), n, k], true, &device)?;
        let dtype = random.choose(&RESULTS);
        let found = fp8::m_grouped_gemm_nt_contiguous(&a, &b, &groups, dtype)?;
        assert_eq!(found.dims(), [rows, n]);
        let (of_a, of_b, found) = (stands_for(&a)?, stands_for(&b)?, numbers(&found)?);
        let mut first = 0;
        for (group, size) in sizes.iter().enumerate() {
            let exact = Exact {
                a: &of_a,
                b: &of_b[group * n * k..][..n * k],
                n,
                k,
            };
            for row in first..first + size {
                let what = format!("case {case}, {sizes:?}, group {group}");
                exact.assert_row(&found[row * n..][..n], row, None, dtype, &what);
            }
            first += size.next_multiple_of(RowGroups::ALIGNMENT);
        }
        assert_eq!(first, rows);
    }
    // Rows after the last group are nobody's, and 0.
    let indices: Vec<i32> = (0..512)
        .map(|row| match row {
            0..200 => 0,
            256..300 => 2,
            _ => -1,
        })
        .collect();
    let groups = RowGroups::of_rows(&Tensor::new(indices, &device)?, 3)?;
    let a = operand(&mut random, &[512, 64], false, &device)?;
    let b = operand(&mut random, &[3, 8, 64], true, &device)?;
    let found = fp8::m_grouped_gemm_nt_contiguous(&a, &b, &groups, DType::F32)?;
    let (of_a, of_b, found) = (stands_for(&a)?, stands_for(&b)?, numbers(&found)?);
    for row in (0..200).chain(256..300).chain(384..512) {
        let group = [Some(0), Some(0), Some(2), None][row / 128];
        let zeros = vec![0.; 8 * 64];
        let b = group.map_or(&zeros[..], |group| &of_b[group * 8 * 64..][..8 * 64]);
        let exact = Exact {
            a: &of_a,
            b,
            n: 8,
            k: 64,
        };
        exact.assert_row(
            &found[row * 8..][..8],
            row,
            None,
            DType::F32,
            "groups of rows",
        );
    }
    Ok(())
}

#[test]
fn rows_in_use_are_known_to_the_device_alone() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(15);
    for case in 0..cases().div_ceil(3) {
        let (groups, rows, n, k) = (
            3,
            1 + random.below(150),
            1 + random.below(150),
            1 + random.below(300),
        );
        let used: Vec<u32> = (0..groups).map(|_| random.below(rows + 1) as u32).collect();
        let a = operand(&mut random, &[groups, rows, k], false, &device)?;
        let b = operand(&mut random, &[groups, n, k], true, &device)?;
        let dtype = random.choose(&RESULTS);
        let in_use = Tensor::new(used.clone(), &device)?;
        let expected = random.choose(&[1, 20, rows]);
        let found = fp8::m_grouped_gemm_nt_masked(&a, &b, &in_use, expected, dtype)?;
        let (of_a, of_b) = (stands_for(&a)?, stands_for(&b)?);
        for (group, &used) in used.iter().enumerate() {
            let exact = Exact {
                a: &of_a[group * rows * k..][..rows * k],
                b: &of_b[group * n * k..][..n * k],
                n,
                k,
            };
            let found = numbers(&found.get(group)?.narrow(0, 0, used as usize)?)?;
            for row in 0..used as usize {
                exact.assert_row(
                    &found[row * n..][..n],
                    row,
                    None,
                    dtype,
                    &format!("case {case}, group {group}"),
                );
            }
        }
    }
    Ok(())
}

#[test]
fn groups_along_k_have_products_of_their_own() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(16);
    for case in 0..cases().div_ceil(3) {
        let sizes: Vec<usize> = sizes(&mut random, 3, 400)
            .into_iter()
            .map(|size| size / 128 * 128)
            .collect();
        let (m, n, k) = (
            1 + random.below(150),
            1 + random.below(150),
            sizes.iter().sum::<usize>(),
        );
        let of = |random: &mut Random, rows: usize| -> Result<Fp8Matrix> {
            fp8::cast_per_token(
                &Tensor::from_vec(drawn(random, rows * k), (rows, k), &device)?,
                ScaleFormat::F32,
            )
        };
        let (a, b) = (of(&mut random, m)?, of(&mut random, n)?);
        let addend = Tensor::from_vec(drawn(&mut random, 3 * m * n), (3, m, n), &device)?;
        let found = numbers(&fp8::k_grouped_gemm(
            &a,
            &b,
            &sizes,
            Some(&addend),
            DType::F32,
        )?)?;
        let (of_a, of_b, addend) = (stands_for(&a)?, stands_for(&b)?, numbers(&addend)?);
        let mut first = 0;
        for (group, &size) in sizes.iter().enumerate() {
            let part = |of: &[f64], rows: usize| -> Vec<f64> {
                (0..rows)
                    .flat_map(|row| of[row * k + first..][..size].to_vec())
                    .collect()
            };
            let (a, b) = (part(&of_a, m), part(&of_b, n));
            let exact = Exact {
                a: &a,
                b: &b,
                n,
                k: size,
            };
            for row in 0..m {
                let at = (group * m + row) * n;
                exact.assert_row(
                    &found[at..at + n],
                    row,
                    Some(&addend[at..at + n]),
                    DType::F32,
                    &format!("case {case}, {sizes:?}, group {group}"),
                );
            }
            first += size;
        }
    }
    Ok(())
}

#[test]
fn the_cpu_gives_the_same_within_its_sums_rounding() -> Result<()> {
    let device = device()?;
    let mut random = Random::new(17);
    let (x, y) = (drawn(&mut random, 20 * 200), drawn(&mut random, 30 * 200));
    let mut results = Vec::new();
    for place in [Device::Cpu, device] {
        let a = fp8::cast_per_token(
            &Tensor::from_vec(x.clone(), (20, 200), &place)?,
            ScaleFormat::F32,
        )?;
        let b = fp8::cast_per_block(
            &Tensor::from_vec(y.clone(), (30, 200), &place)?,
            ScaleFormat::F32,
        )?;
        results.push((
            stands_for(&a)?,
            stands_for(&b)?,
            numbers(&fp8::gemm_nt(&a, &b, None, DType::F32)?)?,
        ));
    }
    assert!(results[0].0 == results[1].0 && results[0].1 == results[1].1);
    let exact = Exact {
        a: &results[0].0,
        b: &results[0].1,
        n: 30,
        k: 200,
    };
    for (_, _, found) in &results {
        for row in 0..20 {
            exact.assert_row(&found[row * 30..][..30], row, None, DType::F32, "either");
        }
    }
    Ok(())
}

#[test]
fn empty_products_are_empty_or_zero() -> Result<()> {
    let device = device()?;
    for (m, n, k) in [(0, 5, 64), (5, 0, 64), (4, 3, 0)] {
        let of = |rows: usize| {
            fp8::cast_per_token(
                &Tensor::ones((rows, k), DType::F32, &device)?,
                ScaleFormat::F32,
            )
        };
        let found = fp8::gemm_nt(&of(m)?, &of(n)?, None, DType::F32)?;
        assert_eq!(found.dims(), [m, n]);
        assert!(numbers(&found)?.iter().all(|&x| x == 0.));
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_by_name() -> Result<()> {
    let device = device()?;
    let x = Tensor::ones((4, 256), DType::F32, &device)?;
    let a = fp8::cast_per_token(&x, ScaleFormat::F32)?;
    let b = fp8::cast_per_block(
        &Tensor::ones((4, 128), DType::F32, &device)?,
        ScaleFormat::F32,
    )?;
    let refused = |result: Result<Tensor>, words: &[&str]| {
        let text = result.expect_err("it does not fit").to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    refused(
        fp8::gemm_nt(&a, &b, None, DType::F32),
        &["fp8::gemm_nt", "[4, 256]", "[4, 128]"],
    );
    refused(
        fp8::gemm_nt(&a, &a, None, DType::F64),
        &["fp8::gemm_nt", "F64"],
    );
    refused(
        fp8::gemm_tn(&a, &a, None, DType::F32),
        &["factor each", "`t`"],
    );
    refused(
        fp8::gemm_nt(&a, &a, Some(&x), DType::F32),
        &["fp8::gemm_nt", "[4, 256]", "[4, 4]"],
    );
    refused(
        fp8::k_grouped_gemm(&a, &a, &[100, 156], None, DType::F32),
        &["group 0 has 100", "128"],
    );
    refused(
        fp8::k_grouped_gemm(&a, &a, &[128], None, DType::F32),
        &["128 of k together", "256"],
    );
    let cast = fp8::cast_per_token(&x.to_dtype(DType::F64)?, ScaleFormat::F32);
    refused(
        cast.map(|cast| cast.data().clone()),
        &["cast_per_token", "F64"],
    );
    let indices = |of: &[i32]| Tensor::new(of, &device);
    let mut mixed = vec![0; 256];
    mixed[130] = 1;
    let text = |indices: Result<Tensor>, groups| -> Result<String> {
        Ok(RowGroups::of_rows(&indices?, groups)
            .expect_err("it does not fit")
            .to_string())
    };
    assert!(text(indices(&mixed), 2)?.contains("row 130 is of group 1"));
    let mut back = vec![1; 128];
    back.extend(vec![0; 128]);
    assert!(text(indices(&back), 2)?.contains("row 128 is of group 0"));
    assert!(text(indices(&[5; 128]), 2)?.contains("group 5"));
    Ok(())
}

/// Timings choose among the plans of a product, are kept in the file, and are taken from there.
#[test]
fn timings_choose_a_plan_and_are_kept() {
    const NAME: &str = "timings_choose_a_plan_and_are_kept";
    /// What the process is to find in the file.
    const EXPECTED: &str = "CANDLE_ROCM_TEST_EXPECTED";
    let multiply = || -> Result<()> {
        let device = device()?;
        let mut random = Random::new(5);
        let [x, w] = [(40, 1024), (256, 1024)].map(|dims: (usize, usize)| {
            Tensor::from_vec(normal(&mut random, dims.0 * dims.1), dims, &device)
        });
        let (x, w) = (x?, w?);
        let a = fp8::cast_per_token(&x, ScaleFormat::F32)?;
        let b = fp8::cast_per_block(&w, ScaleFormat::F32)?;
        let (of_a, of_b) = (stands_for(&a)?, stands_for(&b)?);
        let exact = Exact {
            a: &of_a,
            b: &of_b,
            n: 256,
            k: 1024,
        };
        // Twice: timed, and by what was found.
        for _ in 0..2 {
            let found = numbers(&fp8::gemm_nt(&a, &b, None, DType::F32)?)?;
            for row in 0..40 {
                exact.assert_row(&found[row * 256..][..256], row, None, DType::F32, NAME);
            }
        }
        let stream = device.as_cuda_device()?.cuda_stream();
        let choices = tune::choices(&stream).map_err(candle_core::Error::wrap)?;
        if let Ok(expected) = std::env::var(EXPECTED) {
            assert_eq!(choices.len(), 1, "{choices:?}");
            assert_eq!(choices[0].1, expected);
        }
        Ok(())
    };
    if is_child() {
        return multiply().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gemm.tsv");
    let run = |tune: &str, expected: &str| {
        let variables = [
            (tune::TUNE_VARIABLE, tune),
            (tune::FILE_VARIABLE, file.to_str().unwrap()),
            (EXPECTED, expected),
        ];
        alone(NAME, &variables, || unreachable!("it is another process"));
        std::fs::read_to_string(&file).unwrap_or_default()
    };
    assert_eq!(run("use", ""), "", "nothing is timed");
    let kept = run("1", "");
    let lines: Vec<&str> = kept.lines().skip(1).collect();
    let [line] = lines[..] else {
        panic!("one product was timed: {kept}")
    };
    let fields: Vec<&str> = line.split('\t').collect();
    assert_eq!(
        fields[1],
        "grouped f8e4m3 by blocks tn F32 256x40x1024 batch 1"
    );
    // Another way than the fastest: it is taken as well.
    let other = match fields[2] {
        "128x32 splits 2" => "128x128 splits 1",
        _ => "128x32 splits 2",
    };
    std::fs::write(&file, kept.replace(fields[2], other)).unwrap();
    run("use", other);
}
