//! A GPU of the process: its facts, its memory pool and the modules loaded on it.
//!
//! Every [`crate::Context`] on the same GPU shares these, so that memory freed by one is found by another
//! and a kernel is loaded once.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use crate::base::cuda_names::{CUdevice, CUdevice_attribute};
use crate::base::error::{Error, Result};
use crate::base::hip::table::HipTable;
use crate::base::hip::types::{attribute, DeviceProperties};
use crate::gemm::library::Library;
use crate::gemm::tune::Tuner;
use crate::kernels::module::LoadedModule;
use crate::order::live_streams::{self, LiveStreams};
use crate::pool::Pool;
use crate::runtime::{Runtime, RuntimeKind};

/// What is known about a GPU and does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Marketing name.
    pub name: String,
    /// Architecture with its features, as HIP gives it: `gfx942:sramecc+:xnack-`.
    pub arch_full: String,
    /// Architecture alone, which is what code objects are chosen by: `gfx942`.
    pub arch: String,
    /// Work-items in a wavefront: 64 on CDNA, 32 on RDNA.
    pub wavefront_size: u32,
    /// Compute units, as HIP counts them (workgroup processors on RDNA).
    pub compute_units: u32,
    /// Largest workgroup, in work-items.
    pub max_threads_per_block: u32,
    /// Largest workgroup in x, y, z.
    pub max_block_dim: [u32; 3],
    /// Largest grid in x, y, z, in workgroups.
    pub max_grid_dim: [u32; 3],
    /// LDS bytes that a workgroup can have.
    pub max_lds_bytes: u32,
    /// Device memory, in bytes.
    pub total_memory: usize,
}

/// A GPU of the process.
pub struct Device {
    runtime: &'static Runtime,
    ordinal: usize,
    info: DeviceInfo,
    pool: OnceLock<Pool>,
    modules: RwLock<HashMap<&'static str, Arc<LoadedModule>, RandomState>>,
    /// Chosen at the first matrix product.
    gemm_library: OnceLock<Result<Option<Library>>>,
    streams: LiveStreams,
    /// Made at the first matrix product, if any are timed.
    gemm_tuner: OnceLock<Result<Tuner>>,
    sticky: StickyError,
}

impl Device {
    pub(crate) fn open(runtime: &'static Runtime, ordinal: usize) -> Result<Self> {
        let hip = runtime.hip();
        let device = ordinal as i32;
        let mut properties = DeviceProperties::zeroed();
        // SAFETY: the buffer is larger than the structure that HIP fills.
        let status = unsafe { (hip.hipGetDevicePropertiesR0600)(&mut *properties, device) };
        hip.check(status, || {
            format!("reading the properties of GPU {ordinal}")
        })?;
        let attribute_of = |attribute: u32| -> Result<u32> {
            let mut value = 0;
            // SAFETY: `value` is writable.
            let status = unsafe { (hip.hipDeviceGetAttribute)(&mut value, attribute, device) };
            hip.check(status, || {
                format!("reading attribute {attribute} of GPU {ordinal}")
            })?;
            Ok(value.max(0) as u32)
        };
        let arch_full = properties.gcn_arch_name();
        let arch = arch_full.split(':').next().unwrap_or_default().to_owned();
        if arch.is_empty() {
            return Err(Error::new(
                crate::base::error::ErrorKind::Runtime,
                format!(
                    "{} names no architecture for GPU {ordinal}",
                    runtime.library()
                ),
            ));
        }
        let (mut free, mut total) = (0, 0);
        hip.select(ordinal)?;
        // SAFETY: both outputs are writable.
        unsafe {
            hip.check((hip.hipMemGetInfo)(&mut free, &mut total), || {
                format!("reading the memory size of GPU {ordinal}")
            })?;
        }
        let info = DeviceInfo {
            name: properties.name(),
            arch,
            arch_full,
            wavefront_size: attribute_of(attribute::WARP_SIZE)?,
            compute_units: attribute_of(attribute::MULTIPROCESSOR_COUNT)?,
            max_threads_per_block: attribute_of(attribute::MAX_THREADS_PER_BLOCK)?,
            max_block_dim: [
                attribute_of(attribute::MAX_BLOCK_DIM_X)?,
                attribute_of(attribute::MAX_BLOCK_DIM_Y)?,
                attribute_of(attribute::MAX_BLOCK_DIM_Z)?,
            ],
            max_grid_dim: [
                attribute_of(attribute::MAX_GRID_DIM_X)?,
                attribute_of(attribute::MAX_GRID_DIM_Y)?,
                attribute_of(attribute::MAX_GRID_DIM_Z)?,
            ],
            max_lds_bytes: attribute_of(attribute::MAX_SHARED_MEMORY_PER_BLOCK)?,
            total_memory: total,
        };
        Ok(Self {
            runtime,
            ordinal,
            info,
            pool: OnceLock::new(),
            modules: RwLock::default(),
            gemm_library: OnceLock::new(),
            streams: LiveStreams::default(),
            gemm_tuner: OnceLock::new(),
            sticky: StickyError::default(),
        })
    }

    /// The runtime that this GPU belongs to.
    pub fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    /// HIP's functions.
    #[inline]
    pub fn hip(&self) -> &'static HipTable {
        self.runtime.hip()
    }

    /// Its number, from 0.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// What is known about it.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// True if it is emulated.
    pub fn is_emulated(&self) -> bool {
        self.runtime.kind() == RuntimeKind::Emulator
    }

    /// Makes this GPU the calling thread's current one, as HIP's calls expect.
    #[inline]
    pub fn bind(&self) -> Result<()> {
        self.hip().select(self.ordinal)
    }

    /// Its memory pool.
    pub fn pool(self: &Arc<Self>) -> &Pool {
        self.pool.get_or_init(|| Pool::new(self))
    }

    /// The pool, if anything was ever allocated from it.
    pub(crate) fn existing_pool(&self) -> Option<&Pool> {
        self.pool.get()
    }

    /// Free and total device memory in bytes, as the driver counts them: what the pool caches is not free.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        let hip = self.hip();
        // SAFETY: both outputs are writable.
        let status = unsafe { (hip.hipMemGetInfo)(&mut free, &mut total) };
        hip.check(status, || {
            format!("reading the free memory of GPU {}", self.ordinal)
        })?;
        Ok((free, total))
    }

    /// Waits for all work on this GPU. Of streams that are being captured into graphs that is what they had been given
    /// before; the captures go on.
    pub fn synchronize(&self) -> Result<()> {
        self.bind()?;
        live_streams::wait_for_all(self)
    }

    /// Its streams.
    pub(crate) fn streams(&self) -> &LiveStreams {
        &self.streams
    }

    /// One of the embedded modules, loaded on first use.
    pub(crate) fn embedded_module(
        self: &Arc<Self>,
        name: &'static str,
        load: impl FnOnce() -> Result<LoadedModule>,
    ) -> Result<Arc<LoadedModule>> {
        if let Some(module) = self.modules.read().get(name) {
            return Ok(module.clone());
        }
        let mut modules = self.modules.write();
        if let Some(module) = modules.get(name) {
            return Ok(module.clone());
        }
        let module = Arc::new(load()?);
        modules.insert(name, module.clone());
        Ok(module)
    }

    /// The vendor's library of matrix products, once chosen.
    pub(crate) fn gemm_library(&self) -> &OnceLock<Result<Option<Library>>> {
        &self.gemm_library
    }

    /// The timings of matrix products.
    pub(crate) fn gemm_tuner(&self) -> &OnceLock<Result<Tuner>> {
        &self.gemm_tuner
    }

    /// The error that work on this GPU left for its next call.
    pub(crate) fn sticky(&self) -> &StickyError {
        &self.sticky
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Device({}: {} {})",
            self.ordinal, self.info.arch, self.info.name
        )
    }
}

/// The number of GPUs.
///
/// # Errors
/// The runtime cannot start.
pub fn count() -> Result<i32> {
    Ok(crate::runtime::current()?.device_count() as i32)
}

/// An attribute of the GPU of this number, under CUDA's name for it.
///
/// # Safety
/// None is needed; cudarc's function is unsafe, and its callers wrap it so.
pub unsafe fn read_attribute(device: CUdevice, attribute: CUdevice_attribute) -> Result<i32> {
    let ordinal =
        usize::try_from(device).map_err(|_| Error::invalid(format!("there is no GPU {device}")))?;
    attribute.read(crate::runtime::current()?.device(ordinal)?)
}

/// An error kept for the next call that can return one.
#[derive(Default)]
pub(crate) struct StickyError {
    is_set: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl StickyError {
    /// Keeps the error, unless an earlier one (the cause, most likely) is still waiting.
    pub(crate) fn set(&self, error: Error) {
        let mut slot = self.error.lock();
        if slot.is_none() {
            *slot = Some(error);
        }
        self.is_set.store(true, Ordering::Release);
    }

    /// Returns the waiting error, once.
    #[inline]
    pub(crate) fn take(&self) -> Result<()> {
        if !self.is_set.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut slot = self.error.lock();
        self.is_set.store(false, Ordering::Release);
        slot.take().map_or(Ok(()), Err)
    }
}
