//! Candle on AMD GPUs, under AMD's names.
//!
//! A program that patches `cudarc` and `candle-kernels` with this project's runs on AMD GPUs through
//! Candle's own `Device::new_cuda`, without this crate. This crate adds what such a program may want
//! besides:
//!
//! - [`DeviceExt`]: `Device::new_rocm(ordinal)` and `device.is_rocm()`;
//! - [`RocmDevice`], [`RocmStorage`]: Candle's types for its CUDA backend, which under the patch are those
//!   of AMD GPUs;
//! - [`RocmDeviceExt`]: architecture, wavefront size, compute units, memory, the memory pool's figures;
//! - [`ops`]: operators that Candle makes of several kernels, each in one, with gradients;
//! - [`optim`]: optimisers whose step is one launch for many tensors;
//! - [`fp8`], [`grouped`], [`moe`]: products of FP8 with scales, of rows that belong to groups, and mixtures of experts;
//! - [`communication`]: what the ranks of a program, each a GPU, exchange of tensors;
//! - [`specialised`]: their kernels compiled at run time for the shapes that a program has;
//! - [`graph`]: a step of a program captured once, such as a language model's for one token, and run by one launch;
//! - [`profile`]: what ran on the GPU and for how long, as a table or as a trace;
//! - [`doctor`]: what is wrong where a GPU is not found, and what to do;
//! - [`runtime`]: choosing between AMD's library and the emulator; [`devices`]: the GPUs there are; [`best_device`]: the one
//!   to take where there are several.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use candle_rocm_backend::{runtime, DeviceExt as _, RocmDeviceExt as _, RuntimeKind};
//!
//! // Without this line, the GPU of `CANDLE_ROCM_RUNTIME`, or else an AMD one.
//! runtime::select(RuntimeKind::Emulator)?;
//! let device = Device::new_rocm(0)?;
//! let gpu = device.as_rocm_device()?;
//! println!("{} ({}, wavefronts of {})", gpu.info().name, gpu.info().arch, gpu.info().wavefront_size);
//! let x = Tensor::new(&[[1f32, 2.], [3., 4.]], &device)?;
//! assert_eq!(x.matmul(&x)?.to_vec2::<f32>()?, [[7., 10.], [15., 22.]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! - `emulator` (default): the emulated GPU is part of the program, for `CANDLE_ROCM_RUNTIME=emulator` and
//!   for [`runtime::select`]. A program that only meets real GPUs can build without it.
//! - `rocm-rs`: `rocm_rs` passes memory and streams to the crate rocm-rs and back, without copies. It links AMD's
//!   `libamdhip64`, from the library folders of `ROCM_PATH` (`/opt/rocm`); build with `SKIP_BINDGEN=1`, without which
//!   rocm-rs makes bindings of seven libraries of AMD's anew, and links them all.
//!
//! The crate turns on `candle-core/cuda`. A program that also uses candle-nn or candle-transformers turns
//! on their `cuda` feature itself, most simply through a feature of its own:
//! `rocm = ["candle-core/cuda", "candle-nn/cuda", "candle-transformers/cuda", "dep:candle-rocm-backend"]`.

mod candle;
pub mod communication;
pub mod doctor;
pub mod fp8;
pub mod graph;
pub mod grouped;
pub mod moe;
pub mod ops;
pub mod optim;
mod philox;
#[cfg(feature = "rocm-rs")]
pub mod rocm_rs;
pub mod specialised;

use candle_core::{Device, Error, Result};

pub use candle_rocm_runtime::{profile, runtime, DeviceInfo, PoolStatistics, RuntimeKind};

/// A GPU, to Candle's operators: its CUDA device, which the patched `cudarc` makes an AMD one.
pub type RocmDevice = candle_core::CudaDevice;

/// A tensor's memory on a GPU.
pub type RocmStorage = candle_core::CudaStorage;

/// What [`Device`] has for AMD GPUs.
pub trait DeviceExt: Sized {
    /// The GPU of this number, from 0; its work goes to the calling thread's default stream.
    ///
    /// # Errors
    /// There is no such GPU, or no runtime: the text says what was tried, and how to run on the emulator.
    fn new_rocm(ordinal: usize) -> Result<Self>;

    /// The GPU of this number, with a stream of its own.
    ///
    /// # Errors
    /// As [`DeviceExt::new_rocm`].
    fn new_rocm_with_stream(ordinal: usize) -> Result<Self>;

    /// Whether this is an AMD GPU, real or emulated.
    fn is_rocm(&self) -> bool;

    /// The GPU behind this device.
    ///
    /// # Errors
    /// It is not a GPU.
    fn as_rocm_device(&self) -> Result<&RocmDevice>;
}

impl DeviceExt for Device {
    fn new_rocm(ordinal: usize) -> Result<Self> {
        Self::new_cuda(ordinal)
    }

    fn new_rocm_with_stream(ordinal: usize) -> Result<Self> {
        Self::new_cuda_with_stream(ordinal)
    }

    fn is_rocm(&self) -> bool {
        self.is_cuda()
    }

    fn as_rocm_device(&self) -> Result<&RocmDevice> {
        self.as_cuda_device()
    }
}

/// What can be asked of a [`RocmDevice`].
pub trait RocmDeviceExt {
    /// Name, architecture, wavefront size, compute units, limits.
    fn info(&self) -> DeviceInfo;

    /// Which runtime it belongs to.
    fn runtime_kind(&self) -> RuntimeKind;

    /// Free and total device memory, in bytes, as the driver counts them: what the pool caches is not free.
    ///
    /// # Errors
    /// HIP does not say.
    fn memory(&self) -> Result<(usize, usize)>;

    /// What the memory pool of the GPU holds, for all devices of the process on that GPU.
    fn pool_statistics(&self) -> PoolStatistics;

    /// Gives the memory that the pool caches back to the driver, after waiting for the GPU.
    ///
    /// # Errors
    /// HIP refuses.
    fn release_cached_memory(&self) -> Result<()>;
}

impl RocmDeviceExt for RocmDevice {
    fn info(&self) -> DeviceInfo {
        self.cuda_stream().context().info().clone()
    }

    fn runtime_kind(&self) -> RuntimeKind {
        self.cuda_stream().context().device().runtime().kind()
    }

    fn memory(&self) -> Result<(usize, usize)> {
        self.cuda_stream()
            .context()
            .mem_get_info()
            .map_err(Error::wrap)
    }

    fn pool_statistics(&self) -> PoolStatistics {
        self.cuda_stream().context().pool_statistics()
    }

    fn release_cached_memory(&self) -> Result<()> {
        let stream = self.cuda_stream();
        let context = stream.context();
        context.bind_to_thread().map_err(Error::wrap)?;
        context.device().pool().flush().map_err(Error::wrap)
    }
}

/// The best GPU of the process's runtime that runs the program's kernels: a card before a processor's graphics, then the one
/// with most memory, then the first that HIP lists. `Device::new_rocm(0)` is the first whatever it is.
///
/// # Errors
/// The runtime cannot start, or no GPU runs the kernels: the text names each GPU and one thing to do.
pub fn best_device() -> Result<Device> {
    let runtime = runtime::current().map_err(Error::wrap)?;
    let machine = runtime.machine();
    let targets = candle_rocm_kernels::architectures();
    match machine.best(targets) {
        Some(ordinal) => Device::new_rocm(ordinal),
        None => candle_core::bail!(
            "no GPU runs this program's kernels, which are for {}: {}; {}",
            targets.join(", "),
            machine.advice(targets),
            machine.summary()
        ),
    }
}

/// The GPUs of the process's runtime, in the order of their numbers.
///
/// # Errors
/// The runtime cannot start; the text says what was tried.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let runtime = runtime::current().map_err(Error::wrap)?;
    (0..runtime.device_count())
        .map(|ordinal| {
            let device = runtime.device(ordinal).map_err(Error::wrap)?;
            Ok(device.info().clone())
        })
        .collect()
}
