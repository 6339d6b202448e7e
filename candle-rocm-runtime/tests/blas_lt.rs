//! cuBLASLt's shape: products with a bias and an activation, beside plain Rust in f64.

mod common;

use std::ffi::c_void;

use candle_rocm_runtime::blas_lt::sys::{
    cublasComputeType_t, cublasLtEpilogue_t, cublasLtMatmulDescAttributes_t as Said,
    cublasLtMatrixLayoutAttribute_t as OfMatrix, cudaDataType_t,
};
use candle_rocm_runtime::blas_lt::{
    result, Activation, BlasLt, Matmul, MatmulConfig, MatmulShared as _,
};
use candle_rocm_runtime::{DevicePtr as _, DevicePtrMut as _, DeviceRepr};
use common::context;
use half::{bf16, f16};

/// Whole numbers from -3 to 3, whose products and sums are exact in all types.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count)
        .map(|at| ((at * 7 + seed) % 11 % 7) as f64 - 3.0)
        .collect()
}

fn gelu(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
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

fn check<T: DeviceRepr + Copy>(from: impl Fn(f64) -> T, to: impl Fn(T) -> f64, bits: i32)
where
    BlasLt: Matmul<T>,
{
    let context = context();
    let stream = context.default_stream();
    let blas = BlasLt::new(stream.clone()).unwrap();
    let one = MatmulConfig {
        transa: false,
        transb: false,
        transc: false,
        m: 20,
        n: 7,
        k: 9,
        alpha: 1.0,
        lda: 20,
        ldb: 9,
        beta: 0.0,
        ldc: 20,
        stride_a: None,
        stride_b: None,
        stride_c: None,
        stride_bias: None,
        batch_size: None,
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
                let all: Vec<T> = all.iter().map(|x| from(*x)).collect();
                stream.clone_htod(&all).unwrap()
            };
            let bias = with_bias.then_some(bias);
            let on_gpu = bias.as_deref().map(upload);
            let mut of_c = upload(&c);
            let (of_a, of_b) = (upload(&a), upload(&b));
            // SAFETY: the configurations stay within these sizes.
            unsafe { blas.matmul(cfg, &of_a, &of_b, &mut of_c, on_gpu.as_ref(), act.as_ref()) }
                .unwrap();
            let expected = expected(&cfg, &a, &b, &c, bias.as_deref(), act.as_ref());
            let found = stream.clone_dtoh(&of_c).unwrap();
            for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                let far = (to(*found) - expected).abs();
                let near = expected.abs().max(1.0) * 2f64.powi(-bits);
                assert!(
                    far <= near,
                    "{at}: {} instead of {expected}: {cfg:?}, bias {with_bias}, {act:?}",
                    to(*found)
                );
            }
        }
    }
}

#[test]
fn f32_products() {
    check::<f32>(|x| x as f32, f64::from, 17);
}

#[test]
fn f16_products() {
    check::<f16>(f16::from_f64, f16::to_f64, 9);
}

#[test]
fn bf16_products() {
    check::<bf16>(bf16::from_f64, bf16::to_f64, 6);
}

/// Bytes of a value, as attributes are given.
fn bytes<T>(value: &T) -> (*const c_void, usize) {
    (std::ptr::from_ref(value).cast(), std::mem::size_of::<T>())
}

#[test]
fn the_objects_do_the_same() {
    let context = context();
    context.bind_to_thread().unwrap();
    let stream = context.default_stream();
    let blas = BlasLt::new(stream.clone()).unwrap();
    // 4 x 2 of ones times 2 x 3 of ones, doubled, and a bias of -10 to 20 by tens.
    let ones = stream.clone_htod(&[1f32; 8]).unwrap();
    let bias = stream.clone_htod(&[-10f32, 0., 10., 20.]).unwrap();
    let mut c = stream.clone_htod(&[9f32; 12]).unwrap();
    let (at_bias, _bias) = bias.device_ptr(&stream);
    let (at_ones, _ones) = ones.device_ptr(&stream);
    let f32s = cudaDataType_t::CUDA_R_32F;
    let (alpha, beta) = (2f32, 0f32);
    let run = |epilogue: cublasLtEpilogue_t, at_c: u64| {
        let of_a = result::create_matrix_layout(f32s, 4, 2, 4)?;
        let of_b = result::create_matrix_layout(f32s, 2, 3, 2)?;
        let of_c = result::create_matrix_layout(f32s, 4, 3, 4)?;
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
                handle, product, of_a, of_b, of_c, of_c, preference,
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
                    at_c as *mut c_void,
                    of_c,
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
            for matrix in [of_a, of_b, of_c] {
                result::destroy_matrix_layout(matrix)?;
            }
            result::destroy_matmul_desc(product)?;
            result::destroy_matmul_pref(preference)?;
            done
        }
    };
    let (at_c, guard) = c.device_ptr_mut(&stream);
    run(cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU_BIAS, at_c).unwrap();
    let gradient = run(cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DRELU, at_c).unwrap_err();
    assert!(gradient.to_string().contains("epilogue 136"), "{gradient}");
    drop(guard);
    let column = [0f32, 4., 14., 24.];
    assert_eq!(stream.clone_dtoh(&c).unwrap(), [column; 3].concat());
}

#[test]
fn sizes_that_do_not_go_together_are_named() {
    let context = context();
    let stream = context.default_stream();
    let blas = BlasLt::new(stream.clone()).unwrap();
    let x = stream.alloc_zeros::<f32>(64).unwrap();
    let mut c = stream.alloc_zeros::<f32>(64).unwrap();
    let cfg = MatmulConfig {
        transa: false,
        transb: false,
        transc: false,
        m: 4,
        n: 4,
        k: 4,
        alpha: 1.0,
        lda: 4,
        ldb: 4,
        beta: 0.0,
        ldc: 4,
        stride_a: Some(16),
        stride_b: None,
        stride_c: Some(16),
        stride_bias: None,
        batch_size: Some(2),
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
