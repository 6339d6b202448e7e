//! Memory.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::prelude::*;
use crate::hip::allocate::{self, Pool, DEVICE_POOLS, POOLS};
use crate::hip::capture::refuse_during_capture;
use crate::hip::copy::Rectangle;
use crate::hip::host_memory;
use crate::hip::operation::{GraphAllocation, Operation};
use crate::hip::registry::Registry;
use crate::hip::state::{runtime, Runtime};
use crate::hip::stream::Stream;

const DEFAULT_KIND: hipMemcpyKind = 4;
const HOST_TO_DEVICE: hipMemcpyKind = 1;
const DEVICE_TO_HOST: hipMemcpyKind = 2;
const DEVICE_TO_DEVICE: hipMemcpyKind = 3;
/// The null stream.
const NULL_STREAM: hipStream_t = std::ptr::null_mut();

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
    let runtime = runtime()?;
    match pointer.is_null() {
        true => Ok(()),
        false => host_memory::remove_host_block(runtime, pointer as u64, true),
    }
}

pub unsafe fn hipFreeHost(pointer: *mut c_void) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipHostFree(pointer) }
}

pub unsafe fn hipHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) -> Result {
    host_memory::register_host(runtime()?, pointer as u64, bytes as u64, flags)
}

pub unsafe fn hipHostUnregister(pointer: *mut c_void) -> Result {
    host_memory::remove_host_block(runtime()?, pointer as u64, false)
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

/// Do an operation on the null stream, and wait: what the functions without `Async` do.
fn now(operation: Operation) -> Result {
    let runtime = runtime()?;
    refuse_during_capture()?;
    runtime.stream(NULL_STREAM)?.submit(runtime, operation)
}

fn enqueue(stream: hipStream_t, operation: Operation) -> Result {
    let runtime = runtime()?;
    runtime.stream(stream)?.submit(runtime, operation)
}

pub unsafe fn hipMemcpy(
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Result {
    now(Operation::Copy(Rectangle::plain(dst, src, bytes, kind)?))
}

pub unsafe fn hipMemcpyAsync(
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> Result {
    enqueue(
        stream,
        Operation::Copy(Rectangle::plain(dst, src, bytes, kind)?),
    )
}

pub unsafe fn hipMemcpyWithStream(
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> Result {
    let runtime = runtime()?;
    // It waits for the stream, which a capture forbids.
    let stream: Arc<Stream> = runtime.stream(stream)?;
    stream.synchronize(runtime)?;
    stream.submit(
        runtime,
        Operation::Copy(Rectangle::plain(dst, src, bytes, kind)?),
    )
}

pub unsafe fn hipMemcpyHtoD(dst: hipDeviceptr_t, src: *const c_void, bytes: usize) -> Result {
    now(Operation::Copy(Rectangle::plain(
        dst,
        src,
        bytes,
        HOST_TO_DEVICE,
    )?))
}

pub unsafe fn hipMemcpyDtoH(dst: *mut c_void, src: hipDeviceptr_t, bytes: usize) -> Result {
    now(Operation::Copy(Rectangle::plain(
        dst,
        src,
        bytes,
        DEVICE_TO_HOST,
    )?))
}

pub unsafe fn hipMemcpyDtoD(dst: hipDeviceptr_t, src: hipDeviceptr_t, bytes: usize) -> Result {
    now(Operation::Copy(Rectangle::plain(
        dst,
        src,
        bytes,
        DEVICE_TO_DEVICE,
    )?))
}

pub unsafe fn hipMemcpyHtoDAsync(
    dst: hipDeviceptr_t,
    src: *const c_void,
    bytes: usize,
    stream: hipStream_t,
) -> Result {
    enqueue(
        stream,
        Operation::Copy(Rectangle::plain(dst, src, bytes, HOST_TO_DEVICE)?),
    )
}

pub unsafe fn hipMemcpyDtoHAsync(
    dst: *mut c_void,
    src: hipDeviceptr_t,
    bytes: usize,
    stream: hipStream_t,
) -> Result {
    enqueue(
        stream,
        Operation::Copy(Rectangle::plain(dst, src, bytes, DEVICE_TO_HOST)?),
    )
}

pub unsafe fn hipMemcpyDtoDAsync(
    dst: hipDeviceptr_t,
    src: hipDeviceptr_t,
    bytes: usize,
    stream: hipStream_t,
) -> Result {
    enqueue(
        stream,
        Operation::Copy(Rectangle::plain(dst, src, bytes, DEVICE_TO_DEVICE)?),
    )
}

pub unsafe fn hipMemcpyPeer(
    dst: *mut c_void,
    dst_device: c_int,
    src: *const c_void,
    src_device: c_int,
    bytes: usize,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipMemcpyPeerAsync(dst, dst_device, src, src_device, bytes, NULL_STREAM) }
}

pub unsafe fn hipMemcpyPeerAsync(
    dst: *mut c_void,
    dst_device: c_int,
    src: *const c_void,
    src_device: c_int,
    bytes: usize,
    stream: hipStream_t,
) -> Result {
    let runtime = runtime()?;
    runtime.device(dst_device)?;
    runtime.device(src_device)?;
    enqueue(
        stream,
        Operation::Copy(Rectangle::plain(dst, src, bytes, DEVICE_TO_DEVICE)?),
    )
}

pub unsafe fn hipMemcpy2D(
    dst: *mut c_void,
    dst_pitch: usize,
    src: *const c_void,
    src_pitch: usize,
    width: usize,
    height: usize,
    kind: hipMemcpyKind,
) -> Result {
    let copy = Rectangle::new(dst, dst_pitch, src, src_pitch, width, height, kind)?;
    now(Operation::Copy(copy))
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn hipMemcpy2DAsync(
    dst: *mut c_void,
    dst_pitch: usize,
    src: *const c_void,
    src_pitch: usize,
    width: usize,
    height: usize,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> Result {
    let copy = Rectangle::new(dst, dst_pitch, src, src_pitch, width, height, kind)?;
    enqueue(stream, Operation::Copy(copy))
}

/// A fill of consecutive elements of 1, 2 or 4 bytes.
fn fill(dst: *mut c_void, value: u32, width: usize, count: usize) -> Result<Operation> {
    if dst as usize % width != 0 {
        return Err(HipError::new(
            Code::InvalidValue,
            format!("{dst:p} is not aligned to the {width}-byte pattern"),
        ));
    }
    Ok(Operation::Fill {
        address: dst as u64,
        pitch: 0,
        rows: 1,
        pattern: value.to_le_bytes(),
        width,
        count: count as u64,
    })
}

pub unsafe fn hipMemset(dst: *mut c_void, value: c_int, bytes: usize) -> Result {
    now(fill(dst, value as u32, 1, bytes)?)
}

pub unsafe fn hipMemsetAsync(
    dst: *mut c_void,
    value: c_int,
    bytes: usize,
    stream: hipStream_t,
) -> Result {
    enqueue(stream, fill(dst, value as u32, 1, bytes)?)
}

pub unsafe fn hipMemsetD8(dst: hipDeviceptr_t, value: c_uchar, count: usize) -> Result {
    now(fill(dst, value.into(), 1, count)?)
}

pub unsafe fn hipMemsetD8Async(
    dst: hipDeviceptr_t,
    value: c_uchar,
    count: usize,
    stream: hipStream_t,
) -> Result {
    enqueue(stream, fill(dst, value.into(), 1, count)?)
}

pub unsafe fn hipMemsetD16(dst: hipDeviceptr_t, value: c_ushort, count: usize) -> Result {
    now(fill(dst, value.into(), 2, count)?)
}

pub unsafe fn hipMemsetD16Async(
    dst: hipDeviceptr_t,
    value: c_ushort,
    count: usize,
    stream: hipStream_t,
) -> Result {
    enqueue(stream, fill(dst, value.into(), 2, count)?)
}

pub unsafe fn hipMemsetD32(dst: hipDeviceptr_t, value: c_int, count: usize) -> Result {
    now(fill(dst, value as u32, 4, count)?)
}

pub unsafe fn hipMemsetD32Async(
    dst: hipDeviceptr_t,
    value: c_int,
    count: usize,
    stream: hipStream_t,
) -> Result {
    enqueue(stream, fill(dst, value as u32, 4, count)?)
}

fn fill_rows(
    dst: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> Result<Operation> {
    if height > 1 && pitch < width {
        return Err(Code::InvalidPitchValue.into());
    }
    Ok(Operation::Fill {
        address: dst as u64,
        pitch: pitch as u64,
        rows: height as u64,
        pattern: value.to_le_bytes(),
        width: 1,
        count: width as u64,
    })
}

pub unsafe fn hipMemset2D(
    dst: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> Result {
    now(fill_rows(dst, pitch, value, width, height)?)
}

pub unsafe fn hipMemset2DAsync(
    dst: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    stream: hipStream_t,
) -> Result {
    enqueue(stream, fill_rows(dst, pitch, value, width, height)?)
}

fn symbol_of(symbol: *const c_void) -> Result<(u64, u64)> {
    let runtime = runtime()?;
    Registry::get().variable(runtime.current(), symbol)
}

/// The device address of a range of a symbol.
fn symbol_range(symbol: *const c_void, offset: usize, bytes: usize) -> Result<*mut c_void> {
    let (address, size) = symbol_of(symbol)?;
    let end = (offset as u64).checked_add(bytes as u64);
    match end {
        Some(end) if end <= size => Ok((address + offset as u64) as *mut c_void),
        _ => Err(HipError::new(
            Code::InvalidValue,
            format!("{bytes} bytes at offset {offset} of a variable of {size} bytes"),
        )),
    }
}

pub unsafe fn hipGetSymbolAddress(pointer: *mut *mut c_void, symbol: *const c_void) -> Result {
    let (address, _) = symbol_of(symbol)?;
    // SAFETY: the program's promise.
    unsafe { out(pointer, address as *mut c_void) }
}

pub unsafe fn hipGetSymbolSize(bytes: *mut usize, symbol: *const c_void) -> Result {
    let (_, size) = symbol_of(symbol)?;
    // SAFETY: the program's promise.
    unsafe { out(bytes, size as usize) }
}

fn to_symbol(
    symbol: *const c_void,
    src: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result<Operation> {
    if !matches!(kind, HOST_TO_DEVICE | DEVICE_TO_DEVICE | DEFAULT_KIND) {
        return Err(Code::InvalidMemcpyDirection.into());
    }
    let dst = symbol_range(symbol, offset, bytes)?;
    Ok(Operation::Copy(Rectangle::plain(dst, src, bytes, kind)?))
}

pub unsafe fn hipMemcpyToSymbol(
    symbol: *const c_void,
    src: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result {
    now(to_symbol(symbol, src, bytes, offset, kind)?)
}

pub unsafe fn hipMemcpyToSymbolAsync(
    symbol: *const c_void,
    src: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> Result {
    enqueue(stream, to_symbol(symbol, src, bytes, offset, kind)?)
}

fn from_symbol(
    dst: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result<Operation> {
    if !matches!(kind, DEVICE_TO_HOST | DEVICE_TO_DEVICE | DEFAULT_KIND) {
        return Err(Code::InvalidMemcpyDirection.into());
    }
    let src = symbol_range(symbol, offset, bytes)?;
    Ok(Operation::Copy(Rectangle::plain(dst, src, bytes, kind)?))
}

pub unsafe fn hipMemcpyFromSymbol(
    dst: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result {
    now(from_symbol(dst, symbol, bytes, offset, kind)?)
}

pub unsafe fn hipMemcpyFromSymbolAsync(
    dst: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
    stream: hipStream_t,
) -> Result {
    enqueue(stream, from_symbol(dst, symbol, bytes, offset, kind)?)
}

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
