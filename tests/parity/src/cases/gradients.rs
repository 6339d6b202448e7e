//! Gradients of operators and of a small model, and steps of optimisers.

use candle_core::{DType, Result, Tensor, Var, D};
use candle_nn::{ops, Optimizer as _};

use super::{any, input, List};
use crate::case::Input;
use crate::numbers::Numbers;
use crate::training::TinyModel;

type Forward = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Operators of `x` (5, 7) and `y` (7, 5); both get a gradient where they are used.
const OF_MATRICES: [(&str, Forward); 21] = [
    ("exp", |x, _| x.exp()),
    ("log", |x, _| x.sqr()?.affine(1., 0.5)?.log()),
    ("sin, cos", |x, _| x.sin()? * x.cos()?),
    ("tanh", |x, _| x.tanh()),
    ("gelu", |x, _| x.gelu()),
    ("gelu_erf", |x, _| x.gelu_erf()),
    ("silu", |x, _| x.silu()),
    ("sigmoid", |x, _| ops::sigmoid(x)),
    ("elu", |x, _| x.elu(0.5)),
    ("sqrt", |x, _| x.sqr()?.affine(1., 0.5)?.sqrt()),
    ("powf", |x, _| x.sqr()?.affine(1., 0.5)?.powf(1.7)),
    ("abs, relu", |x, _| x.abs()? + x.relu()?),
    ("div", |x, y| x / (y.t()?.sqr()? + 0.5)?),
    ("matmul", |x, y| x.matmul(y)),
    ("broadcast", |x, y| {
        x.broadcast_mul(&y.narrow(1, 1, 1)?.t()?)?
            .broadcast_add(&y.get(0)?.unsqueeze(1)?)
    }),
    ("max", |x, _| x.max_keepdim(1)? * x.min_keepdim(1)?),
    ("softmax", |x, y| ops::softmax(x, D::Minus1)?.matmul(y)),
    ("log_softmax", |x, _| ops::log_softmax(x, D::Minus1)),
    ("cat", |x, y| Tensor::cat(&[x, &y.t()?], 0)?.sqr()),
    ("where_cond", |x, y| {
        let y = y.t()?.contiguous()?;
        x.gt(&y)?.where_cond(&x.sqr()?, &(&y * x)?)
    }),
    ("index_select", |x, y| {
        let ids = Tensor::new(&[4u32, 0, 3, 3, 1], x.device())?;
        let rows = x.index_select(&ids, 0)?.matmul(y)?;
        rows.gather(&ids.unsqueeze(1)?, 1)
    }),
];

/// Operators of `x` (2, 3, 6, 8) and `y` (4, 3, 3, 3).
const OF_IMAGES: [(&str, Forward); 7] = [
    ("conv2d", |x, y| x.conv2d(y, 1, 1, 1, 1)),
    ("conv2d with stride", |x, y| x.conv2d(y, 1, 2, 1, 1)),
    ("conv1d", |x, y| {
        x.narrow(2, 0, 1)?.squeeze(2)?.contiguous()?.conv1d(
            &y.narrow(2, 0, 1)?.squeeze(2)?.contiguous()?,
            1,
            1,
            1,
            1,
        )
    }),
    ("conv_transpose2d", |x, y| {
        x.conv_transpose2d(&y.transpose(0, 1)?.contiguous()?, 0, 0, 1, 1)
    }),
    ("avg_pool2d", |x, _| x.sqr()?.avg_pool2d(2)),
    ("max_pool2d", |x, _| x.sqr()?.max_pool2d(2)),
    ("upsample_nearest2d", |x, _| {
        x.upsample_nearest2d(12, 16)?.sqr()
    }),
];

/// The gradient of the sum of products of the result with fixed numbers, of one of the inputs.
fn gradient(forward: Forward, x: &[Tensor], of: usize) -> Result<Tensor> {
    let x: Vec<Var> = x.iter().map(Var::from_tensor).collect::<Result<_>>()?;
    let y = forward(x[0].as_tensor(), x[1].as_tensor())?;
    let count = y.elem_count();
    let weights = Numbers::any(DType::F32, 121, count).tensor(y.dtype(), &[count])?;
    let loss = (y.flatten_all()? * weights.to_device(y.device())?)?.sum_all()?;
    let mut gradients = loss.backward()?;
    match gradients.remove(x[of].as_tensor()) {
        Some(gradient) => Ok(gradient),
        None => candle_core::bail!("no gradient of input {of}"),
    }
}

pub(super) fn add(list: &mut List) -> Result<()> {
    let matrices = [
        any(DType::F32, 122, &[5, 7])?,
        any(DType::F32, 123, &[7, 5])?,
    ];
    let images = [
        any(DType::F32, 124, &[2, 3, 6, 8])?,
        any(DType::F32, 125, &[4, 3, 3, 3])?,
    ];
    for (operators, inputs) in [(&OF_MATRICES[..], matrices), (&OF_IMAGES[..], images)] {
        for &(operator, forward) in operators {
            for of in 0..2 {
                // Whether an operator uses its second input is known from trying.
                let on_cpu: Vec<Tensor> = inputs
                    .iter()
                    .map(|input| match input {
                        Input::Number(tensor) | Input::Fixed(tensor) => tensor.clone(),
                    })
                    .collect();
                if of == 1 && gradient(forward, &on_cpu, of).is_err() {
                    continue;
                }
                let what = format!("of {operator}, input {of}");
                list.add("gradient", what, inputs.to_vec(), move |x| {
                    gradient(forward, x, of)
                });
            }
        }
    }
    model(list)?;
    optimisers(list)
}

/// The small model of the training tests: its gradients, and what training makes of it.
fn model(list: &mut List) -> Result<()> {
    let seed = || any(DType::F32, 126, &[1]).map(|input| vec![input]);
    for parameter in 0..TinyModel::new(&candle_core::Device::Cpu)?.vars.len() {
        let what = format!("of the model's parameter {parameter}");
        list.add("model_gradient", what, seed()?, move |x| {
            let model = TinyModel::new(x[0].device())?;
            let loss = model.loss(&TinyModel::batch(0, x[0].device())?)?;
            match loss.backward()?.remove(model.vars[parameter].as_tensor()) {
                Some(gradient) => Ok(gradient),
                None => candle_core::bail!("no gradient"),
            }
        });
    }
    list.add(
        "model_training",
        "losses of 4 steps of AdamW",
        seed()?,
        |x| {
            let losses = TinyModel::new(x[0].device())?.train(4)?;
            Tensor::new(losses, x[0].device())
        },
    );
    Ok(())
}

/// Three steps with gradients that are the same everywhere.
fn optimisers(list: &mut List) -> Result<()> {
    let numbers = Numbers::any(DType::F32, 127, 77).without_zeros();
    let inputs = vec![input(&numbers, DType::F32, &[77])?];
    let steps = |x: &[Tensor], run: &mut dyn FnMut(&Tensor) -> Result<()>, var: &Var| {
        for _ in 0..3 {
            run(&(var.as_tensor() * &x[0])?.sqr()?.sum_all()?)?;
        }
        Ok::<_, candle_core::Error>(())
    };
    list.add("optimiser", "AdamW", inputs.clone(), move |x| {
        let var = Var::from_tensor(&x[0])?;
        let params = candle_nn::ParamsAdamW {
            lr: 0.01,
            ..Default::default()
        };
        let mut optimizer = candle_nn::AdamW::new(vec![var.clone()], params)?;
        steps(x, &mut |loss| optimizer.backward_step(loss), &var)?;
        Ok(var.as_tensor().clone())
    });
    list.add("optimiser", "SGD", inputs, move |x| {
        let var = Var::from_tensor(&x[0])?;
        let mut optimizer = candle_nn::SGD::new(vec![var.clone()], 0.003)?;
        steps(x, &mut |loss| optimizer.backward_step(loss), &var)?;
        Ok(var.as_tensor().clone())
    });
    Ok(())
}
