//! What the memory pool holds while a model decodes: `CANDLE_ROCM_BENCH_MEMORY=256` writes a line to standard error every
//! 256 tokens.

use anyhow::{Context as _, Result};
use candle_core::Device;
use candle_rocm_backend::RocmDeviceExt as _;

/// Notes the memory in use and held after so many tokens of a sequence.
///
/// # Errors
/// The variable is no number, or the device is no GPU.
pub fn note(device: &Device, tokens: usize) -> Result<()> {
    const VARIABLE: &str = "CANDLE_ROCM_BENCH_MEMORY";
    let Ok(step) = std::env::var(VARIABLE) else {
        return Ok(());
    };
    let step: usize = step.parse().context(VARIABLE)?;
    if step == 0 || !tokens.is_multiple_of(step) {
        return Ok(());
    }
    let pool = device.as_cuda_device()?.pool_statistics();
    let [in_use, held, peak] =
        [pool.in_use, pool.reserved, pool.peak_reserved].map(|bytes| bytes >> 20);
    eprintln!(
        "{tokens} tokens: {in_use} MiB in use, {held} held, {peak} at most; {} calls of the driver",
        pool.driver_allocations
    );
    Ok(())
}
