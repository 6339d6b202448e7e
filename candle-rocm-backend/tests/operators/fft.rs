//! Fourier transforms.

use std::f64::consts::PI;

use candle_core::{DType, Device, IndexOp as _, Result, Tensor};
use candle_rocm_backend::ops::fft;

use crate::common::numbers;
use crate::{
    assert_close, central_differences, devices, dot, normal, rounding, variable, weighted_sum,
};

const DTYPES: [DType; 2] = [DType::F32, DType::F64];
/// Each radix and several of them; primes, and what has one; powers.
const LENGTHS: [usize; 19] = [
    1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 30, 49, 64, 11, 13, 22, 97, 105, 210,
];

/// Sums of x[j] e^(sign 2 pi i j k / n), as real and imaginary parts, in f64.
fn exact(x: &[f64], n: usize, sign: f64) -> Vec<f64> {
    let mut result = Vec::with_capacity(x.len());
    for sequence in x.chunks(2 * n) {
        for k in 0..n {
            let (mut re, mut im) = (0.0, 0.0);
            for (j, x) in sequence.chunks(2).enumerate() {
                let angle = sign * 2.0 * PI * (j * k % n) as f64 / n as f64;
                let (sine, cosine) = angle.sin_cos();
                re += x[0] * cosine - x[1] * sine;
                im += x[0] * sine + x[1] * cosine;
            }
            result.extend([re, im]);
        }
    }
    result
}

/// The first half of a real sequence's transform.
fn exact_real(x: &[f64], n: usize) -> Vec<f64> {
    let complex: Vec<f64> = x.iter().flat_map(|&x| [x, 0.0]).collect();
    let all = exact(&complex, n, -1.0);
    let half = |sequence: &[f64]| sequence[..2 * (n / 2 + 1)].to_vec();
    all.chunks(2 * n).flat_map(half).collect()
}

/// The real sequence of half a transform.
fn exact_inverse(x: &[f64], n: usize) -> Vec<f64> {
    let mut result = Vec::new();
    for half in x.chunks(2 * (n / 2 + 1)) {
        let mut all = vec![0.0; 2 * n];
        for k in 0..n {
            let (from, sign) = if 2 * k <= n { (k, 1.0) } else { (n - k, -1.0) };
            all[2 * k] = half[2 * from];
            // What a real sequence does not have is not read.
            let is_own = from != 0 && 2 * from != n;
            all[2 * k + 1] = if is_own {
                sign * half[2 * from + 1]
            } else {
                0.0
            };
        }
        let all = exact(&all, n, 1.0);
        result.extend(all.chunks(2).map(|x| x[0] / n as f64));
    }
    result
}

fn scaled(x: Vec<f64>, by: f64) -> Vec<f64> {
    x.into_iter().map(|x| x * by).collect()
}

/// A few roundings in each pass, and three transforms of a chirp's.
fn bound(n: usize, dtype: DType) -> f64 {
    12.0 * ((n as f64).log2() + 2.0) * rounding(dtype)
}

fn check_complex(x: &Tensor, what: &str) -> Result<()> {
    let (n, dtype) = (x.dims()[x.rank() - 2], x.dtype());
    let what = format!("{dtype:?}, {n}: {what}");
    let y = fft::fft(x)?;
    assert_eq!((y.dtype(), y.dims()), (dtype, x.dims()), "{what}");
    assert_close(&y, &exact(&numbers(x)?, n, -1.0), bound(n, dtype), &what)?;
    let expected = scaled(exact(&numbers(x)?, n, 1.0), 1.0 / n as f64);
    assert_close(
        &fft::ifft(x)?,
        &expected,
        bound(n, dtype),
        &format!("{what}, inverse"),
    )
}

fn check_real(x: &Tensor) -> Result<()> {
    let (n, dtype) = (x.dims()[x.rank() - 1], x.dtype());
    let what = format!("{dtype:?}, {n}, real");
    let y = fft::rfft(x)?;
    assert_eq!(y.dims()[x.rank() - 1..], [n / 2 + 1, 2], "{what}");
    assert_close(&y, &exact_real(&numbers(x)?, n), bound(n, dtype), &what)?;
    // Of numbers that no real sequence gives, too.
    let y = normal(n as u64, y.dims(), dtype, x.device())?;
    let expected = exact_inverse(&numbers(&y)?, n);
    assert_close(
        &fft::irfft(&y, n)?,
        &expected,
        bound(n, dtype),
        &format!("{what}, inverse"),
    )
}

#[test]
fn short_sequences_are_transformed() -> Result<()> {
    for device in devices() {
        for dtype in DTYPES {
            for n in LENGTHS {
                check_complex(&normal(1, &[3, n, 2], dtype, &device)?, "short")?;
                check_real(&normal(2, &[2, 2, n], dtype, &device)?)?;
            }
        }
        // Neither contiguous nor from the first element on.
        let x = normal(3, &[2, 10, 7], DType::F32, &device)?;
        let strided = x.permute((2, 1, 0))?.i(1..6)?.narrow(1, 1, 8)?;
        check_complex(&strided, "strided")?;
        check_real(&x.transpose(1, 2)?.i(1..)?)?;
    }
    Ok(())
}

/// As many in a workgroup as there are, and not all of the last one.
#[test]
fn many_sequences_are_transformed() -> Result<()> {
    let [device, _] = devices();
    check_complex(&normal(4, &[300, 16, 2], DType::F32, &device)?, "many")?;
    check_real(&normal(5, &[70, 15], DType::F64, &device)?)
}

/// In two steps, by a chirp, and by a chirp in two steps: what has a known transform, at some places.
#[test]
fn long_sequences_are_transformed() -> Result<()> {
    let [device, _] = devices();
    for (n, dtype) in [
        (1_536, DType::F64),
        (4_096, DType::F32),
        (2_250, DType::F32),
        (1_031, DType::F32),
    ] {
        let x = normal(6, &[1, n, 2], dtype, &device)?;
        let (y, x) = (numbers(&fft::fft(&x)?)?, numbers(&x)?);
        let most = y.iter().fold(0f64, |most, y| most.max(y.abs()));
        for k in [0, 1, 2, n / 3, n / 2, n - 1] {
            let (mut re, mut im) = (0.0, 0.0);
            for (j, x) in x.chunks(2).enumerate() {
                let (sine, cosine) = (-2.0 * PI * (j * k % n) as f64 / n as f64).sin_cos();
                re += x[0] * cosine - x[1] * sine;
                im += x[0] * sine + x[1] * cosine;
            }
            for (found, exact) in y[2 * k..].iter().zip([re, im]) {
                let distance = (found - exact).abs();
                assert!(
                    distance <= bound(n, dtype) * most,
                    "{dtype:?}, {n}, {k}: {found} for {exact}"
                );
            }
        }
        let x = normal(7, &[2, n], dtype, &device)?;
        let back = fft::irfft(&fft::rfft(&x)?, n)?;
        assert_close(
            &back,
            &numbers(&x)?,
            2.0 * bound(n, dtype),
            &format!("{n}, and back"),
        )?;
    }
    Ok(())
}

/// A function's gradient, and what plain Rust makes of it.
struct Case<'a> {
    what: &'a str,
    dims: Vec<usize>,
    of: fn(&Tensor, usize) -> Result<Tensor>,
    exact: fn(&[f64], usize) -> Vec<f64>,
}

#[test]
fn gradients_are_those_of_central_differences() -> Result<()> {
    for device in devices() {
        for n in [1, 6, 7, 11] {
            let cases = [
                Case {
                    what: "fft",
                    dims: vec![2, n, 2],
                    of: |x, _| fft::fft(x),
                    exact: |x, n| exact(x, n, -1.0),
                },
                Case {
                    what: "ifft",
                    dims: vec![2, n, 2],
                    of: |x, _| fft::ifft(x),
                    exact: |x, n| scaled(exact(x, n, 1.0), 1.0 / n as f64),
                },
                Case {
                    what: "rfft",
                    dims: vec![2, n],
                    of: |x, _| fft::rfft(x),
                    exact: exact_real,
                },
                Case {
                    what: "irfft",
                    dims: vec![2, n / 2 + 1, 2],
                    of: fft::irfft,
                    exact: exact_inverse,
                },
            ];
            for case in cases {
                let x = numbers(&normal(8, &case.dims, DType::F64, &device)?)?;
                let var = variable(&x, &case.dims, DType::F64, &device)?;
                let y = (case.of)(&var, n)?;
                let by = numbers(&normal(9, y.dims(), DType::F64, &device)?)?;
                let gradients = weighted_sum(&y, &by)?.backward()?;
                let exact = central_differences(&x, |x| dot(&(case.exact)(x, n), &by));
                let found = gradients.get(&var).expect("a gradient");
                assert_close(found, &exact, 1e-8, &format!("{} of {n}", case.what))?;
            }
        }
    }
    Ok(())
}

#[test]
fn nothing_and_bad_operands() -> Result<()> {
    for device in devices() {
        let said = |result: Result<Tensor>| result.unwrap_err().to_string();
        let x = Tensor::zeros((4, 3), DType::F32, &device)?;
        let error = said(fft::fft(&x));
        assert!(error.contains("fft: x has shape [4, 3]"), "{error}");
        let error = said(fft::irfft(&x.reshape((2, 3, 2))?, 3));
        assert!(error.contains("irfft: x has shape [2, 3, 2]"), "{error}");
        let error = said(fft::rfft(&x.to_dtype(DType::F16)?));
        assert!(error.contains("rfft: x of shape [4, 3] is F16"), "{error}");
        let long = Tensor::zeros((1, 65_537), DType::F32, &Device::Cpu)?;
        assert!(said(fft::rfft(&long)).contains("1 to 65536"));
        let nothing = Tensor::zeros((0, 6), DType::F32, &device)?;
        assert_eq!(fft::rfft(&nothing)?.dims(), [0, 4, 2]);
        let nothing = Tensor::zeros((3, 0, 2), DType::F32, &device)?;
        assert_eq!(fft::fft(&nothing)?.dims(), [3, 0, 2]);
    }
    Ok(())
}
