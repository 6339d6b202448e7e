//! Convolutions: of small integers, whose sums are exact in whatever order and unit they are added.

use candle_core::DType;
use candle_rocm_backend::ops::{self, ConvOptions, ConvTransposeOptions};
use parity::numbers::WIDE_FLOATS;

use crate::results::ladder::{small, Kind, Ladders};

const EXACT: Kind = Kind {
    top: 37,
    least: 3,
    lawful: None,
    tolerance: Some([0., 0., 0.]),
};

pub(super) fn add(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        let inputs = move |size: usize| {
            Ok(vec![
                small(dtype, 91, &[2, 5, size, size + 1])?,
                small(dtype, 92, &[7, 5, 3, 3])?,
            ])
        };
        ladders.add(EXACT, of("3 x 3"), inputs, |x| {
            let options = ConvOptions {
                padding: [[1, 1], [1, 1]],
                ..ConvOptions::default()
            };
            ops::conv2d(&x[0], &x[1], &options)
        });
        ladders.add(EXACT, of("3 x 3, stride 2, by Candle"), inputs, |x| {
            x[0].conv2d(&x[1], 1, 2, 1, 1)
        });
    }
    for dtype in [DType::F32, DType::F16] {
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        let inputs = move |size: usize| {
            Ok(vec![
                small(dtype, 93, &[1, 6, 8 * size])?,
                small(dtype, 94, &[4, 6, 5])?,
            ])
        };
        ladders.add(EXACT, of("along one axis"), inputs, |x| {
            ops::conv1d(&x[0], &x[1], &ConvOptions::default())
        });
        let inputs = move |size: usize| {
            Ok(vec![
                small(dtype, 95, &[1, 6, size, size])?,
                small(dtype, 96, &[6, 4, 4, 4])?,
            ])
        };
        ladders.add(EXACT, of("transposed"), inputs, |x| {
            let options = ConvTransposeOptions {
                stride: [2, 2],
                padding: [1, 1],
                ..ConvTransposeOptions::default()
            };
            ops::conv_transpose2d(&x[0], &x[1], &options)
        });
    }
}
