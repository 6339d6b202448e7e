//! Random numbers: the same from the same seed.

use candle_core::{DType, Tensor};
use candle_rocm_backend::ops;

use crate::results::ladder::{small, Kind, Ladders};
use crate::results::lawful::TRANSCENDENTAL;

const EXACT: Kind = Kind {
    top: 32_771,
    least: 1,
    lawful: None,
    tolerance: Some([0., 0., 0.]),
};

pub(super) fn add(ladders: &mut Ladders) {
    for dtype in [DType::F32, DType::F16] {
        // The CPU draws the same mask; factors are powers of two.
        let inputs = move |size: usize| Ok(vec![small(dtype, 97, &[size])?]);
        ladders.add(EXACT, format!("dropout {}", dtype.as_str()), inputs, |x| {
            ops::dropout(&x[0], 0.5, 7)
        });
    }
    // The CPU has another generator: digests alone hold these.
    let inputs = move |size: usize| Ok(vec![small(DType::F32, 98, &[size])?]);
    let uniform = Kind {
        tolerance: None,
        ..EXACT
    };
    ladders.add(uniform, "uniform f32", inputs, |x| {
        x[0].device().set_seed(299_792_458)?;
        Tensor::rand(-1f32, 1f32, x[0].dims(), x[0].device())
    });
    let normal = Kind {
        lawful: Some(TRANSCENDENTAL),
        ..uniform
    };
    ladders.add(normal, "normal f32", inputs, |x| {
        x[0].device().set_seed(299_792_458)?;
        Tensor::randn(0f32, 1f32, x[0].dims(), x[0].device())
    });
}
