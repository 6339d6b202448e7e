//! The product of small dense matrices.

use super::elements::{unpack_floats, unpack_integers, Element};
use crate::exec::simd::multiversion;
use crate::exec::{Row, LANES};

/// Rows and columns of the result, the inner dimension, and independent products in one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub blocks: usize,
}

/// A type that products are accumulated in.
pub(super) trait Number: Copy {
    const ZERO: Self;
    const INTEGER: bool;
    fn from_bits(bits: u64) -> Self;
    fn to_bits(self) -> u64;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    /// Integers: add, wrapping or saturating.
    fn add_integer(self, other: Self, clamp: bool) -> Self;
    /// Elements of one register, at a bit offset.
    fn unpack(element: Element, row: &Row, shift: u32, values: &mut [Self; LANES]);
    /// c += a * b for matrices stored by k (a: `k * m + i`, b: `k * n + j`) and by row (c: `i * n + j`).
    fn product(shape: Shape, a: &[Self], b: &[Self], c: &mut [Self]);
}

/// One block's product.
pub(super) fn multiply<T: Number>(shape: Shape, a: &[T], b: &[T], c: &mut [T]) {
    T::product(
        shape,
        &a[..shape.m * shape.k],
        &b[..shape.n * shape.k],
        &mut c[..shape.m * shape.n],
    );
}

/// The loop for a width known to the compiler: a row of the result stays in registers over k.
#[inline(always)]
fn rows<T: Copy, const N: usize>(
    m: usize,
    a: &[T],
    b: &[T],
    c: &mut [T],
    fma: impl Fn(T, T, T) -> T,
) {
    for (i, row) in c.chunks_exact_mut(N).enumerate() {
        let mut sums: [T; N] = std::array::from_fn(|j| row[j]);
        for (column, b_row) in a.chunks_exact(m).zip(b.chunks_exact(N)) {
            let factor = column[i];
            for (sum, &value) in sums.iter_mut().zip(b_row) {
                *sum = fma(factor, value, *sum);
            }
        }
        row.copy_from_slice(&sums);
    }
}

macro_rules! product {
    ($type:ty, $name:ident, |$a:ident, $b:ident, $c:ident| $fma:expr) => {
        multiversion! {
            fn $name(m: usize, n: usize, a: &[$type], b: &[$type], c: &mut [$type]) {
                #[inline(always)]
                fn fma($a: $type, $b: $type, $c: $type) -> $type {
                    $fma
                }
                match n {
                    32 => rows::<$type, 32>(m, a, b, c, fma),
                    16 => rows::<$type, 16>(m, a, b, c, fma),
                    _ => rows::<$type, 4>(m, a, b, c, fma),
                }
            }
        }
    };
}

product!(f32, product_f32, |a, b, c| a.mul_add(b, c));
product!(f64, product_f64, |a, b, c| a.mul_add(b, c));
product!(i32, product_i32, |a, b, c| a
    .wrapping_mul(b)
    .wrapping_add(c));

impl Number for f32 {
    const ZERO: f32 = 0.0;
    const INTEGER: bool = false;

    #[inline(always)]
    fn from_bits(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }

    #[inline(always)]
    fn to_bits(self) -> u64 {
        self.to_bits() as u64
    }

    fn neg(self) -> f32 {
        -self
    }

    fn abs(self) -> f32 {
        self.abs()
    }

    fn add_integer(self, _other: f32, _clamp: bool) -> f32 {
        self
    }

    fn unpack(element: Element, row: &Row, shift: u32, values: &mut [f32; LANES]) {
        unpack_floats(element, row, shift, values);
    }

    fn product(shape: Shape, a: &[f32], b: &[f32], c: &mut [f32]) {
        product_f32(shape.m, shape.n, a, b, c);
    }
}

impl Number for f64 {
    const ZERO: f64 = 0.0;
    const INTEGER: bool = false;

    fn from_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }

    fn to_bits(self) -> u64 {
        self.to_bits()
    }

    fn neg(self) -> f64 {
        -self
    }

    fn abs(self) -> f64 {
        self.abs()
    }

    fn add_integer(self, _other: f64, _clamp: bool) -> f64 {
        self
    }

    fn unpack(_element: Element, _row: &Row, _shift: u32, _values: &mut [f64; LANES]) {}

    fn product(shape: Shape, a: &[f64], b: &[f64], c: &mut [f64]) {
        product_f64(shape.m, shape.n, a, b, c);
    }
}

impl Number for i32 {
    const ZERO: i32 = 0;
    const INTEGER: bool = true;

    #[inline(always)]
    fn from_bits(bits: u64) -> i32 {
        bits as i32
    }

    #[inline(always)]
    fn to_bits(self) -> u64 {
        self as u32 as u64
    }

    fn neg(self) -> i32 {
        self
    }

    fn abs(self) -> i32 {
        self
    }

    #[inline(always)]
    fn add_integer(self, other: i32, clamp: bool) -> i32 {
        if clamp {
            self.saturating_add(other)
        } else {
            self.wrapping_add(other)
        }
    }

    fn unpack(element: Element, row: &Row, shift: u32, values: &mut [i32; LANES]) {
        let signed = matches!(
            element,
            Element::Int8 { signed: true } | Element::Int4 { signed: true }
        );
        unpack_integers(row, shift, element.bits() as u32, signed, values);
    }

    fn product(shape: Shape, a: &[i32], b: &[i32], c: &mut [i32]) {
        product_i32(shape.m, shape.n, a, b, c);
    }
}
