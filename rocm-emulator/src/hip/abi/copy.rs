//! Copies and fills, on streams and of symbols.

use std::sync::Arc;

use super::boxes::{box_of, driver_box_of};
use super::prelude::*;
use crate::hip::capture::refuse_during_capture;
use crate::hip::copy::Rectangle;
use crate::hip::operation::Operation;
use crate::hip::registry::Registry;
use crate::hip::state::runtime;
use crate::hip::stream::Stream;

const DEFAULT_KIND: hipMemcpyKind = 4;
const HOST_TO_DEVICE: hipMemcpyKind = 1;
const DEVICE_TO_HOST: hipMemcpyKind = 2;
const DEVICE_TO_DEVICE: hipMemcpyKind = 3;
/// The null stream.
const NULL_STREAM: hipStream_t = std::ptr::null_mut();

/// Do an operation on the null stream, and wait: what the functions without `Async` do.
fn now(operation: Operation) -> Result {
    let runtime = runtime()?;
    refuse_during_capture()?;
    let stream = runtime.stream(NULL_STREAM)?;
    stream.submit(runtime, operation)?;
    stream.finish(runtime)
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
    )?;
    stream.finish(runtime)
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
    unsafe { hipMemcpyPeerAsync(dst, dst_device, src, src_device, bytes, NULL_STREAM) }?;
    let runtime = runtime()?;
    runtime.stream(NULL_STREAM)?.finish(runtime)
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

pub unsafe fn hipMemcpy3D(params: *const hipMemcpy3DParms) -> Result {
    // SAFETY: the program's promise.
    now(Operation::Copy(box_of(&unsafe { read(params) }?)?))
}

pub unsafe fn hipMemcpy3DAsync(params: *const hipMemcpy3DParms, stream: hipStream_t) -> Result {
    // SAFETY: the program's promise.
    enqueue(stream, Operation::Copy(box_of(&unsafe { read(params) }?)?))
}

pub unsafe fn hipDrvMemcpy3D(params: *const HIP_MEMCPY3D) -> Result {
    // SAFETY: the program's promise.
    now(Operation::Copy(driver_box_of(&unsafe { read(params) }?)?))
}

pub unsafe fn hipDrvMemcpy3DAsync(params: *const HIP_MEMCPY3D, stream: hipStream_t) -> Result {
    // SAFETY: the program's promise.
    enqueue(
        stream,
        Operation::Copy(driver_box_of(&unsafe { read(params) }?)?),
    )
}

/// A fill of consecutive elements of 1, 2 or 4 bytes.
fn fill(dst: *mut c_void, value: u32, width: usize, count: usize) -> Result<Operation> {
    if !(dst as usize).is_multiple_of(width) {
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

/// The copy to a range of a symbol.
pub fn to_symbol(
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

/// The copy from a range of a symbol.
pub fn from_symbol(
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
