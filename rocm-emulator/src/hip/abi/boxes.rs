//! Copies of rows and planes, from the structures that describe them.

use super::prelude::*;
use crate::hip::copy::Rectangle;

/// A copy as the runtime's functions describe it.
pub fn box_of(params: &hipMemcpy3DParms) -> Result<Rectangle> {
    if !params.srcArray.is_null() || !params.dstArray.is_null() {
        return Err(HipError::new(
            Code::NotSupported,
            "copies from and to arrays: the emulator has no textures",
        ));
    }
    let first = |memory: &hipPitchedPtr, at: &hipPos| {
        let rows = at.z.wrapping_mul(memory.ysize).wrapping_add(at.y);
        let offset = rows.wrapping_mul(memory.pitch).wrapping_add(at.x);
        memory.ptr.wrapping_byte_add(offset)
    };
    let plane = |memory: &hipPitchedPtr| memory.pitch.wrapping_mul(memory.ysize);
    let hipExtent {
        width,
        height,
        depth,
    } = params.extent;
    let copy = Rectangle::new(
        first(&params.dstPtr, &params.dstPos),
        params.dstPtr.pitch,
        first(&params.srcPtr, &params.srcPos),
        params.srcPtr.pitch,
        width,
        height,
        params.kind,
    )?;
    Ok(copy.with_planes(depth, plane(&params.dstPtr), plane(&params.srcPtr)))
}

/// `hipMemoryType`.
const MEMORY_HOST: hipMemoryType = 1;
const MEMORY_DEVICE: hipMemoryType = 2;
const MEMORY_UNIFIED: hipMemoryType = 11;

/// A copy as the driver's functions describe it.
pub fn driver_box_of(params: &HIP_MEMCPY3D) -> Result<Rectangle> {
    let memory = |memory: hipMemoryType, host: *mut c_void, device: *mut c_void| match memory {
        MEMORY_HOST => Ok(host),
        MEMORY_DEVICE | MEMORY_UNIFIED => Ok(device),
        other => Err(HipError::new(
            Code::InvalidValue,
            format!("copy from or to memory of type {other}"),
        )),
    };
    let (from, to) = (params.srcMemoryType, params.dstMemoryType);
    let kind = match (from, to) {
        (MEMORY_HOST, MEMORY_HOST) => 0,
        (MEMORY_HOST, MEMORY_DEVICE) => 1,
        (MEMORY_DEVICE, MEMORY_HOST) => 2,
        (MEMORY_DEVICE, MEMORY_DEVICE) => 3,
        _ => 4,
    };
    let pitched = |ptr: *mut c_void, pitch: usize, height: usize| hipPitchedPtr {
        ptr,
        pitch: if pitch == 0 {
            params.WidthInBytes
        } else {
            pitch
        },
        xsize: params.WidthInBytes,
        ysize: if height == 0 { params.Height } else { height },
    };
    let source = memory(from, params.srcHost.cast_mut(), params.srcDevice)?;
    let target = memory(to, params.dstHost, params.dstDevice)?;
    box_of(&hipMemcpy3DParms {
        srcArray: std::ptr::null_mut(),
        srcPos: hipPos {
            x: params.srcXInBytes,
            y: params.srcY,
            z: params.srcZ,
        },
        srcPtr: pitched(source, params.srcPitch, params.srcHeight),
        dstArray: std::ptr::null_mut(),
        dstPos: hipPos {
            x: params.dstXInBytes,
            y: params.dstY,
            z: params.dstZ,
        },
        dstPtr: pitched(target, params.dstPitch, params.dstHeight),
        extent: hipExtent {
            width: params.WidthInBytes,
            height: params.Height,
            depth: params.Depth,
        },
        kind,
    })
}
