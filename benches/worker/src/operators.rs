//! The operators: how to make the inputs of each, and how to run it.

use anyhow::{bail, Context, Result};
use candle_core::{DType, Tensor, D};
use candle_nn::{ops, rotary_emb};

use crate::data::Range;
use crate::operator::{size_of, Maker, Operator};
use crate::products;

type Unary = fn(&Tensor) -> candle_core::Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> candle_core::Result<Tensor>;

/// Of one tensor of any dimensions.
const UNARY: &[(&str, Range, Unary)] = {
    use Range::{Positive, Signed};
    &[
        ("copy", Signed, |x| x.copy()),
        ("exp", Signed, |x| x.exp()),
        ("log", Positive, |x| x.log()),
        ("sin", Signed, |x| x.sin()),
        ("cos", Signed, |x| x.cos()),
        ("tanh", Signed, |x| x.tanh()),
        ("abs", Signed, |x| x.abs()),
        ("neg", Signed, |x| x.neg()),
        ("recip", Positive, |x| x.recip()),
        ("sqr", Signed, |x| x.sqr()),
        ("sqrt", Positive, |x| x.sqrt()),
        ("gelu", Signed, |x| x.gelu()),
        ("gelu_erf", Signed, |x| x.gelu_erf()),
        ("erf", Signed, |x| x.erf()),
        ("silu", Signed, |x| x.silu()),
        ("relu", Signed, |x| x.relu()),
        ("sigmoid", Signed, ops::sigmoid),
        ("floor", Signed, |x| x.floor()),
        ("round", Signed, |x| x.round()),
        ("elu", Signed, |x| x.elu(1.5)),
        ("powf", Positive, |x| x.powf(1.5)),
        ("affine", Signed, |x| x.affine(1.5, 0.25)),
        ("cast_f16", Signed, |x| x.to_dtype(DType::F16)),
        ("cast_bf16", Signed, |x| x.to_dtype(DType::BF16)),
        ("cast_f32", Signed, |x| x.to_dtype(DType::F32)),
        ("cast_f64", Signed, |x| x.to_dtype(DType::F64)),
        ("cast_u8", Positive, |x| x.to_dtype(DType::U8)),
        ("sum_last", Signed, |x| x.sum(D::Minus1)),
        ("max_last", Signed, |x| x.max(D::Minus1)),
        ("argmax_last", Signed, |x| x.argmax(D::Minus1)),
        ("sum_first", Signed, |x| x.sum(0)),
        ("max_first", Signed, |x| x.max(0)),
        ("argmax_first", Signed, |x| x.argmax(0)),
        ("sum_all", Signed, |x| x.sum_all()),
        ("softmax", Signed, ops::softmax_last_dim),
        ("sort", Signed, |x| Ok(x.sort_last_dim(true)?.0)),
        ("argsort", Signed, |x| x.arg_sort_last_dim(true)),
        ("transpose", Signed, |x| x.t()?.contiguous()),
        ("exp_transposed", Signed, |x| x.t()?.exp()),
        // (batch, sequence, head, width) to (batch, head, sequence, width), as before attention.
        ("swap_middle", Signed, |x| x.transpose(1, 2)?.contiguous()),
        ("avg_pool2d", Signed, |x| x.avg_pool2d(2)),
        ("max_pool2d", Signed, |x| x.max_pool2d(2)),
        ("upsample_nearest2d", Signed, |x| {
            let (_, _, h, w) = x.dims4()?;
            x.upsample_nearest2d(2 * h, 2 * w)
        }),
        ("upsample_bilinear2d", Signed, |x| {
            let (_, _, h, w) = x.dims4()?;
            x.upsample_bilinear2d(2 * h, 2 * w, false)
        }),
    ]
};

/// Of two tensors of the same dimensions.
const BINARY: &[(&str, Binary)] = &[
    ("add", |x, y| x + y),
    ("sub", |x, y| x - y),
    ("mul", |x, y| x * y),
    ("div", |x, y| x / y),
    ("minimum", |x, y| x.minimum(y)),
    ("maximum", |x, y| x.maximum(y)),
    ("lt", |x, y| x.lt(y)),
    ("eq", |x, y| x.eq(y)),
    ("cat_first", |x, y| Tensor::cat(&[x, y], 0)),
    ("cat_last", |x, y| Tensor::cat(&[x, y], D::Minus1)),
    ("add_transposed", |x, y| x.t()? + y.t()?),
];

type Make = fn(&Maker) -> Result<Operator>;

/// With inputs of their own.
const OTHERS: &[(&str, Make)] = &[
    ("add_row", |m| {
        let [_, columns] = m.dims()?;
        let row = m.values(&[columns], Range::Signed, 1)?;
        Ok(Operator::new([m.main()?, row], |x| {
            x[0].broadcast_add(&x[1])
        }))
    }),
    ("mul_column", |m| {
        let [rows, _] = m.dims()?;
        let column = m.values(&[rows, 1], Range::Signed, 1)?;
        Ok(Operator::new([m.main()?, column], |x| {
            x[0].broadcast_mul(&x[1])
        }))
    }),
    ("narrow", |m| {
        let [rows, columns] = m.dims()?;
        let wide = m.values(&[rows, 2 * columns], Range::Signed, 0)?;
        let half = wide.narrow(1, columns, columns)?;
        Ok(Operator::new([half], |x| x[0].contiguous()))
    }),
    ("where", |m| {
        let condition = m.block.indices(m.dims, 2, 7)?.to_dtype(DType::U8)?;
        let other = m.values(m.dims, Range::Signed, 1)?;
        Ok(Operator::new([condition, m.main()?, other], |x| {
            x[0].where_cond(&x[1], &x[2])
        }))
    }),
    ("fill", |m| {
        let like = m.main()?;
        let bytes = size_of(&like);
        Ok(Operator::new([like], |x| x[0].ones_like()).moving(bytes))
    }),
    ("zeros", |m| {
        let like = m.main()?;
        let bytes = size_of(&like);
        Ok(Operator::new([like], |x| x[0].zeros_like()).moving(bytes))
    }),
    ("index_select", |m| {
        let [rows, _] = m.dims()?;
        let ids = m.block.indices(rows, rows, 3)?;
        Ok(Operator::new([m.main()?, ids], |x| {
            x[0].index_select(&x[1], 0)
        }))
    }),
    ("index_add", |m| {
        let [rows, _] = m.dims()?;
        let ids = m.block.indices(rows, rows, 3)?;
        let source = m.values(m.dims, Range::Signed, 1)?;
        Ok(Operator::new([m.main()?, ids, source], |x| {
            x[0].index_add(&x[1], &x[2], 0)
        }))
    }),
    ("gather", |m| {
        let [_, columns] = m.dims()?;
        let ids = m.block.indices(m.dims, columns, 3)?;
        Ok(Operator::new([m.main()?, ids], |x| {
            x[0].gather(&x[1], D::Minus1)
        }))
    }),
    ("scatter_add", |m| {
        let [_, columns] = m.dims()?;
        let ids = m.block.indices(m.dims, columns, 3)?;
        let source = m.values(m.dims, Range::Signed, 1)?;
        Ok(Operator::new([m.main()?, ids, source], |x| {
            x[0].scatter_add(&x[1], &x[2], D::Minus1)
        }))
    }),
    ("layer_norm", |m| {
        let width = *m.dims.last().context("no dimensions")?;
        let alpha = m.values(&[width], Range::Positive, 1)?;
        let beta = m.values(&[width], Range::Signed, 2)?;
        Ok(Operator::new([m.main()?, alpha, beta], |x| {
            ops::layer_norm(&x[0], &x[1], &x[2], 1e-5)
        }))
    }),
    ("rms_norm", |m| {
        let width = *m.dims.last().context("no dimensions")?;
        let alpha = m.values(&[width], Range::Positive, 1)?;
        Ok(Operator::new([m.main()?, alpha], |x| {
            ops::rms_norm(&x[0], &x[1], 1e-5)
        }))
    }),
    ("rope", |m| {
        let [_, _, sequence, _] = m.dims()?;
        rope(m, sequence, rotary_emb::rope)
    }),
    ("rope_i", |m| {
        let [_, _, sequence, _] = m.dims()?;
        rope(m, sequence, rotary_emb::rope_i)
    }),
    ("rope_thd", |m| {
        let [_, sequence, _, _] = m.dims()?;
        rope(m, sequence, rotary_emb::rope_thd)
    }),
    ("conv1d", |m| {
        let [batch, channels, length] = m.dims()?;
        let kernel = m.values(&[channels, channels, 3], Range::Signed, 1)?;
        let conv = Operator::new([m.main()?, kernel], |x| x[0].conv1d(&x[1], 1, 1, 1, 1));
        Ok(Operator {
            flops: (2 * batch * length * channels * channels * 3) as u64,
            ..conv
        })
    }),
    ("conv2d", |m| {
        let [batch, channels, height, width] = m.dims()?;
        let kernel = m.values(&[channels, channels, 3, 3], Range::Signed, 1)?;
        let conv = Operator::new([m.main()?, kernel], |x| x[0].conv2d(&x[1], 1, 1, 1, 1));
        Ok(Operator {
            flops: (2 * batch * height * width * channels * channels * 9) as u64,
            ..conv
        })
    }),
    ("conv_transpose2d", |m| {
        let [batch, channels, height, width] = m.dims()?;
        let kernel = m.values(&[channels, channels, 2, 2], Range::Signed, 1)?;
        let conv = Operator::new([m.main()?, kernel], |x| {
            x[0].conv_transpose2d(&x[1], 0, 0, 2, 1)
        });
        Ok(Operator {
            flops: (2 * batch * height * width * channels * channels * 4) as u64,
            ..conv
        })
    }),
    ("matmul", products::matmul),
    // The second matrix is stored with its columns as rows, as a linear layer's weights are.
    ("linear", products::linear),
];

/// What Candle's own backend has not.
pub const OURS_ALONE: [&str; 14] = [
    "attention",
    "attention_causal",
    "attention_backward",
    "attention_causal_backward",
    "attend",
    "sort_pairs",
    "topk_50",
    "cumsum_last",
    "cumsum_first",
    "cross_entropy",
    "cross_entropy_training",
    "linear_cross_entropy",
    "adamw",
    "dropout",
];

fn rope(
    m: &Maker,
    sequence: usize,
    run: fn(&Tensor, &Tensor, &Tensor) -> candle_core::Result<Tensor>,
) -> Result<Operator> {
    let half = m.dims.last().context("no dimensions")? / 2;
    let cos = m.values(&[sequence, half], Range::Signed, 1)?;
    let sin = m.values(&[sequence, half], Range::Signed, 2)?;
    Ok(Operator::new([m.main()?, cos, sin], move |x| {
        run(&x[0], &x[1], &x[2])
    }))
}

/// The operator of this name, with inputs.
///
/// # Errors
/// There is none, or it does not take the case's dimensions.
pub fn make(op: &str, maker: &Maker) -> Result<Operator> {
    if let Some(&(_, range, run)) = UNARY.iter().find(|(name, ..)| *name == op) {
        let x = maker.values(maker.dims, range, 0)?;
        return Ok(Operator::new([x], move |x| run(&x[0])));
    }
    if let Some(&(_, run)) = BINARY.iter().find(|(name, _)| *name == op) {
        let x = maker.main()?;
        let y = maker.values(maker.dims, Range::Positive, 1)?;
        return Ok(Operator::new([x, y], move |x| run(&x[0], &x[1])));
    }
    #[cfg(feature = "session")]
    if let Some((_, make)) = crate::attention::ALL.iter().find(|(name, _)| *name == op) {
        return make(maker);
    }
    #[cfg(feature = "session")]
    if let Some((_, make)) = crate::training::ALL.iter().find(|(name, _)| *name == op) {
        return make(maker);
    }
    #[cfg(feature = "session")]
    if let Some(made) = crate::order::make(op, maker) {
        return made;
    }
    let others = OTHERS.iter().chain(&crate::convolutions::ALL);
    let Some((_, make)) = others.into_iter().find(|(name, _)| *name == op) else {
        bail!("no operator is called {op}");
    };
    make(maker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_operators_have_the_same_name() {
        let unary = UNARY.iter().map(|(name, ..)| *name);
        let binary = BINARY.iter().map(|(name, _)| *name);
        let others = OTHERS.iter().chain(&crate::convolutions::ALL);
        let others = others.map(|(name, _)| *name);
        let mut seen = std::collections::HashSet::new();
        for name in unary.chain(binary).chain(others) {
            assert!(seen.insert(name), "{name}");
        }
        #[cfg(feature = "session")]
        {
            let attention = crate::attention::ALL.iter().map(|(name, _)| *name);
            let training = crate::training::ALL.iter().map(|(name, _)| *name);
            let ours = attention.chain(crate::order::names()).chain(training);
            let ours: Vec<_> = ours.collect();
            assert_eq!(ours, OURS_ALONE);
        }
        assert!(OURS_ALONE.iter().all(|name| seen.insert(name)));
    }
}
