//! Fourier transforms on the CPU, in f64: of powers of two by halves, of others as convolutions with a chirp.

use std::f64::consts::PI;

use candle_core::{CpuStorage, DType, Result, Tensor};

use super::call::Call;

/// Real and imaginary part.
type Complex = [f64; 2];

fn product([a, b]: Complex, [c, d]: Complex) -> Complex {
    [a * c - b * d, a * d + b * c]
}

/// e^(-2 pi i number / count)
fn twiddle(number: usize, count: usize) -> Complex {
    let angle = -2.0 * PI * (number % count) as f64 / count as f64;
    [angle.cos(), angle.sin()]
}

/// What a call makes of a contiguous tensor.
pub(super) fn transformed(call: &Call, x: &Tensor) -> Result<CpuStorage> {
    let numbers: Vec<f64> = x.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?;
    let parts = if call.real_source { 1 } else { 2 };
    let mut result = Vec::new();
    for sequence in numbers.chunks(call.there() * parts) {
        let mut all = vec![[0.0, 0.0]; call.length];
        for (index, (to, from)) in all.iter_mut().zip(sequence.chunks(parts)).enumerate() {
            let weight = weight(call.load_doubled, index, call.length);
            let imaginary = from.get(1).copied().unwrap_or(0.0);
            *to = turned([weight * from[0], weight * imaginary], call.inverse);
        }
        for (index, value) in transform(all).into_iter().enumerate().take(call.kept()) {
            let weight = call.scale * weight(call.store_doubled, index, call.length);
            let [re, im] = turned(value, call.inverse);
            result.push(weight * re);
            if !call.real_result {
                result.push(weight * im);
            }
        }
    }
    Ok(match x.dtype() {
        DType::F64 => CpuStorage::F64(result),
        _ => CpuStorage::F32(result.into_iter().map(|x| x as f32).collect()),
    })
}

/// Real and imaginary part change places before and after an inverse transform.
fn turned([re, im]: Complex, inverse: bool) -> Complex {
    match inverse {
        true => [im, re],
        false => [re, im],
    }
}

/// 2 for a number of a real sequence's transform that has a mirrored one.
fn weight(doubled: bool, index: usize, length: usize) -> f64 {
    match doubled && index != 0 && 2 * index != length {
        true => 2.0,
        false => 1.0,
    }
}

fn transform(x: Vec<Complex>) -> Vec<Complex> {
    let n = x.len();
    if n.is_power_of_two() {
        return by_halves(&x);
    }
    let chirp = |i: usize| twiddle(i * i % (2 * n), 2 * n);
    let size = (2 * n - 1).next_power_of_two();
    let mut padded = vec![[0.0, 0.0]; size];
    let mut filter = padded.clone();
    for (i, x) in x.into_iter().enumerate() {
        let [re, im] = chirp(i);
        padded[i] = product(x, [re, im]);
        filter[i] = [re, -im];
        filter[(size - i) % size] = [re, -im];
    }
    let all = by_halves(&padded).into_iter().zip(by_halves(&filter));
    let products: Vec<Complex> = all.map(|(a, b)| turned(product(a, b), true)).collect();
    let of = |(i, value): (usize, Complex)| {
        let [re, im] = turned(value, true);
        product([re / size as f64, im / size as f64], chirp(i))
    };
    by_halves(&products)
        .into_iter()
        .enumerate()
        .take(n)
        .map(of)
        .collect()
}

/// A power of two of numbers.
fn by_halves(x: &[Complex]) -> Vec<Complex> {
    let n = x.len();
    if n < 2 {
        return x.to_vec();
    }
    let half = |first: usize| -> Vec<Complex> {
        let some: Vec<Complex> = x.iter().skip(first).step_by(2).copied().collect();
        by_halves(&some)
    };
    let (even, odd) = (half(0), half(1));
    let mut result = vec![[0.0, 0.0]; n];
    for (k, (even, odd)) in even.into_iter().zip(odd).enumerate() {
        let ([a, b], [c, d]) = (even, product(odd, twiddle(k, n)));
        result[k] = [a + c, b + d];
        result[k + n / 2] = [a - c, b - d];
    }
    result
}
