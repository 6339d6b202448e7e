//! The error of a GPU that code does not exist for: it names the GPU that would work, and one thing to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind};
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::runtime::machine::OVERRIDE_VARIABLE;

/// Whether a GPU's first such error, which describes the machine, was made.
static DESCRIBED: PerDevice<AtomicBool> = PerDevice::new();

/// The error of a GPU that has no code among these targets, whose reason is given in words. The first one for a GPU
/// says what the machine has; later ones say what to do.
#[cold]
pub(super) fn no_code(device: &Device, what: &str, targets: &[&str], reason: &str) -> Error {
    let machine = device.runtime().machine();
    // Describing the machine selects its other GPUs.
    let _ = device.bind();
    let ordinal = device.ordinal();
    let (gpu, advice) = (machine.describe(ordinal), machine.advice(targets));
    let trouble = match machine.has_the_instructions(ordinal) {
        true => format!("{what} holds no code for {gpu}"),
        false => format!("{what} is not loaded on {gpu}, whose instructions it does not have"),
    };
    let described = DESCRIBED.get_or_init(device, AtomicBool::default);
    let message = match described.swap(true, Ordering::Relaxed) {
        false => format!(
            "{trouble}; there is code for {} ({reason}): {advice}; {}",
            targets.join(", "),
            machine.summary()
        ),
        true => format!(
            "{trouble}: {advice} (the first such error, and candle_rocm_backend::doctor, describe the machine)"
        ),
    };
    Error::new(ErrorKind::Module, message)
}

/// Whether the GPU passes for one whose instructions it does not have. HIP would load code for that one, and the GPU
/// would stop at it.
pub(super) fn passes_for_others(device: &Arc<Device>) -> bool {
    let is_set = std::env::vars_os().any(|(name, value)| {
        !value.is_empty() && name.to_string_lossy().starts_with(OVERRIDE_VARIABLE)
    });
    is_set && {
        let machine = device.runtime().machine();
        let _ = device.bind();
        !machine.has_the_instructions(device.ordinal())
    }
}
