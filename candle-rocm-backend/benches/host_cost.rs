//! Host time of products that stand above Candle, grouped and in FP8, without a GPU: nanoseconds and HIP calls, beside an operator
//! of Candle's in the same run. What a driver adds is not in it. `candle-rocm-runtime/benches/host_cost.rs` has what stands below.
//!
//!     cargo bench -p candle-rocm-backend --bench host_cost
//!
//! prints medians of 21 runs. The numbers are for comparing one state of the sources with another on one machine.
#![allow(missing_docs)]

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::fp8::{self, ScaleFormat};
use candle_rocm_backend::grouped::{self, RowGroups};
use candle_rocm_testing::no_gpu::{self, HipCalls};

/// Rows of a group of products with several matrices.
const OF_GROUP: usize = 100;
const GROUPS: usize = 8;
/// Rows and columns of a matrix of weights.
const SIZE: usize = 2048;

fn matrix(dims: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::zeros(dims, DType::BF16, device)
}

/// Rows of products in bf16, one of Candle's own first, each beside the operator that took so many nanoseconds.
fn in_bf16(calls: &HipCalls, device: &Device, operator: f64) -> Result<()> {
    let weights = matrix(&[SIZE, SIZE], device)?;
    for (what, rows) in [
        ("product with a vector", 1),
        ("product with 64 vectors", 64),
    ] {
        let x = matrix(&[rows, SIZE], device)?;
        let weights = weights.t()?;
        calls.measure_beside(operator, what, |_| drop(x.matmul(&weights).unwrap()));
    }
    let groups = RowGroups::from_sizes(&[OF_GROUP; GROUPS], device)?;
    let x = matrix(&[groups.rows(), SIZE], device)?;
    let weights = matrix(&[GROUPS, SIZE, SIZE], device)?;
    calls.measure_beside(operator, "grouped product", |_| {
        drop(grouped::m_grouped_gemm_nt_contiguous(&x, &weights, &groups).unwrap());
    });
    Ok(())
}

/// Rows of products in FP8, and of the cast that comes before one.
fn in_fp8(calls: &HipCalls, device: &Device, operator: f64) -> Result<()> {
    let format = ScaleFormat::F32;
    let weights = fp8::cast_per_block(&matrix(&[SIZE, SIZE], device)?, format)?;
    for (what, rows) in [
        ("product in FP8 with a vector", 1),
        ("product in FP8 with 64 vectors", 64),
    ] {
        let x = matrix(&[rows, SIZE], device)?;
        let cast = fp8::cast_per_token(&x, format)?;
        calls.measure_beside(operator, what, |_| {
            drop(fp8::gemm_nt(&cast, &weights, None, DType::BF16).unwrap());
        });
        calls.measure_beside(operator, "cast of its vectors", |_| {
            drop(fp8::cast_per_token(&x, format).unwrap());
        });
    }
    let groups = RowGroups::from_sizes(&[OF_GROUP; GROUPS], device)?;
    let x = fp8::cast_per_token(&matrix(&[groups.rows(), SIZE], device)?, format)?;
    let weights = fp8::cast_per_block(&matrix(&[GROUPS, SIZE, SIZE], device)?, format)?;
    calls.measure_beside(operator, "grouped product in FP8", |_| {
        drop(fp8::m_grouped_gemm_nt_contiguous(&x, &weights, &groups, DType::BF16).unwrap());
    });
    Ok(())
}

fn main() -> Result<()> {
    let architecture = no_gpu::ARCHITECTURE;
    if !candle_rocm_kernels::serves(architecture) {
        println!("built without kernels for {architecture}: nothing to launch");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let library = no_gpu::library(folder.path());
    // SAFETY: the process has no other thread yet.
    unsafe {
        std::env::set_var("CANDLE_ROCM_HIP_LIBRARY", &library);
        std::env::set_var("CANDLE_ROCM_RUNTIME", "amd");
    }
    let calls = HipCalls::of(library.to_str().expect("a folder with a plain name"));
    let device = Device::new_cuda(0)?;
    let mut x = Tensor::zeros((8, 8), DType::F32, &device)?;
    let operator = calls.measure("operator of a chain", |_| x = x.affine(2., 1.).unwrap());
    in_bf16(&calls, &device, operator)?;
    in_fp8(&calls, &device, operator)
}
