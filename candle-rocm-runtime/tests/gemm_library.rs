//! Who multiplies matrices: the choice, its errors, and what a vendor's library is asked to do. In the library's place
//! is a stand-in (`libraries/blas.c`) on the emulated GPU.

mod common;

use std::ffi::c_int;
use std::sync::Arc;

use candle_rocm_runtime::cuda_names::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use candle_rocm_runtime::gemm::{
    self, library, Epilogue, GemmDtype, GemmProblem, Residual, Transpose,
};
use candle_rocm_runtime::{DevicePtr, DevicePtrMut, DeviceRepr, Error, ErrorKind, Stream};
use common::number::Number;
use common::{context, in_process, StandIn};

/// The two vendors: the compiler's flags, what the library calls itself, and its numbers for sums of f32 and f64.
const VENDORS: [(&str, &str, [c_int; 2]); 2] = [
    ("-DCUBLAS", "cuBLAS 13.1.2", [68, 70]),
    ("-DROCBLAS", "rocBLAS 4.2.0.stand-in", [151, 152]),
];

/// Runs a body with the stand-in as the library that the variable names, once for each vendor.
fn with_stand_in(
    test: &str,
    variables: &[(&str, &str)],
    body: impl Fn(&Calls, &'static str, [c_int; 2]),
) {
    const VENDOR: &str = "CANDLE_ROCM_TEST_VENDOR";
    if let Ok(vendor) = std::env::var(VENDOR) {
        let (_, name, numbers) = VENDORS[vendor.parse::<usize>().unwrap()];
        let path = std::env::var(library::LIBRARY_VARIABLE).unwrap();
        let calls = Calls::load(path);
        return in_process(test, &[], || body(&calls, name, numbers));
    }
    let folder = tempfile::tempdir().unwrap();
    for (index, (flag, _, _)) in VENDORS.iter().enumerate() {
        let path = common::shared_library(folder.path(), "blas.c", flag);
        let index = index.to_string();
        let mut all = vec![
            (VENDOR, index.as_str()),
            (library::LIBRARY_VARIABLE, path.to_str().unwrap()),
            (library::GEMM_VARIABLE, "library"),
        ];
        all.extend(variables);
        in_process(test, &all, || {
            unreachable!("the vendor is set in the process")
        });
    }
}

/// What the stand-in was asked to do.
type Calls = StandIn<Counts>;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Counts {
    created: c_int,
    destroyed: c_int,
    streams_set: c_int,
    workspaces_set: c_int,
    products: c_int,
    last_compute: c_int,
}

trait Element: Number + DeviceRepr {
    const DTYPE: GemmDtype;
}

macro_rules! elements {
    ($($type:ty, $dtype:ident;)*) => {
        $(impl Element for $type {
            const DTYPE: GemmDtype = GemmDtype::$dtype;
        })*
    };
}
elements! {
    f32, F32;
    f64, F64;
    half::f16, F16;
}

/// Multiplies 3 x 4 by 4 x 2, twice, of small integers: exact in every type. C begins as 8.
fn multiply<T: Element>(
    stream: &Arc<Stream>,
    k: usize,
    alpha: f64,
    beta: f64,
    transa: Transpose,
) -> Result<(), Error> {
    multiply_and_add::<T>(stream, k, alpha, beta, transa, 0.0)
}

/// The same, with a bias of so many times 1, 2 and 3 and a residual of as many times 4, if that is not 0.
fn multiply_and_add<T: Element>(
    stream: &Arc<Stream>,
    k: usize,
    alpha: f64,
    beta: f64,
    transa: Transpose,
    added: f64,
) -> Result<(), Error> {
    let (m, n, batch) = (3, 2, 2);
    let number = |i: usize| (i * 7 % 11) as f64 - 5.0;
    let a: Vec<T> = (0..batch * m * 4).map(|i| T::new(number(i))).collect();
    let b: Vec<T> = (0..batch * n * 4).map(|i| T::new(number(i + 3))).collect();
    let c = vec![T::new(8.0); batch * m * n];
    let (device_a, device_b) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
    let mut device_c = stream.clone_htod(&c)?;
    let problem = GemmProblem {
        transa,
        transb: Transpose::No,
        m,
        n,
        k,
        alpha,
        a: device_a.device_ptr(stream).0,
        lda: match transa {
            Transpose::No => m,
            Transpose::Yes => 4,
        },
        stride_a: 12,
        b: device_b.device_ptr(stream).0,
        ldb: 4,
        stride_b: 8,
        beta,
        c: device_c.device_ptr_mut(stream).0,
        ldc: m,
        stride_c: 6,
        batch,
        dtype: T::DTYPE,
        compute: T::DTYPE.compute(),
    };
    let bias: Vec<T> = (1..=m).map(|i| T::new(added * i as f64)).collect();
    let residual = vec![T::new(added * 4.0); batch * m * n];
    let (device_bias, device_residual) = (stream.clone_htod(&bias)?, stream.clone_htod(&residual)?);
    let mut epilogue = Epilogue::default();
    if added != 0.0 {
        epilogue.bias = Some(device_bias.device_ptr(stream).0);
        epilogue.residual = Some(Residual {
            address: device_residual.device_ptr(stream).0,
            ld: m,
            stride: 6,
        });
    }
    // SAFETY: the buffers hold the matrices.
    unsafe { gemm::gemm_with_epilogue(stream, &problem, &epilogue) }?;
    let result = stream.clone_dtoh(&device_c)?;
    for z in 0..batch {
        for column in 0..n {
            for row in 0..m {
                let sum: f64 = (0..k)
                    .map(|l| {
                        let at = match transa {
                            Transpose::No => l * m + row,
                            Transpose::Yes => row * 4 + l,
                        };
                        a[z * 12 + at].value() * b[z * 8 + column * 4 + l].value()
                    })
                    .sum();
                let expected = alpha * sum + beta * 8.0 + added * (row + 1 + 4) as f64;
                let got = result[z * 6 + column * m + row].value();
                assert_eq!(got, expected, "{problem}: C[{row}, {column}] of {z}");
            }
        }
    }
    Ok(())
}

fn simple<T: Element>(stream: &Arc<Stream>) -> Result<(), Error> {
    multiply::<T>(stream, 4, 1.0, 0.0, Transpose::No)
}

#[test]
fn a_misspelt_choice_is_an_error() {
    in_process(
        "a_misspelt_choice_is_an_error",
        &[(library::GEMM_VARIABLE, "fast")],
        || {
            let error = simple::<f32>(&context().default_stream()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("CANDLE_ROCM_GEMM=fast"), "{text}");
            assert!(text.contains("own, library and auto"), "{text}");
        },
    );
}

#[test]
fn the_emulated_gpu_has_no_library_of_its_own() {
    in_process(
        "the_emulated_gpu_has_no_library_of_its_own",
        &[
            (library::GEMM_VARIABLE, "library"),
            (library::LIBRARY_VARIABLE, ""),
        ],
        || {
            let error = simple::<f32>(&context().default_stream()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("CANDLE_ROCM_GEMM=own"), "{text}");
            assert!(text.contains("f32 matrix product nn of 3 x 4"), "{text}");
        },
    );
}

#[test]
fn a_missing_library_is_an_error_that_names_what_was_tried() {
    in_process(
        "a_missing_library_is_an_error_that_names_what_was_tried",
        &[
            (library::GEMM_VARIABLE, "library"),
            (library::LIBRARY_VARIABLE, "/nonexistent/libblas.so"),
        ],
        || {
            let error = simple::<f32>(&context().default_stream()).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Runtime);
            let text = error.to_string();
            assert!(text.contains("\n  /nonexistent/libblas.so: "), "{text}");
            assert!(text.contains("CANDLE_ROCM_GEMM=own"), "{text}");
        },
    );
}

#[test]
fn another_library_is_refused() {
    in_process(
        "another_library_is_refused",
        &[
            (library::GEMM_VARIABLE, "library"),
            (library::LIBRARY_VARIABLE, "libm.so.6"),
        ],
        || {
            let text = simple::<f32>(&context().default_stream())
                .unwrap_err()
                .to_string();
            for part in ["libm.so.6", "cublasCreate_v2", "rocblas_create_handle"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        },
    );
}

#[test]
fn what_follows_a_product_follows_the_librarys() {
    with_stand_in(
        "what_follows_a_product_follows_the_librarys",
        &[],
        |calls, _, _| {
            let stream = context().default_stream();
            multiply_and_add::<f32>(&stream, 4, 2.0, 0.5, Transpose::No, 3.0).unwrap();
            multiply_and_add::<f64>(&stream, 4, 1.0, 0.0, Transpose::Yes, 3.0).unwrap();
            assert_eq!(calls.counts().products, 2);
            // The stand-in has no f16.
            multiply_and_add::<half::f16>(&stream, 4, 1.0, 0.5, Transpose::No, 3.0).unwrap();
        },
    );
}

#[test]
fn by_default_the_emulated_gpu_multiplies_itself() {
    with_stand_in(
        "by_default_the_emulated_gpu_multiplies_itself",
        &[(library::GEMM_VARIABLE, "")],
        |calls, _, _| {
            let stream = context().default_stream();
            simple::<f32>(&stream).unwrap();
            assert_eq!(calls.counts().products, 0);
            assert_eq!(library::describe(&stream).unwrap(), "our own kernels");
        },
    );
}

#[test]
fn own_is_a_choice() {
    with_stand_in(
        "own_is_a_choice",
        &[(library::GEMM_VARIABLE, "own")],
        |calls, _, _| {
            simple::<f32>(&context().default_stream()).unwrap();
            assert_eq!(calls.counts().created, 0);
        },
    );
}

#[test]
fn the_library_multiplies() {
    with_stand_in("the_library_multiplies", &[], |calls, name, sums| {
        let stream = context().default_stream();
        for transa in [Transpose::No, Transpose::Yes] {
            multiply::<f32>(&stream, 4, 1.0, 0.0, transa).unwrap();
            assert_eq!(calls.counts().last_compute, sums[0]);
            multiply::<f64>(&stream, 4, -2.0, 0.5, transa).unwrap();
            assert_eq!(calls.counts().last_compute, sums[1]);
        }
        assert_eq!(calls.counts().products, 4);
        let text = library::describe(&stream).unwrap();
        assert!(text.starts_with(name), "{text}");
    });
}

#[test]
fn what_the_library_lacks_is_computed_here() {
    with_stand_in(
        "what_the_library_lacks_is_computed_here",
        &[],
        |calls, _, _| {
            let stream = context().default_stream();
            simple::<half::f16>(&stream).unwrap();
            // It was asked, and refused.
            assert_eq!(calls.counts().products, 1);
            // Without a sum nothing of A and B is read, which not every library keeps to.
            multiply::<f32>(&stream, 0, 1.0, 0.5, Transpose::No).unwrap();
            multiply::<f32>(&stream, 4, 0.0, 0.5, Transpose::No).unwrap();
            assert_eq!(calls.counts().products, 1);
        },
    );
}

#[test]
fn a_failing_product_is_named() {
    with_stand_in(
        "a_failing_product_is_named",
        &[("STAND_IN_FAILS", "gemm")],
        |_, name, _| {
            let error = simple::<f64>(&context().default_stream()).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Library);
            let text = error.to_string();
            assert!(
                text.contains("f64 matrix product nn of 3 x 4 by 4 x 2, batch 2"),
                "{text}"
            );
            assert!(text.contains(name), "{text}");
            assert!(
                text.contains("CUBLAS_STATUS_EXECUTION_FAILED (13)")
                    || text.contains("rocblas_status_internal_error (6)"),
                "{text}"
            );
        },
    );
}

#[test]
fn a_library_that_cannot_start_is_an_error() {
    for function in ["create", "set_stream"] {
        with_stand_in(
            "a_library_that_cannot_start_is_an_error",
            &[("STAND_IN_FAILS", function)],
            |calls, _, _| {
                let text = simple::<f32>(&context().default_stream())
                    .unwrap_err()
                    .to_string();
                assert!(text.contains("(1)"), "{text}");
                let counts = calls.counts();
                assert_eq!(counts.created, counts.destroyed);
            },
        );
    }
}

#[test]
fn each_stream_has_a_handle_which_outlives_it() {
    with_stand_in(
        "each_stream_has_a_handle_which_outlives_it",
        &[],
        |calls, _, _| {
            let context = context();
            let stream = context.new_stream().unwrap();
            for _ in 0..3 {
                simple::<f32>(&stream).unwrap();
            }
            let first = calls.counts();
            // One more was made to see whether the library works.
            assert_eq!((first.created - first.destroyed, first.streams_set), (1, 1));
            let second = context.new_stream().unwrap();
            simple::<f32>(&second).unwrap();
            assert_eq!(calls.counts().created, first.created + 1);
            drop(second);
            let third = context.new_stream().unwrap();
            simple::<f32>(&third).unwrap();
            let last = calls.counts();
            assert_eq!((last.created, last.streams_set), (first.created + 1, 3));
        },
    );
}

#[test]
fn each_thread_has_a_handle_which_outlives_it() {
    with_stand_in(
        "each_thread_has_a_handle_which_outlives_it",
        &[],
        |calls, _, _| {
            let stream = context().per_thread_stream();
            simple::<f32>(&stream).unwrap();
            let first = calls.counts();
            for _ in 0..4 {
                let stream = stream.clone();
                std::thread::spawn(move || simple::<f32>(&stream).unwrap())
                    .join()
                    .unwrap();
            }
            let last = calls.counts();
            // The first of the four made one, which the others took over.
            assert_eq!((last.created, last.streams_set), (first.created + 1, 5));
            let barrier = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..20 {
                            simple::<f32>(&stream).unwrap();
                        }
                        barrier.wait();
                    });
                }
            });
            assert_eq!(calls.counts().created, last.created + 3);
        },
    );
}

#[test]
fn a_capture_finds_a_handle() {
    with_stand_in("a_capture_finds_a_handle", &[], |calls, _, _| {
        let stream = context().new_stream().unwrap();
        stream
            .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)
            .unwrap();
        let counts = calls.counts();
        assert_eq!(
            (counts.created - counts.destroyed, counts.streams_set),
            (1, 1)
        );
        stream
            .end_capture(CUgraphInstantiate_flags::default())
            .unwrap();
    });
}
