//! Who makes convolutions: the choice, its errors, and what MIOpen is asked to do. In its place is a stand-in
//! (`libraries/miopen.c`) on the emulated GPU.

mod common;

use std::ffi::c_int;
use std::sync::Arc;

use candle_rocm_runtime::convolution::{
    convolve, library, Axis, Convolution, Dtype, Epilogue, Operands, Operation, Strides,
};
use candle_rocm_runtime::cuda_names::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use candle_rocm_runtime::enqueued::{self, Enqueued};
use candle_rocm_runtime::gemm::tune;
use candle_rocm_runtime::{DevicePtr, DevicePtrMut, DeviceRepr, Error, ErrorKind, Stream};
use common::number::Number;
use common::{context, in_process, StandIn};

/// Runs a body in a process with the stand-in as MIOpen, and `library` as the choice unless the variables say
/// otherwise.
fn with_stand_in(test: &str, variables: &[(&str, &str)], body: impl Fn(&Calls)) {
    let run = || {
        body(&Calls::load(
            std::env::var(library::LIBRARY_VARIABLE).unwrap(),
        ));
    };
    let folder = tempfile::tempdir().unwrap();
    let path = common::shared_library(folder.path(), "miopen.c", "-DSTAND_IN");
    let mut all = vec![
        (library::LIBRARY_VARIABLE, path.to_str().unwrap()),
        (library::CONV_VARIABLE, "library"),
    ];
    all.extend(variables);
    in_process(test, &all, run);
}

/// What the stand-in was asked to do.
type Calls = StandIn<Counts>;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Counts {
    handles: c_int,
    streams_set: c_int,
    descriptions: c_int,
    searches: c_int,
    convolutions: c_int,
}

/// One or two axes of 7 inputs, stride 2, 3 taps with a gap between them; 2 groups of 2 channels to 3.
fn convolution(dtype: Dtype, axes: usize, operation: Operation) -> Convolution {
    let axis = Axis::new(7, 3, 2, 2, [2; 2]);
    let mut all = [Axis::NONE; 3];
    all[3 - axes..].fill(axis);
    Convolution {
        operation,
        ..Convolution::contiguous(dtype, 2, [4, 6], 2, all)
    }
}

/// The same with channels last.
fn channels_last(of: Convolution) -> Convolution {
    let axes = |f: fn(&Axis) -> usize| of.axes.each_ref().map(f);
    Convolution {
        inputs: Strides::channels_last(4, axes(|axis| axis.input)),
        weights: Strides::channels_last(2, axes(|axis| axis.kernel)),
        outputs: Strides::channels_last(6, axes(|axis| axis.output)),
        ..of
    }
}

/// Small whole numbers, whose sums are exact in every type.
fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|i| (i * 7 % 5) as f64 - 2.0).collect()
}

/// Elements of inputs, weights and outputs, and which of them is the result.
fn counts(of: &Convolution) -> ([usize; 3], usize) {
    let product = |f: fn(&Axis) -> usize| of.axes.iter().map(f).product::<usize>();
    let all = [
        of.batch * of.in_channels * product(|axis| axis.input),
        of.out_channels * of.in_channels / of.groups * product(|axis| axis.kernel),
        of.batch * of.out_channels * product(|axis| axis.output),
    ];
    let result = match of.operation {
        Operation::Forward => 2,
        Operation::Data => 0,
        Operation::Weights => 1,
    };
    (all, result)
}

fn place(strides: &Strides, [batch, channel, z, y, x]: [usize; 5]) -> usize {
    let along = [z, y, x].into_iter().zip(strides.axes);
    let axes: usize = along.map(|(at, stride)| at * stride).sum();
    batch * strides.batch + channel * strides.channel + axes
}

/// The digits of a number, the last one first counted.
fn digits<const N: usize>(mut number: usize, sizes: [usize; N]) -> [usize; N] {
    let mut digits = [0; N];
    for (digit, size) in digits.iter_mut().zip(sizes).rev() {
        *digit = number % size;
        number /= size;
    }
    digits
}

/// The result in f64.
fn truth(of: &Convolution) -> Vec<f64> {
    let (counts, result) = counts(of);
    let mut all = counts.map(numbers);
    all[result].fill(0.0);
    let places = of.axes.each_ref().map(|axis| axis.output);
    let taps = of.axes.each_ref().map(|axis| axis.kernel);
    let (inner, outer) = (of.in_channels / of.groups, of.out_channels / of.groups);
    let sizes = [
        of.batch,
        of.out_channels,
        places[0],
        places[1],
        places[2],
        inner,
        taps[0],
        taps[1],
        taps[2],
    ];
    for number in 0..sizes.iter().product() {
        let [n, o, pz, py, px, c, tz, ty, tx] = digits(number, sizes);
        let input = [(pz, tz), (py, ty), (px, tx)];
        let input = [0, 1, 2].map(|i| {
            let axis = &of.axes[i];
            let at = input[i].0 * axis.stride + input[i].1 * axis.dilation;
            at.checked_sub(axis.padding).filter(|at| *at < axis.input)
        });
        let [Some(z), Some(y), Some(x)] = input else {
            continue;
        };
        let at = [
            place(&of.inputs, [n, o / outer * inner + c, z, y, x]),
            place(&of.weights, [o, c, tz, ty, tx]),
            place(&of.outputs, [n, o, pz, py, px]),
        ];
        let others = (0..3).filter(|i| *i != result);
        all[result][at[result]] += others.map(|i| all[i][at[i]]).product::<f64>();
    }
    all[result].clone()
}

/// Makes a convolution, `alpha` times its sums, compares it with [`truth`], and says what was given to the GPU.
fn check<T: Number + DeviceRepr>(
    stream: &Arc<Stream>,
    of: &Convolution,
    alpha: f64,
) -> Result<Enqueued, Error> {
    let (counts, result) = counts(of);
    let mut there = Vec::new();
    for count in counts {
        let values: Vec<T> = numbers(count).into_iter().map(T::new).collect();
        there.push(stream.clone_htod(&values)?);
    }
    let [inputs, weights, outputs] = [0, 1, 2].map(|i| there[i].device_ptr_mut(stream).0);
    let operands = Operands {
        inputs,
        weights,
        outputs,
    };
    let epilogue = Epilogue {
        alpha,
        ..Epilogue::default()
    };
    // SAFETY: the buffers hold the tensors.
    let give = || unsafe { convolve(stream, of, &operands, &epilogue) };
    let (given, noted) = enqueued::recorded(give);
    given?;
    let found = stream.clone_dtoh(&there[result])?;
    let found: Vec<f64> = found.into_iter().map(T::value).collect();
    let expected: Vec<f64> = truth(of).into_iter().map(|x| alpha * x).collect();
    assert_eq!(found, expected, "{of}");
    Ok(noted)
}

fn simple(stream: &Arc<Stream>) -> Result<Enqueued, Error> {
    let of = convolution(Dtype::F32, 2, Operation::Forward);
    check::<f32>(stream, &of, 1.0)
}

/// The error of a simple convolution in a process with these variables.
fn said(test: &str, variables: &[(&str, &str)], parts: &[&str]) {
    in_process(test, variables, || {
        let error = simple(&context().default_stream()).unwrap_err();
        let text = error.to_string();
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("convolution of f32 2x4x1x7x7"), "{text}");
    });
}

#[test]
fn a_misspelt_choice_is_an_error() {
    said(
        "a_misspelt_choice_is_an_error",
        &[(library::CONV_VARIABLE, "fast")],
        &["CANDLE_ROCM_CONV=fast", "own, library and auto"],
    );
}

#[test]
fn the_emulated_gpu_has_no_library_of_its_own() {
    said(
        "the_emulated_gpu_has_no_library_of_its_own",
        &[
            (library::CONV_VARIABLE, "library"),
            (library::LIBRARY_VARIABLE, ""),
        ],
        &["CANDLE_ROCM_CONV=own", "CANDLE_ROCM_MIOPEN_LIBRARY"],
    );
}

#[test]
fn a_missing_library_is_an_error_that_names_what_was_tried() {
    said(
        "a_missing_library_is_an_error_that_names_what_was_tried",
        &[
            (library::CONV_VARIABLE, "library"),
            (library::LIBRARY_VARIABLE, "/nonexistent/libMIOpen.so"),
        ],
        &["\n  /nonexistent/libMIOpen.so: ", "CANDLE_ROCM_CONV=own"],
    );
}

#[test]
fn another_library_is_refused() {
    said(
        "another_library_is_refused",
        &[
            (library::CONV_VARIABLE, "library"),
            (library::LIBRARY_VARIABLE, "libm.so.6"),
        ],
        &["libm.so.6", "miopenCreate"],
    );
}

#[test]
fn the_library_makes_convolutions_and_gradients() {
    with_stand_in(
        "the_library_makes_convolutions_and_gradients",
        &[],
        |calls| {
            let stream = context().default_stream();
            let mut made = 0;
            for operation in [Operation::Forward, Operation::Data, Operation::Weights] {
                for axes in 1..=3 {
                    let first = convolution(Dtype::F32, axes, operation);
                    for of in [first, channels_last(first)] {
                        let noted = check::<f32>(&stream, &of, 1.0).unwrap();
                        assert_eq!((noted.library_convolutions, noted.kernels.len()), (1, 0));
                        made += 1;
                    }
                }
            }
            let counts = calls.counts();
            assert_eq!((counts.convolutions, counts.searches), (made, made));
            assert_eq!((counts.handles, counts.streams_set), (1, 1));
        },
    );
}

#[test]
fn an_algorithm_is_searched_once_and_a_stream_set_when_it_changes() {
    with_stand_in(
        "an_algorithm_is_searched_once_and_a_stream_set_when_it_changes",
        &[],
        |calls| {
            let context = context();
            let (first, second) = (context.default_stream(), context.new_stream().unwrap());
            for stream in [&first, &first, &second, &second, &first] {
                simple(stream).unwrap();
            }
            let counts = calls.counts();
            assert_eq!((counts.searches, counts.convolutions), (1, 5));
            assert_eq!(counts.streams_set, 3);
            // Three tensors and the convolution of the one that is kept.
            assert_eq!(counts.descriptions, 4);
        },
    );
}

#[test]
fn what_the_library_lacks_is_made_by_our_kernels() {
    with_stand_in(
        "what_the_library_lacks_is_made_by_our_kernels",
        &[],
        |calls| {
            let stream = context().default_stream();
            let of = |dtype| convolution(dtype, 2, Operation::Forward);
            let noted = [
                // There is no algorithm for these types.
                check::<half::f16>(&stream, &of(Dtype::F16), 1.0).unwrap(),
                check::<half::bf16>(&stream, &of(Dtype::BF16), 1.0).unwrap(),
                // It is not asked for these.
                check::<f64>(&stream, &of(Dtype::F64), 1.0).unwrap(),
                check::<f32>(&stream, &of(Dtype::F32), 2.0).unwrap(),
            ];
            for noted in noted {
                assert_eq!(noted.library_convolutions, 0);
                assert_ne!(noted.kernels.len(), 0);
            }
            assert_eq!(
                (calls.counts().searches, calls.counts().convolutions),
                (1, 0)
            );
        },
    );
}

#[test]
fn a_failing_library_is_named() {
    for function in ["create", "set_stream", "workspace", "find", "convolve"] {
        with_stand_in(
            "a_failing_library_is_named",
            &[("STAND_IN_FAILS", function)],
            |_| {
                let error = simple(&context().default_stream()).unwrap_err();
                assert_eq!(*error.kind(), ErrorKind::Library);
                let text = error.to_string();
                for part in [
                    "convolution of f32",
                    "MIOpen 3.4.0",
                    "miopenStatusUnknownError (7)",
                    "CANDLE_ROCM_CONV=own",
                ] {
                    assert!(text.contains(part), "{part}: {text}");
                }
            },
        );
    }
}

#[test]
fn own_and_auto_are_our_kernels_until_something_is_timed() {
    for choice in ["own", "auto", ""] {
        with_stand_in(
            "own_and_auto_are_our_kernels_until_something_is_timed",
            &[(library::CONV_VARIABLE, choice)],
            |calls| {
                let noted = simple(&context().default_stream()).unwrap();
                assert_eq!((noted.library_convolutions, calls.counts().handles), (0, 0));
            },
        );
    }
}

#[test]
fn while_a_graph_is_captured_our_kernels_are_asked() {
    with_stand_in(
        "while_a_graph_is_captured_our_kernels_are_asked",
        &[],
        |calls| {
            let stream = context().new_stream().unwrap();
            let of = convolution(Dtype::F32, 2, Operation::Forward);
            let (sizes, _) = counts(&of);
            let there = sizes.map(|count| stream.clone_htod(&vec![1f32; count]).unwrap());
            let [inputs, weights, outputs] =
                there.each_ref().map(|there| there.device_ptr(&stream).0);
            let operands = Operands {
                inputs,
                weights,
                outputs,
            };
            // SAFETY: the buffers hold the tensors.
            let give = || unsafe { convolve(&stream, &of, &operands, &Epilogue::default()) };
            give().unwrap();
            assert_eq!(calls.counts().convolutions, 1);
            stream
                .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)
                .unwrap();
            give().unwrap();
            stream
                .end_capture(CUgraphInstantiate_flags::default())
                .unwrap();
            assert_eq!(calls.counts().convolutions, 1);
        },
    );
}

/// A convolution that is worth a timing, of so many taps: 262,144 multiply-adds and more.
fn worth_timing(taps: usize) -> Convolution {
    let axis = Axis::new(16, taps, 1, 1, [taps / 2; 2]);
    Convolution::contiguous(Dtype::F32, 1, [32, 32], 1, [Axis::NONE, axis, axis])
}

#[test]
fn timings_choose_where_they_are_asked_for() {
    // The stand-in takes less than an emulated kernel, unless it sleeps.
    const SLEEPS: &str = "STAND_IN_SLEEPS";
    for sleeps in ["0", "2000000"] {
        let file = tempfile::NamedTempFile::new().unwrap();
        with_stand_in(
            "timings_choose_where_they_are_asked_for",
            &[
                (library::CONV_VARIABLE, "auto"),
                (tune::TUNE_VARIABLE, "1"),
                (tune::FILE_VARIABLE, file.path().to_str().unwrap()),
                (SLEEPS, sleeps),
            ],
            |calls| {
                let is_faster = std::env::var(SLEEPS).as_deref() == Ok("0");
                let stream = context().default_stream();
                check::<f32>(&stream, &worth_timing(3), 1.0).unwrap();
                let timed = calls.counts();
                assert_ne!(timed.convolutions, 0);
                let noted = check::<f32>(&stream, &worth_timing(3), 1.0).unwrap();
                assert_eq!(noted.library_convolutions, usize::from(is_faster));
                let more = calls.counts().convolutions - timed.convolutions;
                assert_eq!(more, c_int::from(is_faster));
                // Too small to be timed, and a product.
                let noted = [
                    simple(&stream).unwrap(),
                    check::<f32>(&stream, &worth_timing(1), 1.0).unwrap(),
                ];
                for noted in noted {
                    assert_eq!(noted.library_convolutions, 0);
                }
            },
        );
    }
}
