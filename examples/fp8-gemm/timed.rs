//! How long a call takes.

use std::time::Instant;

use anyhow::Result;
use candle_core::Device;

/// Seconds of one of many calls that follow one another.
pub fn timed(
    device: &Device,
    repeat: usize,
    mut call: impl FnMut() -> candle_core::Result<()>,
) -> Result<f64> {
    for _ in 0..2 {
        call()?;
    }
    device.synchronize()?;
    let begin = Instant::now();
    for _ in 0..repeat {
        call()?;
    }
    device.synchronize()?;
    Ok(begin.elapsed().as_secs_f64() / repeat as f64)
}
