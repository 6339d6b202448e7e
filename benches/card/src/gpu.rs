//! The GPU that is looked at.

use candle_core::{Device, Result};
use candle_rocm_backend::{best_device, graph, DeviceExt as _, RocmDeviceExt as _, RuntimeKind};

use crate::asked::Asked;

/// The GPU that was asked for, or the best one.
///
/// # Errors
/// There is none: the text says what was tried.
pub fn open(asked: &Asked) -> Result<Device> {
    match asked.device {
        Some(ordinal) => Device::new_rocm(ordinal),
        None => best_device(),
    }
}

/// Whether it is the emulated one.
pub fn is_emulated(device: &Device) -> bool {
    let gpu = device.as_rocm_device();
    gpu.is_ok_and(|gpu| gpu.runtime_kind() == RuntimeKind::Emulator)
}

/// Why nothing can be captured; none where it can be.
///
/// # Errors
/// Graphs cannot be tried.
pub fn why_graphs_are_off(device: &Device) -> Result<Option<String>> {
    if graph::are_on(device)? {
        return Ok(None);
    }
    let why = graph::why_off(device).unwrap_or_else(|| format!("{} is 0", graph::VARIABLE));
    Ok(Some(why))
}

/// Bytes in GiB.
pub fn gib(bytes: usize) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}
