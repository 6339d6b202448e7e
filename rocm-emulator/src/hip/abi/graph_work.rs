//! What a graph's node does: from HIP's structures, and back.

use std::sync::Arc;

use super::boxes::{box_of, driver_box_of};
use super::copy::{from_symbol, to_symbol};
use super::prelude::*;
use crate::hip::copy::Rectangle;
use crate::hip::event::EVENTS;
use crate::hip::graph::Work;
use crate::hip::launch::{Geometry, KernelLaunch};
use crate::hip::operation::{HostFunction, Operation};
use crate::hip::registry::Registry;
use crate::hip::state::runtime;

fn refuse<T>(what: impl Into<String>) -> Result<T> {
    Err(HipError::new(Code::InvalidValue, what))
}

/// A kernel on a device.
pub fn kernel(device: usize, params: &hipKernelNodeParams) -> Result<Work> {
    let device = &runtime()?.devices[device];
    let (_, function) = Registry::get().function(device, params.func)?;
    let (grid, block) = (params.gridDim, params.blockDim);
    let geometry = Geometry {
        grid: [grid.x, grid.y, grid.z],
        block: [block.x, block.y, block.z],
        dynamic_lds: params.sharedMemBytes.into(),
    };
    let function = (params.func as u64, function);
    let launch = KernelLaunch::new(function, geometry, params.kernelParams, params.extra, false)?;
    Ok(Work::Do(Operation::Kernel(Arc::new(launch))))
}

/// The parameters of a kernel's node; the arguments stay where they are for as long as the node has them.
pub fn kernel_params(work: &Work) -> Result<hipKernelNodeParams> {
    let Work::Do(Operation::Kernel(launch)) = work else {
        return refuse("the node is no kernel");
    };
    let Geometry {
        grid,
        block,
        dynamic_lds,
    } = launch.geometry();
    let sizes = |[x, y, z]: [u32; 3]| dim3 { x, y, z };
    Ok(hipKernelNodeParams {
        blockDim: sizes(block),
        extra: std::ptr::null_mut(),
        func: launch.named() as *mut c_void,
        gridDim: sizes(grid),
        kernelParams: launch.parameters() as *mut *mut c_void,
        sharedMemBytes: dynamic_lds as c_uint,
    })
}

/// A copy of consecutive bytes.
pub fn copy_1d(
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Result<Work> {
    let copy = Rectangle::plain(dst, src, bytes, kind)?;
    Ok(Work::Do(Operation::Copy(copy)))
}

/// A copy to a variable.
pub fn copy_to_symbol(
    symbol: *const c_void,
    src: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result<Work> {
    to_symbol(symbol, src, bytes, offset, kind).map(Work::Do)
}

/// A copy from a variable.
pub fn copy_from_symbol(
    dst: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result<Work> {
    from_symbol(dst, symbol, bytes, offset, kind).map(Work::Do)
}

/// A copy of rows and planes.
pub fn copy(params: &hipMemcpy3DParms) -> Result<Work> {
    box_of(params).map(|copy| Work::Do(Operation::Copy(copy)))
}

/// The parameters of a copy's node.
pub fn copy_params(work: &Work) -> Result<hipMemcpy3DParms> {
    let Work::Do(Operation::Copy(copy)) = work else {
        return refuse("the node is no copy");
    };
    let memory = |at: u64, pitch: u64, plane: u64| hipPitchedPtr {
        ptr: at as *mut c_void,
        pitch: pitch as usize,
        xsize: pitch as usize,
        ysize: plane.checked_div(pitch).unwrap_or(0) as usize,
    };
    Ok(hipMemcpy3DParms {
        srcArray: std::ptr::null_mut(),
        srcPos: hipPos::default(),
        srcPtr: memory(copy.from, copy.from_pitch, copy.from_plane),
        dstArray: std::ptr::null_mut(),
        dstPos: hipPos::default(),
        dstPtr: memory(copy.to, copy.to_pitch, copy.to_plane),
        extent: hipExtent {
            width: copy.width as usize,
            height: copy.rows as usize,
            depth: copy.planes as usize,
        },
        kind: copy.kind(),
    })
}

/// A copy of rows and planes, as the driver's functions describe it.
pub fn driver_copy(params: &HIP_MEMCPY3D) -> Result<Work> {
    driver_box_of(params).map(|copy| Work::Do(Operation::Copy(copy)))
}

/// A fill of rows.
pub fn fill(params: &hipMemsetParams) -> Result<Work> {
    let size = params.elementSize as usize;
    if !matches!(size, 1 | 2 | 4) {
        return refuse(format!("a fill with elements of {size} bytes"));
    }
    if params.dst.is_null() || params.width == 0 || params.height == 0 {
        return refuse("a fill of nothing");
    }
    let row = params.width.saturating_mul(size);
    if params.height > 1 && params.pitch < row {
        return refuse(format!("rows of {row} bytes, {} apart", params.pitch));
    }
    if !(params.dst as usize).is_multiple_of(size) || !params.pitch.is_multiple_of(size) {
        return refuse(format!(
            "a fill that is not aligned to its elements of {size} bytes"
        ));
    }
    Ok(Work::Do(Operation::Fill {
        address: params.dst as u64,
        pitch: params.pitch as u64,
        rows: params.height as u64,
        pattern: params.value.to_le_bytes(),
        width: size,
        count: params.width as u64,
    }))
}

/// The same as the driver's functions describe it.
pub fn of_driver_fill(params: &HIP_MEMSET_NODE_PARAMS) -> hipMemsetParams {
    hipMemsetParams {
        dst: params.dst,
        elementSize: params.elementSize,
        height: params.height,
        pitch: params.pitch,
        value: params.value,
        width: params.width,
    }
}

/// The parameters of a fill's node.
pub fn fill_params(work: &Work) -> Result<hipMemsetParams> {
    let Work::Do(Operation::Fill {
        address,
        pitch,
        rows,
        pattern,
        width,
        count,
    }) = work
    else {
        return refuse("the node is no fill");
    };
    Ok(hipMemsetParams {
        dst: *address as *mut c_void,
        elementSize: *width as c_uint,
        height: *rows as usize,
        pitch: *pitch as usize,
        value: u32::from_le_bytes(*pattern),
        width: *count as usize,
    })
}

/// A call of the program.
pub fn host(params: &hipHostNodeParams) -> Result<Work> {
    Ok(Work::Do(Operation::Host {
        function: HostFunction::Plain(params.fn_.ok_or(Code::InvalidValue)?),
        data: params.userData as u64,
    }))
}

/// The parameters of a call's node.
pub fn host_params(work: &Work) -> Result<hipHostNodeParams> {
    match work {
        Work::Do(Operation::Host {
            function: HostFunction::Plain(function),
            data,
        }) => Ok(hipHostNodeParams {
            fn_: Some(*function),
            userData: *data as *mut c_void,
        }),
        _ => refuse("the node is no call of a host function"),
    }
}

/// The record of an event.
pub fn record(event: hipEvent_t) -> Result<Work> {
    let found = EVENTS.get(event).map_err(|_| Code::InvalidValue)?;
    Ok(Work::Do(Operation::Record(found, event as u64)))
}

/// The wait for an event.
pub fn wait(event: hipEvent_t) -> Result<Work> {
    EVENTS.get(event).map_err(|_| Code::InvalidValue)?;
    Ok(Work::Do(Operation::Wait(event as u64)))
}
