//! What HIP says about a GPU.

use candle_rocm_kernels::Processor;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::types::{attribute, DeviceProperties};
use crate::runtime::Runtime;

/// What is known about a GPU and does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Marketing name.
    pub name: String,
    /// Architecture with its features, as HIP gives it: `gfx942:sramecc+:xnack-`.
    pub arch_full: String,
    /// Architecture alone, which is what code objects are chosen by: `gfx942`.
    pub arch: String,
    /// What plans know of it: its entry in the tables of GPUs.
    pub processor: Processor,
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

impl DeviceInfo {
    /// Asks HIP. The GPU becomes the calling thread's current one.
    pub(super) fn read(runtime: &Runtime, ordinal: usize) -> Result<Self> {
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
                ErrorKind::Runtime,
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
        Ok(Self {
            name: properties.name(),
            processor: Processor::of(&arch),
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
        })
    }
}
