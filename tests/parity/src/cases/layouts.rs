//! How the elements of an input lie in memory.

use candle_core::{Result, Tensor};

/// Arranges a long vector of [`LONG`] numbers.
pub(crate) type Layout = fn(&Tensor) -> Result<Tensor>;

/// Numbers that a layout is made of.
pub(crate) const LONG: usize = 260;

/// Layouts of many elements, contiguous or not, aligned or not.
pub(crate) const LAYOUTS: [(&str, Layout); 6] = [
    ("contiguous", |x| x.narrow(0, 0, 165)?.reshape((3, 5, 11))),
    ("a prime length from an odd offset", |x| x.narrow(0, 1, 257)),
    ("transposed", |x| {
        x.narrow(0, 0, 165)?.reshape((3, 5, 11))?.transpose(0, 2)
    }),
    ("broadcast", |x| {
        x.narrow(0, 0, 33)?
            .reshape((3, 1, 11))?
            .broadcast_as((3, 5, 11))
    }),
    ("columns from an offset", |x| {
        x.narrow(0, 0, 195)?.reshape((3, 5, 13))?.narrow(2, 2, 11)
    }),
    ("five dimensions permuted", |x| {
        x.narrow(0, 0, 144)?
            .reshape((2, 3, 2, 3, 4))?
            .permute((4, 0, 3, 1, 2))
    }),
];

/// Layouts of few elements, which are tried with fewer operators.
pub(crate) const SMALL_LAYOUTS: [(&str, Layout); 4] = [
    ("one number, broadcast", |x| {
        x.narrow(0, 3, 1)?.broadcast_as((3, 4))
    }),
    ("one element", |x| x.narrow(0, 5, 1)),
    ("no dimensions", |x| x.narrow(0, 5, 1)?.reshape(())),
    ("no elements", |x| x.narrow(0, 0, 0)?.reshape((0, 7, 3))),
];
