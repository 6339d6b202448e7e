//! Runs all cases on a device.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};

use candle_core::{DType, Device, Tensor};

use crate::case::Case;
use crate::numbers::Numbers;
use crate::recording::{Outcome, Recording};

/// Which program this is and on what it runs.
pub fn about(device: &Device) -> anyhow::Result<BTreeMap<String, String>> {
    let device = match device.as_cuda_device() {
        Ok(device) => device.cuda_stream().context().name()?,
        Err(_) => "CPU".to_owned(),
    };
    Ok([
        ("program", env!("CARGO_PKG_NAME").to_owned()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("candle", "0.11.1".to_owned()),
        ("device", device),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into())
}

/// The name of a case after which the device could not be used, if there was one.
pub type Lost = Option<String>;

/// Adds the results of all cases that the recording does not have yet. After a case that leaves the device unusable
/// (an illegal access on CUDA is an error of every later call) it ends: only a new process can run the others.
pub fn record(cases: &[Case], device: &Device, recording: &mut Recording) -> anyhow::Result<Lost> {
    for case in cases {
        if recording.outcomes.contains_key(&case.name) {
            continue;
        }
        let inputs = case.fingerprint()?;
        recording.inputs.insert(case.name.clone(), inputs);
        let mut outcome = run(case, device);
        let mut lost = None;
        if outcome.is_err() && !works(device) {
            outcome = outcome.map_err(|error| format!("the device was lost: {error}"));
            lost = Some(case.name.clone());
        }
        recording.outcomes.insert(case.name.clone(), outcome);
        if lost.is_some() {
            return Ok(lost);
        }
    }
    Ok(None)
}

/// One case's result on a device.
pub fn run(case: &Case, device: &Device) -> Outcome {
    caught(|| case.on(device))
}

/// The CPU's result of the same numbers in f64 or i64, or why it has none.
pub fn truth(case: &Case) -> Result<Numbers, String> {
    caught(|| case.truth())
}

/// The result, or the error's text; a panic in Candle's host code is an error.
pub(crate) fn caught<T>(run: impl FnOnce() -> candle_core::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(message(&error)),
        Err(panic) => Err(told(&*panic)),
    }
}

/// What a panic says.
pub fn told(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or_default())
}

/// An error's own text, without the backtrace that Candle adds when `RUST_BACKTRACE` is set.
fn message(error: &candle_core::Error) -> String {
    match error {
        candle_core::Error::WithBacktrace { inner, .. } => message(inner),
        error => error.to_string(),
    }
}

/// Whether the device still computes; after some faults every later call is an error.
pub fn works(device: &Device) -> bool {
    let sum = || {
        Tensor::ones(5, DType::F32, device)?
            .sum_all()?
            .to_scalar::<f32>()
    };
    sum().is_ok_and(|sum| sum == 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{any, List};

    fn cases() -> candle_core::Result<Vec<Case>> {
        let mut list = List::default();
        let inputs = vec![any(DType::F32, 1, &[3])?];
        list.add("exp", "works", inputs.clone(), |x| x[0].exp());
        list.add("exp", "is refused", inputs.clone(), |_| {
            candle_core::bail!("no kernel")
        });
        list.add("exp", "panics", inputs, |_| {
            panic!("attempt to divide by zero")
        });
        Ok(list.cases)
    }

    #[test]
    fn errors_and_panics_are_outcomes() -> anyhow::Result<()> {
        let mut recording = Recording::default();
        let lost = record(&cases()?, &Device::Cpu, &mut recording)?;
        assert_eq!(lost, None);
        assert!(recording.outcomes["exp works"].is_ok());
        assert_eq!(
            recording.outcomes["exp is refused"],
            Err("no kernel".into())
        );
        assert_eq!(
            recording.outcomes["exp panics"],
            Err("panicked: attempt to divide by zero".into())
        );
        Ok(())
    }

    #[test]
    fn what_is_recorded_stays() -> anyhow::Result<()> {
        let mut recording = Recording::default();
        let earlier = Err("of an earlier process".to_owned());
        recording
            .outcomes
            .insert("exp works".into(), earlier.clone());
        record(&cases()?, &Device::Cpu, &mut recording)?;
        assert_eq!(recording.outcomes["exp works"], earlier);
        assert_eq!(recording.outcomes.len(), 3);
        Ok(())
    }
}
