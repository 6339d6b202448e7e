//! Host time of an operator, without a GPU: nanoseconds and HIP calls of what Candle does for one operator, and of its
//! parts, over a library whose functions do nothing (`candle_rocm_testing::no_gpu`). What a driver adds is not in it.
//! `candle-rocm-backend/benches/host_cost.rs` has what stands above Candle.
//!
//!     cargo bench -p candle-rocm-runtime --bench host_cost
//!
//! prints medians of 21 runs. The numbers are for comparing one state of the sources with another on one machine.
#![allow(missing_docs)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::sync::Arc;

use candle_rocm_runtime::cuda_names::cublasOperation_t;
use candle_rocm_runtime::quantized::{
    multiply_matrices, multiply_vectors, FloatType, MatrixProduct, VectorProduct,
};
use candle_rocm_runtime::{
    Blas, Context, DeviceBuffer, Function, Gemm, GemmConfig, LaunchConfig, Module, PushKernelArg,
    Stream,
};
use candle_rocm_testing::no_gpu::{self, HipCalls};
use common::no_code;
use half::f16;

fn alloc(stream: &Arc<Stream>, len: usize) -> DeviceBuffer<f32> {
    // SAFETY: nothing reads it.
    unsafe { stream.alloc::<f32>(len) }.unwrap()
}

/// What Candle does for an operator of one operand on a contiguous tensor.
fn operator(
    stream: &Arc<Stream>,
    module: &Arc<Module>,
    x: &DeviceBuffer<f32>,
) -> DeviceBuffer<f32> {
    let function = module.load_function("affine_f32").unwrap();
    let y = alloc(stream, x.len());
    launch(stream, &function, x, &y);
    y
}

fn launch(
    stream: &Arc<Stream>,
    function: &candle_rocm_runtime::Function,
    x: &DeviceBuffer<f32>,
    y: &DeviceBuffer<f32>,
) {
    let (count, dims, layout) = (x.len(), 1usize, 0usize);
    let mut launch = stream.launch_builder(function);
    launch.arg(&count).arg(&dims).arg(&layout).arg(x).arg(y);
    launch.arg(&2f32).arg(&1f32);
    // SAFETY: there is no GPU that could access memory.
    unsafe { launch.launch(LaunchConfig::for_num_elems(64)) }.unwrap();
}

/// A product of f16 that allocates its result, as Candle's do: `[m, n, k]`.
fn product(blas: &Blas, [m, n, k]: [usize; 3], operands: &DeviceBuffer<f16>) {
    // SAFETY: nothing reads it.
    let mut c = unsafe { blas.stream().alloc::<f16>(m * n) }.unwrap();
    let config = GemmConfig {
        transa: cublasOperation_t::CUBLAS_OP_T,
        transb: cublasOperation_t::CUBLAS_OP_N,
        m: m as i32,
        n: n as i32,
        k: k as i32,
        alpha: f16::ONE,
        lda: k as i32,
        ldb: k as i32,
        beta: f16::ZERO,
        ldc: m as i32,
    };
    // SAFETY: there is no GPU that could access memory.
    unsafe { blas.gemm(config, operands, operands, &mut c) }.unwrap();
}

/// Rows of products, each beside the operator that took so many nanoseconds.
fn products(calls: &HipCalls, stream: &Arc<Stream>, operator: f64) {
    let blas = Blas::new(stream.clone()).unwrap();
    // SAFETY: nothing reads it.
    let operands = unsafe { stream.alloc::<f16>(64) }.unwrap();
    for (what, sizes) in [
        ("product of few columns", [2048, 1, 2048]),
        ("product in tiles", [64, 64, 64]),
        ("product in tiles, in parts of k", [64, 64, 4096]),
    ] {
        calls.measure_beside(operator, what, |_| product(&blas, sizes, &operands));
    }
    let mut k = 64;
    calls.measure("product in tiles, each of another shape", |_| {
        k += 1;
        product(&blas, [64, 64, k], &operands);
    });
}

/// Products of a matrix of q4_k with a vector and with several, each beside the operator that took so many nanoseconds.
fn quantised_products(calls: &HipCalls, stream: &Arc<Stream>, operator: f64) {
    let format = &candle_rocm_kernels::gguf::Q4_K;
    let (vx, vy, dst) = (1 << 20, 2 << 20, 3 << 20);
    let vector = VectorProduct {
        vx,
        vy,
        dst,
        ncols_x: 4096,
        nrows_x: 4096,
        stride_col_y: 128,
        stride_col_dst: 4096,
        b_size: 1,
    };
    calls.measure_beside(operator, "quantised product with a vector", |_| {
        // SAFETY: there is no GPU that could access memory.
        unsafe { multiply_vectors(stream, format, FloatType::F32, &vector) }.unwrap();
    });
    let matrix = MatrixProduct {
        tmp_fixup: 4 << 20,
        x: vx,
        y: vy,
        dst,
        ncols_x: 4096,
        nrows_x: 4096,
        ncols_y: 32,
        stride_row_x: 16,
        stride_col_dst: 4096,
        nsm: 48,
    };
    calls.measure_beside(operator, "quantised product with 32 vectors", |_| {
        // SAFETY: there is no GPU that could access memory.
        unsafe { multiply_matrices(stream, format, &matrix) }.unwrap();
    });
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let library = no_gpu::library(folder.path());
    std::env::set_var("CANDLE_ROCM_HIP_LIBRARY", &library);
    std::env::set_var("CANDLE_ROCM_RUNTIME", "amd");
    let calls = HipCalls::of(library.to_str().unwrap());
    let context = Context::new(0).unwrap();
    let module = context.load_module(no_code()).unwrap();
    let function = module.load_function("affine_f32").unwrap();

    let stream = context.per_thread_stream();
    let mut x = alloc(&stream, 64);
    let of_a_chain = calls.measure("operator of a chain", |_| {
        x = operator(&stream, &module, &x)
    });
    let mut recent: Vec<DeviceBuffer<f32>> = Vec::new();
    calls.measure("operator, sizes of a model, 20 live", |i| {
        const SIZES: [usize; 5] = [64, 2048, 512, 5632, 2048];
        recent.push(alloc(&stream, SIZES[i % 5]));
        launch(&stream, &function, &x, &recent[recent.len() - 1]);
        if recent.len() == 20 {
            recent.swap_remove(i * 7 % 20);
        }
    });
    drop(recent);
    calls.measure("finding a kernel", |_| {
        black_box(module.load_function("affine_f32").unwrap());
    });
    calls.measure("allocating and freeing 256 bytes", |_| {
        black_box(alloc(&stream, 64));
    });
    calls.measure("allocating and freeing 4 MiB", |_| {
        black_box(alloc(&stream, 1 << 20));
    });
    let y = alloc(&stream, 64);
    calls.measure("launching, 7 arguments", |_| {
        launch(&stream, &function, &x, &y)
    });
    of_dimensions(&calls, &context, &stream, &function);
    // The library says that it is this GPU.
    if candle_rocm_kernels::serves(no_gpu::ARCHITECTURE) {
        products(&calls, &stream, of_a_chain);
        quantised_products(&calls, &stream, of_a_chain);
    }
    let second = context.new_stream().unwrap();
    let mut x = alloc(&second, 64);
    calls.measure("operator of a chain, two streams exist", |_| {
        x = operator(&second, &module, &x)
    });
}

/// Operators that copy dimensions to the device, another's kernel's `function` and ours.
fn of_dimensions(
    calls: &HipCalls,
    context: &Arc<Context>,
    stream: &Arc<Stream>,
    function: &Function,
) {
    let y = alloc(stream, 64);
    let dims = [1usize, 2, 3, 4];
    calls.measure("copying 4 dimensions to the device", |_| {
        black_box(stream.clone_htod(&dims[..]).unwrap());
    });
    let strided = |function: &Function, axes: &[usize]| {
        let (info, y) = (stream.clone_htod(axes).unwrap(), alloc(stream, 64));
        let (count, dims) = (64usize, axes.len() / 2);
        let mut launch = stream.launch_builder(function);
        launch.arg(&count).arg(&dims).arg(&info).arg(&y).arg(&y);
        // SAFETY: there is no GPU that could access memory.
        unsafe { launch.launch(LaunchConfig::for_num_elems(64)) }.unwrap();
    };
    calls.measure("operator with dimensions, another's kernel", |_| {
        strided(function, &dims)
    });
    // The library says that it is this GPU.
    if candle_rocm_kernels::serves(no_gpu::ARCHITECTURE) {
        let function = context
            .kernel(&candle_rocm_kernels::UNARY, "ucopy_f32")
            .unwrap();
        calls.measure("operator with dimensions, our kernel", |_| {
            strided(&function, &dims)
        });
        calls.measure("operator with dimensions, all different", |i| {
            strided(&function, &[i, 2, 3, 4])
        });
        let softmax = context
            .kernel(&candle_rocm_kernels::REDUCE, "softmax_f32")
            .unwrap();
        for (what, columns) in [
            ("launching softmax", 1000i32),
            ("launching softmax, a row in parts", 1 << 20),
        ] {
            calls.measure(what, |_| {
                let mut launch = stream.launch_builder(&softmax);
                launch.arg(&y).arg(&y).arg(&columns);
                let config = LaunchConfig {
                    grid_dim: (1, 1, 1),
                    block_dim: (1, 32, 1),
                    shared_mem_bytes: 0,
                };
                // SAFETY: there is no GPU that could access memory.
                unsafe { launch.launch(config) }.unwrap();
            });
        }
    }
}
