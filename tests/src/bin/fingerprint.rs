//! Prints the bits of a few training steps, of matrix products of awkward sizes and of reductions: two
//! runs that print the same computed the same. `tests/determinism.rs` compares many.

use anyhow::Result;
use candle_core::{DType, Tensor};
use candle_rocm_tests::{device, training::TinyModel};

fn main() -> Result<()> {
    let device = device()?;
    let losses = TinyModel::new(&device)?.train(3)?;
    println!(
        "losses {:08x?}",
        losses.iter().map(|l| l.to_bits()).collect::<Vec<_>>()
    );
    device.set_seed(42)?;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let a = Tensor::randn(0f32, 1.0, (3, 67, 129), &device)?.to_dtype(dtype)?;
        let b = Tensor::randn(0f32, 1.0, (3, 129, 35), &device)?.to_dtype(dtype)?;
        let product = a.matmul(&b)?;
        print_bits("product", &product)?;
        print_bits("softmax", &candle_nn::ops::softmax_last_dim(&product)?)?;
        print_bits("sum", &product.sum((0, 2))?)?;
    }
    Ok(())
}

/// FNV-1a over the values' bits.
fn print_bits(what: &str, tensor: &Tensor) -> Result<()> {
    let values: Vec<f32> = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
    let hash = values
        .iter()
        .flat_map(|v| v.to_bits().to_le_bytes())
        .fold(0xcbf29ce484222325u64, |hash, byte| {
            (hash ^ byte as u64).wrapping_mul(0x100000001b3)
        });
    println!("{what} {:?} {hash:016x}", tensor.dtype());
    Ok(())
}
