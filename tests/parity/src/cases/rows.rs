//! candle-nn's operators on rows: softmax, norms, rotary embeddings, losses.

use candle_core::{DType, Result, Tensor, D};
use candle_nn::{loss, ops, rotary_emb};

use super::{any, input, name, List};
use crate::case::Input;
use crate::numbers::{Numbers, WIDE_FLOATS};

/// Rows and columns: shorter than a wave, odd, longer than a workgroup.
const SHAPES: [(usize, usize); 9] = [
    (1, 1),
    (3, 2),
    (5, 7),
    (3, 32),
    (2, 33),
    (2, 127),
    (1, 1000),
    (2, 1025),
    (1, 2500),
];
const EPSILON: f32 = 1e-5;

type Rotate = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

pub(super) fn add(list: &mut List) -> Result<()> {
    for dtype in WIDE_FLOATS {
        for (rows, columns) in SHAPES {
            softmax_and_norms(list, dtype, rows, columns)?;
        }
        rotations(list, dtype)?;
        losses(list, dtype)?;
        layers(list, dtype)?;
    }
    Ok(())
}

fn softmax_and_norms(list: &mut List, dtype: DType, rows: usize, columns: usize) -> Result<()> {
    let dims = [rows, columns];
    let what = format!("{} {rows} x {columns}", name(dtype));
    let x = any(dtype, 61, &dims)?;
    list.add("softmax_last_dim", &what, vec![x.clone()], |x| {
        ops::softmax_last_dim(&x[0])
    })
    .truth_by(|x| ops::softmax(&x[0], D::Minus1));
    list.add("softmax", &what, vec![x.clone()], |x| {
        ops::softmax(&x[0], 0)
    });
    // Every third one is masked, but the first.
    let mask = (0..rows * columns).map(|i| match i % columns {
        place if place % 3 == 1 => f64::NEG_INFINITY,
        _ => 0.0,
    });
    let mask = input(&Numbers::Floats(mask.collect()), dtype, &dims)?;
    let masked = format!("{what}, masked");
    list.add("softmax_last_dim", masked, vec![x.clone(), mask], |x| {
        ops::softmax_last_dim(&(&x[0] + &x[1])?)
    })
    .truth_by(|x| ops::softmax(&(&x[0] + &x[1])?, D::Minus1));
    list.add("log_softmax", &what, vec![x.clone()], |x| {
        ops::log_softmax(&x[0], D::Minus1)
    });
    let (alpha, beta) = (any(dtype, 62, &[columns])?, any(dtype, 63, &[columns])?);
    list.add("rms_norm", &what, vec![x.clone(), alpha.clone()], |x| {
        ops::rms_norm(&x[0], &x[1], EPSILON)
    })
    .truth_by(|x| {
        let mean = x[0].sqr()?.mean_keepdim(1)?;
        let root = mean.affine(1.0, f64::from(EPSILON))?.sqrt()?;
        x[0].broadcast_div(&root)?.broadcast_mul(&x[1])
    });
    // Rows of few, nearly equal numbers have a variance of few digits.
    if columns > 2 {
        list.add("layer_norm", &what, vec![x, alpha, beta], |x| {
            ops::layer_norm(&x[0], &x[1], &x[2], EPSILON)
        })
        .truth_by(|x| {
            let centred = x[0].broadcast_sub(&x[0].mean_keepdim(1)?)?;
            let variance = centred.sqr()?.mean_keepdim(1)?;
            let root = variance.affine(1.0, f64::from(EPSILON))?.sqrt()?;
            let scaled = centred.broadcast_div(&root)?.broadcast_mul(&x[1])?;
            scaled.broadcast_add(&x[2])
        });
    }
    Ok(())
}

fn rotations(list: &mut List, dtype: DType) -> Result<()> {
    for (b, h, t, d) in [(1, 1, 1, 2), (2, 3, 5, 8), (1, 2, 7, 64), (2, 1, 9, 18)] {
        let angles = Numbers::between(-1.0, 1.0, 66, 2 * t * d / 2);
        let tables = input(&angles, dtype, &[2, t, d / 2])?;
        let inputs = vec![any(dtype, 65, &[1 + b * h * t * d])?, tables];
        for (operator, run, slow) in [
            (
                "rope",
                rotary_emb::rope as Rotate,
                rotary_emb::rope_slow as Rotate,
            ),
            ("rope_i", rotary_emb::rope_i, rotary_emb::rope_i_slow),
            ("rope_thd", rotary_emb::rope_thd, |x, cos, sin| {
                let heads_first = x.transpose(1, 2)?.contiguous()?;
                let rotated = rotary_emb::rope_slow(&heads_first, cos, sin)?;
                rotated.transpose(1, 2)?.contiguous()
            }),
        ] {
            let dims = match operator {
                "rope_thd" => [b, t, h, d],
                _ => [b, h, t, d],
            };
            let apply = move |run: Rotate, x: &[Tensor]| {
                let rows = x[0].narrow(0, 1, b * h * t * d)?.reshape(&dims)?;
                run(&rows, &x[1].get(0)?, &x[1].get(1)?)
            };
            let what = format!("{} {dims:?}", name(dtype));
            list.add(operator, &what, inputs.clone(), move |x| apply(run, x))
                .truth_by(move |x| apply(slow, x));
            if b > 1 {
                // Angles of their own for each of the batch.
                let angles = Numbers::between(-1.0, 1.0, 64, 2 * b * t * d / 2);
                let tables = input(&angles, dtype, &[2, b, t, d / 2])?;
                let inputs = vec![inputs[0].clone(), tables];
                let what = format!("{what}, angles for each");
                list.add(operator, what, inputs, move |x| apply(run, x));
            }
        }
    }
    Ok(())
}

fn losses(list: &mut List, dtype: DType) -> Result<()> {
    let targets = Numbers::Integers((0..9).map(|i| i * i % 7).collect());
    let targets = Input::Fixed(targets.tensor(DType::U32, &[9])?);
    let inputs = vec![any(dtype, 67, &[9, 7])?, targets];
    list.add("cross_entropy", name(dtype), inputs, |x| {
        loss::cross_entropy(&x[0], &x[1])
    });
    let inputs = vec![any(dtype, 68, &[9, 7])?, any(dtype, 69, &[9, 7])?];
    list.add("mse", name(dtype), inputs.clone(), |x| {
        loss::mse(&x[0], &x[1])
    });
    list.add("huber", name(dtype), inputs, |x| {
        loss::huber(&x[0], &x[1], 1.0)
    });
    let labels = Numbers::Floats((0..63).map(|i| f64::from(i % 2)).collect());
    let inputs = vec![any(dtype, 70, &[9, 7])?, input(&labels, dtype, &[9, 7])?];
    list.add("binary_cross_entropy", name(dtype), inputs, |x| {
        loss::binary_cross_entropy_with_logit(&x[0], &x[1])
    });
    Ok(())
}

/// Layers that are made of several operators.
fn layers(list: &mut List, dtype: DType) -> Result<()> {
    let inputs = vec![
        any(dtype, 93, &[2, 6, 5])?,
        any(dtype, 94, &[6])?,
        any(dtype, 95, &[6])?,
    ];
    list.add("group_norm", name(dtype), inputs.clone(), |x| {
        let norm = candle_nn::GroupNorm::new(x[1].clone(), x[2].clone(), 6, 3, 1e-5)?;
        candle_core::Module::forward(&norm, &x[0])
    });
    // Mean and variance, which must be positive, of an earlier time.
    list.add("batch_norm", name(dtype), inputs, |x| {
        let (mean, variance) = (x[1].affine(0.5, 0.1)?, x[2].abs()?.affine(1.0, 0.5)?);
        let norm = candle_nn::BatchNorm::new(6, mean, variance, x[1].clone(), x[2].clone(), 1e-5)?;
        candle_core::ModuleT::forward_t(&norm, &x[0], false)
    });
    let inputs = vec![any(dtype, 96, &[3, 4, 9, 16])?];
    list.add("attention", name(dtype), inputs, |x| {
        let [q, k, v] = [0, 1, 2].map(|i| x[0].get(i));
        let (q, k) = (q?, k?);
        let scores = (q.matmul(&k.t()?)? * 0.25)?;
        ops::softmax(&scores, D::Minus1)?.matmul(&v?)
    });
    Ok(())
}
