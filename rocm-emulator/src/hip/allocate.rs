//! Device memory: allocated, from a pool or not, and freed.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::error::{Code, HipError, Result};
use super::handles::{Kind, Table};
use super::host_memory::{host_block, remove_host_block};
use super::state::{Device, PerDevice, Runtime};
use crate::memory::{AllocationInfo, AllocationKind, OutOfMemory};

impl From<OutOfMemory> for HipError {
    fn from(error: OutOfMemory) -> HipError {
        HipError::new(Code::OutOfMemory, error.to_string())
    }
}

/// A memory pool: `hipMallocAsync` allocates at once here, so it only keeps what the program sets and counts.
#[derive(Debug, Default)]
pub struct Pool {
    /// Its device.
    pub device: usize,
    /// `hipMemPoolAttrReleaseThreshold`.
    pub release_threshold: AtomicU64,
    /// Bytes that live allocations of the pool have.
    pub used: AtomicU64,
    /// The highest that `used` has been.
    pub used_high: AtomicU64,
    /// Made by `hipMemPoolCreate`.
    pub created: bool,
    /// The reuse attributes, which change nothing here, as bits.
    pub reuse: AtomicU64,
    /// Live allocations: address and bytes.
    pub allocations: Mutex<BTreeMap<u64, u64>>,
}

impl Pool {
    /// A pool that the program created.
    pub fn created(device: usize) -> Pool {
        Pool {
            device,
            created: true,
            ..Pool::default()
        }
    }
}

/// Memory pools.
pub static POOLS: LazyLock<Table<Pool>> = LazyLock::new(|| Table::new(Kind::Pool));

/// The pools of a device, by handle.
pub struct DevicePools {
    /// The one that `hipMallocAsync` takes from.
    pub current: AtomicU64,
    /// The one that exists from the start.
    pub default: u64,
}

/// The pools of each device.
pub static DEVICE_POOLS: PerDevice<DevicePools> = PerDevice::new(|device| {
    let default = POOLS.insert(|_| Pool {
        device: device.index,
        ..Pool::default()
    });
    DevicePools {
        current: AtomicU64::new(default),
        default,
    }
});

/// Forget a device's pools but the default one, which is empty from now on (`hipDeviceReset`).
pub fn forget_pools(runtime: &Runtime, device: &Device) {
    let pools = DEVICE_POOLS.of(runtime, device);
    POOLS.remove_where(|pool| pool.device == device.index && pool.created);
    if let Ok(pool) = POOLS.get(pools.default as *const c_void) {
        pool.allocations.lock().clear();
        pool.used.store(0, Ordering::Relaxed);
    }
    pools.current.store(pools.default, Ordering::Relaxed);
}

/// `hipMalloc`.
pub fn allocate_device(device: &Device, bytes: usize) -> Result<u64> {
    device.healthy()?;
    Ok(device
        .memory
        .allocate(bytes as u64, AllocationKind::Device)?)
}

/// `hipFree` and, with `asynchronous`, `hipFreeAsync`. Null is no error.
pub fn free_device(runtime: &Runtime, address: u64, asynchronous: bool) -> Result {
    if address == 0 {
        return Ok(());
    }
    if let Some(owned) = host_block(address, |block| block.managed && block.address == address) {
        if owned && !asynchronous {
            return remove_host_block(runtime, address, true);
        }
    }
    let invalid = |text: String| HipError::new(Code::InvalidValue, text);
    let device = runtime.owner(address).ok_or_else(|| {
        invalid(format!(
            "free of {address:#x}: {}",
            runtime.current().memory.nearest(address)
        ))
    })?;
    let info = device.memory.lookup(address);
    match info {
        Some(AllocationInfo {
            kind: AllocationKind::Device,
            ..
        }) => {}
        _ => {
            return Err(invalid(format!(
                "{address:#x} was not allocated with hipMalloc"
            )))
        }
    }
    device
        .memory
        .free(address)
        .map_err(|error| invalid(error.to_string()))?;
    for pool in POOLS.all() {
        if let Some(bytes) = pool.allocations.lock().remove(&address) {
            pool.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// `hipMallocAsync` from a pool.
pub fn allocate_from_pool(runtime: &Runtime, pool: *const c_void, bytes: usize) -> Result<u64> {
    let pool = POOLS.get(pool)?;
    let address = allocate_device(&runtime.devices[pool.device], bytes)?;
    pool.allocations.lock().insert(address, bytes as u64);
    let used = pool.used.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    pool.used_high.fetch_max(used, Ordering::Relaxed);
    Ok(address)
}
