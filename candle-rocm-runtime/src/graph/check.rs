//! Whether a GPU's graphs compute what the same kernels compute that are launched one by one.
//!
//! Several releases of AMD's HIP replay graphs wrongly, some of them in one process of five. So the first graph of a process
//! on a GPU is one of some hundred kernels, each of which reads an input that is set between launches, and its results are
//! compared with those of the kernels by themselves, bit for bit. Where they differ, graphs are off for that GPU.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::trial::{self, Outcome};
use super::wish::{Wish, VARIABLE};
use crate::base::error::Result;
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::runtime::RuntimeKind;

/// What is known of a GPU's graphs.
#[derive(Default)]
struct Known {
    /// Whether they were tried; held while they are.
    tried: Mutex<bool>,
    /// Whether somebody was told to compare a graph of theirs.
    compared: AtomicBool,
    /// Why they are off.
    why_off: OnceLock<String>,
}

static KNOWN: PerDevice<Known> = PerDevice::new();

fn known(device: &Device) -> &'static Known {
    KNOWN.get_or_init(device, Known::default)
}

/// Whether steps on this GPU are to be captured: by what the environment says and, where it leaves it to us, by whether its
/// graphs are right. The first call for a GPU of AMD's tries that.
///
/// # Errors
/// The variable has a value that it does not take.
pub fn are_on(device: &Arc<Device>) -> Result<bool> {
    Ok(match Wish::of_environment()? {
        Wish::Off => false,
        Wish::On => true,
        Wish::Auto => {
            try_once(device);
            why_off(device).is_none()
        }
    })
}

/// Why the graphs of this GPU are off, if they were found wrong.
pub fn why_off(device: &Device) -> Option<&'static str> {
    known(device).why_off.get().map(String::as_str)
}

/// Whether the graphs of this GPU are right, or why they are off, once that was tried, now if it was not; none where they
/// are not tried.
pub fn tried(device: &Arc<Device>) -> Option<std::result::Result<(), &'static str>> {
    try_once(device);
    is_checked(device).then(|| why_off(device).map_or(Ok(()), Err))
}

/// Whether the caller's graph is the one of this GPU that is compared with the kernels by themselves: the first, where
/// hardware runs it and the environment does not say that graphs are right.
///
/// # Errors
/// The variable has a value that it does not take.
pub fn is_to_be_compared(device: &Device) -> Result<bool> {
    Ok(is_checked(device)
        && Wish::of_environment()? == Wish::Auto
        && !known(device).compared.swap(true, Ordering::Relaxed))
}

/// Turns the graphs of this GPU off, for what was found of them, and warns of it once.
pub fn turn_off(device: &Device, found: impl fmt::Display) {
    let release = match device.runtime().release() {
        Some(release) => format!("HIP {release}"),
        None => device.runtime().library().to_owned(),
    };
    let info = device.info();
    let mut is_first = false;
    let why = known(device).why_off.get_or_init(|| {
        is_first = true;
        format!(
            "graphs are off on GPU {}, {} ({}), by {release}: {found}. Each kernel is launched by itself, which is right \
             and slower; another release of ROCm may be right, and {VARIABLE}=1 captures nevertheless",
            device.ordinal(),
            info.name,
            info.arch,
        )
    });
    if is_first {
        tracing::warn!("{why}");
    }
}

/// Whether graphs are tried: AMD's runtime alone is known to replay them wrongly.
fn is_checked(device: &Device) -> bool {
    device.runtime().kind() == RuntimeKind::Amd && candle_rocm_kernels::serves(&device.info().arch)
}

fn try_once(device: &Arc<Device>) {
    if !is_checked(device) {
        return;
    }
    let mut tried = known(device).tried.lock();
    if std::mem::replace(&mut *tried, true) {
        return;
    }
    match trial::run(device) {
        Ok(Outcome {
            by_kernels: None,
            by_copies,
        }) => {
            // Steps set their inputs by kernels, so that this fault does not touch them.
            if let Some(symptom) = by_copies {
                tracing::info!(
                    "graphs of GPU {} are wrong where a copy sets their inputs: {symptom}",
                    device.ordinal()
                );
            }
        }
        Ok(Outcome {
            by_kernels: Some(symptom),
            ..
        }) => turn_off(device, symptom),
        Err(error) => turn_off(
            device,
            format_args!(
                "a graph of {} kernels cannot be tried: {error}",
                trial::KERNELS
            ),
        ),
    }
}
