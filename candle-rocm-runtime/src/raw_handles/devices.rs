//! GPUs, their contexts, and what they are to each other.
#![allow(non_snake_case)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use super::same::same;
use crate::base::cuda_names::CUdeviceptr;
use crate::base::cuda_names::{
    CUcontext, CUdevice, CUgraphMem_attribute, CUresult, CUstream, CUuuid,
};
use crate::base::enqueued;
use crate::base::error::{Error, Result};
use crate::base::hip::calls::optional;
use crate::device::gpu::Device;
use crate::driver_api::{device, given, written};
use crate::foreign::current_device;
use crate::runtime;
use crate::stream::context::Context;

/// A GPU's context. Null for none.
fn handle_of(device: &Device) -> CUcontext {
    (device.ordinal() + 1) as CUcontext
}

/// The GPU of a context.
fn of_context(context: CUcontext) -> Result<&'static Arc<Device>> {
    match (context as usize).checked_sub(1) {
        Some(ordinal) => runtime::current()?.device(ordinal),
        None => Err(Error::invalid("a null context")),
    }
}

impl Context {
    /// The handle of the GPU's context, under cudarc's name: HIP has one for each GPU of a process.
    pub fn cu_ctx(&self) -> CUcontext {
        handle_of(self.device())
    }
}

/// The context of the thread's current GPU.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuCtxGetCurrent(context: *mut CUcontext) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(context, || current_device().map(|device| handle_of(device))) }
}

/// Makes a context's GPU the thread's current one. A null context changes nothing: HIP's threads always have one.
///
/// # Safety
/// None is needed; CUDA's is C.
pub unsafe fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    given(match context.is_null() {
        true => Ok(()),
        false => of_context(context).and_then(|device| device.bind()),
    })
}

/// The thread's current GPU.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuCtxGetDevice(number: *mut CUdevice) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(number, || Ok(current_device()?.ordinal() as CUdevice)) }
}

/// The context of a GPU, which lives as long as the process.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, number: CUdevice) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(context, || Ok(handle_of(device(number)?))) }
}

/// Changes nothing: a GPU's context lives as long as the process.
///
/// # Safety
/// None is needed; CUDA's is C.
pub unsafe fn cuDevicePrimaryCtxRelease_v2(number: CUdevice) -> CUresult {
    given(device(number).map(drop))
}

/// What tells a GPU from every other.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuDeviceGetUuid(uuid: *mut CUuuid, number: CUdevice) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(uuid, || device(number)?.uuid()) }
}

/// What tells a GPU, or a part of it, from every other.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, number: CUdevice) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { cuDeviceGetUuid(uuid, number) }
}

/// A GPU's marketing name, cut to fit, with a NUL.
///
/// # Safety
/// There is room for so many bytes.
pub unsafe fn cuDeviceGetName(name: *mut c_char, bytes: c_int, number: CUdevice) -> CUresult {
    let get = || {
        let text = device(number)?.info().name.as_bytes();
        let Some(room) = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| bytes.checked_sub(1))
        else {
            return Err(Error::invalid(format!("a name in {bytes} bytes")));
        };
        let length = text.len().min(room);
        // SAFETY: the caller's promise.
        unsafe {
            name.copy_from_nonoverlapping(text.as_ptr().cast(), length);
            name.add(length).write(0);
        }
        Ok(())
    };
    given(get())
}

/// The name of a GPU's place on the bus, cut to fit, with a NUL.
///
/// # Safety
/// There is room for so many bytes.
pub unsafe fn cuDeviceGetPCIBusId(text: *mut c_char, bytes: c_int, number: CUdevice) -> CUresult {
    let get = || {
        let hip = device(number)?.hip();
        let get = optional!(hip, hipDeviceGetPCIBusId)?;
        // SAFETY: the caller's promise.
        let status = unsafe { get(text, bytes, number) };
        hip.check(status, || "cuDeviceGetPCIBusId")
    };
    given(get())
}

/// Gives memory back that no graph uses. There is none: a graph's memory returns to the pool with the graph.
///
/// # Safety
/// None is needed; CUDA's is C.
pub unsafe fn cuDeviceGraphMemTrim(number: CUdevice) -> CUresult {
    given(device(number).map(drop))
}

/// Bytes that the graphs of a GPU keep.
///
/// # Safety
/// The place is that of a u64.
pub unsafe fn cuDeviceGetGraphMemAttribute(
    number: CUdevice,
    attribute: CUgraphMem_attribute,
    value: *mut c_void,
) -> CUresult {
    use CUgraphMem_attribute as Attribute;
    let ask = || match attribute {
        Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
        | Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT => {
            let pool = device(number)?.existing_pool();
            Ok(pool.map_or(0, |pool| pool.statistics().held_by_graphs) as u64)
        }
        _ => Err(Error::unsupported(format!(
            "{attribute:?}, which nobody counts"
        ))),
    };
    // SAFETY: the caller's promise.
    unsafe { written(value.cast::<u64>(), ask) }
}

/// Lets the thread's current GPU use the memory of another's. Where it does already, `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
///
/// # Safety
/// None is needed; CUDA's is C.
pub unsafe fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) -> CUresult {
    let enable = || {
        let peer = of_context(peer)?;
        let hip = peer.hip();
        let enable = optional!(hip, hipDeviceEnablePeerAccess)?;
        // SAFETY: any GPU may be asked for.
        let status = unsafe { enable(peer.ordinal() as c_int, flags) };
        hip.check(status, || "cuCtxEnablePeerAccess")
    };
    given(enable())
}

/// Copies from one GPU to another, in the stream's order.
///
/// # Safety
/// Both addresses have so many bytes, and the stream is alive.
pub unsafe fn cuMemcpyPeerAsync(
    to: CUdeviceptr,
    to_context: CUcontext,
    from: CUdeviceptr,
    from_context: CUcontext,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    let copy = || {
        let (to_gpu, from_gpu) = (of_context(to_context)?, of_context(from_context)?);
        let hip = to_gpu.hip();
        let copy = optional!(hip, hipMemcpyPeerAsync)?;
        enqueued::note(|noted| noted.copies += 1);
        let (to, from) = (to as *mut c_void, from as *const c_void);
        let (to_gpu, from_gpu) = (to_gpu.ordinal() as c_int, from_gpu.ordinal() as c_int);
        // SAFETY: the caller's promise.
        let status = unsafe { copy(to, to_gpu, from, from_gpu, bytes, stream) };
        hip.check(status, || "cuMemcpyPeerAsync")
    };
    given(copy())
}

same! {
    /// Whether a GPU can use the memory of another: 1, or 0.
    cuDeviceCanAccessPeer(can: *mut c_int, number: CUdevice, peer: CUdevice)
        => [optional] hipDeviceCanAccessPeer(can, number, peer);
}
