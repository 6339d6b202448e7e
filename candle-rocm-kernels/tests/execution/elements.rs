//! Candle's element types, as bytes for the device and as numbers for references.

use float8::F8E4M3;
use half::{bf16, f16};

/// An element type by its name in kernel names.
pub trait Element: Copy + PartialOrd + std::fmt::Debug {
    const NAME: &'static str;
    const BYTES: usize;
    /// Relative size of half a step between neighbouring values of order one; 0 for integers.
    const EPSILON: f64;
    fn put(self, into: &mut Vec<u8>);
    fn get(bytes: &[u8]) -> Self;
    fn of(value: f64) -> Self;
    fn number(self) -> f64;
}

macro_rules! element {
    ($type:ty, $name:literal, $bytes:literal, $epsilon:expr, $of:expr, $number:expr) => {
        impl Element for $type {
            const NAME: &'static str = $name;
            const BYTES: usize = $bytes;
            const EPSILON: f64 = $epsilon;
            fn put(self, into: &mut Vec<u8>) {
                into.extend_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the element's size"))
            }
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn number(self) -> f64 {
                $number(self)
            }
        }
    };
}
element!(i8, "i8", 1, 0.0, |v: f64| v as i8, |v: i8| v as f64);
element!(u8, "u8", 1, 0.0, |v: f64| v as u8, |v: u8| v as f64);
element!(u32, "u32", 4, 0.0, |v: f64| v as u32, |v: u32| v as f64);
element!(i16, "i16", 2, 0.0, |v: f64| v as i16, |v: i16| v as f64);
element!(i32, "i32", 4, 0.0, |v: f64| v as i32, |v: i32| v as f64);
element!(i64, "i64", 8, 0.0, |v: f64| v as i64, |v: i64| v as f64);
element!(bf16, "bf16", 2, 1.0 / 256.0, bf16::from_f64, bf16::to_f64);
element!(f16, "f16", 2, 1.0 / 2048.0, f16::from_f64, f16::to_f64);
element!(f32, "f32", 4, 6e-8, |v: f64| v as f32, |v: f32| v as f64);
element!(f64, "f64", 8, 1.2e-16, |v: f64| v, |v: f64| v);

impl Element for F8E4M3 {
    const NAME: &'static str = "f8e4m3";
    const BYTES: usize = 1;
    const EPSILON: f64 = 1.0 / 16.0;
    fn put(self, into: &mut Vec<u8>) {
        into.push(self.to_bits());
    }
    fn get(bytes: &[u8]) -> Self {
        F8E4M3::from_bits(bytes[0])
    }
    fn of(value: f64) -> Self {
        F8E4M3::from_f64(value)
    }
    fn number(self) -> f64 {
        self.to_f64()
    }
}

/// Calls a generic function for every element type: `for_all!(function, arguments...)`.
macro_rules! for_all {
    ($function:ident $(, $argument:expr)*) => {
        $crate::elements::for_integers!($function $(, $argument)*);
        $crate::elements::for_floats!($function $(, $argument)*);
    };
}
macro_rules! for_integers {
    ($function:ident $(, $argument:expr)*) => {
        $function::<u8>($($argument),*);
        $function::<u32>($($argument),*);
        $function::<i16>($($argument),*);
        $function::<i32>($($argument),*);
        $function::<i64>($($argument),*);
    };
}
macro_rules! for_floats {
    ($function:ident $(, $argument:expr)*) => {
        $crate::elements::for_wide_floats!($function $(, $argument)*);
        $function::<float8::F8E4M3>($($argument),*);
    };
}
macro_rules! for_wide_floats {
    ($function:ident $(, $argument:expr)*) => {
        $function::<half::bf16>($($argument),*);
        $function::<half::f16>($($argument),*);
        $function::<f32>($($argument),*);
        $function::<f64>($($argument),*);
    };
}
/// A type of each size.
macro_rules! for_sizes {
    ($function:ident $(, $argument:expr)*) => {
        $function::<u8>($($argument),*);
        $function::<half::f16>($($argument),*);
        $function::<u32>($($argument),*);
        $function::<f64>($($argument),*);
    };
}
pub(crate) use {for_all, for_floats, for_integers, for_sizes, for_wide_floats};

pub fn to_bytes<T: Element>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * T::BYTES);
    values.iter().for_each(|value| value.put(&mut bytes));
    bytes
}

pub fn from_bytes<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::BYTES).map(T::get).collect()
}

/// Asserts that each value is the expected one within `tolerance` relative to the larger of it and
/// `scale`; NaN matches NaN and infinities match themselves.
pub fn assert_close<T: Element>(
    found: &[T],
    expected: &[f64],
    tolerance: f64,
    scale: f64,
    what: &str,
) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, &expected)) in found.iter().zip(expected).enumerate() {
        let found = found.number();
        let same = found == expected || (found.is_nan() && expected.is_nan());
        // Near an infinity is everything.
        let close = expected.is_finite()
            && (found - expected).abs() <= tolerance * expected.abs().max(scale);
        assert!(
            same || close,
            "{what} for {}: element {at} is {found}, expected {expected}",
            T::NAME
        );
    }
}

/// Asserts equal values; NaN matches NaN.
pub fn assert_same<T: Element>(found: &[T], expected: &[T], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let nan = found.number().is_nan() && expected.number().is_nan();
        assert!(
            nan || found == expected,
            "{what} for {}: element {at} is {found:?}, expected {expected:?}",
            T::NAME
        );
    }
}
