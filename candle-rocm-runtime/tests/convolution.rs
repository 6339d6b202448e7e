//! Convolutions and their gradients against sums in f64: every kernel, and shapes, orders of memory, factors and epilogues
//! drawn at random, on an emulated GPU; and cases by name.

mod common;

use std::sync::Arc;

use candle_rocm_runtime::convolution::plan::Kernel;
use candle_rocm_runtime::convolution::{
    chosen, convolve, convolve_by, kernels, Activation, Axis, Convolution, Dtype, Epilogue,
    Operands, Operation, Strides,
};
use candle_rocm_runtime::gemm::Gpu;
use candle_rocm_runtime::{DevicePtr, DevicePtrMut, DeviceRepr, Stream};
use candle_rocm_testing::activations;
use candle_rocm_testing::random::Random;
use common::number::Number;
use half::{bf16, f16};

/// Addresses that vectors can be read from, where a plan alone is asked for.
const ANYWHERE: Operands = Operands {
    inputs: 256,
    weights: 256,
    outputs: 256,
};

trait Element: Number + DeviceRepr {
    const DTYPE: Dtype;
    /// Spacing of numbers around 1 in the type of its sums.
    const SUM_EPSILON: f64;
    const NAN: Self;
}
macro_rules! elements {
    ($($type:ident, $dtype:ident, $sum:ident;)*) => {$(
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            const SUM_EPSILON: f64 = <$sum as Number>::EPSILON;
            const NAN: Self = <$type>::NAN;
        }
    )*};
}
elements! {
    f16, F16, f32;
    bf16, BF16, f32;
    f32, F32, f32;
    f64, F64, f64;
}

/// Calls a function with a place of each of these sizes.
fn each<const N: usize>(sizes: [usize; N], mut f: impl FnMut([usize; N])) {
    if sizes.contains(&0) {
        return;
    }
    let mut at = [0; N];
    loop {
        f(at);
        let Some(axis) = (0..N).rev().find(|&i| at[i] + 1 < sizes[i]) else {
            return;
        };
        at[axis] += 1;
        at[axis + 1..].fill(0);
    }
}

fn place(strides: &Strides, [batch, channel, z, y, x]: [usize; 5]) -> usize {
    let axes = [z, y, x]
        .into_iter()
        .zip(&strides.axes)
        .map(|(at, stride)| at * stride);
    batch * strides.batch + channel * strides.channel + axes.sum::<usize>()
}

/// Sizes of inputs, weights and outputs.
fn sizes(of: &Convolution) -> [[usize; 5]; 3] {
    let size = |batch, channels, f: fn(&Axis) -> usize| {
        let [z, y, x] = [0, 1, 2].map(|i| f(&of.axes[i]));
        [batch, channels, z, y, x]
    };
    [
        size(of.batch, of.in_channels, |axis| axis.input),
        size(of.out_channels, of.in_channels / of.groups, |axis| {
            axis.kernel
        }),
        size(of.batch, of.out_channels, |axis| axis.output),
    ]
}

fn extent(strides: &Strides, size: [usize; 5]) -> usize {
    match size.contains(&0) {
        true => 0,
        false => place(strides, size.map(|size| size - 1)) + 1,
    }
}

/// Which of inputs, weights and outputs is the result.
fn result_of(operation: Operation) -> usize {
    match operation {
        Operation::Forward => 2,
        Operation::Data => 0,
        Operation::Weights => 1,
    }
}

/// Calls a function with the places of input, weight and output that meet.
fn meetings(of: &Convolution, mut f: impl FnMut([usize; 3])) {
    let [_, weights, outputs] = sizes(of);
    let (inputs_of_group, outputs_of_group) =
        (of.in_channels / of.groups, of.out_channels / of.groups);
    each(outputs, |output| {
        let [batch, channel, places @ ..] = output;
        let group = channel / outputs_of_group;
        let [_, _, kernel @ ..] = weights;
        each(kernel, |taps| {
            let mut input = [0; 3];
            for i in 0..3 {
                let axis = &of.axes[i];
                let tap = if axis.is_flipped {
                    axis.kernel - 1 - taps[i]
                } else {
                    taps[i]
                };
                let at = places[i] * axis.stride + tap * axis.dilation;
                match at.checked_sub(axis.padding) {
                    Some(at) if at < axis.input => input[i] = at,
                    _ => return,
                }
            }
            for c in 0..inputs_of_group {
                let of_input = [
                    batch,
                    group * inputs_of_group + c,
                    input[0],
                    input[1],
                    input[2],
                ];
                let of_weight = [channel, c, taps[0], taps[1], taps[2]];
                f([
                    place(&of.inputs, of_input),
                    place(&of.weights, of_weight),
                    place(&of.outputs, output),
                ]);
            }
        });
    });
}

/// What follows a convolution, without addresses.
#[derive(Clone, Copy, Debug, Default)]
struct Follows {
    alpha: Option<f64>,
    beta: f64,
    has_bias: bool,
    activation: Activation,
    has_residual: bool,
}

fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::None => x,
        Activation::Relu | Activation::ReluOfNan => x.max(0.0),
        Activation::Silu => activations::silu(x),
        Activation::GeluTanh => activations::gelu(x),
        Activation::GeluErf => activations::gelu_erf(x),
    }
}

/// Numbers where the tensor has elements, NaN elsewhere.
fn tensor<T: Element>(draw: &mut Random, strides: &Strides, size: [usize; 5]) -> Vec<T> {
    let mut all = vec![T::NAN; extent(strides, size).max(1)];
    each(size, |at| all[place(strides, at)] = T::new(draw.signed()));
    all
}

/// Computes a convolution by all kernels that can, or by the one that is chosen, and checks every element.
fn check<T: Element>(
    stream: &Arc<Stream>,
    of: &Convolution,
    follows: Follows,
    draw: &mut Random,
    all_kernels: bool,
) {
    let sizes = sizes(of);
    let strides = [of.inputs, of.weights, of.outputs];
    let tensors: [Vec<T>; 3] = [0, 1, 2].map(|i| tensor(draw, &strides[i], sizes[i]));
    let result = result_of(of.operation);
    let columns = sizes[result][1];
    let bias: Vec<T> = (0..columns.max(1)).map(|_| T::new(draw.signed())).collect();
    let residual: Vec<T> = tensor(draw, &strides[result], sizes[result]);
    let mut before = tensors[result].clone();
    if follows.beta == 0.0 {
        before.fill(T::NAN);
    }

    let (mut sums, mut magnitudes) = (vec![0.0; before.len()], vec![0.0; before.len()]);
    let mut counts = vec![0_u32; before.len()];
    let others = match result {
        0 => [1, 2],
        1 => [0, 2],
        _ => [0, 1],
    };
    meetings(of, |at| {
        let product: f64 = others.map(|i| tensors[i][at[i]].value()).iter().product();
        sums[at[result]] += product;
        magnitudes[at[result]] += product.abs();
        counts[at[result]] += 1;
    });

    let device = [0, 1, 2].map(|i| stream.clone_htod(&tensors[i]).unwrap());
    let (bias_there, residual_there) = (
        stream.clone_htod(&bias).unwrap(),
        stream.clone_htod(&residual).unwrap(),
    );
    let epilogue = Epilogue {
        alpha: follows.alpha.unwrap_or(1.0),
        beta: follows.beta,
        addend: None,
        bias: follows.has_bias.then(|| bias_there.device_ptr(stream).0),
        activation: follows.activation,
        residual: follows
            .has_residual
            .then(|| residual_there.device_ptr(stream).0),
    };
    let gpu = Gpu::from(stream.context().info());
    let address = |i: usize| device[i].device_ptr(stream).0;
    let place_of = |result_at: u64| {
        let mut addresses = [0, 1, 2].map(address);
        addresses[result] = result_at;
        let [inputs, weights, outputs] = addresses;
        Operands {
            inputs,
            weights,
            outputs,
        }
    };
    let candidates = match all_kernels {
        true => kernels(of, &place_of(256), gpu)
            .into_iter()
            .map(Some)
            .collect(),
        false => vec![None],
    };
    for kernel in candidates {
        let mut there = stream.clone_htod(&before).unwrap();
        let at = there.device_ptr_mut(stream).0;
        let operands = place_of(at);
        // SAFETY: the buffers hold the tensors.
        let done = unsafe {
            match kernel {
                None => convolve(stream, of, &operands, &epilogue),
                Some(kernel) => convolve_by(stream, of, &operands, &epilogue, kernel),
            }
        };
        done.unwrap_or_else(|error| panic!("{of} {follows:?} by {kernel:?}: {error}"));
        let found = stream.clone_dtoh(&there).unwrap();
        let mut is_element = vec![false; found.len()];
        each(sizes[result], |at| {
            let i = place(&strides[result], at);
            is_element[i] = true;
            let mut expected = epilogue.alpha * sums[i];
            let mut size = (epilogue.alpha * magnitudes[i]).abs();
            if follows.beta != 0.0 {
                expected += follows.beta * before[i].value();
                size += (follows.beta * before[i].value()).abs();
            }
            if follows.has_bias {
                expected += bias[at[1]].value();
                size += bias[at[1]].value().abs();
            }
            expected = activate(follows.activation, expected);
            if follows.has_residual {
                expected += residual[i].value();
                size += residual[i].value().abs();
            }
            // A rounding for each summand and for each step that follows, none of which enlarges an error by more than
            // 1.13 times (GELU's slope); and one of the result.
            let roundings = f64::from(counts[i]) + 12.0;
            let tolerance =
                1.2 * roundings * T::SUM_EPSILON * size + T::EPSILON * expected.abs() + 1e-7;
            let error = (found[i].value() - expected).abs();
            assert!(
                error <= tolerance,
                "{of} {follows:?} by {kernel:?} at {at:?}: {} and not {expected}, {error} > {tolerance}",
                found[i].value()
            );
        });
        for (i, _) in is_element.iter().enumerate().filter(|(_, is)| !**is) {
            assert!(
                found[i].value().is_nan(),
                "{of} by {kernel:?}: wrote between elements at {i}"
            );
        }
    }
}

/// A tensor's strides: channels first or last, without gaps or with some, or the axes in another order.
fn strides(draw: &mut Random, [batch, channels, z, y, x]: [usize; 5]) -> Strides {
    let gap = draw.choose(&[0, 0, 0, 1, 3]);
    match draw.below(4) {
        0 | 1 => {
            let mut strides = Strides::channels_first(channels, [z, y, x + gap]);
            strides.axes = [y * (x + gap), x + gap, 1];
            strides
        }
        2 => Strides::channels_last(channels + gap, [z, y, x]),
        _ => Strides {
            // Batch within channels, x outermost of the axes.
            batch: z * y * x + gap,
            channel: batch * (z * y * x + gap),
            axes: [1, z, z * y],
        },
    }
}

/// A convolution of at most so many multiply-adds.
fn drawn(draw: &mut Random, dtype: Dtype, operation: Operation) -> Convolution {
    loop {
        let axis = |draw: &mut Random, least: usize| {
            let kernel = 1 + draw.below(5);
            let (stride, dilation) = (1 + draw.below(3), 1 + draw.below(3));
            let padding = [draw.below(4), draw.below(4)];
            let input = least + draw.below(14);
            let mut axis = Axis::new(input, kernel, stride, dilation, padding);
            axis.is_flipped = draw.below(8) == 0;
            axis
        };
        let axes = match draw.below(4) {
            0 => [Axis::NONE, Axis::NONE, axis(draw, 20)],
            1 | 2 => [Axis::NONE, axis(draw, 1), axis(draw, 4)],
            _ => [axis(draw, 1), axis(draw, 1), axis(draw, 1)],
        };
        let groups = draw.choose(&[1, 1, 1, 2, 3]);
        let channels = [0, 1].map(|_| groups * draw.choose(&[1, 2, 3, 5, 8, 16, 17, 40, 72]));
        let batch = draw.choose(&[1, 1, 2, 3]);
        let mut of = Convolution::contiguous(dtype, batch, channels, groups, axes);
        of.operation = operation;
        let [x, w, y] = sizes(&of);
        of.inputs = strides(draw, x);
        of.outputs = strides(draw, y);
        of.weights = match draw.below(3) {
            0 => strides(draw, w),
            1 => Strides::channels_last(w[1], [w[2], w[3], w[4]]),
            _ => of.weights,
        };
        let outputs: usize = y.iter().product();
        let taps: usize = w[1..].iter().product();
        if outputs > 0 && outputs * taps <= 60_000 && of.check().is_ok() {
            return of;
        }
    }
}

fn follows(draw: &mut Random, operation: Operation) -> Follows {
    let alpha = draw.choose(&[None, None, Some(-0.5)]);
    let beta = draw.choose(&[0.0, 0.0, 0.75]);
    if operation == Operation::Weights || draw.below(2) == 0 {
        return Follows {
            alpha,
            beta,
            ..Follows::default()
        };
    }
    Follows {
        alpha,
        beta,
        has_bias: draw.below(3) > 0,
        activation: draw.choose(&[
            Activation::None,
            Activation::Relu,
            Activation::Silu,
            Activation::GeluTanh,
            Activation::GeluErf,
        ]),
        has_residual: draw.below(3) == 0,
    }
}

const OPERATIONS: [Operation; 3] = [Operation::Forward, Operation::Data, Operation::Weights];

fn drawn_cases<T: Element>(seed: u64, count: usize) {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(seed);
    for number in 0..count {
        let operation = OPERATIONS[number % 3];
        let of = drawn(&mut draw, T::DTYPE, operation);
        let follows = follows(&mut draw, operation);
        check::<T>(&stream, &of, follows, &mut draw, number % 2 == 0);
    }
}

#[test]
fn drawn_in_f16() {
    drawn_cases::<f16>(1, 60);
}

#[test]
fn drawn_in_bf16() {
    drawn_cases::<bf16>(2, 36);
}

#[test]
fn drawn_in_f32() {
    drawn_cases::<f32>(3, 60);
}

#[test]
fn drawn_in_f64() {
    drawn_cases::<f64>(4, 36);
}

/// A convolution by name, in all operations.
fn named<T: Element>(
    batch: usize,
    channels: [usize; 2],
    groups: usize,
    axes: [Axis; 3],
    last: bool,
) {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(7);
    for operation in OPERATIONS {
        let mut of = Convolution::contiguous(T::DTYPE, batch, channels, groups, axes);
        of.operation = operation;
        if last {
            of.inputs = Strides::channels_last(channels[0], axes.map(|axis| axis.input));
            of.outputs = Strides::channels_last(channels[1], axes.map(|axis| axis.output));
            of.weights = Strides::channels_last(channels[0] / groups, axes.map(|axis| axis.kernel));
        }
        check::<T>(&stream, &of, Follows::default(), &mut draw, true);
        check::<T>(&stream, &of, Follows::default(), &mut draw, false);
    }
}

fn square(input: usize, kernel: usize, stride: usize, padding: usize) -> [Axis; 3] {
    let axis = Axis::new(input, kernel, stride, 1, [padding; 2]);
    [Axis::NONE, axis, axis]
}

#[test]
fn whole_tiles_channels_first_and_last() {
    for last in [false, true] {
        named::<f16>(1, [32, 136], 1, square(16, 3, 1, 1), last);
        named::<f32>(1, [16, 64], 1, square(8, 3, 1, 1), last);
    }
}

/// 3 x 3 taps that share pixels: images in one tile and tiles in one image, lines apart, dilation, unlike axes, groups, and
/// what follows.
fn shared_pixels<T: Element>() {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(9);
    let axis = |input, dilation| Axis::new(input, 3, 1, dilation, [dilation; 2]);
    let strided = Axis::new(9, 3, 2, 1, [1, 0]);
    let wide = Axis::new(3, 3, 1, 1, [1; 2]);
    let cases = [
        (3, [16, 32], 1, [Axis::NONE, axis(6, 1), axis(6, 1)]),
        (1, [32, 80], 1, [Axis::NONE, axis(14, 1), axis(14, 1)]),
        (2, [16, 16], 1, [Axis::NONE, axis(5, 2), axis(18, 2)]),
        (1, [64, 64], 2, [Axis::NONE, axis(8, 1), axis(8, 1)]),
        (3, [16, 16], 1, [Axis::NONE, axis(7, 1), axis(7, 1)]),
        (1, [16, 16], 1, [Axis::NONE, wide, axis(140, 1)]),
        (1, [16, 16], 1, [Axis::NONE, strided, axis(32, 1)]),
    ];
    for (batch, channels, groups, axes) in cases {
        let mut of = Convolution::contiguous(T::DTYPE, batch, channels, groups, axes);
        for operation in [Operation::Forward, Operation::Data] {
            of.operation = operation;
            let follows = follows(&mut draw, operation);
            let kernel = chosen(&of, &ANYWHERE, Gpu::from(context.info()));
            let is_strided = operation == Operation::Data && axes[1].stride > 1;
            assert_eq!(matches!(kernel, Kernel::Halo { .. }), !is_strided, "{of}");
            check::<T>(&stream, &of, follows, &mut draw, true);
        }
    }
}

#[test]
fn taps_that_share_pixels() {
    shared_pixels::<f16>();
    shared_pixels::<bf16>();
}

/// Gradients of weights that are read along lines: units of 8, 2 and 1, lines of whole chunks and of less, one tap and three, on
/// one, two and three axes, other taps and strides across lines, splits of k, groups, and what follows.
fn along_lines<T: Element>() {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(10);
    let axis = |input, kernel| Axis::new(input, kernel, 1, 1, [kernel / 2; 2]);
    let strided = Axis::new(9, 5, 2, 2, [2, 1]);
    let flipped = Axis {
        is_flipped: true,
        ..axis(7, 3)
    };
    let one = Axis::NONE;
    let cases = [
        (2, [70, 72], 1, [one, axis(8, 3), axis(16, 3)], 8),
        (1, [16, 8], 1, [one, axis(40, 3), axis(48, 3)], 8),
        (3, [20, 66], 1, [one, axis(5, 3), axis(14, 3)], 2),
        (2, [16, 8], 2, [one, flipped, axis(7, 3)], 1),
        (1, [5, 9], 1, [one, one, axis(57, 3)], 1),
        (1, [6, 5], 1, [axis(3, 3), strided, axis(24, 3)], 8),
        (2, [72, 40], 1, [one, axis(24, 1), axis(24, 1)], 8),
    ];
    for (batch, channels, groups, axes, unit) in cases {
        let mut of = Convolution::contiguous(T::DTYPE, batch, channels, groups, axes);
        of.operation = Operation::Weights;
        let gpu = Gpu::from(context.info());
        let units: Vec<u32> = kernels(&of, &ANYWHERE, gpu)
            .into_iter()
            .filter_map(|kernel| match kernel {
                Kernel::Lines { lines, .. } => Some(lines.unit),
                _ => None,
            })
            .collect();
        assert_eq!(units.iter().max(), Some(&unit), "{of}");
        let follows = follows(&mut draw, Operation::Weights);
        check::<T>(&stream, &of, follows, &mut draw, true);
    }
}

#[test]
fn gradients_of_weights_along_lines() {
    along_lines::<f16>();
    along_lines::<bf16>();
}

/// What lies behind the last place of a line of outputs meets nothing, even where it is no number.
#[test]
fn the_end_of_a_line_meets_nothing() {
    let context = common::context();
    let stream = context.default_stream();
    let mut of = Convolution::contiguous(Dtype::F16, 1, [1, 1], 1, square(14, 3, 1, 1));
    of.operation = Operation::Weights;
    let mut image = vec![f16::ONE; 14 * 14];
    for line in image.chunks_mut(14) {
        line[13] = f16::INFINITY;
    }
    let inputs = stream.clone_htod(&image).unwrap();
    let outputs = stream.clone_htod(&vec![f16::ONE; 14 * 14]).unwrap();
    let gpu = Gpu::from(context.info());
    let operands = |weights| Operands {
        inputs: inputs.device_ptr(&stream).0,
        weights,
        outputs: outputs.device_ptr(&stream).0,
    };
    let is_along = |kernel: &Kernel| matches!(kernel, Kernel::Lines { .. });
    let all = kernels(&of, &operands(256), gpu);
    let all: Vec<_> = all.into_iter().filter(is_along).collect();
    assert!(!all.is_empty());
    for kernel in all {
        let mut there = stream.clone_htod(&[f16::NAN; 9]).unwrap();
        let operands = operands(there.device_ptr_mut(&stream).0);
        // SAFETY: the buffers hold the tensors.
        unsafe { convolve_by(&stream, &of, &operands, &Epilogue::default(), kernel) }.unwrap();
        let found = stream.clone_dtoh(&there).unwrap();
        // The first tap of a line never meets the last place.
        for line in found.chunks(3) {
            let of_line = line.iter().map(|value| value.to_f32());
            let of_line: Vec<_> = of_line.collect();
            assert!(
                of_line[0].is_finite() && of_line[1..] == [f32::INFINITY; 2],
                "{kernel:?} {found:?}"
            );
        }
    }
}

/// Tiles in slices of k: an odd and an even number of K-blocks, fewer than slices, strides, gradients with transposed weights and
/// phases, groups, and what follows.
fn slices<T: Element>() {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(11);
    let down = Axis::new(10, 3, 2, 1, [1; 2]);
    let cases = [
        (1, [40, 72], 1, [Axis::NONE, down, down]),
        (
            2,
            [8, 16],
            1,
            [Axis::NONE, Axis::NONE, Axis::new(40, 1, 2, 1, [0; 2])],
        ),
        (
            1,
            [48, 16],
            2,
            [Axis::NONE, Axis::NONE, Axis::new(70, 3, 2, 1, [1; 2])],
        ),
    ];
    for (batch, channels, groups, axes) in cases {
        let mut of = Convolution::contiguous(T::DTYPE, batch, channels, groups, axes);
        for operation in [Operation::Forward, Operation::Data] {
            of.operation = operation;
            let all = kernels(&of, &ANYWHERE, Gpu::from(context.info()));
            let is_sliced = |kernel: &Kernel| matches!(kernel, Kernel::Sliced { .. });
            assert!(all.iter().any(is_sliced), "{of}");
            let follows = follows(&mut draw, operation);
            check::<T>(&stream, &of, follows, &mut draw, true);
        }
    }
    // As few tiles as a network's smallest images have are made so where k cannot be split, as there are phases.
    let chosen = |channels, operation| {
        let mut of = Convolution::contiguous(T::DTYPE, 1, channels, 1, square(16, 3, 2, 1));
        of.operation = operation;
        chosen(&of, &ANYWHERE, Gpu::from(context.info()))
    };
    let kernel = chosen([80, 1280], Operation::Data);
    assert!(matches!(kernel, Kernel::Sliced { .. }), "{kernel:?}");
    let kernel = chosen([1280, 80], Operation::Forward);
    let is_split = matches!(kernel, Kernel::Tile { splits, .. } if splits > 1);
    assert!(is_split, "{kernel:?}");
}

#[test]
fn tiles_in_slices_of_k() {
    slices::<f16>();
    slices::<bf16>();
}

#[test]
fn the_stem_of_a_network() {
    named::<f16>(1, [3, 64], 1, square(18, 7, 2, 3), false);
}

#[test]
fn patches() {
    named::<f16>(1, [3, 24], 1, square(32, 16, 16, 0), false);
    named::<f16>(1, [3, 24], 1, square(32, 16, 16, 0), true);
    // Windows that overlap, and channels beyond a K-block.
    named::<bf16>(1, [20, 8], 1, square(24, 8, 8, 0), true);
    named::<f32>(2, [3, 8], 1, square(20, 8, 4, 0), false);
}

#[test]
fn one_channel() {
    named::<f32>(2, [1, 1], 1, square(9, 3, 1, 1), false);
    named::<bf16>(2, [1, 70], 1, square(5, 3, 2, 1), false);
    named::<bf16>(2, [70, 1], 1, square(5, 3, 2, 1), true);
}

#[test]
fn depthwise() {
    for last in [false, true] {
        named::<f16>(2, [24, 24], 24, square(10, 7, 1, 3), last);
        named::<f32>(1, [8, 16], 8, square(9, 3, 2, 1), last);
    }
}

/// The gradient of a convolution's weights of groups of one channel, in one split and in several.
fn depthwise_weights<T: Element>(stream: &Arc<Stream>, of: &Convolution, draw: &mut Random) {
    let mut of = Convolution {
        operation: Operation::Weights,
        ..*of
    };
    let gpu = Gpu::from(stream.context().info());
    let is_one_split = |of: &Convolution| match chosen(of, &ANYWHERE, gpu) {
        Kernel::DepthwiseWeights { splits, .. } => splits == 1,
        other => panic!("{of} by {other:?}"),
    };
    assert!(is_one_split(&of), "{of}");
    let follows = follows(draw, Operation::Weights);
    check::<T>(stream, &of, follows, draw, false);
    if of.groups > 8 {
        return;
    }
    let axes = of.axes.map(|axis| match axis.kernel {
        1 => axis,
        _ => Axis::new(60, axis.kernel, axis.stride, 1, [axis.kernel / 2; 2]),
    });
    of = Convolution::contiguous(T::DTYPE, 6, [3; 2], 3, axes);
    of.operation = Operation::Weights;
    assert!(!is_one_split(&of), "{of}");
    check::<T>(stream, &of, follows, draw, false);
}

/// Every kernel of groups of one channel, with channels as neighbours and without, and what follows.
fn depthwise_kernels<T: Element>() {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(8);
    let follows = Follows {
        alpha: Some(-0.5),
        beta: 0.75,
        has_bias: true,
        activation: Activation::Silu,
        has_residual: true,
    };
    for (taps, stride) in [(3, 1), (3, 2), (5, 1), (7, 1)] {
        for (channels, input) in [(8, 11), (264, 6)] {
            let axes = square(input, taps, stride, taps / 2);
            let mut of = Convolution::contiguous(T::DTYPE, 2, [channels; 2], channels, axes);
            check::<T>(&stream, &of, follows, &mut draw, channels == 8);
            depthwise_weights::<T>(&stream, &of, &mut draw);
            of.inputs = Strides::channels_last(channels, axes.map(|axis| axis.input));
            of.outputs = Strides::channels_last(channels, axes.map(|axis| axis.output));
            let gpu = Gpu::from(context.info());
            assert!(
                matches!(chosen(&of, &ANYWHERE, gpu), Kernel::DepthwiseLast { .. }),
                "{of}"
            );
            check::<T>(&stream, &of, follows, &mut draw, channels == 8);
            of.operation = Operation::Data;
            check::<T>(&stream, &of, Follows::default(), &mut draw, false);
        }
    }
}

#[test]
fn depthwise_by_every_kernel() {
    depthwise_kernels::<f16>();
    depthwise_kernels::<bf16>();
    depthwise_kernels::<f32>();
}

/// Groups of one channel whose lines are whole vectors, words or neither, with taps around each place and not.
fn depthwise_lines<T: Element>() {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(12);
    for (taps, stride) in [(3, 1), (3, 2), (5, 1), (7, 1)] {
        for (width, padding) in [
            (16, taps / 2),
            (14, taps / 2),
            (9, taps / 2),
            (16, 0),
            (8, 2),
        ] {
            let axis = |input| Axis::new(input, taps, stride, 1, [padding; 2]);
            let axes = [Axis::NONE, axis(9), axis(width)];
            let mut of = Convolution::contiguous(T::DTYPE, 2, [3; 2], 3, axes);
            for operation in [Operation::Forward, Operation::Data] {
                of.operation = operation;
                let follows = follows(&mut draw, operation);
                check::<T>(&stream, &of, follows, &mut draw, false);
            }
        }
    }
}

#[test]
fn depthwise_by_vectors_words_and_elements() {
    depthwise_lines::<f16>();
    depthwise_lines::<bf16>();
    depthwise_lines::<f32>();
}

/// Gradients of the data of groups of one channel with strides: padding of all rests, places behind the last tap, and what
/// follows.
fn depthwise_strides<T: Element>() {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(13);
    let gpu = Gpu::from(context.info());
    for [before, after] in [[0, 0], [1, 1], [2, 0], [3, 2]] {
        for (height, width) in [(6, 16), (7, 24), (5, 9), (2, 40)] {
            let axis = |input| Axis::new(input, 3, 2, 1, [before, after]);
            let axes = [Axis::NONE, axis(height), axis(width)];
            let mut of = Convolution::contiguous(T::DTYPE, 2, [5; 2], 5, axes);
            of.operation = Operation::Data;
            if of.axes[1].output == 0 {
                continue;
            }
            let kernel = chosen(&of, &ANYWHERE, gpu);
            assert!(
                matches!(kernel, Kernel::DepthwiseData { .. }),
                "{of} by {kernel:?}"
            );
            let follows = follows(&mut draw, Operation::Data);
            check::<T>(&stream, &of, follows, &mut draw, true);
            // As Candle has it transposed, with places that no output meets.
            let more = |axis: Axis| Axis {
                input: axis.input + 3,
                ..axis
            };
            of.axes = [Axis::NONE, more(axes[1]), more(axes[2])];
            of.inputs = Strides::channels_first(5, of.axes.map(|axis| axis.input));
            check::<T>(&stream, &of, follows, &mut draw, false);
        }
    }
}

#[test]
fn depthwise_gradients_of_strides() {
    depthwise_strides::<f16>();
    depthwise_strides::<bf16>();
    depthwise_strides::<f32>();
}

/// Groups of few channels: less and more than a work-item makes, and than lie in LDS at once, whole vectors and words and
/// neither, strides, and what follows.
fn few_channels<T: Element>() {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(16);
    let gpu = Gpu::from(context.info());
    for (channels, groups, width, stride) in [
        ([16, 16], 2, 16, 1),
        ([12, 22], 2, 14, 1),
        ([36, 6], 3, 9, 1),
        ([8, 16], 4, 16, 2),
        ([26, 6], 2, 18, 2),
    ] {
        let axis = |input| Axis::new(input, 3, stride, 1, [1; 2]);
        let axes = [Axis::NONE, axis(7), axis(width)];
        let mut of = Convolution::contiguous(T::DTYPE, 3, channels, groups, axes);
        for operation in [Operation::Forward, Operation::Data] {
            of.operation = operation;
            let kernel = chosen(&of, &ANYWHERE, gpu);
            let is_grouped = matches!(kernel, Kernel::Grouped { .. });
            assert_eq!(
                is_grouped,
                stride == 1 || operation == Operation::Forward,
                "{of}"
            );
            let follows = follows(&mut draw, operation);
            check::<T>(&stream, &of, follows, &mut draw, true);
        }
    }
}

#[test]
fn groups_of_few_channels() {
    few_channels::<f16>();
    few_channels::<bf16>();
    few_channels::<f32>();
}

/// Channels that are neighbours: of less than a K-block, of some and a part, in groups, with strides, dilation, axes that are
/// not alike, more taps than a mask has bits, rows and columns behind the last, and what follows.
fn channels_as_neighbours<T: Element>() {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(14);
    let gpu = Gpu::from(context.info());
    let axis = |input, kernel, stride, dilation| {
        Axis::new(input, kernel, stride, dilation, [dilation, dilation + 1])
    };
    let one = Axis::NONE;
    let cases = [
        (2, [8, 72], 1, [one, axis(7, 3, 1, 1), axis(9, 3, 1, 1)]),
        (1, [72, 24], 1, [one, axis(6, 3, 2, 1), axis(11, 2, 1, 2)]),
        (1, [144, 8], 1, [one, one, axis(70, 3, 2, 1)]),
        (2, [48, 32], 2, [one, axis(5, 3, 1, 1), axis(5, 3, 1, 1)]),
        (
            1,
            [16, 136],
            1,
            [axis(3, 2, 1, 1), axis(4, 3, 1, 1), axis(5, 3, 1, 1)],
        ),
        (1, [8, 8], 1, [one, axis(9, 7, 1, 1), axis(9, 7, 1, 1)]),
    ];
    for (batch, channels, groups, axes) in cases {
        let mut of = Convolution::contiguous(T::DTYPE, batch, channels, groups, axes);
        of.inputs = Strides::channels_last(channels[0], axes.map(|axis| axis.input));
        of.outputs = Strides::channels_last(channels[1], axes.map(|axis| axis.output));
        let as_neighbours =
            Strides::channels_last(channels[0] / groups, axes.map(|axis| axis.kernel));
        // A gradient of the data has Candle's weights transposed.
        for (operation, weights) in [
            (Operation::Forward, as_neighbours),
            (Operation::Data, of.weights),
        ] {
            (of.operation, of.weights) = (operation, weights);
            let kernel = chosen(&of, &ANYWHERE, gpu);
            assert!(matches!(kernel, Kernel::Tile { .. }), "{of} by {kernel:?}");
            let follows = follows(&mut draw, operation);
            check::<T>(&stream, &of, follows, &mut draw, true);
        }
    }
}

#[test]
fn both_operands_by_vectors_of_channels() {
    channels_as_neighbours::<f16>();
    channels_as_neighbours::<bf16>();
    channels_as_neighbours::<f32>();
    channels_as_neighbours::<f64>();
}

/// In all operations, of all dtypes, and what follows; with gaps between channels of places.
fn one_tap<T: Element>() {
    let context = common::context();
    let stream = context.default_stream();
    let mut draw = Random::new(15);
    for operation in OPERATIONS {
        for (last, gap) in [(false, 0), (true, 0), (true, 3)] {
            let axes = square(6, 1, 1, 0);
            let mut of = Convolution::contiguous(T::DTYPE, 2, [40, 24], 1, axes);
            of.operation = operation;
            if last {
                of.inputs = Strides::channels_last(40, axes.map(|axis| axis.input));
                of.outputs = Strides::channels_last(24, axes.map(|axis| axis.output));
            }
            of.weights = Strides::channels_last(40 + gap, axes.map(|axis| axis.kernel));
            let mut follows = follows(&mut draw, operation);
            // An addend, or a bias between images, is none of a product's.
            for beta in [0.0, follows.beta] {
                follows.beta = beta;
                check::<T>(&stream, &of, follows, &mut draw, false);
            }
        }
    }
}

#[test]
fn one_tap_is_a_product() {
    for last in [false, true] {
        named::<f16>(2, [40, 24], 1, square(6, 1, 1, 0), last);
        named::<f16>(2, [40, 24], 1, square(7, 1, 2, 0), last);
    }
    one_tap::<f16>();
    one_tap::<bf16>();
    one_tap::<f32>();
    one_tap::<f64>();
}

/// So many places that k is summed in splits, with all tiles.
#[test]
fn gradients_of_weights_in_splits() {
    named::<bf16>(2, [8, 8], 1, square(20, 3, 1, 1), false);
    named::<f32>(1, [8, 8], 1, square(20, 3, 1, 1), false);
    named::<f64>(1, [8, 8], 1, square(12, 3, 1, 1), false);
}

/// Few tiles of so many channels that k is summed in splits forward and backward, too, with all tiles.
#[test]
fn few_tiles_in_splits() {
    named::<f32>(1, [72, 40], 1, square(5, 3, 1, 1), false);
    named::<f16>(1, [136, 24], 1, square(4, 3, 2, 1), true);
    named::<bf16>(2, [160, 32], 2, square(4, 3, 1, 1), false);
    named::<f64>(1, [40, 8], 1, square(4, 3, 1, 1), false);
}

#[test]
fn more_taps_than_a_mask_has_bits() {
    let axis = Axis::new(70, 41, 2, 1, [20; 2]);
    named::<f16>(1, [4, 6], 1, [Axis::NONE, Axis::NONE, axis], false);
    // Weights that vectors read, and more places than taps.
    let even = Axis::new(90, 42, 1, 1, [20; 2]);
    named::<f64>(1, [4, 6], 1, [Axis::NONE, Axis::NONE, even], false);
}

#[test]
fn strides_beyond_the_kernel_and_dilation_that_shares_a_factor() {
    let sparse = Axis::new(17, 2, 5, 1, [1, 0]);
    let shared = Axis::new(20, 3, 4, 2, [2, 3]);
    named::<f32>(1, [5, 6], 1, [Axis::NONE, sparse, shared], false);
}

#[test]
fn three_axes() {
    let axis = Axis::new(5, 3, 1, 1, [1; 2]);
    named::<f16>(1, [8, 12], 1, [axis, axis, axis], false);
    let down = Axis::new(6, 3, 2, 1, [1, 0]);
    named::<bf16>(1, [16, 8], 2, [axis, down, down], true);
}

#[test]
fn a_kernel_larger_than_the_input_and_empty_batches_have_no_outputs() {
    let large = Axis::new(3, 5, 1, 1, [0; 2]);
    assert_eq!(large.output, 0);
    named::<f16>(2, [4, 4], 1, [Axis::NONE, large, large], false);
    named::<f32>(0, [4, 4], 1, square(6, 3, 1, 1), false);
}

#[test]
fn a_transposed_convolution_has_the_inputs_that_output_padding_adds() {
    let axis = Axis::transposed(7, 4, 3, 1, 1, 2);
    assert_eq!(axis.input, 6 * 3 + 4 + 2 - 2);
    named::<f16>(1, [6, 9], 1, [Axis::NONE, Axis::NONE, axis], false);
}

#[test]
fn senseless_convolutions_are_named() {
    let of = Convolution::contiguous(Dtype::F32, 1, [4, 6], 1, square(6, 3, 1, 1));
    type Case = (fn(&mut Convolution), &'static str);
    let cases: [Case; 4] = [
        (
            |of| of.groups = 4,
            "6 output channels are not divided by 4 groups",
        ),
        (|of| of.axes[1].stride = 0, "a stride or dilation is 0"),
        (
            |of| of.axes[2].padding = 1 << 31,
            "reaches beyond 2^30 places",
        ),
        (|of| of.dtype = Dtype::I8, "no convolution has i8"),
    ];
    for (change, expected) in cases {
        let mut changed = of;
        change(&mut changed);
        let message = changed.check().unwrap_err().to_string();
        assert!(
            message.contains(expected) && message.contains("1x4x"),
            "{message}"
        );
    }
    of.check().unwrap();
}
