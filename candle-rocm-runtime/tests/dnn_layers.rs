//! cuDNN's layers but convolutions, against plain loops in f64: each type, orders of memory, factors, and what is refused.

mod common;

use std::sync::Arc;

use candle_rocm_runtime::dnn::sys::{
    cudnnActivationMode_t as Activation, cudnnNanPropagation_t as Nan,
    cudnnPoolingMode_t as Pooling, cudnnReduceTensorOp_t as Op,
    cudnnSoftmaxAlgorithm_t as Algorithm, cudnnSoftmaxMode_t as Mode,
    cudnnTensorFormat_t as Format,
};
use candle_rocm_runtime::dnn::{
    ActivationForward, Dnn, DnnDataType, PoolingForward, ReduceTensor, SoftmaxForward,
    TensorDescriptor,
};
use candle_rocm_runtime::{DeviceBuffer, DeviceRepr, Stream};
use candle_rocm_testing::random::Random;
use common::number::Number;
use half::{bf16, f16};

const KEEPS: Nan = Nan::CUDNN_PROPAGATE_NAN;
const DROPS: Nan = Nan::CUDNN_NOT_PROPAGATE_NAN;

/// What layers take.
trait Element: Number + DnnDataType + DeviceRepr {}
impl<T: Number + DnnDataType + DeviceRepr> Element for T {}

fn handle() -> (Arc<Stream>, Arc<Dnn>) {
    let stream = common::context().default_stream();
    (stream.clone(), Dnn::new(stream).unwrap())
}

/// A tensor on the device and what is in it, by its dimensions and strides.
struct Tensor<T> {
    dims: Vec<usize>,
    strides: Vec<usize>,
    values: Vec<T>,
    there: DeviceBuffer<T>,
    descriptor: TensorDescriptor<T>,
}

impl<T: Element> Tensor<T> {
    fn new(
        (stream, dnn): &(Arc<Stream>, Arc<Dnn>),
        dims: &[usize],
        strides: &[usize],
        mut draw: impl FnMut() -> f64,
    ) -> Self {
        let last = dims
            .iter()
            .zip(strides)
            .map(|(dim, stride)| (dim - 1) * stride);
        let values: Vec<T> = (0..last.sum::<usize>() + 1)
            .map(|_| T::new(draw()))
            .collect();
        let numbers = |of: &[usize]| of.iter().map(|of| *of as i32).collect::<Vec<_>>();
        Self {
            descriptor: dnn
                .create_nd_tensor(&numbers(dims), &numbers(strides))
                .unwrap(),
            there: stream.clone_htod(&values).unwrap(),
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            values,
        }
    }

    /// In the order of the dimensions, or channels last.
    fn packed(
        on: &(Arc<Stream>, Arc<Dnn>),
        dims: &[usize],
        last: bool,
        draw: impl FnMut() -> f64,
    ) -> Self {
        Self::new(on, dims, &packed(dims, last), draw)
    }

    fn at(&self, place: &[usize]) -> usize {
        place
            .iter()
            .zip(&self.strides)
            .map(|(at, stride)| at * stride)
            .sum()
    }

    /// Checks each element of what is there now, in units of the type's spacing.
    fn check(&self, stream: &Arc<Stream>, units: f64, expected: impl Fn(&[usize], f64) -> f64) {
        let found = stream.clone_dtoh(&self.there).unwrap();
        each(&self.dims, |place| {
            let at = self.at(place);
            let expected = expected(place, self.values[at].value());
            let found = found[at].value();
            let tolerance = units * T::EPSILON * expected.abs().max(1.0);
            let is_it = found == expected
                || (found - expected).abs() <= tolerance
                || found.is_nan() && expected.is_nan();
            assert!(is_it, "at {place:?}: {found} and not {expected}");
        });
    }
}

fn packed(dims: &[usize], last: bool) -> Vec<usize> {
    let rank = dims.len();
    let order: Vec<usize> = match last {
        false => (0..rank).rev().collect(),
        true => [1].into_iter().chain((2..rank).rev()).chain([0]).collect(),
    };
    let (mut strides, mut next) = (vec![0; rank], 1);
    for d in order {
        strides[d] = next;
        next *= dims[d];
    }
    strides
}

fn each(dims: &[usize], mut f: impl FnMut(&[usize])) {
    let mut place = vec![0; dims.len()];
    loop {
        f(&place);
        let Some(axis) = (0..dims.len()).rev().find(|&i| place[i] + 1 < dims[i]) else {
            return;
        };
        place[axis] += 1;
        place[axis + 1..].fill(0);
    }
}

/// Whole numbers and halves, which every type has.
fn halves(seed: u64) -> impl FnMut() -> f64 {
    let mut draw = Random::new(seed);
    move || draw.below(33) as f64 / 4.0 - 4.0
}

/// alpha and beta.
fn factors<T: Element>(alpha: f64, beta: f64) -> (T, T) {
    (T::new(alpha), T::new(beta))
}

fn blended((alpha, beta): (f64, f64), result: f64, before: f64) -> f64 {
    match beta {
        0.0 => alpha * result,
        beta => alpha * result + beta * before,
    }
}

fn activations<T: Element>() {
    let on = handle();
    let dims = [2, 3, 4, 5];
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    type Function<'a> = (Activation, f64, &'a dyn Fn(f64) -> f64);
    let functions: [Function; 8] = [
        (Activation::CUDNN_ACTIVATION_SIGMOID, 0.0, &logistic),
        (Activation::CUDNN_ACTIVATION_RELU, 0.0, &|x| x.max(0.0)),
        (Activation::CUDNN_ACTIVATION_TANH, 0.0, &f64::tanh),
        (Activation::CUDNN_ACTIVATION_CLIPPED_RELU, 1.5, &|x| {
            x.clamp(0.0, 1.5)
        }),
        (Activation::CUDNN_ACTIVATION_ELU, 0.5, &|x| match x > 0.0 {
            true => x,
            false => 0.5 * x.exp_m1(),
        }),
        (Activation::CUDNN_ACTIVATION_IDENTITY, 0.0, &|x| x),
        (Activation::CUDNN_ACTIVATION_SWISH, 1.0, &|x| {
            x * logistic(x)
        }),
        (Activation::CUDNN_ACTIVATION_SWISH, 2.0, &|x| {
            x * logistic(2.0 * x)
        }),
    ];
    for (mode, coefficient, function) in functions {
        let act =
            on.1.create_activation::<T>(mode, KEEPS, coefficient)
                .unwrap();
        for (by, x_last, y_last) in [
            ((1.0, 0.0), false, false),
            ((1.0, 0.0), true, true),
            ((2.0, 0.5), false, true),
        ] {
            let x = Tensor::<T>::packed(&on, &dims, x_last, halves(1));
            let mut y = Tensor::<T>::packed(&on, &dims, y_last, halves(2));
            let forward = ActivationForward {
                act: &act,
                x: &x.descriptor,
                y: &y.descriptor,
            };
            // SAFETY: the buffers hold what the descriptors say.
            unsafe { forward.launch(factors(by.0, by.1), &x.there, &mut y.there) }.unwrap();
            // exp and tanh are within a few units, and what is scaled is rounded once.
            y.check(&on.0, 8.0, |place, before| {
                blended(by, function(x.values[x.at(place)].value()), before)
            });
        }
    }
}

#[test]
fn functions_of_elements() {
    activations::<f16>();
    activations::<bf16>();
    activations::<f32>();
    activations::<f64>();
}

/// NaN becomes 0 or stays, by what the descriptor says.
#[test]
fn relu_of_nan() {
    let on = handle();
    for (nan, expected) in [(KEEPS, f64::NAN), (DROPS, 0.0)] {
        let mode = Activation::CUDNN_ACTIVATION_RELU;
        let act = on.1.create_activation::<f32>(mode, nan, 0.0).unwrap();
        let x = Tensor::<f32>::packed(&on, &[1, 1, 1, 3], false, || f64::NAN);
        let mut y = Tensor::<f32>::packed(&on, &[1, 1, 1, 3], false, || 1.0);
        let forward = ActivationForward {
            act: &act,
            x: &x.descriptor,
            y: &y.descriptor,
        };
        // SAFETY: the buffers hold what the descriptors say.
        unsafe { forward.launch((1.0, 0.0), &x.there, &mut y.there) }.unwrap();
        y.check(&on.0, 0.0, |_, _| expected);
    }
}

/// Windows along one to three axes: what they hold of the inputs, and how many places they have.
fn pooled<T: Element>(
    x: &Tensor<T>,
    place: &[usize],
    [window, pads, strides]: [&[usize]; 3],
    mode: Pooling,
) -> f64 {
    let (mut largest, mut sum, mut count) = (f64::NEG_INFINITY, 0.0, 0);
    each(window, |tap| {
        let mut at = place.to_vec();
        for i in 0..window.len() {
            let inside = (place[i + 2] * strides[i] + tap[i]).checked_sub(pads[i]);
            match inside.filter(|at| *at < x.dims[i + 2]) {
                Some(inside) => at[i + 2] = inside,
                None => return,
            }
        }
        let value = x.values[x.at(&at)].value();
        (largest, sum, count) = (largest.max(value), sum + value, count + 1);
    });
    match mode {
        Pooling::CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING => {
            sum / window.iter().product::<usize>() as f64
        }
        Pooling::CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING => sum / f64::from(count),
        _ => largest,
    }
}

fn poolings<T: Element>() {
    let on = handle();
    let modes = [
        Pooling::CUDNN_POOLING_MAX,
        Pooling::CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
        Pooling::CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
        Pooling::CUDNN_POOLING_MAX_DETERMINISTIC,
    ];
    type Case = (&'static [usize], [&'static [usize]; 3]);
    let cases: [Case; 3] = [
        (&[2, 3, 7, 9], [&[3, 2], &[1, 0], &[2, 3]]),
        (&[1, 2, 5, 4, 6], [&[2, 3, 2], &[1, 1, 0], &[2, 1, 2]]),
        (&[2, 3, 11], [&[4], &[2], &[3]]),
    ];
    for (number, (dims, [window, pads, strides])) in cases.into_iter().enumerate() {
        let mut outputs = dims.to_vec();
        for i in 0..window.len() {
            outputs[i + 2] = (dims[i + 2] + 2 * pads[i] - window[i]) / strides[i] + 1;
        }
        for (last, mode) in [false, true].into_iter().zip(&modes[number % 3..]) {
            let numbers = |of: &[usize]| of.iter().map(|of| *of as i32).collect::<Vec<_>>();
            let [w, p, s] = [window, pads, strides].map(numbers);
            let pooling =
                on.1.create_poolingnd::<T>(&w, &p, &s, *mode, KEEPS)
                    .unwrap();
            let x = Tensor::<T>::packed(&on, dims, last, halves(3));
            let mut y = Tensor::<T>::packed(&on, &outputs, last, halves(4));
            let forward = PoolingForward {
                pooling: &pooling,
                x: &x.descriptor,
                y: &y.descriptor,
            };
            let by = (0.5, if last { 2.0 } else { 0.0 });
            // SAFETY: the buffers hold what the descriptors say.
            unsafe { forward.launch(factors(by.0, by.1), &x.there, &mut y.there) }.unwrap();
            y.check(&on.0, 2.0, |place, before| {
                blended(
                    by,
                    pooled(&x, place, [window, pads, strides], *mode),
                    before,
                )
            });
        }
    }
}

#[test]
fn windows() {
    poolings::<f16>();
    poolings::<bf16>();
    poolings::<f32>();
    poolings::<f64>();
}

/// What elements reduce to, and the place of an extremum.
fn reduced(op: Op, elements: &[f64]) -> (f64, u32) {
    let extremum = |of: &dyn Fn(f64) -> f64| {
        let mut best = (f64::NEG_INFINITY, 0);
        for (i, x) in elements.iter().enumerate() {
            if of(*x) > best.0 {
                best = (of(*x), i as u32);
            }
        }
        best
    };
    let sum = |of: &dyn Fn(f64) -> f64| elements.iter().map(|x| of(*x)).sum::<f64>();
    match op {
        Op::CUDNN_REDUCE_TENSOR_ADD => (sum(&|x| x), 0),
        Op::CUDNN_REDUCE_TENSOR_AVG => (sum(&|x| x) / elements.len() as f64, 0),
        Op::CUDNN_REDUCE_TENSOR_NORM1 => (sum(&f64::abs), 0),
        Op::CUDNN_REDUCE_TENSOR_NORM2 => (sum(&|x| x * x).sqrt(), 0),
        Op::CUDNN_REDUCE_TENSOR_MUL => (elements.iter().product(), 0),
        Op::CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS => {
            (elements.iter().filter(|x| **x != 0.0).product(), 0)
        }
        Op::CUDNN_REDUCE_TENSOR_MAX => extremum(&|x| x),
        Op::CUDNN_REDUCE_TENSOR_AMAX => extremum(&f64::abs),
        Op::CUDNN_REDUCE_TENSOR_MIN => {
            let (value, at) = extremum(&|x| -x);
            (-value, at)
        }
    }
}

const OPS: [Op; 9] = [
    Op::CUDNN_REDUCE_TENSOR_ADD,
    Op::CUDNN_REDUCE_TENSOR_MUL,
    Op::CUDNN_REDUCE_TENSOR_MIN,
    Op::CUDNN_REDUCE_TENSOR_MAX,
    Op::CUDNN_REDUCE_TENSOR_AMAX,
    Op::CUDNN_REDUCE_TENSOR_AVG,
    Op::CUDNN_REDUCE_TENSOR_NORM1,
    Op::CUDNN_REDUCE_TENSOR_NORM2,
    Op::CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS,
];

fn reductions<T: Element>() {
    let on = handle();
    let (stream, dnn) = &on;
    // Rows, columns, all, and what is between.
    let cases: [(&[usize], &[usize]); 4] = [
        (&[2, 3, 4, 5], &[2, 3, 1, 1]),
        (&[3, 2, 1, 40], &[1, 2, 1, 40]),
        (&[1, 1, 2, 3], &[1, 1, 1, 1]),
        (&[2, 3, 2, 4, 3], &[2, 1, 2, 1, 3]),
    ];
    let mut signs = Random::new(5);
    for ((dims, kept), op) in cases.into_iter().flat_map(|case| OPS.map(|op| (case, op))) {
        for (last, by) in [(false, (1.0, 0.0)), (true, (0.5, 2.0))] {
            // Of products, numbers that do not leave the type's range.
            let a = Tensor::<T>::packed(&on, dims, last, || match signs.below(5) {
                0 => 0.0,
                1 => -1.0,
                2 => 0.5,
                3 => -2.0,
                _ => 1.0,
            });
            let mut c = Tensor::<T>::packed(&on, kept, last, halves(6));
            let expected = |place: &[usize]| {
                let mut elements = Vec::new();
                let of_each: Vec<usize> = (0..dims.len()).map(|i| dims[i] / kept[i]).collect();
                each(&of_each, |within| {
                    let at: Vec<usize> = (0..dims.len()).map(|i| place[i] + within[i]).collect();
                    elements.push(a.values[a.at(&at)].value());
                });
                reduced(op, &elements)
            };
            let mut none = stream.alloc_zeros::<u8>(0).unwrap();
            if last {
                let reduce = dnn.create_reduction_flat_indices::<T>(op, DROPS).unwrap();
                let reduction = ReduceTensor {
                    reduce: &reduce,
                    a: &a.descriptor,
                    c: &c.descriptor,
                };
                let count: usize = kept.iter().product();
                assert_eq!(reduction.get_indices_size().unwrap(), 4 * count);
                let mut indices = stream.alloc_zeros::<u32>(count).unwrap();
                let factors = factors(by.0, by.1);
                // SAFETY: the buffers hold what the descriptors say.
                unsafe {
                    reduction.launch(&mut indices, &mut none, factors, &a.there, &mut c.there)
                }
                .unwrap();
                let found = stream.clone_dtoh(&indices).unwrap();
                let mut number = 0;
                each(kept, |place| {
                    assert_eq!(found[number], expected(place).1, "{op:?} at {place:?}");
                    number += 1;
                });
            } else {
                let reduce = dnn.create_reduction_no_indices::<T>(op, DROPS).unwrap();
                let reduction = ReduceTensor {
                    reduce: &reduce,
                    a: &a.descriptor,
                    c: &c.descriptor,
                };
                assert_eq!(reduction.get_workspace_size().unwrap(), 0);
                let factors = factors(by.0, by.1);
                // SAFETY: the buffers hold what the descriptors say.
                unsafe { reduction.launch(&mut none, factors, &a.there, &mut c.there) }.unwrap();
            }
            c.check(stream, 4.0, |place, before| {
                blended(by, expected(place).0, before)
            });
        }
    }
}

#[test]
fn reductions_with_and_without_indices() {
    reductions::<f16>();
    reductions::<bf16>();
    reductions::<f32>();
    reductions::<f64>();
}

/// Extrema of a NaN are NaN, or those of the other elements.
#[test]
fn extrema_of_nan() {
    let on = handle();
    let (stream, dnn) = &on;
    let values = [1.0, f64::NAN, 3.0, f64::NAN];
    for (op, nan, expected, place) in [
        (Op::CUDNN_REDUCE_TENSOR_MAX, KEEPS, f64::NAN, 1),
        (Op::CUDNN_REDUCE_TENSOR_MAX, DROPS, 3.0, 2),
        (Op::CUDNN_REDUCE_TENSOR_MIN, DROPS, 1.0, 0),
    ] {
        let mut next = values.iter();
        let a = Tensor::<f32>::packed(&on, &[1, 1, 1, 4], false, || *next.next().unwrap());
        let mut c = Tensor::<f32>::packed(&on, &[1; 4], false, || 0.0);
        let reduce = dnn.create_reduction_flat_indices::<f32>(op, nan).unwrap();
        let reduction = ReduceTensor {
            reduce: &reduce,
            a: &a.descriptor,
            c: &c.descriptor,
        };
        let mut indices = stream.alloc_zeros::<u32>(1).unwrap();
        let mut none = stream.alloc_zeros::<u8>(0).unwrap();
        // SAFETY: the buffers hold what the descriptors say.
        unsafe { reduction.launch(&mut indices, &mut none, (1.0, 0.0), &a.there, &mut c.there) }
            .unwrap();
        c.check(stream, 0.0, |_, _| expected);
        assert_eq!(
            stream.clone_dtoh(&indices).unwrap(),
            [place],
            "{op:?} {nan:?}"
        );
    }
}

fn softmaxes<T: Element>() {
    let on = handle();
    let dims = [3, 5, 2, 4];
    for mode in [
        Mode::CUDNN_SOFTMAX_MODE_INSTANCE,
        Mode::CUDNN_SOFTMAX_MODE_CHANNEL,
    ] {
        let softmax = on.1.create_softmax::<T>(mode).unwrap();
        for (algo, by, last) in [
            (Algorithm::CUDNN_SOFTMAX_FAST, (1.0, 0.0), false),
            (Algorithm::CUDNN_SOFTMAX_ACCURATE, (0.5, 2.0), true),
            (Algorithm::CUDNN_SOFTMAX_LOG, (1.0, 0.0), false),
        ] {
            let x = Tensor::<T>::packed(&on, &dims, last, halves(7));
            let mut y = Tensor::<T>::packed(&on, &dims, last, halves(8));
            let forward = SoftmaxForward {
                softmax: &softmax,
                x: &x.descriptor,
                y: &y.descriptor,
            };
            // SAFETY: the buffers hold what the descriptors say.
            unsafe { forward.launch(factors(by.0, by.1), algo, &x.there, &mut y.there) }.unwrap();
            // exp and log are within a few units; logarithms of 40 numbers are no larger than 12.
            y.check(&on.0, 8.0, |place, before| {
                let of = match mode {
                    Mode::CUDNN_SOFTMAX_MODE_INSTANCE => [1, dims[1], dims[2], dims[3]],
                    Mode::CUDNN_SOFTMAX_MODE_CHANNEL => [1, dims[1], 1, 1],
                };
                let mut sum = 0.0;
                each(&of, |within| {
                    let at: Vec<usize> = (0..4)
                        .map(|i| if of[i] == 1 { place[i] } else { within[i] })
                        .collect();
                    sum += x.values[x.at(&at)].value().exp();
                });
                let own = x.values[x.at(place)].value();
                let result = match algo {
                    Algorithm::CUDNN_SOFTMAX_LOG => own - sum.ln(),
                    _ => own.exp() / sum,
                };
                blended(by, result, before)
            });
        }
    }
}

#[test]
fn softmax_of_images_and_of_channels() {
    softmaxes::<f16>();
    softmaxes::<bf16>();
    softmaxes::<f32>();
    softmaxes::<f64>();
}

#[test]
fn what_does_not_fit_is_named() {
    let on = handle();
    let (_, dnn) = &on;
    let mode = Activation::CUDNN_ACTIVATION_TANH;
    let bytes = dnn.create_activation::<u8>(mode, KEEPS, 0.0).unwrap();
    let of_bytes = dnn
        .create_4d_tensor::<u8>(Format::CUDNN_TENSOR_NCHW, [1, 1, 1, 4])
        .unwrap();
    let there = on.0.clone_htod(&[1_u8; 4]).unwrap();
    let mut to = on.0.clone_htod(&[1_u8; 4]).unwrap();
    let forward = ActivationForward {
        act: &bytes,
        x: &of_bytes,
        y: &of_bytes,
    };
    // SAFETY: the buffers hold what the descriptors say.
    let refused = unsafe { forward.launch((1, 0), &there, &mut to) };
    let said = refused.unwrap_err().to_string();
    assert!(
        said.contains("no activation has elements of CUDNN_DATA_UINT8"),
        "{said}"
    );

    let x = Tensor::<f32>::packed(&on, &[1, 2, 4, 4], false, || 1.0);
    let mut y = Tensor::<f32>::packed(&on, &[1, 2, 2, 3], false, || 1.0);
    let max = Pooling::CUDNN_POOLING_MAX;
    let pooling = dnn
        .create_poolingnd::<f32>(&[2, 2], &[0, 0], &[2, 2], max, KEEPS)
        .unwrap();
    let forward = PoolingForward {
        pooling: &pooling,
        x: &x.descriptor,
        y: &y.descriptor,
    };
    // SAFETY: the buffers hold what the descriptors say.
    let refused = unsafe { forward.launch((1.0, 0.0), &x.there, &mut y.there) };
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("there are 2 windows along axis 1"), "{said}");
    assert!(dnn
        .create_poolingnd::<f32>(&[2, 2], &[0], &[2, 2], max, KEEPS)
        .is_err());
    assert!(dnn
        .create_poolingnd::<f32>(&[2, 0], &[0, 0], &[2, 2], max, KEEPS)
        .is_err());

    let reduce = dnn
        .create_reduction_no_indices::<f32>(Op::CUDNN_REDUCE_TENSOR_ADD, KEEPS)
        .unwrap();
    let reduction = ReduceTensor {
        reduce: &reduce,
        a: &x.descriptor,
        c: &y.descriptor,
    };
    let said = reduction.get_workspace_size().unwrap_err().to_string();
    assert!(
        said.contains("each dimension of c is that of a, or 1"),
        "{said}"
    );
    // Descriptors have up to eight dimensions.
    assert!(dnn.create_nd_tensor::<f32>(&[1; 8], &[1; 8]).is_ok());
    assert!(dnn.create_nd_tensor::<f32>(&[1; 9], &[1; 9]).is_err());
}
