//! cuDNN's shape over our convolutions: descriptors, algorithms, what follows a convolution, and what is refused.

mod common;

use std::sync::Arc;

use candle_rocm_runtime::dnn::sys::{
    cudnnActivationMode_t, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t,
    cudnnConvolutionFwdAlgo_t, cudnnConvolutionMode_t, cudnnNanPropagation_t, cudnnTensorFormat_t,
};
use candle_rocm_runtime::dnn::{
    ConvBackwardData, ConvBackwardFilter, ConvBiasActivationForward, ConvForward, Dnn,
};
use candle_rocm_runtime::{DeviceBuffer, Stream};

const NCHW: cudnnTensorFormat_t = cudnnTensorFormat_t::CUDNN_TENSOR_NCHW;
const NHWC: cudnnTensorFormat_t = cudnnTensorFormat_t::CUDNN_TENSOR_NHWC;
const CORRELATION: cudnnConvolutionMode_t = cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
type None = DeviceBuffer<u8>;

fn handle() -> (Arc<Stream>, Arc<Dnn>) {
    let stream = common::context().default_stream();
    (stream.clone(), Dnn::new(stream).unwrap())
}

/// Small whole numbers, whose sums are exact.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 7 % 5) as f32 - 2.0).collect()
}

/// x (1, 2, 4, 5), w (3, 2, 3, 3), padding 1: y (1, 3, 4, 5), with taps as they are or turned round.
fn truth(x: &[f32], w: &[f32], is_flipped: bool) -> Vec<f32> {
    let mut y = vec![0.0; 60];
    for (at, sum) in y.iter_mut().enumerate() {
        let (c, oy, ox) = (at / 20, at / 5 % 4, at % 5);
        for tap in 0..18 {
            let (i, ky, kx) = (tap / 9, tap / 3 % 3, tap % 3);
            let (iy, ix) = (oy + ky, ox + kx);
            if (1..=4).contains(&iy) && (1..=5).contains(&ix) {
                let of_tap = if is_flipped { i * 9 + 8 - tap % 9 } else { tap };
                *sum += x[i * 20 + (iy - 1) * 5 + ix - 1] * w[c * 18 + of_tap];
            }
        }
    }
    y
}

#[test]
fn forward_by_every_name_and_in_both_modes() {
    use cudnnConvolutionFwdAlgo_t as Algo;
    let (stream, dnn) = handle();
    let (x, w) = (numbers(40), numbers(54));
    let (there_x, there_w) = (
        stream.clone_htod(&x).unwrap(),
        stream.clone_htod(&w).unwrap(),
    );
    let of_x = dnn.create_4d_tensor::<f32>(NCHW, [1, 2, 4, 5]).unwrap();
    let of_w = dnn.create_4d_filter::<f32>(NCHW, [3, 2, 3, 3]).unwrap();
    let of_y = dnn.create_4d_tensor::<f32>(NCHW, [1, 3, 4, 5]).unwrap();
    let modes = [
        (CORRELATION, truth(&x, &w, false)),
        (
            cudnnConvolutionMode_t::CUDNN_CONVOLUTION,
            truth(&x, &w, true),
        ),
    ];
    for (mode, expected) in modes {
        let conv = dnn
            .create_conv2d::<f32>([1; 2], [1; 2], [1; 2], mode)
            .unwrap();
        let forward = ConvForward {
            conv: &conv,
            x: &of_x,
            w: &of_w,
            y: &of_y,
        };
        let picked = forward.pick_algorithm().unwrap();
        for algo in [picked, Algo::CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD] {
            assert_eq!(forward.get_workspace_size(algo).unwrap(), 0);
            let mut y = stream.clone_htod(&vec![1f32; 60]).unwrap();
            // SAFETY: the buffers hold what the descriptors say.
            unsafe {
                forward.launch(
                    algo,
                    None::<&mut None>,
                    (1.0, 0.5),
                    &there_x,
                    &there_w,
                    &mut y,
                )
            }
            .unwrap();
            let expected: Vec<f32> = expected.iter().map(|y| y + 0.5).collect();
            assert_eq!(stream.clone_dtoh(&y).unwrap(), expected, "{mode:?}");
        }
        let count = Algo::CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
        let said = forward.get_workspace_size(count).unwrap_err().to_string();
        assert!(said.contains("none of them"), "{said}");
    }
}

/// The gradients by what defines them: <dy, conv(x, w)> = <dx, x> = <dw, w>.
#[test]
fn gradients_are_the_adjoints() {
    let (stream, dnn) = handle();
    let (x, w, dy) = (numbers(80), numbers(27), numbers(27 * 4));
    let strides = [40, 1, 10, 2];
    let of_x = dnn
        .create_4d_tensor_ex::<f64>([2, 2, 4, 5], strides)
        .unwrap();
    let of_w = dnn.create_3d_filter::<f64>(NCHW, [3, 3, 3]);
    assert!(of_w.is_ok());
    let of_w = dnn.create_nd_filter::<f64>(NHWC, &[3, 2, 3, 3]).unwrap();
    let of_y = dnn.create_4d_tensor::<f64>(NHWC, [2, 3, 2, 3]).unwrap();
    let conv = dnn
        .create_conv2d::<f64>([1; 2], [2; 2], [1; 2], CORRELATION)
        .unwrap();
    let wide = |values: &[f32], count: usize| -> Vec<f64> {
        values
            .iter()
            .cycle()
            .take(count)
            .map(|x| f64::from(*x))
            .collect()
    };
    let (x, w, dy) = (wide(&x, 80), wide(&w, 54), wide(&dy, 36));
    let there = |values: &[f64]| stream.clone_htod(values).unwrap();
    let (at_x, at_w, at_dy) = (there(&x), there(&w), there(&dy));
    let [mut y, mut dx, mut dw] = [36, 80, 54].map(|count| there(&vec![0.0; count]));
    let forward = ConvForward {
        conv: &conv,
        x: &of_x,
        w: &of_w,
        y: &of_y,
    };
    let data = ConvBackwardData {
        conv: &conv,
        dx: &of_x,
        w: &of_w,
        dy: &of_y,
    };
    let filter = ConvBackwardFilter {
        conv: &conv,
        x: &of_x,
        dw: &of_w,
        dy: &of_y,
    };
    let algo = data.pick_algorithm().unwrap();
    assert_eq!(
        algo,
        cudnnConvolutionBwdDataAlgo_t::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1
    );
    let of_filter = filter.pick_algorithm().unwrap();
    assert_eq!(
        of_filter,
        cudnnConvolutionBwdFilterAlgo_t::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1
    );
    // SAFETY: the buffers hold what the descriptors say.
    unsafe {
        let of_forward = forward.pick_algorithm().unwrap();
        forward
            .launch(
                of_forward,
                None::<&mut None>,
                (1.0, 0.0),
                &at_x,
                &at_w,
                &mut y,
            )
            .unwrap();
        data.launch(algo, None::<&mut None>, (1.0, 0.0), &mut dx, &at_w, &at_dy)
            .unwrap();
        filter
            .launch(
                of_filter,
                None::<&mut None>,
                (1.0, 0.0),
                &at_x,
                &mut dw,
                &at_dy,
            )
            .unwrap();
    }
    let inner = |one: &DeviceBuffer<f64>, other: &[f64]| -> f64 {
        let one = stream.clone_dtoh(one).unwrap();
        one.iter().zip(other).map(|(a, b)| a * b).sum()
    };
    // Whole numbers: all sums are exact.
    let expected = inner(&y, &dy);
    assert_ne!(expected, 0.0);
    assert_eq!(inner(&dx, &x), expected);
    assert_eq!(inner(&dw, &w), expected);
}

#[test]
fn bias_and_activation_follow_and_z_is_added_before() {
    let (stream, dnn) = handle();
    let (x, w) = (numbers(40), numbers(54));
    let z: Vec<f32> = (0..60).map(|i| i as f32 - 30.0).collect();
    let bias = [1f32, -2.0, 3.0];
    let there = |values: &[f32]| stream.clone_htod(values).unwrap();
    let of_x = dnn.create_4d_tensor::<f32>(NCHW, [1, 2, 4, 5]).unwrap();
    let of_w = dnn.create_4d_filter::<f32>(NCHW, [3, 2, 3, 3]).unwrap();
    let of_y = dnn.create_4d_tensor::<f32>(NCHW, [1, 3, 4, 5]).unwrap();
    let of_bias = dnn.create_4d_tensor::<f32>(NCHW, [1, 3, 1, 1]).unwrap();
    let conv = dnn
        .create_conv2d::<f32>([1; 2], [1; 2], [1; 2], CORRELATION)
        .unwrap();
    let act = |mode, coefficient| {
        let keeps = cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN;
        dnn.create_activation::<f32>(mode, keeps, coefficient)
            .unwrap()
    };
    let relu = act(cudnnActivationMode_t::CUDNN_ACTIVATION_RELU, 0.0);
    let launch = |act, y: &mut DeviceBuffer<f32>| {
        let fused = ConvBiasActivationForward {
            conv: &conv,
            act,
            x: &of_x,
            w: &of_w,
            z: &of_y,
            bias: &of_bias,
            y: &of_y,
        };
        let algo = fused.pick_algorithm().unwrap();
        let factors = (2.0, 0.25);
        let (x, w, z, bias) = (there(&x), there(&w), there(&z), there(&bias));
        // SAFETY: the buffers hold what the descriptors say.
        unsafe { fused.launch(algo, None::<&mut None>, factors, &x, &w, &z, &bias, y) }
    };
    let mut y = there(&[0.0; 60]);
    launch(&relu, &mut y).unwrap();
    let expected: Vec<f32> = truth(&x, &w, false)
        .iter()
        .enumerate()
        .map(|(i, sum)| (2.0 * sum + 0.25 * z[i] + bias[i / 20]).max(0.0))
        .collect();
    assert_eq!(stream.clone_dtoh(&y).unwrap(), expected);
    let tanh = act(cudnnActivationMode_t::CUDNN_ACTIVATION_TANH, 0.0);
    let said = launch(&tanh, &mut y).unwrap_err().to_string();
    assert!(said.contains("CUDNN_ACTIVATION_TANH"), "{said}");
}

#[test]
fn what_does_not_fit_is_named() {
    let (_, dnn) = handle();
    let of_x = dnn.create_4d_tensor::<f32>(NCHW, [1, 2, 4, 5]).unwrap();
    let of_w = dnn.create_4d_filter::<f32>(NCHW, [3, 2, 3, 3]).unwrap();
    let of_y = dnn.create_4d_tensor::<f32>(NCHW, [1, 3, 4, 5]).unwrap();
    let mut conv = dnn
        .create_conv2d::<f32>([0; 2], [1; 2], [1; 2], CORRELATION)
        .unwrap();
    let said = |conv: &_| {
        let forward = ConvForward {
            conv,
            x: &of_x,
            w: &of_w,
            y: &of_y,
        };
        forward.pick_algorithm().unwrap_err().to_string()
    };
    let places = said(&conv);
    assert!(places.contains("has 2 places along axis 0"), "{places}");
    conv = dnn
        .create_conv2d::<f32>([1; 2], [1; 2], [1; 2], CORRELATION)
        .unwrap();
    conv.set_group_count(2).unwrap();
    let groups = said(&conv);
    assert!(
        groups.contains("in 2 groups: batches and channels do not match"),
        "{groups}"
    );
    assert!(conv.set_group_count(0).is_err());
    let packed = dnn.create_4d_tensor::<f32>(cudnnTensorFormat_t::CUDNN_TENSOR_NCHW_VECT_C, [1; 4]);
    assert!(packed
        .unwrap_err()
        .to_string()
        .contains("CUDNN_TENSOR_NCHW_VECT_C"));
    let bytes = dnn.create_4d_tensor::<u8>(NCHW, [1, 2, 4, 5]).unwrap();
    let of_bytes = dnn.create_4d_filter::<u8>(NCHW, [3, 2, 3, 3]).unwrap();
    let to = dnn.create_4d_tensor::<u8>(NCHW, [1, 3, 4, 5]).unwrap();
    let conv = dnn
        .create_conv2d::<u8>([1; 2], [1; 2], [1; 2], CORRELATION)
        .unwrap();
    let forward = ConvForward {
        conv: &conv,
        x: &bytes,
        w: &of_bytes,
        y: &to,
    };
    let said = forward.pick_algorithm().unwrap_err().to_string();
    assert!(said.contains("CUDNN_DATA_UINT8"), "{said}");
}
