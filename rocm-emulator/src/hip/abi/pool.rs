//! Memory pools.

use std::sync::atomic::Ordering;

use super::prelude::*;
use crate::hip::allocate::{Pool, DEVICE_POOLS, POOLS};
use crate::hip::state::runtime;

pub unsafe fn hipDeviceGetDefaultMemPool(pool: *mut hipMemPool_t, device: c_int) -> Result {
    let runtime = runtime()?;
    let default = DEVICE_POOLS.of(runtime, runtime.device(device)?).default;
    // SAFETY: the program's promise.
    unsafe { out(pool, default as hipMemPool_t) }
}

pub unsafe fn hipDeviceGetMemPool(pool: *mut hipMemPool_t, device: c_int) -> Result {
    let runtime = runtime()?;
    let pools = DEVICE_POOLS.of(runtime, runtime.device(device)?);
    let current = pools.current.load(Ordering::Relaxed);
    // SAFETY: the program's promise.
    unsafe { out(pool, current as hipMemPool_t) }
}

pub unsafe fn hipDeviceSetMemPool(device: c_int, pool: hipMemPool_t) -> Result {
    let runtime = runtime()?;
    let device = runtime.device(device)?;
    if POOLS.get(pool)?.device != device.index {
        return Err(HipError::new(
            Code::InvalidValue,
            "the pool is another device's",
        ));
    }
    let pools = DEVICE_POOLS.of(runtime, device);
    pools.current.store(pool as u64, Ordering::Relaxed);
    Ok(())
}

pub unsafe fn hipMemPoolCreate(
    pool: *mut hipMemPool_t,
    properties: *const hipMemPoolProps,
) -> Result {
    let runtime = runtime()?;
    if properties.is_null() || !properties.is_aligned() {
        return Err(Code::InvalidValue.into());
    }
    // SAFETY: valid by the program's promise.
    let properties = unsafe { properties.read() };
    const PINNED: c_uint = 1;
    const ON_DEVICE: c_uint = 1;
    if properties.allocType != PINNED || properties.location.type_ != ON_DEVICE {
        return Err(HipError::new(
            Code::InvalidValue,
            "pools hold pinned allocations located on a device",
        ));
    }
    let device = runtime.device(properties.location.id)?.index;
    // SAFETY: the program's promise; nothing is made when the pointer is wrong.
    unsafe { out(pool, std::ptr::null_mut()) }?;
    let handle = POOLS.insert(|_| Pool::created(device));
    // SAFETY: as above.
    unsafe { out(pool, handle as hipMemPool_t) }
}

pub unsafe fn hipMemPoolDestroy(pool: hipMemPool_t) -> Result {
    let runtime = runtime()?;
    let found = POOLS.get(pool)?;
    let pools = DEVICE_POOLS.of(runtime, &runtime.devices[found.device]);
    if pool as u64 == pools.default {
        return Err(HipError::new(
            Code::InvalidValue,
            "the default pool cannot be destroyed",
        ));
    }
    // The device falls back to its default pool if this was its current one.
    let _ = pools.current.compare_exchange(
        pool as u64,
        pools.default,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    POOLS.remove(pool)?;
    Ok(())
}

pub unsafe fn hipMemPoolTrimTo(pool: hipMemPool_t, _bytes: usize) -> Result {
    runtime()?;
    // A pool holds nothing beyond its live allocations.
    POOLS.get(pool).map(|_| ())
}

pub unsafe fn hipMemPoolSetAttribute(
    pool: hipMemPool_t,
    attribute: hipMemPoolAttr,
    value: *mut c_void,
) -> Result {
    runtime()?;
    let pool = POOLS.get(pool)?;
    if value.is_null() {
        return Err(Code::InvalidValue.into());
    }
    match attribute {
        1..=3 => {
            // SAFETY: these attributes are an int, by HIP's documentation.
            let on = unsafe { value.cast::<c_int>().read_unaligned() } != 0;
            let bit = 1 << attribute;
            match on {
                true => pool.reuse.fetch_or(bit, Ordering::Relaxed),
                false => pool.reuse.fetch_and(!bit, Ordering::Relaxed),
            };
        }
        // SAFETY: this attribute is a 64-bit number.
        4 => pool.release_threshold.store(
            unsafe { value.cast::<u64>().read_unaligned() },
            Ordering::Relaxed,
        ),
        // The high-water marks can only be set back.
        6 | 8 => pool
            .used_high
            .store(pool.used.load(Ordering::Relaxed), Ordering::Relaxed),
        _ => {
            return Err(HipError::new(
                Code::InvalidValue,
                format!("memory pool attribute {attribute} cannot be set"),
            ))
        }
    }
    Ok(())
}

pub unsafe fn hipMemPoolGetAttribute(
    pool: hipMemPool_t,
    attribute: hipMemPoolAttr,
    value: *mut c_void,
) -> Result {
    runtime()?;
    let pool = POOLS.get(pool)?;
    let number = match attribute {
        1..=3 => {
            let on = pool.reuse.load(Ordering::Relaxed) >> attribute & 1;
            // SAFETY: the program's promise: room for an int.
            return unsafe { out(value.cast(), on as c_int) };
        }
        4 => pool.release_threshold.load(Ordering::Relaxed),
        5 | 7 => pool.used.load(Ordering::Relaxed),
        6 | 8 => pool.used_high.load(Ordering::Relaxed),
        _ => {
            return Err(HipError::new(
                Code::InvalidValue,
                format!("memory pool attribute {attribute}"),
            ))
        }
    };
    // SAFETY: the program's promise: room for a 64-bit number.
    unsafe { out(value.cast(), number) }
}
