//! How much each test does, and who has the GPU to itself.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use anyhow::{Context as _, Result};
use candle_rocm_runtime::Context;

/// The variable that multiplies what each test does.
pub const VARIABLE: &str = "CANDLE_ROCM_STRESS";

/// How often a test does what it does: `hardware` times on a GPU, `emulated` times on the emulator, both multiplied by
/// `CANDLE_ROCM_STRESS` if that is set; at least once.
pub fn amount(hardware: usize, emulated: usize) -> Result<usize> {
    let factor = match std::env::var(VARIABLE) {
        Ok(text) => text
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|factor| factor.is_finite() && *factor > 0.0)
            .with_context(|| format!("{VARIABLE}={text}: a positive number is expected"))?,
        Err(_) => 1.0,
    };
    let base = if is_emulated()? { emulated } else { hardware };
    Ok(((base as f64 * factor) as usize).max(1))
}

/// Whether the GPU under test is emulated.
pub fn is_emulated() -> Result<bool> {
    Ok(context()?.device().is_emulated())
}

/// A new context, with streams of its own, on the GPU under test.
pub fn context() -> Result<Arc<Context>> {
    // Chooses the runtime as all tests of this package do.
    candle_rocm_tests::device()?;
    Ok(Context::new(0)?)
}

static DEVICE: RwLock<()> = RwLock::new(());

/// Held by a test that shares the GPU with others: one that uses up its memory waits.
pub fn shared() -> RwLockReadGuard<'static, ()> {
    DEVICE
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Held by the test that uses up the GPU's memory.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    DEVICE
        .write()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
