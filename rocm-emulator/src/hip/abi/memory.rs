//! Memory: device, managed and of the host, and what is known of an address.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::prelude::*;
use crate::hip::allocate::{self, DEVICE_POOLS, POOLS};
use crate::hip::capture::refuse_during_capture;
use crate::hip::host_memory;
use crate::hip::late::late;
use crate::hip::operation::{GraphAllocation, Operation};
use crate::hip::state::{runtime, Runtime};

/// Give an address; release it again when the output pointer turns out to be wrong.
///
/// # Safety
/// As [`out`].
unsafe fn give(pointer: *mut *mut c_void, allocate: impl FnOnce() -> Result<u64>) -> Result {
    // SAFETY: the program's promise; nothing is allocated when the pointer is wrong.
    unsafe { out(pointer, std::ptr::null_mut()) }?;
    let address = allocate()?;
    // SAFETY: as above.
    unsafe { out(pointer, address as *mut c_void) }
}

pub unsafe fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) -> Result {
    let runtime = runtime()?;
    refuse_during_capture()?;
    let allocate = || match bytes {
        0 => Ok(0),
        _ => allocate::allocate_device(runtime.current(), bytes),
    };
    // SAFETY: the program's promise.
    unsafe { give(pointer, allocate) }
}

pub unsafe fn hipExtMallocWithFlags(
    pointer: *mut *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> Result {
    if flags > 7 {
        return Err(HipError::new(
            Code::InvalidValue,
            format!("allocation flags {flags:#x}"),
        ));
    }
    // SAFETY: the program's promise.
    unsafe { hipMalloc(pointer, bytes) }
}

pub unsafe fn hipMallocPitch(
    pointer: *mut *mut c_void,
    pitch: *mut usize,
    width: usize,
    height: usize,
) -> Result {
    let too_large = || HipError::new(Code::OutOfMemory, format!("{height} rows of {width} bytes"));
    let row = width.checked_next_multiple_of(256).ok_or_else(too_large)?;
    let bytes = row.checked_mul(height).ok_or_else(too_large)?;
    // SAFETY: the program's promise.
    unsafe {
        out(pitch, row)?;
        hipMalloc(pointer, bytes)
    }
}

pub unsafe fn hipFree(pointer: *mut c_void) -> Result {
    let runtime = runtime()?;
    if pointer.is_null() {
        return Ok(());
    }
    refuse_during_capture()?;
    if let Some(device) = runtime.owner(pointer as u64) {
        // hipFree waits for the device.
        if let Some(late) = late(runtime) {
            late.synchronize_device(runtime, device);
        }
        for stream in runtime.streams_of(device) {
            if stream.capture_info().is_none() {
                // A pending fault must not keep memory from being freed.
                let _ = stream.synchronize(runtime);
            }
        }
    }
    allocate::free_device(runtime, pointer as u64, false)
}

pub unsafe fn hipMallocAsync(
    pointer: *mut *mut c_void,
    bytes: usize,
    stream: hipStream_t,
) -> Result {
    let runtime = runtime()?;
    let device = &runtime.devices[runtime.stream(stream)?.device];
    let pools = DEVICE_POOLS.of(runtime, device);
    let pool = pools.current.load(Ordering::Relaxed) as hipMemPool_t;
    // SAFETY: the program's promise.
    unsafe { hipMallocFromPoolAsync(pointer, bytes, pool, stream) }
}

pub unsafe fn hipMallocFromPoolAsync(
    pointer: *mut *mut c_void,
    bytes: usize,
    pool: hipMemPool_t,
    stream: hipStream_t,
) -> Result {
    let runtime = runtime()?;
    let stream = runtime.stream(stream)?;
    let allocate = || {
        if bytes == 0 {
            POOLS.get(pool)?;
            return Ok(0);
        }
        if stream.capture_info().is_none() {
            return allocate::allocate_from_pool(runtime, pool, bytes);
        }
        // The graph owns the memory: its address is fixed now, and it lives as long as the graph.
        let address = allocate::allocate_device(&runtime.devices[stream.device], bytes)?;
        let allocation = Arc::new(GraphAllocation {
            device: stream.device,
            address,
        });
        stream.submit(runtime, Operation::Allocate(allocation))?;
        Ok(address)
    };
    // SAFETY: the program's promise.
    unsafe { give(pointer, allocate) }
}

pub unsafe fn hipFreeAsync(pointer: *mut c_void, stream: hipStream_t) -> Result {
    let runtime = runtime()?;
    let stream = runtime.stream(stream)?;
    if pointer.is_null() {
        return Ok(());
    }
    if stream.capture_info().is_some() {
        return stream.free_captured(runtime, pointer as u64);
    }
    if late(runtime).is_some()
        && stream
            .submit(runtime, Operation::Free(pointer as u64))
            .is_ok()
    {
        return Ok(());
    }
    // A pending fault must not keep memory from being freed.
    allocate::free_device(runtime, pointer as u64, true)
}

pub unsafe fn hipMallocManaged(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Result {
    let runtime = runtime()?;
    refuse_during_capture()?;
    // Attached to the whole process or to the host; single streams are not supported by HIP either.
    if !matches!(flags, 1 | 2) {
        return Err(HipError::new(
            Code::InvalidValue,
            format!("managed memory flags {flags:#x}"),
        ));
    }
    runtime.current().healthy()?;
    let allocate = || match bytes {
        0 => Err(Code::InvalidValue.into()),
        _ => host_memory::allocate_host(runtime, bytes, flags, true),
    };
    // SAFETY: the program's promise.
    unsafe { give(pointer, allocate) }
}

/// Managed memory is the host's: there is nothing to move, only arguments to check.
fn check_managed(runtime: &Runtime, pointer: *const c_void, bytes: usize, device: c_int) -> Result {
    const HOST: c_int = -1;
    if device != HOST {
        runtime.device(device)?;
    }
    let address = pointer as u64;
    let inside = host_memory::host_block(address, |block| {
        block.managed && bytes as u64 <= block.address + block.bytes - address
    });
    match inside {
        Some(true) if bytes > 0 => Ok(()),
        _ => Err(HipError::new(
            Code::InvalidValue,
            format!("{bytes} bytes at {address:#x} are not inside managed memory"),
        )),
    }
}

pub unsafe fn hipMemPrefetchAsync(
    pointer: *const c_void,
    bytes: usize,
    device: c_int,
    stream: hipStream_t,
) -> Result {
    let runtime = runtime()?;
    runtime.stream(stream)?;
    check_managed(runtime, pointer, bytes, device)
}

pub unsafe fn hipMemAdvise(
    pointer: *const c_void,
    bytes: usize,
    _advice: c_uint,
    device: c_int,
) -> Result {
    check_managed(runtime()?, pointer, bytes, device)
}

pub unsafe fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Result {
    let runtime = runtime()?;
    refuse_during_capture()?;
    runtime.current().healthy()?;
    let allocate = || match bytes {
        0 => Ok(0),
        _ => host_memory::allocate_host(runtime, bytes, flags, false),
    };
    // SAFETY: the program's promise.
    unsafe { give(pointer, allocate) }
}

pub unsafe fn hipHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipHostMalloc(pointer, bytes, flags) }
}

pub unsafe fn hipMallocHost(pointer: *mut *mut c_void, bytes: usize) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipHostMalloc(pointer, bytes, 0) }
}

pub unsafe fn hipMemAllocHost(pointer: *mut *mut c_void, bytes: usize) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipHostMalloc(pointer, bytes, 0) }
}

pub unsafe fn hipHostFree(pointer: *mut c_void) -> Result {
    runtime()?;
    match pointer.is_null() {
        true => Ok(()),
        false => remove_host_block(pointer, true),
    }
}

/// Host memory may be in use by work that is late.
fn remove_host_block(pointer: *mut c_void, owned: bool) -> Result {
    let runtime = runtime()?;
    if let Some(late) = late(runtime) {
        let devices = runtime.devices.iter();
        devices.for_each(|device| late.synchronize_device(runtime, device));
    }
    host_memory::remove_host_block(runtime, pointer as u64, owned)
}

pub unsafe fn hipFreeHost(pointer: *mut c_void) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipHostFree(pointer) }
}

pub unsafe fn hipHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) -> Result {
    host_memory::register_host(runtime()?, pointer as u64, bytes as u64, flags)
}

pub unsafe fn hipHostUnregister(pointer: *mut c_void) -> Result {
    remove_host_block(pointer, false)
}

pub unsafe fn hipHostGetDevicePointer(
    device_pointer: *mut *mut c_void,
    host: *mut c_void,
    _flags: c_uint,
) -> Result {
    runtime()?;
    let found = host_memory::host_block(host as u64, |_| ());
    found.ok_or_else(|| {
        HipError::new(
            Code::InvalidValue,
            format!("{host:p} is not pinned host memory"),
        )
    })?;
    // SAFETY: the program's promise. Host memory has one address everywhere.
    unsafe { out(device_pointer, host) }
}

pub unsafe fn hipHostGetFlags(flags: *mut c_uint, host: *mut c_void) -> Result {
    runtime()?;
    let found = host_memory::host_block(host as u64, |block| block.flags);
    let found = found.ok_or_else(|| {
        HipError::new(
            Code::InvalidValue,
            format!("{host:p} is not pinned host memory"),
        )
    })?;
    // SAFETY: the program's promise.
    unsafe { out(flags, found) }
}

pub unsafe fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Result {
    let memory = &runtime()?.current().memory;
    // SAFETY: the program's promise.
    unsafe {
        optional_out(free, memory.total().saturating_sub(memory.used()) as usize)?;
        optional_out(total, memory.total() as usize)
    }
}

pub unsafe fn hipMemPtrGetInfo(pointer: *mut c_void, bytes: *mut usize) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipMemGetAddressRange(std::ptr::null_mut(), bytes, pointer) }
}

fn attributes(runtime: &Runtime, pointer: *const c_void) -> hipPointerAttribute_t {
    const HOST: c_uint = 1;
    const DEVICE: c_uint = 2;
    const MANAGED: c_uint = 3;
    let address = pointer as u64;
    let pointer = pointer.cast_mut();
    let known = host_memory::host_block(address, |block| hipPointerAttribute_t {
        type_: if block.managed { MANAGED } else { HOST },
        device: block.device as c_int,
        devicePointer: pointer,
        hostPointer: pointer,
        isManaged: c_int::from(block.managed),
        allocationFlags: block.flags,
    });
    let known = known.or_else(|| {
        runtime.owner(address).map(|device| hipPointerAttribute_t {
            type_: DEVICE,
            device: device.index as c_int,
            devicePointer: pointer,
            hostPointer: std::ptr::null_mut(),
            isManaged: 0,
            allocationFlags: 0,
        })
    });
    // hipMemoryTypeUnregistered, as HIP 7 has it for memory that it does not know.
    known.unwrap_or(hipPointerAttribute_t {
        type_: 0,
        device: -2,
        devicePointer: std::ptr::null_mut(),
        hostPointer: std::ptr::null_mut(),
        isManaged: 0,
        allocationFlags: 0,
    })
}

pub unsafe fn hipPointerGetAttributes(
    to: *mut hipPointerAttribute_t,
    pointer: *const c_void,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(to, attributes(runtime()?, pointer)) }
}

pub unsafe fn hipPointerGetAttribute(
    data: *mut c_void,
    attribute: hipPointer_attribute,
    pointer: hipDeviceptr_t,
) -> Result {
    let runtime = runtime()?;
    let found = attributes(runtime, pointer);
    if found.type_ == 0 {
        return Err(HipError::new(
            Code::InvalidValue,
            format!("{pointer:p} is memory that HIP does not know"),
        ));
    }
    let range = runtime
        .owner(pointer as u64)
        .and_then(|device| device.memory.lookup(pointer as u64))
        .ok_or(Code::InvalidValue)?;
    // SAFETY: the program gives room for the attribute's type.
    unsafe {
        match attribute {
            1 => out(
                data.cast(),
                runtime
                    .devices
                    .get(found.device as usize)
                    .map_or(0, |device| device.index as u64),
            ),
            2 => out(data.cast(), found.type_),
            3 => out(data.cast(), found.devicePointer),
            4 if !found.hostPointer.is_null() => out(data.cast(), found.hostPointer),
            8 => out(data.cast(), found.isManaged != 0),
            9 => out(data.cast(), found.device),
            11 => out(data.cast(), range.base),
            12 => out(data.cast(), range.size as usize),
            13 => out(data.cast(), true),
            _ => Err(HipError::new(
                Code::InvalidValue,
                format!("pointer attribute {attribute}"),
            )),
        }
    }
}

pub unsafe fn hipMemGetAddressRange(
    base: *mut hipDeviceptr_t,
    bytes: *mut usize,
    pointer: hipDeviceptr_t,
) -> Result {
    let address = pointer as u64;
    let info = runtime()?
        .owner(address)
        .and_then(|device| device.memory.lookup(address))
        .ok_or_else(|| {
            HipError::new(
                Code::InvalidDevicePointer,
                format!("{address:#x} is in no allocation"),
            )
        })?;
    // SAFETY: the program's promise.
    unsafe {
        optional_out(base, info.base as hipDeviceptr_t)?;
        optional_out(bytes, info.size as usize)
    }
}
