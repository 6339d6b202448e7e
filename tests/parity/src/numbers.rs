//! Reproducible numbers, and what a dtype makes of them.

use candle_core::{DType, Device, Result, Tensor, WithDType};
pub use candle_rocm_testing::random::Random;
use float8::F8E4M3;

/// All floats, in which Candle has operators.
pub const FLOATS: [DType; 5] = [
    DType::F64,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F8E4M3,
];
/// What matrix products, convolutions and the operators on rows take.
pub const WIDE_FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];
/// All integers.
pub const INTEGERS: [DType; 5] = [DType::U8, DType::U32, DType::I16, DType::I32, DType::I64];
/// What Candle takes as indices.
pub const INDICES: [DType; 3] = [DType::U8, DType::U32, DType::I64];

/// Floats and integers.
pub fn all_dtypes() -> impl Iterator<Item = DType> {
    FLOATS.into_iter().chain(INTEGERS)
}

/// Numbers, exactly as a tensor holds them.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Of f64, f32, f16, bf16, f8e4m3.
    Floats(Vec<f64>),
    /// Of u8, u32, i16, i32, i64.
    Integers(Vec<i64>),
}

impl Numbers {
    /// `count` numbers for a dtype: floats of magnitude 0.25 to 3 with a zero among each 32, integers of all sizes.
    pub fn any(dtype: DType, seed: u64, count: usize) -> Numbers {
        let mut random = Random::new(seed);
        if dtype.is_int() {
            let all = (0..count).map(|_| wrap(random.bits() as i64, dtype));
            return Numbers::Integers(all.collect());
        }
        let all = (0..count).map(|i| match random.signed() {
            _ if i % 32 == 19 => 0.0,
            number => number * 2.75 + 0.25f64.copysign(number),
        });
        Numbers::Floats(all.collect())
    }

    /// `count` floats from `low` to `high`.
    pub fn between(low: f64, high: f64, seed: u64, count: usize) -> Numbers {
        let mut random = Random::new(seed);
        let all = (0..count).map(|_| low + (high - low) * 0.5 * (random.signed() + 1.0));
        Numbers::Floats(all.collect())
    }

    /// Few different numbers, of which many are equal: 0 to 7 for unsigned integers, else -4 to 3.
    pub fn ties(dtype: DType, seed: u64, count: usize) -> Numbers {
        let mut random = Random::new(seed);
        let lowest = if matches!(dtype, DType::U8 | DType::U32) {
            0
        } else {
            -4
        };
        let all: Vec<i64> = (0..count)
            .map(|_| lowest + random.below(8) as i64)
            .collect();
        if dtype.is_int() {
            Numbers::Integers(all)
        } else {
            Numbers::Floats(all.into_iter().map(|number| number as f64).collect())
        }
    }

    /// `count` different numbers in a random order: all steps of the dtype from 1 (1 for integers).
    pub fn different(dtype: DType, seed: u64, count: usize) -> Numbers {
        let mut random = Random::new(seed);
        let mut order: Vec<i64> = (0..count as i64).collect();
        for i in (1..count).rev() {
            order.swap(i, random.below(i + 1));
        }
        if dtype.is_int() {
            return Numbers::Integers(order);
        }
        // From the bit pattern, so that neighbours differ in any dtype.
        let step = |i: i64| match dtype {
            DType::F8E4M3 => 2f64.powi((i / 8) as i32 - 6) * (1.0 + (i % 8) as f64 / 8.0),
            DType::BF16 => 2f64.powi((i / 128) as i32 - 6) * (1.0 + (i % 128) as f64 / 128.0),
            _ => 2f64.powi((i / 512) as i32 - 6) * (1.0 + (i % 512) as f64 / 512.0),
        };
        let signed = |i: i64| {
            if i % 2 == 0 {
                step(i / 2)
            } else {
                -step(i / 2)
            }
        };
        Numbers::Floats(order.into_iter().map(signed).collect())
    }

    /// Magnitudes.
    pub fn positive(self) -> Numbers {
        match self {
            Numbers::Floats(all) => Numbers::Floats(all.into_iter().map(f64::abs).collect()),
            Numbers::Integers(all) => {
                Numbers::Integers(all.into_iter().map(i64::wrapping_abs).collect())
            }
        }
    }

    /// Ones instead of zeros.
    pub fn without_zeros(self) -> Numbers {
        match self {
            Numbers::Floats(mut all) => {
                all.iter_mut().filter(|x| **x == 0.0).for_each(|x| *x = 1.0);
                Numbers::Floats(all)
            }
            Numbers::Integers(mut all) => {
                all.iter_mut().filter(|x| **x == 0).for_each(|x| *x = 1);
                Numbers::Integers(all)
            }
        }
    }

    /// Integers towards zero by a factor of 2^`bits`, so that sums stay in range; floats as they are.
    pub fn smaller(self, bits: u32) -> Numbers {
        match self {
            Numbers::Integers(all) => {
                Numbers::Integers(all.into_iter().map(|number| number >> bits).collect())
            }
            floats => floats,
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Floats(all) => all.len(),
            Numbers::Integers(all) => all.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A tensor on the CPU: floats are rounded to the nearest of the dtype, of integers the lowest bits are kept.
    pub fn tensor(&self, dtype: DType, dims: &[usize]) -> Result<Tensor> {
        fn make<S: Copy, T: WithDType>(
            all: &[S],
            dims: &[usize],
            of: fn(S) -> T,
        ) -> Result<Tensor> {
            let all: Vec<T> = all.iter().map(|&number| of(number)).collect();
            Tensor::from_vec(all, dims, &Device::Cpu)
        }
        match self {
            Numbers::Floats(all) if dtype.is_int() => {
                let all: Vec<i64> = all.iter().map(|&number| number as i64).collect();
                Numbers::Integers(all).tensor(dtype, dims)
            }
            Numbers::Integers(all) if dtype.is_float() => {
                let all: Vec<f64> = all.iter().map(|&number| number as f64).collect();
                Numbers::Floats(all).tensor(dtype, dims)
            }
            Numbers::Floats(all) => {
                let all: Vec<f64> = all.iter().map(|&number| rounded(number, dtype)).collect();
                match dtype {
                    DType::F64 => make(&all, dims, |x| x),
                    DType::F32 => make(&all, dims, |x| x as f32),
                    DType::F16 => make(&all, dims, half::f16::from_f64),
                    DType::BF16 => make(&all, dims, half::bf16::from_f64),
                    DType::F8E4M3 => make(&all, dims, F8E4M3::from_f64),
                    _ => candle_core::bail!("no floats of {dtype:?}"),
                }
            }
            Numbers::Integers(all) => match dtype {
                DType::U8 => make(all, dims, |x| x as u8),
                DType::U32 => make(all, dims, |x| x as u32),
                DType::I16 => make(all, dims, |x| x as i16),
                DType::I32 => make(all, dims, |x| x as i32),
                DType::I64 => make(all, dims, |x| x),
                _ => candle_core::bail!("no integers of {dtype:?}"),
            },
        }
    }

    /// The numbers as a dtype holds them.
    pub fn held(&self, dtype: DType) -> Numbers {
        match self {
            Numbers::Floats(all) => {
                Numbers::Floats(all.iter().map(|&number| rounded(number, dtype)).collect())
            }
            Numbers::Integers(all) => {
                Numbers::Integers(all.iter().map(|&number| wrap(number, dtype)).collect())
            }
        }
    }
}

/// The lowest bits of an integer, as the dtype has them.
pub fn wrap(number: i64, dtype: DType) -> i64 {
    match dtype {
        DType::U8 => i64::from(number as u8),
        DType::U32 => i64::from(number as u32),
        DType::I16 => i64::from(number as i16),
        DType::I32 => i64::from(number as i32),
        _ => number,
    }
}

/// The relative error of one rounding to the nearest of a dtype.
pub fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(-53),
        DType::F32 => 2f64.powi(-24),
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        DType::F8E4M3 => 2f64.powi(-4),
        _ => 0.0,
    }
}

/// The distance of the dtype's smallest numbers, which are evenly spaced.
pub fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(-1074),
        DType::F32 => 2f64.powi(-149),
        DType::F16 => 2f64.powi(-24),
        DType::BF16 => 2f64.powi(-133),
        DType::F8E4M3 => 2f64.powi(-9),
        _ => 0.0,
    }
}

/// The largest number of a dtype of floats.
pub fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(f32::MAX),
        DType::F16 => 65_504.0,
        DType::BF16 => 2f64.powi(127) * (2.0 - 2f64.powi(-7)),
        DType::F8E4M3 => 448.0,
        _ => f64::MAX,
    }
}

/// The nearest number that the dtype has, of two the even one. Beyond the largest: infinity; in 8 bits the largest.
pub fn rounded(number: f64, dtype: DType) -> f64 {
    if number == 0.0 || number.is_nan() || dtype == DType::F64 {
        return number;
    }
    let beyond = |number: f64| match dtype {
        DType::F8E4M3 => largest(dtype).copysign(number),
        _ => f64::INFINITY.copysign(number),
    };
    if number.is_infinite() {
        return beyond(number);
    }
    let exponent = (number.abs().to_bits() >> 52) as i32 - 1023;
    // A step between neighbours is twice the largest rounding error.
    let step = (2f64.powi(exponent) * 2.0 * rounding(dtype)).max(smallest(dtype));
    let nearest = (number / step).round_ties_even() * step;
    if nearest.abs() <= largest(dtype) {
        nearest
    } else {
        beyond(number)
    }
}

/// The number that bits of E4M3 stand for (a NaN, no infinities); float8's own conversion does not end for some.
pub fn float_of_eight_bits(bits: u8) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
    let magnitude = match (exponent, bits & 7) {
        (15, 7) => f64::NAN,
        (0, _) => fraction * 2f64.powi(-9),
        _ => (8.0 + fraction) * 2f64.powi(exponent - 10),
    };
    if bits & 0x80 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_as_the_dtypes_do() {
        assert_eq!(rounded(1.0 + 2f64.powi(-8), DType::BF16), 1.0);
        assert_eq!(
            rounded(1.0 + 3.0 * 2f64.powi(-8), DType::BF16),
            1.0 + 2f64.powi(-6)
        );
        assert_eq!(rounded(65_520.0, DType::F16), f64::INFINITY);
        assert_eq!(rounded(65_519.0, DType::F16), 65_504.0);
        assert_eq!(rounded(-1e9, DType::F8E4M3), -448.0);
        assert_eq!(rounded(2f64.powi(-25), DType::F16), 0.0);
        assert_eq!(rounded(0.1, DType::F32), f64::from(0.1f32));
        for bits in 0..=255u8 {
            let number = float_of_eight_bits(bits);
            assert!(number.is_nan() || rounded(number, DType::F8E4M3) == number);
        }
    }
}
