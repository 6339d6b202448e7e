//! cuBLASLt's shape: products with a bias and an activation, beside plain Rust in f64.

mod common;

use std::ffi::{c_int, c_void};

use candle_rocm_runtime::blas_lt::sys::{
    cublasComputeType_t, cublasLtEpilogue_t, cublasLtMatmulDescAttributes_t as Said,
    cublasLtMatrixLayoutAttribute_t as OfMatrix, cudaDataType_t,
};
use candle_rocm_runtime::blas_lt::{
    result, Activation, BlasLt, Matmul, MatmulConfig, MatmulShared as _,
};
use candle_rocm_runtime::enqueued::{self, Enqueued};
use candle_rocm_runtime::gemm::library;
use candle_rocm_runtime::{DevicePtr as _, DevicePtrMut as _, DeviceRepr};
use candle_rocm_testing::activations::gelu;
use common::{context, in_process, StandIn};
use half::{bf16, f16};

/// Whole numbers from -3 to 3, whose products and sums are exact in all types.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count)
        .map(|at| ((at * 7 + seed) % 11 % 7) as f64 - 3.0)
        .collect()
}

/// What a configuration makes of these, with `ldc` and strides of its own.
fn expected(
    cfg: &MatmulConfig,
    a: &[f64],
    b: &[f64],
    c: &[f64],
    bias: Option<&[f64]>,
    act: Option<&Activation>,
) -> Vec<f64> {
    let mut result = c.to_vec();
    let at = |turned: bool, row: usize, column: usize, ld: i64| match turned {
        false => row + column * ld as usize,
        true => column + row * ld as usize,
    };
    for index in 0..cfg.batch_size.unwrap_or(1) as usize {
        let moved = |stride: Option<i64>| index * stride.unwrap_or(0) as usize;
        for row in 0..cfg.m as usize {
            for column in 0..cfg.n as usize {
                let terms = (0..cfg.k as usize).map(|k| {
                    a[moved(cfg.stride_a) + at(cfg.transa, row, k, cfg.lda)]
                        * b[moved(cfg.stride_b) + at(cfg.transb, k, column, cfg.ldb)]
                });
                let place = moved(cfg.stride_c) + row + column * cfg.ldc as usize;
                let mut x = f64::from(cfg.alpha) * terms.sum::<f64>();
                x += f64::from(cfg.beta) * c[place];
                x += bias.map_or(0.0, |bias| bias[moved(cfg.stride_bias) + row]);
                result[place] = match act {
                    None => x,
                    Some(Activation::Relu) => x.max(0.0),
                    Some(Activation::Gelu) => gelu(x),
                };
            }
        }
    }
    result
}

/// A number's type, with conversions and how many bits of a result are right.
trait Element: DeviceRepr + Copy {
    const BITS: i32;
    fn of(x: f64) -> Self;
    fn wide(self) -> f64;
}

macro_rules! elements {
    ($($type:ty, $bits:literal, $x:ident => $of:expr;)*) => {
        $(impl Element for $type {
            const BITS: i32 = $bits;
            fn of($x: f64) -> Self {
                $of
            }
            fn wide(self) -> f64 {
                f64::from(self)
            }
        })*
    };
}
elements! {
    f32, 17, x => x as f32;
    f16, 9, x => f16::from_f64(x);
    bf16, 6, x => bf16::from_f64(x);
}

/// How many products [`check`] asks for, and how many matrices have a bias of their own and a product beside the first's.
const PRODUCTS: usize = 20;
const BY_BIAS: usize = 3 * 2;

/// Products of a type, and what was given to the GPU for them.
fn check<T: Element>() -> Enqueued
where
    BlasLt: Matmul<T>,
{
    let context = context();
    let stream = context.default_stream();
    let blas = BlasLt::new(stream.clone()).unwrap();
    let one = MatmulConfig {
        m: 20,
        n: 7,
        k: 9,
        lda: 20,
        ldb: 9,
        ldc: 20,
        ..TWO
    };
    let turned = MatmulConfig {
        transa: true,
        transb: true,
        lda: 10,
        ldb: 8,
        beta: 2.0,
        // Three numbers between columns, which stay.
        ldc: 23,
        ..one
    };
    let batch = MatmulConfig {
        stride_a: Some(200),
        stride_b: Some(70),
        stride_c: Some(20 * 7),
        batch_size: Some(3),
        ..one
    };
    let apart = MatmulConfig {
        stride_a: Some(0),
        stride_c: Some(200),
        stride_bias: Some(20),
        beta: 1.0,
        ..batch
    };
    let mut given = Enqueued::default();
    for cfg in [one, turned, batch, apart] {
        for (with_bias, act) in [
            (false, None),
            (true, None),
            (true, Some(Activation::Relu)),
            (false, Some(Activation::Relu)),
            (true, Some(Activation::Gelu)),
        ] {
            let [a, b, c, bias] = [600, 260, 620, 60].map(|count| numbers(count, count / 3));
            let upload = |all: &[f64]| {
                let all: Vec<T> = all.iter().map(|x| T::of(*x)).collect();
                stream.clone_htod(&all).unwrap()
            };
            let bias = with_bias.then_some(bias);
            let on_gpu = bias.as_deref().map(upload);
            let mut of_c = upload(&c);
            let (of_a, of_b) = (upload(&a), upload(&b));
            let (done, noted) = enqueued::recorded(|| {
                let bias = on_gpu.as_ref();
                // SAFETY: the configurations stay within these sizes.
                unsafe { blas.matmul(cfg, &of_a, &of_b, &mut of_c, bias, act.as_ref()) }
            });
            done.unwrap();
            given.kernels.extend(noted.kernels);
            given.library_products += noted.library_products;
            let expected = expected(&cfg, &a, &b, &c, bias.as_deref(), act.as_ref());
            let found = stream.clone_dtoh(&of_c).unwrap();
            for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                let far = (found.wide() - expected).abs();
                let near = expected.abs().max(1.0) * 2f64.powi(-T::BITS);
                assert!(
                    far <= near,
                    "{at}: {} instead of {expected}: {cfg:?}, bias {with_bias}, {act:?}",
                    found.wide()
                );
            }
        }
    }
    given
}

#[test]
fn f32_products() {
    check::<f32>();
}

#[test]
fn f16_products() {
    check::<f16>();
}

#[test]
fn bf16_products() {
    check::<bf16>();
}

/// What hipBLASLt's stand-in (`libraries/hipblaslt.c`) was asked for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Calls {
    handles: c_int,
    descriptions: c_int,
    products: c_int,
    last_batch: c_int,
    choices: c_int,
}

/// Runs a body with the stand-in as the library that the variable names; it is given what tells of the calls so far.
fn with_stand_in(test: &str, variables: &[(&str, &str)], body: impl Fn(&dyn Fn() -> Calls)) {
    let folder = tempfile::tempdir().unwrap();
    let path = match std::env::var(library::LT_LIBRARY_VARIABLE) {
        Ok(path) => path,
        Err(_) => {
            let path = common::shared_library(folder.path(), "hipblaslt.c", "-lm");
            path.to_str().unwrap().to_owned()
        }
    };
    let mut all = vec![
        (library::LT_LIBRARY_VARIABLE, path.as_str()),
        (library::GEMM_VARIABLE, "library"),
    ];
    all.extend(variables);
    in_process(test, &all, || {
        let stand_in = StandIn::<Calls>::load(&path);
        body(&|| stand_in.counts());
    });
}

#[test]
fn hipblaslt_multiplies_with_what_follows() {
    with_stand_in("hipblaslt_multiplies_with_what_follows", &[], |calls| {
        for given in [check::<f32>(), check::<bf16>()] {
            // One for each, but for matrices that have a bias of their own; and no kernel for what follows.
            assert_eq!(given.library_products, PRODUCTS + BY_BIAS);
            assert_eq!(given.kernels, [""; 0]);
        }
        let calls = calls();
        assert_eq!((calls.handles, calls.descriptions), (1, 0));
        assert_eq!(calls.products as usize, 2 * (PRODUCTS + BY_BIAS));
        assert_eq!(calls.last_batch, 1);
    });
}

/// Twice the product of two matrices of ones with k columns and rows, in each of so many threads; how often the library
/// chose a kernel meanwhile, and how often it multiplied.
fn ones(calls: &dyn Fn() -> Calls, k: u64, threads: usize, bias: Option<f32>) -> (c_int, c_int) {
    let before = calls();
    let multiply = || {
        let stream = context().new_stream().unwrap();
        let blas = BlasLt::new(stream.clone()).unwrap();
        let ones = stream.clone_htod(&vec![1f32; 2 * k as usize]).unwrap();
        let bias = bias.map(|bias| stream.clone_htod(&[bias; 2]).unwrap());
        let mut c = stream.alloc_zeros::<f32>(4).unwrap();
        let cfg = MatmulConfig {
            k,
            ldb: k as i64,
            ..TWO
        };
        // SAFETY: matrices of 2 by k and k by 2, and one of 4 elements.
        unsafe { blas.matmul(cfg, &ones, &ones, &mut c, bias.as_ref(), None) }.unwrap();
        let added = bias.map_or(0.0, |bias| stream.clone_dtoh(&bias).unwrap()[0]);
        assert_eq!(stream.clone_dtoh(&c).unwrap(), [k as f32 + added; 4]);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(multiply);
        }
    });
    let after = calls();
    let chosen = after.choices - before.choices;
    (chosen, after.products - before.products)
}

#[test]
fn hipblaslt_chooses_once_for_a_shape() {
    with_stand_in("hipblaslt_chooses_once_for_a_shape", &[], |calls| {
        assert_eq!(ones(calls, 5, 1, None), (1, 1));
        assert_eq!(ones(calls, 5, 8, None), (0, 8));
        // Whose bias it is does not matter, but that there is one.
        assert_eq!(ones(calls, 5, 1, Some(3.0)), (1, 1));
        assert_eq!(ones(calls, 5, 4, Some(4.0)), (0, 4));
        assert_eq!(ones(calls, 6, 8, None), (1, 8));
        assert_eq!(ones(calls, 5, 1, None), (0, 1));
        // Not without end: with the 1024th of these all are forgotten.
        for k in 7..1030 {
            assert_eq!(ones(calls, k, 1, None), (1, 1), "{k}");
        }
        assert_eq!(ones(calls, 5, 1, None), (1, 1));
        assert_eq!(ones(calls, 1029, 1, None), (0, 1));
        assert_eq!((calls().handles, calls().descriptions), (1, 0));
    });
}

#[test]
fn a_choice_that_fails_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let blas = common::shared_library(folder.path(), "blas.c", "-DROCBLAS");
    let variables = [
        ("STAND_IN_FAILS", "choose"),
        (library::LIBRARY_VARIABLE, blas.to_str().unwrap()),
    ];
    with_stand_in("a_choice_that_fails_is_not_kept", &variables, |calls| {
        // rocBLAS computes it.
        assert_eq!(ones(calls, 5, 1, None), (1, 0));
        assert_eq!(ones(calls, 5, 1, None), (1, 0));
        assert_eq!(calls().descriptions, 0);
    });
}

#[test]
fn hipblaslt_is_not_asked_unless_the_library_is_chosen() {
    for choice in ["own", "auto"] {
        with_stand_in(
            "hipblaslt_is_not_asked_unless_the_library_is_chosen",
            &[(library::GEMM_VARIABLE, choice)],
            |calls| {
                assert_eq!(check::<f32>().library_products, 0);
                assert_eq!(calls().handles, 0);
            },
        );
    }
}

#[test]
fn what_hipblaslt_lacks_goes_the_way_of_other_products() {
    // rocBLAS's stand-in has no f16 either, so that our own kernels compute it.
    let folder = tempfile::tempdir().unwrap();
    let blas = common::shared_library(folder.path(), "blas.c", "-DROCBLAS");
    with_stand_in(
        "what_hipblaslt_lacks_goes_the_way_of_other_products",
        &[(library::LIBRARY_VARIABLE, blas.to_str().unwrap())],
        |calls| {
            let given = check::<f16>();
            assert_eq!((given.library_products, calls().products), (0, 0));
            assert!(!given.kernels.is_empty());
            // Nothing of A and B is read without a sum, which not every library keeps to.
            let (products, expected) = no_sum();
            assert_eq!((products, calls().products), (expected, 0));
        },
    );
}

/// C of a product without a sum, and what it should be: twice what it was, and a bias of 1.
fn no_sum() -> (Vec<f32>, Vec<f32>) {
    let stream = context().default_stream();
    let blas = BlasLt::new(stream.clone()).unwrap();
    let nan = stream.clone_htod(&[f32::NAN; 4]).unwrap();
    let bias = stream.clone_htod(&[1f32; 2]).unwrap();
    let mut c = stream.clone_htod(&[1f32, 2., 3., 4.]).unwrap();
    let cfg = MatmulConfig {
        alpha: 0.0,
        beta: 2.0,
        ..TWO
    };
    // SAFETY: matrices of 4 elements, a bias of 2.
    unsafe { blas.matmul(cfg, &nan, &nan, &mut c, Some(&bias), None) }.unwrap();
    (stream.clone_dtoh(&c).unwrap(), vec![3., 5., 7., 9.])
}

#[test]
fn a_hipblaslt_that_fails_is_named() {
    for function in ["create", "multiply"] {
        with_stand_in(
            "a_hipblaslt_that_fails_is_named",
            &[("STAND_IN_FAILS", function)],
            |calls| {
                let stream = context().default_stream();
                let blas = BlasLt::new(stream.clone());
                let x = stream.alloc_zeros::<f32>(4).unwrap();
                let mut c = stream.alloc_zeros::<f32>(4).unwrap();
                let text = match blas {
                    Err(error) => error.to_string(),
                    // SAFETY: matrices of 4 elements.
                    Ok(blas) => unsafe { blas.matmul(TWO, &x, &x, &mut c, None, None) }
                        .unwrap_err()
                        .to_string(),
                };
                for part in ["HIPBLAS_STATUS_INTERNAL_ERROR (6)", "CANDLE_ROCM_GEMM=own"] {
                    assert!(text.contains(part), "{part}: {text}");
                }
                assert_eq!((calls().descriptions, calls().products), (0, 0));
            },
        );
    }
}

#[test]
fn another_library_is_no_hipblaslt() {
    for (name, part) in [
        ("libm.so.6", "no hipblasLtCreate"),
        ("/nonexistent/lt.so", "\n  /nonexistent/lt.so: "),
    ] {
        in_process(
            "another_library_is_no_hipblaslt",
            &[
                (library::LT_LIBRARY_VARIABLE, name),
                (library::GEMM_VARIABLE, "library"),
                ("STAND_IN_PART", part),
            ],
            || {
                let error = BlasLt::new(context().default_stream()).unwrap_err();
                let text = error.to_string();
                let part = std::env::var("STAND_IN_PART").unwrap();
                for part in [part.as_str(), "CANDLE_ROCM_BLASLT_LIBRARY", "=own"] {
                    assert!(text.contains(part), "{part}: {text}");
                }
            },
        );
    }
}

/// The emulated GPUs that Debian's package of hipBLASLt has no kernels for, as `tests/hipblaslt.rs` holds it to.
const WITHOUT_KERNELS: [&str; 2] = ["gfx942", "gfx1030"];

#[test]
#[ignore = "needs AMD's hipBLASLt: cargo xtask rocm --libraries"]
fn amds_hipblaslt_multiplies_with_what_follows() {
    let arch = context().device().info().arch.clone();
    // The second time by kernels that were chosen the first.
    let first = [check::<f32>(), check::<f16>(), check::<bf16>()];
    let second = [check::<f32>(), check::<f16>(), check::<bf16>()];
    for given in first.into_iter().chain(second) {
        let products = given.library_products;
        println!(
            "{arch}: {products} products of the library, {:?}",
            given.kernels
        );
        if !WITHOUT_KERNELS.contains(&arch.as_str()) {
            assert_eq!((products, given.kernels), (PRODUCTS + BY_BIAS, Vec::new()));
        }
    }
    if !WITHOUT_KERNELS.contains(&arch.as_str()) {
        half_of_c_is_added();
    }
}

/// 2 x 2 by 2 x 2.
const TWO: MatmulConfig = MatmulConfig {
    transa: false,
    transb: false,
    transc: false,
    m: 2,
    n: 2,
    k: 2,
    alpha: 1.0,
    lda: 2,
    ldb: 2,
    beta: 0.0,
    ldc: 2,
    stride_a: None,
    stride_b: None,
    stride_c: None,
    stride_bias: None,
    batch_size: None,
};

/// Bytes of a value, as attributes are given.
fn bytes<T>(value: &T) -> (*const c_void, usize) {
    (std::ptr::from_ref(value).cast(), std::mem::size_of::<T>())
}

/// 4 x 2 of ones times 2 x 3 of ones, doubled, with 9 as C and a bias of -10 to 20 by tens. Where C is apart from D, it has a
/// number more in a column, which is NaN.
fn by_objects(
    epilogue: cublasLtEpilogue_t,
    beta: f32,
    is_apart: bool,
) -> Result<Vec<f32>, result::CublasError> {
    let context = context();
    context.bind_to_thread().unwrap();
    let stream = context.default_stream();
    let blas = BlasLt::new(stream.clone()).unwrap();
    let ones = stream.clone_htod(&[1f32; 8]).unwrap();
    let bias = stream.clone_htod(&[-10f32, 0., 10., 20.]).unwrap();
    let mut d = stream.clone_htod(&[9f32; 12]).unwrap();
    let apart = [9f32, 9., 9., 9., f32::NAN];
    let apart = stream.clone_htod(&[apart; 3].concat()).unwrap();
    let (at_d, guard) = d.device_ptr_mut(&stream);
    let (at_c, ld_c) = match is_apart {
        true => (apart.device_ptr(&stream).0, 5),
        false => (at_d, 4),
    };
    let (at_bias, _bias) = bias.device_ptr(&stream);
    let (at_ones, _ones) = ones.device_ptr(&stream);
    let f32s = cudaDataType_t::CUDA_R_32F;
    let alpha = 2f32;
    let run = || {
        let of_a = result::create_matrix_layout(f32s, 4, 2, 4)?;
        let of_b = result::create_matrix_layout(f32s, 2, 3, 2)?;
        let of_c = result::create_matrix_layout(f32s, 4, 3, ld_c)?;
        let of_d = result::create_matrix_layout(f32s, 4, 3, 4)?;
        let product = result::create_matmul_desc(cublasComputeType_t::CUBLAS_COMPUTE_32F, f32s)?;
        let preference = result::create_matmul_pref()?;
        let handle = *blas.handle();
        // SAFETY: the objects live until their end below; the matrices are within the buffers, and the attributes'
        // bytes are values on this stack.
        unsafe {
            let (value, size) = bytes(&1i32);
            result::set_matrix_layout_attribute(
                of_c,
                OfMatrix::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                value,
                size,
            )?;
            let (value, size) = bytes(&epilogue);
            result::set_matmul_desc_attribute(
                product,
                Said::CUBLASLT_MATMUL_DESC_EPILOGUE,
                value,
                size,
            )?;
            let (value, size) = bytes(&at_bias);
            let said = Said::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
            result::set_matmul_desc_attribute(product, said, value, size)?;
            let chosen = result::get_matmul_algo_heuristic(
                handle, product, of_a, of_b, of_c, of_d, preference,
            );
            let done = chosen.and_then(|chosen| {
                result::matmul(
                    handle,
                    product,
                    std::ptr::from_ref(&alpha).cast(),
                    std::ptr::from_ref(&beta).cast(),
                    at_ones as *const c_void,
                    of_a,
                    at_ones as *const c_void,
                    of_b,
                    at_c as *const c_void,
                    of_c,
                    at_d as *mut c_void,
                    of_d,
                    &chosen.algo,
                    std::ptr::null_mut(),
                    0,
                    stream.cu_stream(),
                )
            });
            // What is too short is refused.
            let short = result::set_matmul_desc_attribute(product, said, value, 4);
            assert!(short.unwrap_err().to_string().contains("too few"));
            let scale = Said::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER;
            let scaled = result::set_matmul_desc_attribute(product, scale, value, size);
            assert!(scaled.unwrap_err().to_string().contains("A_SCALE_POINTER"));
            for matrix in [of_a, of_b, of_c, of_d] {
                result::destroy_matrix_layout(matrix)?;
            }
            result::destroy_matmul_desc(product)?;
            result::destroy_matmul_pref(preference)?;
            done
        }
    };
    let done = run();
    drop(guard);
    done.map(|()| stream.clone_dtoh(&d).unwrap())
}

#[test]
fn the_objects_do_the_same() {
    use cublasLtEpilogue_t::*;
    let found = by_objects(CUBLASLT_EPILOGUE_RELU_BIAS, 0.0, false).unwrap();
    assert_eq!(found, [[0f32, 4., 14., 24.]; 3].concat());
    let found = by_objects(CUBLASLT_EPILOGUE_BIAS, 1.0, true).unwrap();
    assert_eq!(found, [[3f32, 13., 23., 33.]; 3].concat());
    for (epilogue, beta, part) in [
        (CUBLASLT_EPILOGUE_DRELU, 0.0, "epilogue 136"),
        (CUBLASLT_EPILOGUE_RELU_BIAS, 0.5, "copy C to D"),
    ] {
        let text = by_objects(epilogue, beta, true).unwrap_err().to_string();
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Before ReLU, and from where C is, which is not read for a factor of 0.
fn half_of_c_is_added() {
    let relu = cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU_BIAS;
    // The doubled product is 4, and half of C 4.5.
    for (beta, is_apart, column) in [
        (0.5, true, [0f32, 8.5, 18.5, 28.5]),
        (0.5, false, [0., 8.5, 18.5, 28.5]),
        (0.0, true, [0., 4., 14., 24.]),
    ] {
        let found = by_objects(relu, beta, is_apart).unwrap();
        assert_eq!(found, [column; 3].concat());
    }
}

#[test]
fn hipblaslt_reads_a_c_that_is_not_d() {
    with_stand_in("hipblaslt_reads_a_c_that_is_not_d", &[], |calls| {
        half_of_c_is_added();
        assert_eq!((calls().products, calls().descriptions), (3, 0));
    });
}

#[test]
fn sizes_that_do_not_go_together_are_named() {
    let context = context();
    let stream = context.default_stream();
    let blas = BlasLt::new(stream.clone()).unwrap();
    let x = stream.alloc_zeros::<f32>(64).unwrap();
    let mut c = stream.alloc_zeros::<f32>(64).unwrap();
    let cfg = MatmulConfig {
        m: 4,
        n: 4,
        k: 4,
        lda: 4,
        ldb: 4,
        ldc: 4,
        stride_a: Some(16),
        stride_c: Some(16),
        batch_size: Some(2),
        ..TWO
    };
    let mut run = |cfg| {
        // SAFETY: refused before anything is read.
        let error = unsafe { blas.matmul(cfg, &x, &x, &mut c, None, None) };
        error.unwrap_err().to_string()
    };
    let error = run(cfg);
    assert!(error.contains("batches of 2, 1 and 2"), "{error}");
    let error = run(MatmulConfig {
        transc: true,
        ..cfg
    });
    assert!(error.contains("transposed C"), "{error}");
    let error = run(MatmulConfig {
        lda: -4,
        stride_b: Some(16),
        ..cfg
    });
    assert!(error.contains("lda is -4"), "{error}");
}
