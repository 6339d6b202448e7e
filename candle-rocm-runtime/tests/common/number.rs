//! Numbers of the kernels' float types, as tests make them and compare them in f64.

use half::{bf16, f16};

/// A float type.
pub trait Number: Copy + Send + Sync + 'static {
    /// Spacing of numbers around 1.
    const EPSILON: f64;
    /// The nearest.
    fn new(value: f64) -> Self;
    /// Its value.
    fn value(self) -> f64;
}

macro_rules! numbers {
    ($($type:ty, $epsilon:expr, $x:ident, $new:expr, $value:expr;)*) => {$(
        impl Number for $type {
            const EPSILON: f64 = $epsilon;
            fn new($x: f64) -> Self {
                $new
            }
            fn value(self) -> f64 {
                let $x = self;
                $value
            }
        }
    )*};
}
numbers! {
    f16, 0.000_976_562_5, x, f16::from_f64(x), x.to_f64();
    bf16, 0.007_812_5, x, bf16::from_f64(x), x.to_f64();
    f32, f32::EPSILON as f64, x, x as f32, f64::from(x);
    f64, f64::EPSILON, x, x, x;
}
