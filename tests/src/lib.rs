//! What the integration tests share: the device under test, comparison with a stated tolerance, and
//! a small model to train.

use anyhow::{ensure, Result};
use candle_core::{DType, Device, Tensor};

pub mod training;

/// The device under test: the GPU that `CANDLE_ROCM_RUNTIME` asks for, or else the emulator.
pub fn device() -> Result<Device> {
    use candle_rocm_backend::{runtime, DeviceExt as _};
    if std::env::var_os("CANDLE_ROCM_RUNTIME").is_none() {
        runtime::select(runtime::RuntimeKind::Emulator)?;
    }
    Ok(Device::new_rocm(0)?)
}

/// How far `actual` may be from `expected`: `|a - e| <= absolute + relative * max|e|`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// In the tensor's units.
    pub absolute: f64,
    /// Relative to the largest magnitude of the expected tensor.
    pub relative: f64,
}

/// An error that says where two tensors differ most, unless they agree within the tolerance.
pub fn ensure_close(
    what: &str,
    actual: &Tensor,
    expected: &Tensor,
    tolerance: Tolerance,
) -> Result<()> {
    ensure!(
        actual.dims() == expected.dims(),
        "{what}: shape {:?}, expected {:?}",
        actual.dims(),
        expected.dims()
    );
    let values = |t: &Tensor| -> Result<Vec<f64>> {
        Ok(t.to_device(&Device::Cpu)?
            .to_dtype(DType::F64)?
            .flatten_all()?
            .to_vec1()?)
    };
    let (actual, expected) = (values(actual)?, values(expected)?);
    let finite = expected.iter().filter(|e| e.is_finite());
    let scale = finite.fold(0f64, |m, e| m.max(e.abs()));
    let limit = tolerance.absolute + tolerance.relative * scale;
    for (i, (a, e)) in actual.iter().zip(&expected).enumerate() {
        // Written so that a NaN on one side alone fails.
        let close =
            (e.is_finite() && (a - e).abs() <= limit) || (a.is_nan() && e.is_nan()) || a == e;
        ensure!(
            close,
            "{what}: element {i} is {a}, expected {e}, allowed difference {limit:e}"
        );
    }
    Ok(())
}
