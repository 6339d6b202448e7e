//! Products described as cuBLASLt's are, against sums in f64.

mod common;

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use candle_rocm_runtime::blas_lt::{result, sys};
use candle_rocm_runtime::{DevicePtr as _, DevicePtrMut as _, Stream};
use candle_rocm_testing::random::Random;
use common::on_each_device;
use sys::cublasLtEpilogue_t::{self as Epilogue, *};
use sys::cublasLtMatmulDescAttributes_t::{self as Attribute, *};

/// Sizes of each product: op(A) is M x K, op(B) is K x N, A stored transposed.
const M: usize = 20;
const N: usize = 7;
const K: usize = 33;
const BATCH: usize = 3;

/// A product of a batch on the GPU, and what it should be.
fn product(
    stream: &Arc<Stream>,
    epilogue: Epilogue,
    bias_stride: i64,
) -> Result<(Vec<f32>, Vec<f64>), result::CublasError> {
    let mut random = Random::new(1);
    let mut numbers =
        |count: usize| -> Vec<f32> { (0..count).map(|_| random.signed() as f32).collect() };
    let (a, b, bias) = (
        numbers(BATCH * M * K),
        numbers(BATCH * K * N),
        numbers(BATCH * M),
    );
    let with_bias = matches!(
        epilogue,
        CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_GELU_BIAS
    );
    let with_gelu = matches!(
        epilogue,
        CUBLASLT_EPILOGUE_GELU | CUBLASLT_EPILOGUE_GELU_BIAS
    );
    let mut expected = Vec::new();
    for (batch, column, row) in (0..BATCH * N * M).map(|at| (at / (M * N), at / M % N, at % M)) {
        let a = &a[batch * M * K + row * K..][..K];
        let b = &b[batch * K * N + column * K..][..K];
        let mut x: f64 = a
            .iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum();
        x *= 0.5;
        if with_bias {
            x += f64::from(bias[batch * bias_stride as usize + row]);
        }
        if with_gelu {
            x *= 0.5
                * (1.0
                    + libm::tanh(
                        (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x),
                    ));
        }
        if epilogue == CUBLASLT_EPILOGUE_RELU {
            x = x.max(0.0);
        }
        expected.push(x);
    }

    let a = stream.clone_htod(&a).unwrap();
    let b = stream.clone_htod(&b).unwrap();
    let bias = stream.clone_htod(&bias).unwrap();
    let mut c = stream.alloc_zeros::<f32>(BATCH * M * N).unwrap();
    let layout = |rows: usize, columns: usize| {
        let layout = result::create_matrix_layout(
            sys::cudaDataType::CUDA_R_32F,
            rows as u64,
            columns as u64,
            rows as i64,
        );
        let layout = layout.unwrap();
        use sys::cublasLtMatrixLayoutAttribute_t::*;
        let (count, stride) = (BATCH as c_int, (rows * columns) as i64);
        // SAFETY: a live layout, and values of the attributes' types.
        unsafe {
            let count: *const c_int = &count;
            result::set_matrix_layout_attribute(
                layout,
                CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                count.cast(),
                4,
            )
            .unwrap();
            let attribute = CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
            let stride: *const i64 = &stride;
            result::set_matrix_layout_attribute(layout, attribute, stride.cast(), 8).unwrap();
        }
        layout
    };
    let layouts = [layout(K, M), layout(K, N), layout(M, N)];
    let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
    let description = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F).unwrap();
    fn set<T>(description: sys::cublasLtMatmulDesc_t, attribute: Attribute, value: T) {
        let at: *const T = &value;
        // SAFETY: a live description, and a value that is readable.
        unsafe {
            result::set_matmul_desc_attribute(description, attribute, at.cast(), size_of::<T>())
        }
        .unwrap();
    }
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, 1i32);
    set(description, CUBLASLT_MATMUL_DESC_TRANSC, 0i32);
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(
        description,
        CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        bias.device_ptr(stream).0,
    );
    set(
        description,
        CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE,
        bias_stride,
    );
    let handle = result::create_handle().unwrap();
    let preference = result::create_matmul_pref().unwrap();
    let (alpha, beta) = (0.5f32, 0f32);
    let factor = |factor: &f32| std::ptr::from_ref(factor).cast::<c_void>();
    let [la, lb, lc] = layouts;
    // SAFETY: live objects, and memory of the sizes that they describe; each object is given back once.
    let done = unsafe {
        let found =
            result::get_matmul_algo_heuristic(handle, description, la, lb, lc, lc, preference);
        let output = c.device_ptr_mut(stream).0 as *mut c_void;
        let done = found.and_then(|found| {
            result::matmul(
                handle,
                description,
                factor(&alpha),
                factor(&beta),
                a.device_ptr(stream).0 as *const c_void,
                la,
                b.device_ptr(stream).0 as *const c_void,
                lb,
                output,
                lc,
                output,
                lc,
                &found.algo,
                std::ptr::null_mut(),
                0,
                stream.cu_stream(),
            )
        });
        result::destroy_matmul_pref(preference).unwrap();
        result::destroy_matmul_desc(description).unwrap();
        for layout in layouts {
            result::destroy_matrix_layout(layout).unwrap();
        }
        result::destroy_handle(handle).unwrap();
        done
    };
    done.map(|()| (stream.clone_dtoh(&c).unwrap(), expected))
}

#[test]
fn products_have_what_follows_them() {
    on_each_device("products_have_what_follows_them", |context| {
        let stream = context.default_stream();
        for (epilogue, bias_stride) in [
            (CUBLASLT_EPILOGUE_DEFAULT, 0),
            (CUBLASLT_EPILOGUE_BIAS, 0),
            (CUBLASLT_EPILOGUE_BIAS, M as i64),
            (CUBLASLT_EPILOGUE_RELU, 0),
            (CUBLASLT_EPILOGUE_GELU, 0),
            (CUBLASLT_EPILOGUE_GELU_BIAS, M as i64),
        ] {
            let (is, expected) = product(&stream, epilogue, bias_stride).unwrap();
            for (at, (is, expected)) in is.iter().zip(&expected).enumerate() {
                let apart = (f64::from(*is) - expected).abs();
                assert!(
                    apart < 1e-5,
                    "{epilogue:?}, element {at}: {is}, and should be {expected}"
                );
            }
        }
    });
}

#[test]
fn what_is_not_there_is_named() {
    let description = result::create_matmul_desc(
        sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        sys::cudaDataType::CUDA_R_32F,
    )
    .unwrap();
    let scale = 0u64;
    let at = std::ptr::from_ref(&scale).cast();
    // SAFETY: a live description and 8 readable bytes, and it is given back once.
    let [scaled, small] = unsafe {
        let all = [
            result::set_matmul_desc_attribute(
                description,
                CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                at,
                8,
            ),
            result::set_matmul_desc_attribute(description, CUBLASLT_MATMUL_DESC_TRANSA, at, 2),
        ];
        result::destroy_matmul_desc(description).unwrap();
        all.map(|error| error.unwrap_err().to_string())
    };
    for part in ["A_SCALE_POINTER", "candle_rocm_backend::fp8"] {
        assert!(scaled.contains(part), "{part}: {scaled}");
    }
    assert!(small.contains("TRANSA"), "{small}");
}
