//! Losses, dropout and optimisers, by candle_rocm_backend's operators.

use std::cell::RefCell;

use anyhow::Result;
use candle_core::{Tensor, Var};
use candle_nn::Optimizer as _;
use candle_rocm_backend::ops::{self, CrossEntropyOptions};
use candle_rocm_backend::optim::{AdamW, AdamWConfig};

use crate::data::Range;
use crate::operator::{size_of, Maker, Operator};

type Make = fn(&Maker) -> Result<Operator>;

/// `cross_entropy` is of (rows, columns), with its gradient as `cross_entropy_training`; `linear_cross_entropy` of (rows,
/// width, columns), with both gradients; `adamw` of (tensors, elements of each).
pub const ALL: [(&str, Make); 5] = [
    ("cross_entropy", |m| cross_entropy(m, false)),
    ("cross_entropy_training", |m| cross_entropy(m, true)),
    ("linear_cross_entropy", linear_cross_entropy),
    ("adamw", adamw),
    ("dropout", |m| {
        Ok(Operator::new([m.main()?], |x| ops::dropout(&x[0], 0.1, 1)))
    }),
];

/// The gradient that was made last, or an error.
fn gradient(loss: &Tensor, of: &Var) -> candle_core::Result<Tensor> {
    match loss.backward()?.get(of) {
        Some(gradient) => Ok(gradient.clone()),
        None => candle_core::bail!("a loss left an operand without a gradient"),
    }
}

/// Candle adds a gradient to zeros, which is timed with it.
fn cross_entropy(m: &Maker, backward: bool) -> Result<Operator> {
    let [rows, columns] = m.dims()?;
    let targets = m.block.indices(rows, columns, 3)?;
    let logits = m.main()?;
    let bytes = size_of(&logits);
    if !backward {
        let operator = Operator::new([logits, targets], |x| {
            ops::cross_entropy(&x[0], &x[1], &CrossEntropyOptions::default())
        });
        return Ok(operator.moving(bytes));
    }
    let logits = Var::from_tensor(&logits)?;
    let operator = Operator::new([logits.as_tensor().clone(), targets], move |x| {
        let loss = ops::cross_entropy(&logits, &x[1], &CrossEntropyOptions::default())?;
        gradient(&loss, &logits)
    });
    Ok(operator.moving(3 * bytes))
}

fn linear_cross_entropy(m: &Maker) -> Result<Operator> {
    let [rows, width, columns] = m.dims()?;
    let hidden = Var::from_tensor(&m.values(&[rows, width], Range::Signed, 0)?)?;
    let weight = Var::from_tensor(&m.scaled(&[columns, width], Range::Signed, 1, 0.02)?)?;
    let targets = m.block.indices(rows, columns, 3)?;
    let inputs = [&hidden, &weight].map(|of| of.as_tensor().clone());
    let bytes = 2 * inputs.iter().map(size_of).sum::<usize>();
    let operator = Operator::new(inputs, move |_| {
        let options = CrossEntropyOptions::default();
        let loss = ops::linear_cross_entropy(&hidden, &weight, &targets, &options, None)?;
        gradient(&loss, &weight)
    });
    Ok(Operator {
        flops: (3 * 2 * rows * width * columns) as u64,
        ..operator.moving(bytes)
    })
}

/// A step of weights whose gradients are at hand.
fn adamw(m: &Maker) -> Result<Operator> {
    let [tensors, elements] = m.dims()?;
    let weights = (0..tensors)
        .map(|seed| {
            Ok(Var::from_tensor(&m.values(
                &[elements],
                Range::Signed,
                seed,
            )?)?)
        })
        .collect::<Result<Vec<Var>>>()?;
    let mut loss = weights[0].sum_all()?;
    for weight in &weights[1..] {
        loss = (loss + weight.sum_all()?)?;
    }
    let gradients = loss.backward()?;
    let first = weights[0].as_detached_tensor();
    // Weights are read and written, and so are both states of f32; gradients are read.
    let bytes = tensors * (3 * size_of(&first) + 16 * elements);
    let optimizer = RefCell::new(AdamW::new(weights, AdamWConfig::default())?);
    let operator = Operator::new([first], move |x| {
        optimizer.borrow_mut().step(&gradients)?;
        Ok(x[0].clone())
    });
    Ok(operator.moving(bytes))
}
