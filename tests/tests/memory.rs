//! What programs of Candle take of a GPU's memory, with the pool on: unmodified caches and models, beside what lives.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};
use candle_nn::kv_cache::ConcatKvCache;
use candle_rocm_backend::RocmDeviceExt as _;
use candle_rocm_testing::process::alone;

const MIB: usize = 1 << 20;

/// Runs a program with the pool on, on a GPU of 16 GiB where it is emulated.
fn with_pool(test: &str, program: impl FnOnce(&Device) -> Result<()>) {
    let variables = [
        ("CANDLE_ROCM_POOL", "1"),
        ("CANDLE_ROCM_POOL_THRESHOLD", ""),
        ("ROCM_EMU_MEMORY", "17179869184"),
    ];
    alone(test, &variables, || {
        candle_rocm_tests::device()
            .and_then(|device| program(&device))
            .unwrap();
    });
}

/// No more was ever taken than a quarter above what lived at most, and 64 MiB.
fn took_little(device: &Device, lived: usize) -> Result<()> {
    let taken = device.as_cuda_device()?.pool_statistics().peak_reserved;
    let [taken_mib, lived_mib] = [taken, lived].map(|bytes| bytes / MIB);
    println!("{lived_mib} MiB lived at most, {taken_mib} were taken");
    ensure!(
        taken <= lived + lived / 4 + 64 * MIB,
        "{lived_mib} MiB lived at most, {taken_mib} were taken"
    );
    Ok(())
}

/// After a synchronisation the pool holds nothing, and the driver has as much free as before.
fn gave_all_back(device: &Device, free_before: usize) -> Result<()> {
    device.synchronize()?;
    let gpu = device.as_cuda_device()?;
    let held = gpu.pool_statistics().reserved;
    ensure!(held == 0, "{held} bytes are held");
    let (free, _) = gpu.memory()?;
    ensure!(
        free + 32 * MIB >= free_before,
        "{free} bytes are free, {free_before} were"
    );
    Ok(())
}

/// candle-nn's cache of keys and values that grows by `Tensor::cat`: 8 layers, 2,560 tokens in 20 steps.
#[test]
fn caches_that_grow_by_cat() {
    with_pool("caches_that_grow_by_cat", |device| {
        let (free, _) = device.as_cuda_device()?.memory()?;
        let (steps, shape) = (20, (1, 4, 128, 128));
        let new = Tensor::ones(shape, DType::F16, device)?;
        let mut caches: Vec<_> = (0..8).map(|_| ConcatKvCache::new(2)).collect();
        for _ in 0..steps {
            for cache in &mut caches {
                cache.append(&new, &new)?;
            }
        }
        let tensor = new.elem_count() * 2 * steps;
        // All caches, and the one that is being copied.
        took_little(device, (2 * caches.len() + 1) * tensor)?;
        let sum = caches[7].v().expect("it has tokens").to_dtype(DType::F32)?;
        ensure!(sum.sum_all()?.to_scalar::<f32>()? as usize == tensor / 2);
        drop((caches, new, sum));
        gave_all_back(device, free)
    });
}

/// Weights read as f32 and kept as bf16, layer by layer, then dropped.
#[test]
fn a_model_loaded_by_way_of_f32() {
    with_pool("a_model_loaded_by_way_of_f32", |device| {
        let (free, _) = device.as_cuda_device()?.memory()?;
        let mut weights = Vec::new();
        for layer in 0..16 {
            for rows in [512, 1024 + 64 * (layer % 3), 512] {
                let wide = Tensor::ones((rows, 4096), DType::F32, device)?;
                weights.push(wide.to_dtype(DType::BF16)?);
            }
        }
        let kept: usize = weights.iter().map(|weight| weight.elem_count() * 2).sum();
        took_little(device, kept + 16 * MIB)?;
        drop(weights);
        gave_all_back(device, free)
    });
}
