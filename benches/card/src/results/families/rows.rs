//! Rows: norms, softmax, rotary positions, gates, losses, transforms.

use candle_core::{DType, Result, Tensor};
use candle_rocm_backend::ops::{self, Activation, CrossEntropyOptions};
use parity::numbers::WIDE_FLOATS;

use crate::results::ladder::{any, indices, Kind, Ladders, Truth};
use crate::results::lawful::TRANSCENDENTAL;

/// Longer than a workgroup's registers hold.
const TOP: usize = 20_483;

const KIND: Kind = Kind {
    top: TOP,
    least: 1,
    lawful: Some(TRANSCENDENTAL),
    // Exponentials, roots and sums of rows in f32, rounded once.
    tolerance: Some([2., 2., 64.]),
};

pub(super) fn norms(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        let inputs = move |size: usize| {
            Ok(vec![
                any(dtype, 71, &[3, size])?,
                any(dtype, 72, &[3, size])?,
                any(dtype, 73, &[size])?,
            ])
        };
        let mut add = |name: &str, run: fn(&[Tensor]) -> Result<Tensor>| {
            // A row of one element less its mean is nothing.
            let kind = Kind { least: 3, ..KIND };
            ladders.add(kind, format!("{name} {}", dtype.as_str()), inputs, run);
        };
        add("rms", |x| ops::rms_norm(&x[0], &x[2], 1e-5));
        add("layer", |x| ops::layer_norm(&x[0], &x[2], None, 1e-5));
        add("add, rms", |x| {
            Ok(ops::add_rms_norm(&x[0], &x[1], &x[2], 1e-5)?.1)
        });
    }
    for dtype in [DType::F32, DType::F16] {
        let inputs =
            move |size: usize| Ok(vec![any(dtype, 74, &[2, 6, size])?, any(dtype, 75, &[6])?]);
        let kind = Kind { top: 2051, ..KIND };
        // There are no norms of groups in f64.
        let truth: Truth = |x| {
            let [x, weight] = [&x[0], &x[1]].map(|x| x.to_dtype(DType::F32));
            ops::group_norm(&x?, 2, &weight?, None, 1e-5)
        };
        let name = format!("group {}", dtype.as_str());
        let run = |x: &[Tensor]| ops::group_norm(&x[0], 2, &x[1], None, 1e-5);
        ladders.add_with(kind, name, inputs, run, Some(truth));
    }
}

pub(super) fn softmax(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        let inputs = move |size: usize| Ok(vec![any(dtype, 76, &[3, size])?]);
        let of = |name: &str| format!("{name}{}", dtype.as_str());
        let kind = Kind {
            tolerance: match dtype {
                // The CPU adds 20,483 exponentials in f64 one after another: a rounding each.
                DType::F64 => Some([1024., 2., 64.]),
                _ => KIND.tolerance,
            },
            ..KIND
        };
        ladders.add(kind, of(""), inputs, |x| ops::softmax(&x[0]));
        ladders.add(kind, of("logarithm "), inputs, |x| ops::log_softmax(&x[0]));
        ladders.add(kind, of("scaled "), inputs, |x| {
            ops::scaled_masked_softmax(&x[0], 0.125, None)
        });
    }
}

pub(super) fn rope(ladders: &mut Ladders) {
    let kind = Kind {
        top: 513,
        lawful: None,
        // Two products and a sum, rounded together or one after the other.
        tolerance: Some([2., 2., 4.]),
        ..KIND
    };
    for dtype in WIDE_FLOATS {
        let inputs = move |size: usize| {
            Ok(vec![
                any(dtype, 77, &[1, 2, size, 16])?,
                any(dtype, 78, &[size, 8])?,
                any(dtype, 79, &[size, 8])?,
            ])
        };
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        ladders.add(kind, of("halves"), inputs, |x| {
            candle_nn::rotary_emb::rope(&x[0], &x[1], &x[2])
        });
        ladders.add(kind, of("neighbours"), inputs, |x| {
            candle_nn::rotary_emb::rope_i(&x[0], &x[1], &x[2])
        });
    }
}

pub(super) fn activations(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        let inputs = move |size: usize| {
            Ok(vec![
                any(dtype, 80, &[3, size])?,
                any(dtype, 81, &[3, size])?,
                any(dtype, 82, &[size])?,
            ])
        };
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        let kind = Kind { top: 8195, ..KIND };
        ladders.add(kind, of("swiglu"), inputs, |x| ops::swiglu(&x[0], &x[1]));
        ladders.add(kind, of("bias, gelu"), inputs, |x| {
            ops::bias_activation(&x[0], Some(&x[2]), Activation::Gelu, Some(&x[1]))
        });
    }
}

pub(super) fn losses(ladders: &mut Ladders) {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let kind = Kind {
            least: 2,
            // A logarithm of a sum of exponentials less a logit.
            tolerance: Some([4., 4., 64.]),
            ..KIND
        };
        let inputs =
            move |size: usize| Ok(vec![any(dtype, 83, &[5, size])?, indices(size, 84, &[5])?]);
        ladders.add(
            kind,
            format!("cross entropy {}", dtype.as_str()),
            inputs,
            |x| ops::cross_entropy(&x[0], &x[1], &CrossEntropyOptions::default()),
        );
    }
}

pub(super) fn fft(ladders: &mut Ladders) {
    for dtype in [DType::F32, DType::F64] {
        let kind = Kind {
            top: 1025,
            // Sums of products with roots of one, a few for each factor of the length.
            tolerance: Some([2., 2., 64.]),
            ..KIND
        };
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        let real = move |size: usize| Ok(vec![any(dtype, 85, &[2, size])?]);
        ladders.add(kind, of("real"), real, |x| ops::fft::rfft(&x[0]));
        let complex = move |size: usize| Ok(vec![any(dtype, 86, &[2, size, 2])?]);
        ladders.add(kind, of("complex"), complex, |x| ops::fft::fft(&x[0]));
        // Of four times 729 elements, in two steps; half of it has factors that passes do not have, as a convolution.
        let long = move |size: usize| Ok(vec![any(dtype, 87, &[2, 4 * size, 2])?]);
        let top = 729;
        ladders.add(Kind { top, ..kind }, of("inverse, long"), long, |x| {
            ops::fft::ifft(&x[0])
        });
        let half = move |size: usize| Ok(vec![any(dtype, 88, &[2, size / 2 + 1, 2])?]);
        ladders.add(kind, of("inverse, real"), half, |x| {
            // Sizes are odd.
            ops::fft::irfft(&x[0], 2 * x[0].dims()[1] - 1)
        });
    }
}
