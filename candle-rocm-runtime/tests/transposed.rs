//! Candle's launches of transposed convolutions: the kernels of convolutions, where the host knows the parameters, and Candle's own
//! kernel elsewhere, against sums in f64.

mod common;

use std::sync::Arc;

use candle_rocm_kernels::CONV;
use candle_rocm_runtime::{DevicePtr as _, LaunchConfig, PushKernelArg as _, Stream};

/// Width and height of inputs, taps and outputs, and how they meet.
struct Case {
    batch: usize,
    channels: [usize; 2],
    inputs: [usize; 2],
    taps: [usize; 2],
    stride: usize,
    padding: usize,
    output_padding: usize,
    dilation: usize,
}

impl Case {
    fn outputs(&self) -> [usize; 2] {
        [0, 1].map(|i| match (self.inputs[i], self.taps[i]) {
            // An axis that is not there.
            (1, 1) => 1,
            (input, taps) => {
                (input - 1) * self.stride + self.dilation * (taps - 1) + self.output_padding + 1
                    - 2 * self.padding
            }
        })
    }

    fn padding(&self, axis: usize) -> usize {
        match (self.inputs[axis], self.taps[axis]) {
            (1, 1) => 0,
            _ => self.padding,
        }
    }

    fn expected(&self, x: &[f32], w: &[f32]) -> Vec<f32> {
        let ([h, width], [kh, kw], [oh, ow]) = (self.inputs, self.taps, self.outputs());
        let [c_in, c_out] = self.channels;
        let mut y = vec![0_f64; self.batch * c_out * oh * ow];
        for (at, x) in x.iter().enumerate() {
            let (b, ci, iy, ix) = (
                at / (c_in * h * width),
                at / (h * width) % c_in,
                at / width % h,
                at % width,
            );
            for tap in 0..c_out * kh * kw {
                let (co, ky, kx) = (tap / (kh * kw), tap / kw % kh, tap % kw);
                let place = |i: usize, k: usize, axis: usize| {
                    (i * self.stride + k * self.dilation).checked_sub(self.padding(axis))
                };
                if let (Some(oy), Some(ox)) = (place(iy, ky, 0), place(ix, kx, 1)) {
                    if oy < oh && ox < ow {
                        let weight = w[((ci * c_out + co) * kh + ky) * kw + kx];
                        y[((b * c_out + co) * oh + oy) * ow + ox] +=
                            f64::from(*x) * f64::from(weight);
                    }
                }
            }
        }
        y.iter().map(|y| *y as f32).collect()
    }

    /// Dimensions and packed strides, of one axis without the height.
    fn parameters(&self, axes: usize) -> Vec<usize> {
        let [c_in, c_out] = self.channels;
        let of = |batch: usize, channels: usize, [h, w]: [usize; 2]| match axes {
            1 => vec![batch, channels, w, channels * w, w, 1],
            _ => vec![batch, channels, h, w, channels * h * w, h * w, w, 1],
        };
        [
            of(self.batch, c_in, self.inputs),
            of(c_in, c_out, self.taps),
        ]
        .concat()
    }

    /// Launches Candle's kernel, with parameters whose address somebody else has, or not.
    fn launch(&self, stream: &Arc<Stream>, axes: usize, exposed: bool) {
        let [c_in, c_out] = self.channels;
        let whole =
            |count: usize| -> Vec<f32> { (0..count).map(|i| (i * 7 % 11) as f32 - 5.0).collect() };
        let x = whole(self.batch * c_in * self.inputs[0] * self.inputs[1]);
        let w = whole(c_in * c_out * self.taps[0] * self.taps[1]);
        let expected = self.expected(&x, &w);
        let function = stream
            .context()
            .kernel(&CONV, &format!("conv_transpose{axes}d_f32"))
            .unwrap();
        let (there_x, there_w) = (
            stream.clone_htod(&x).unwrap(),
            stream.clone_htod(&w).unwrap(),
        );
        let y = stream.clone_htod(&vec![f32::NAN; expected.len()]).unwrap();
        let info = stream.clone_htod(&self.parameters(axes)).unwrap();
        if exposed {
            let _ = info.device_ptr(stream);
        }
        let [height, width] = self.outputs();
        let elements = x.len();
        let mut launch = stream.launch_builder(&function);
        launch.arg(&elements).arg(&width);
        if axes == 2 {
            launch.arg(&height);
        }
        launch.arg(&self.stride).arg(&self.padding);
        launch.arg(&self.output_padding).arg(&self.dilation);
        launch.arg(&info).arg(&there_x).arg(&there_w).arg(&y);
        let config = LaunchConfig::for_num_elems(expected.len() as u32);
        // SAFETY: the kernel's arguments in order, of buffers with so many elements.
        unsafe { launch.launch(config) }.unwrap();
        // Whole numbers: all sums are exact.
        assert_eq!(
            stream.clone_dtoh(&y).unwrap(),
            expected,
            "exposed: {exposed}"
        );
    }
}

#[test]
fn of_one_axis_and_of_two() {
    let stream = common::context().default_stream();
    let cases = [
        Case {
            batch: 2,
            channels: [8, 12],
            inputs: [5, 6],
            taps: [3, 3],
            stride: 2,
            padding: 1,
            output_padding: 1,
            dilation: 1,
        },
        Case {
            batch: 1,
            channels: [3, 5],
            inputs: [4, 7],
            taps: [2, 4],
            stride: 3,
            padding: 0,
            output_padding: 0,
            dilation: 2,
        },
    ];
    for case in &cases {
        for exposed in [false, true] {
            case.launch(&stream, 2, exposed);
        }
    }
    let line = Case {
        batch: 2,
        channels: [16, 8],
        inputs: [1, 20],
        taps: [1, 8],
        stride: 4,
        padding: 2,
        output_padding: 0,
        dilation: 1,
    };
    for exposed in [false, true] {
        line.launch(&stream, 1, exposed);
    }
}
