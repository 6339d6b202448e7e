//! Products of quantised matrices with activations, through Candle, against f64 products of what the weights stand
//! for.
//!
//! Sums of products of integers are exact in the kernels, so an error comes from rounding the activations to 8 bits:
//! with 32 normal numbers under one scale (64 for q2_K with nine vectors and more) the rounding error is about 0.6 %
//! of a number, errors of a row's numbers are independent, and so the product's error has a standard deviation of
//! about 0.6 % of the product's own typical size, |w| |x| / sqrt(k). The bounds allow five to six of these, and the
//! rounding of the result where it is f16 or bf16. Q4_0 with matrices as small as Candle's own tests have and up to eight
//! vectors is twice as far: these hold it to CUDA's results, where eight times the sum of the activations, from before they
//! were rounded, is subtracted from products with nibbles that are not centred.

mod common;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module as _, Result, Tensor};
use common::{device, dot, normal, Random, Weights};

/// Largest error relative to the typical size of the product.
const BOUNDS: [(GgmlDType, f64); 10] = [
    (GgmlDType::Q4_0, 0.035),
    (GgmlDType::Q4_1, 0.035),
    (GgmlDType::Q5_0, 0.035),
    (GgmlDType::Q5_1, 0.035),
    (GgmlDType::Q8_0, 0.035),
    (GgmlDType::Q2K, 0.045),
    (GgmlDType::Q3K, 0.035),
    (GgmlDType::Q4K, 0.035),
    (GgmlDType::Q5K, 0.035),
    (GgmlDType::Q6K, 0.035),
];

/// The bound where Q4_0 is multiplied by CUDA's formula, and the elements of the largest matrix for which it is.
const BOUND_OF_CUDAS: f64 = 0.08;
const CUDAS_BITS: usize = 1024;

fn bound_of(weights: &Weights, bound: f64) -> f64 {
    let small = weights.rows * weights.columns <= CUDAS_BITS;
    if small && weights.quantized.dtype() == GgmlDType::Q4_0 {
        BOUND_OF_CUDAS
    } else {
        bound
    }
}

/// One to eight vectors go to one family of kernels, more to the other, which has two sizes of tiles.
const VECTORS: [usize; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 32, 64, 129, 512];
/// Those with long rows, whose length adds steps to loops but no other way through the kernels: some of each family, and
/// a whole tile and more of the other.
const VECTORS_OF_LONG_ROWS: [usize; 6] = [1, 3, 8, 9, 33, 129];

/// Normal numbers as activations.
fn activations(weights: &Weights, vectors: usize) -> Result<Tensor> {
    let mut numbers = Random::new(vectors as u64);
    Tensor::from_vec(
        normal(&mut numbers, vectors * weights.columns),
        (vectors, weights.columns),
        &Device::Cpu,
    )
}

/// The largest relative error of one product with normal numbers.
fn error_of(weights: &Weights, vectors: usize, dtype: DType, device: &Device) -> Result<f64> {
    error_with(weights, &activations(weights, vectors)?, dtype, device)
}

/// The weights' product with vectors on the same device.
fn product(weights: &Weights, x: &Tensor, device: &Device) -> Result<Tensor> {
    let format = weights.quantized.dtype();
    let storage = QStorage::from_data(weights.quantized.data()?, device, format)?;
    let matrix = QTensor::new(storage, (weights.rows, weights.columns))?;
    QMatMul::from_qtensor(matrix)?.forward(x)
}

/// The largest relative error of one product.
fn error_with(weights: &Weights, x: &Tensor, dtype: DType, device: &Device) -> Result<f64> {
    let vectors = x.dim(0)?;
    let x = x.to_dtype(dtype)?;
    // The kernels' input is what the dtype can hold.
    let rounded: Vec<f32> = x.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
    // A view with an offset, as a slice of a longer prompt is.
    let padding = Tensor::zeros((1, weights.columns), dtype, &Device::Cpu)?;
    let x = Tensor::cat(&[&padding, &x], 0)?
        .to_device(device)?
        .narrow(0, 1, vectors)?;
    let product = product(weights, &x, device)?;
    assert_eq!(product.dtype(), dtype);
    assert_eq!(product.dims(), [vectors, weights.rows]);
    let product: Vec<f32> = product.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
    let epsilon = match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => 0.0,
    };
    let norm = |vector: &[f32]| dot(vector, vector).sqrt();
    let rows: Vec<(&[f32], f64)> = (0..weights.rows)
        .map(|row| (weights.row(row), norm(weights.row(row))))
        .collect();
    let mut largest = 0f64;
    for (vector, results) in rounded
        .chunks(weights.columns)
        .zip(product.chunks(weights.rows))
    {
        let scale = norm(vector) / (weights.columns as f64).sqrt();
        for ((row, row_norm), &result) in rows.iter().zip(results) {
            let truth = dot(row, vector);
            let error = (f64::from(result) - truth).abs() - epsilon * truth.abs();
            assert!(result.is_finite(), "{result}");
            largest = largest.max(error / (row_norm * scale));
        }
    }
    Ok(largest)
}

fn check(columns: usize, rows: usize, dtypes: &[DType]) -> Result<()> {
    let device = device()?;
    let counts: &[usize] = match columns {
        0..=1024 => &VECTORS,
        _ => &VECTORS_OF_LONG_ROWS,
    };
    for (format, bound) in BOUNDS {
        if !columns.is_multiple_of(format.block_size()) {
            continue;
        }
        let weights = Weights::new(format, rows, columns, &device)?;
        let bound = bound_of(&weights, bound);
        for &dtype in dtypes {
            for &vectors in counts {
                let error = error_of(&weights, vectors, dtype, &device)?;
                assert!(
                    error <= bound,
                    "{format:?} {rows} x {columns} with {vectors} vectors of {dtype:?}: relative error {error:.4} \
                     is beyond {bound}"
                );
            }
        }
    }
    Ok(())
}

/// The root of the mean square of a product's errors.
fn rms_error(weights: &Weights, x: &Tensor, device: &Device) -> Result<f64> {
    let product: Vec<f32> = product(weights, &x.to_device(device)?, device)?
        .flatten_all()?
        .to_vec1()?;
    let x: Vec<f32> = x.flatten_all()?.to_vec1()?;
    let mut squares = 0.0;
    for (vector, results) in x.chunks(weights.columns).zip(product.chunks(weights.rows)) {
        for (row, &result) in results.iter().enumerate() {
            squares += (f64::from(result) - dot(weights.row(row), vector)).powi(2);
        }
    }
    Ok((squares / product.len() as f64).sqrt())
}

/// By every family of kernels. The CPU rounds activations to 8 bits too, with a scale for 32 or 256 of them.
#[test]
fn errors_are_no_larger_than_the_cpus() -> Result<()> {
    let device = device()?;
    for (format, _) in BOUNDS {
        let weights = Weights::new(format, 61, 1024, &device)?;
        // By bytes sums differ in their order alone; bf16, by which many vectors go, rounds both factors once more.
        for (vectors, allowed) in [1, 2, 4, 8, 9]
            .map(|n| (n, 1.02))
            .into_iter()
            .chain([(640, 1.2)])
        {
            let x = activations(&weights, vectors)?;
            let found = rms_error(&weights, &x, &device)?;
            let cpus = rms_error(&weights, &x, &Device::Cpu)?;
            assert!(
                found <= allowed * cpus,
                "{format:?} with {vectors} vectors: errors of {found:.3e}, and {cpus:.3e} on the CPU"
            );
        }
    }
    Ok(())
}

#[test]
fn one_block_and_a_few() -> Result<()> {
    check(32, 7, &[DType::F32])?;
    check(96, 5, &[DType::F32])?;
    check(256, 67, &[DType::F32, DType::F16, DType::BF16])
}

#[test]
fn powers_of_two() -> Result<()> {
    for columns in [64, 128, 512, 1024, 2048, 8192] {
        check(columns, 3, &[DType::F32])?;
    }
    Ok(())
}

#[test]
fn half_precision_along_long_rows() -> Result<()> {
    check(4096, 2, &[DType::F16, DType::BF16])?;
    check(16384, 1, &[DType::F16, DType::BF16])
}

/// Activations of 1000 to 7000: the sum of 32, which a block holds in f16, is beyond its largest number.
#[test]
fn sums_beyond_f16() -> Result<()> {
    let device = device()?;
    for (format, bound) in BOUNDS {
        let weights = Weights::new(format, 5, 512, &device)?;
        for vectors in [1, 8, 9, 33] {
            let x = activations(&weights, vectors)?.affine(600.0, 4000.0)?;
            let error = error_with(&weights, &x, DType::F32, &device)?;
            assert!(
                error <= bound,
                "{format:?} with {vectors} vectors: relative error {error:.4} is beyond {bound}"
            );
        }
    }
    Ok(())
}

#[test]
fn rows_of_768() -> Result<()> {
    check(768, 130, &[DType::F32])
}

#[test]
fn rows_of_4096() -> Result<()> {
    check(4096, 9, &[DType::F32])
}

#[test]
fn rows_of_16384() -> Result<()> {
    check(16384, 3, &[DType::F32])
}

/// More rows than one dimension of some grids could hold.
#[test]
fn many_rows() -> Result<()> {
    let device = device()?;
    let weights = Weights::new(GgmlDType::Q8_0, 70_001, 32, &device)?;
    for vectors in [1, 9] {
        let error = error_of(&weights, vectors, DType::F32, &device)?;
        // Half a million results: seven standard deviations.
        assert!(error <= 0.045, "{vectors} vectors: {error}");
    }
    Ok(())
}

/// As many rows as let a lone vector's product go another way in formats of 256.
#[test]
fn thousands_of_rows_of_256() -> Result<()> {
    let device = device()?;
    for (format, bound) in BOUNDS {
        if format.block_size() == 256 {
            let weights = Weights::new(format, 2051, 256, &device)?;
            let error = error_of(&weights, 1, DType::F32, &device)?;
            assert!(error <= bound, "{format:?}: {error} is beyond {bound}");
        }
    }
    Ok(())
}

/// So many vectors that GPUs with matrix units multiply the matrix as bf16, whose rounding the bounds have room for; rows
/// that are no whole number of tiles.
#[test]
fn many_vectors() -> Result<()> {
    let device = device()?;
    for (format, bound) in BOUNDS {
        let weights = Weights::new(format, 131, 256, &device)?;
        let error = error_of(&weights, 701, DType::F32, &device)?;
        assert!(error <= bound, "{format:?}: {error} is beyond {bound}");
    }
    // Blocks of 32 alone, and a part of 128 elements.
    let weights = Weights::new(GgmlDType::Q5_1, 3, 288, &device)?;
    let error = error_of(&weights, 640, DType::F16, &device)?;
    assert!(error <= 0.035, "rows of 288: {error}");
    Ok(())
}

/// What is no number stays in its vector.
#[test]
fn one_of_many_vectors_is_infinite() -> Result<()> {
    let device = device()?;
    for (format, _) in BOUNDS {
        let weights = Weights::new(format, 3, 256, &device)?;
        let mut x = vec![1f32; 640 * 256];
        x[639 * 256 + 5] = f32::INFINITY;
        let x = Tensor::from_vec(x, (640, 256), &device)?;
        let product = QMatMul::from_qtensor(weights.quantized)?.forward(&x)?;
        for (vector, results) in product.to_vec2::<f32>()?.iter().enumerate() {
            let all = |is: fn(&f32) -> bool| results.iter().all(is);
            assert!(
                if vector < 639 {
                    all(|x| x.is_finite())
                } else {
                    all(|x| x.is_nan())
                },
                "{format:?}, vector {vector}"
            );
        }
    }
    Ok(())
}

/// Activations whose sum or magnitude is beyond f16 where the format has it in f16, zeros, and one large among small.
#[test]
fn awkward_activations() -> Result<()> {
    let device = device()?;
    for (format, _) in BOUNDS {
        let weights = Weights::new(format, 5, 256, &device)?;
        let matmul = QMatMul::from_qtensor(Weights::new(format, 5, 256, &device)?.quantized)?;
        for vectors in [1, 9, 640] {
            for x in [vec![0f32; 256], vec![60_000f32; 256], {
                let mut x = vec![1e-3f32; 256];
                x[77] = 1e4;
                x
            }] {
                let all = x.repeat(vectors);
                let input = Tensor::from_vec(all, (vectors, 256), &device)?;
                let product: Vec<f32> = matmul.forward(&input)?.flatten_all()?.to_vec1()?;
                for (i, &result) in product.iter().enumerate() {
                    let row = weights.row(i % 5);
                    let truth = dot(row, &x);
                    // Half a step of the scale for each number, and the scale's own rounding to f16.
                    let step = f64::from(x.iter().fold(0f32, |a, b| a.max(b.abs()))) / 127.0;
                    let sum: f64 = row.iter().map(|&w| f64::from(w.abs())).sum();
                    let bound =
                        sum * step / 2.0 * 1.01 + 2f64.powi(-10) * sum * step * 127.0 + 1e-30;
                    assert!(
                        (f64::from(result) - truth).abs() <= bound,
                        "{format:?}, {vectors} vectors: {result} is not {truth} within {bound}"
                    );
                }
            }
        }
    }
    Ok(())
}
