//! Which device an example runs on.

use anyhow::Result;
use candle_core::Device;

/// `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// An AMD GPU; the emulated one when there is none.
    Rocm,
    /// The processor.
    Cpu,
}

impl Default for Choice {
    /// The GPU, in a build that has it.
    fn default() -> Self {
        if cfg!(feature = "rocm") {
            Self::Rocm
        } else {
            Self::Cpu
        }
    }
}

/// A device, and what to call it.
#[derive(Clone, Debug)]
pub struct Opened {
    /// For tensors.
    pub device: Device,
    /// Name and architecture, for people.
    pub description: String,
    /// A line to show, such as that the GPU is an emulated one.
    pub note: Option<String>,
}

impl Choice {
    /// Opens the device.
    ///
    /// # Errors
    /// There is none of this kind; the text says what was tried or how to build for it.
    pub fn open(self) -> Result<Opened> {
        match self {
            Self::Cpu => Ok(Opened {
                device: Device::Cpu,
                description: format!("CPU ({})", std::env::consts::ARCH),
                note: None,
            }),
            Self::Rocm => open_rocm(),
        }
    }
}

#[cfg(not(feature = "rocm"))]
fn open_rocm() -> Result<Opened> {
    anyhow::bail!("this build has no AMD GPU support: build with `--features rocm`, or run with `--device cpu`")
}

#[cfg(feature = "rocm")]
fn open_rocm() -> Result<Opened> {
    use candle_rocm_backend::{
        best_device, runtime, DeviceExt as _, RocmDeviceExt as _, RuntimeKind,
    };
    let mut no_gpu = false;
    // Whoever names a runtime gets that one or its error. Else AMD's, and the emulator in its place.
    if std::env::var_os("CANDLE_ROCM_RUNTIME").is_none()
        && runtime::select(RuntimeKind::Amd).is_err()
    {
        runtime::select(RuntimeKind::Emulator)?;
        no_gpu = true;
    }
    let device = best_device()?;
    let gpu = device.as_rocm_device()?;
    let info = gpu.info();
    let emulated = gpu.runtime_kind() == RuntimeKind::Emulator;
    let description = format!(
        "{}, {}{}",
        info.name,
        info.arch,
        if emulated { ", emulated" } else { "" }
    );
    let note = no_gpu.then(|| {
        format!(
            "No AMD GPU was found: running on an emulated {}.",
            info.arch
        )
    });
    Ok(Opened {
        device,
        description,
        note,
    })
}
