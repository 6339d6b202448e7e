//! HIP's functions, each by the driver's.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::ptr::NonNull;

use cuda::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};

use super::driver::{allow_shared, attribute_of, driver, error_text, primary, status, write_text};
use crate::base::hip::types::*;

thread_local! {
    /// The device that this thread selected.
    static CURRENT: Cell<c_int> = const { Cell::new(0) };
}

/// Defines HIP's functions, and the lookup by their names.
macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty $body:block)*) => {
        $(
            // SAFETY: as HIP documents the function of this name: pointers are to what it says, handles are live.
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name($($arg: $type),*) -> $result $body
        )*

        pub(super) fn symbol(name: &'static str) -> Option<NonNull<c_void>> {
            let pointer = match name {
                $(stringify!($name) => $name as *mut c_void,)*
                _ => return None,
            };
            NonNull::new(pointer)
        }
    };
}

/// Functions that differ from the driver's in their names alone.
macro_rules! forward {
    ($function:ident($($arg:expr),*)) => {{
        // SAFETY: the arguments are the caller's, who keeps HIP's contract, which for this function is CUDA's.
        status(unsafe { (driver().$function)($($arg),*) })
    }};
}

functions! {
    fn hipInit(flags: c_uint) -> hipError_t {
        forward!(cuInit(flags))
    }
    fn hipGetDeviceCount(count: *mut c_int) -> hipError_t {
        forward!(cuDeviceGetCount(count))
    }
    fn hipSetDevice(device: c_int) -> hipError_t {
        match primary(device) {
            Err(error) => error,
            Ok(primary) => {
                CURRENT.set(device);
                // Asking costs less than setting. It must be asked: other libraries set it too.
                let mut current = std::ptr::null_mut();
                let result = forward!(cuCtxGetCurrent(&mut current));
                if result == HIP_SUCCESS && current == primary.context {
                    return HIP_SUCCESS;
                }
                forward!(cuCtxSetCurrent(primary.context))
            }
        }
    }
    fn hipGetDevice(device: *mut c_int) -> hipError_t {
        // SAFETY: the caller's pointer is writable.
        unsafe { device.write(CURRENT.get()) };
        HIP_SUCCESS
    }
    fn hipGetDevicePropertiesR0600(properties: *mut DeviceProperties, device: c_int) -> hipError_t {
        let primary = match primary(device) {
            Err(error) => return error,
            Ok(primary) => primary,
        };
        let mut name = [0; 256];
        let result = forward!(cuDeviceGetName(name.as_mut_ptr(), 256, primary.device));
        if result != HIP_SUCCESS {
            return result;
        }
        let mut capability = [0; 2];
        for (value, attribute) in capability.iter_mut().zip([
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        ]) {
            let result = forward!(cuDeviceGetAttribute(value, attribute, primary.device));
            if result != HIP_SUCCESS {
                return result;
            }
        }
        let [major, minor] = capability;
        // SAFETY: the driver ended the name with a NUL; the caller's structure has room for both fields.
        unsafe {
            let fields: *mut c_char = properties.cast();
            write_text(fields, 256, CStr::from_ptr(name.as_ptr()).to_bytes());
            let arch = fields.add(DeviceProperties::GCN_ARCH_NAME);
            write_text(arch, 256, format!("sm_{major}{minor}").as_bytes());
        }
        HIP_SUCCESS
    }
    fn hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int) -> hipError_t {
        match (primary(device), attribute_of(attribute)) {
            (Err(error), _) => error,
            (_, None) => HIP_ERROR_INVALID_VALUE,
            (Ok(primary), Some(attribute)) => forward!(cuDeviceGetAttribute(value, attribute, primary.device)),
        }
    }
    fn hipDeviceSynchronize() -> hipError_t {
        forward!(cuCtxSynchronize())
    }
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> hipError_t {
        forward!(cuMemGetInfo_v2(free, total))
    }
    fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) -> hipError_t {
        if bytes == 0 {
            // HIP gives null, CUDA an error.
            // SAFETY: the caller's pointer is writable.
            unsafe { pointer.write(std::ptr::null_mut()) };
            return HIP_SUCCESS;
        }
        forward!(cuMemAlloc_v2(pointer.cast(), bytes))
    }
    fn hipFree(pointer: *mut c_void) -> hipError_t {
        if pointer.is_null() {
            return HIP_SUCCESS;
        }
        forward!(cuMemFree_v2(pointer as sys::CUdeviceptr))
    }
    fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> hipError_t {
        // The host's memory is always coherent here, and CUDA has no flag for it.
        forward!(cuMemHostAlloc(pointer, bytes, flags & !HOST_COHERENT))
    }
    fn hipHostFree(pointer: *mut c_void) -> hipError_t {
        if pointer.is_null() {
            return HIP_SUCCESS;
        }
        forward!(cuMemFreeHost(pointer))
    }
    fn hipMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t {
        let (to, from) = (dst as sys::CUdeviceptr, src as sys::CUdeviceptr);
        match kind {
            MEMCPY_HOST_TO_DEVICE => forward!(cuMemcpyHtoDAsync_v2(to, src, bytes, stream.cast())),
            MEMCPY_DEVICE_TO_HOST => forward!(cuMemcpyDtoHAsync_v2(dst, from, bytes, stream.cast())),
            MEMCPY_DEVICE_TO_DEVICE => forward!(cuMemcpyDtoDAsync_v2(to, from, bytes, stream.cast())),
            // With unified addresses the driver sees from a pointer where it leads.
            _ => forward!(cuMemcpyAsync(to, from, bytes, stream.cast())),
        }
    }
    fn hipMemcpyPeerAsync(dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, bytes: usize, stream: hipStream_t) -> hipError_t {
        match (primary(dst_device), primary(src_device)) {
            (Err(error), _) | (_, Err(error)) => error,
            (Ok(to), Ok(from)) => forward!(cuMemcpyPeerAsync(
                dst as sys::CUdeviceptr, to.context, src as sys::CUdeviceptr, from.context, bytes, stream.cast()
            )),
        }
    }
    fn hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t) -> hipError_t {
        forward!(cuMemsetD8Async(dst as sys::CUdeviceptr, value as u8, bytes, stream.cast()))
    }
    fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) -> hipError_t {
        forward!(cuStreamCreate(stream.cast(), flags))
    }
    fn hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, priority: c_int) -> hipError_t {
        forward!(cuStreamCreateWithPriority(stream.cast(), flags, priority))
    }
    fn hipStreamDestroy(stream: hipStream_t) -> hipError_t {
        forward!(cuStreamDestroy_v2(stream.cast()))
    }
    fn hipStreamSynchronize(stream: hipStream_t) -> hipError_t {
        forward!(cuStreamSynchronize(stream.cast()))
    }
    fn hipStreamQuery(stream: hipStream_t) -> hipError_t {
        forward!(cuStreamQuery(stream.cast()))
    }
    fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> hipError_t {
        forward!(cuStreamWaitEvent(stream.cast(), event.cast(), flags))
    }
    fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) -> hipError_t {
        forward!(cuEventCreate(event.cast(), flags))
    }
    fn hipEventDestroy(event: hipEvent_t) -> hipError_t {
        forward!(cuEventDestroy_v2(event.cast()))
    }
    fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) -> hipError_t {
        forward!(cuEventRecord(event.cast(), stream.cast()))
    }
    fn hipEventSynchronize(event: hipEvent_t) -> hipError_t {
        forward!(cuEventSynchronize(event.cast()))
    }
    fn hipEventQuery(event: hipEvent_t) -> hipError_t {
        forward!(cuEventQuery(event.cast()))
    }
    fn hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, end: hipEvent_t) -> hipError_t {
        forward!(cuEventElapsedTime(milliseconds, start.cast(), end.cast()))
    }
    fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) -> hipError_t {
        // For PTX, which the driver compiles here: 1024 threads, the most of a workgroup, have 64 registers each.
        // Kernels with launch bounds go by those.
        let mut options = [sys::CUjit_option::CU_JIT_MAX_REGISTERS];
        let mut values = [64 as *mut c_void];
        forward!(cuModuleLoadDataEx(
            module.cast(), image, options.len() as c_uint, options.as_mut_ptr(), values.as_mut_ptr()
        ))
    }
    fn hipModuleUnload(module: hipModule_t) -> hipError_t {
        forward!(cuModuleUnload(module.cast()))
    }
    fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) -> hipError_t {
        forward!(cuModuleGetFunction(function.cast(), module.cast(), name))
    }
    fn hipModuleGetGlobal(pointer: *mut hipDeviceptr_t, bytes: *mut usize, module: hipModule_t, name: *const c_char) -> hipError_t {
        forward!(cuModuleGetGlobal_v2(pointer.cast(), bytes, module.cast(), name))
    }
    fn hipModuleLaunchKernel(
        function: hipFunction_t,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        dynamic_lds: c_uint, stream: hipStream_t,
        arguments: *mut *mut c_void, extra: *mut *mut c_void
    ) -> hipError_t {
        // SAFETY: the caller's kernel.
        match unsafe { allow_shared(function.cast(), dynamic_lds) } {
            CUresult::CUDA_SUCCESS => forward!(cuLaunchKernel(
                function.cast(), grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic_lds, stream.cast(),
                arguments, extra
            )),
            failure => status(failure),
        }
    }
    fn hipModuleLaunchCooperativeKernel(
        function: hipFunction_t,
        grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        dynamic_lds: c_uint, stream: hipStream_t,
        arguments: *mut *mut c_void
    ) -> hipError_t {
        // SAFETY: the caller's kernel.
        match unsafe { allow_shared(function.cast(), dynamic_lds) } {
            CUresult::CUDA_SUCCESS => forward!(cuLaunchCooperativeKernel(
                function.cast(), grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic_lds, stream.cast(),
                arguments
            )),
            failure => status(failure),
        }
    }
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: hipFunction_t, block_size: c_int, dynamic_lds: usize) -> hipError_t {
        forward!(cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function.cast(), block_size, dynamic_lds))
    }
    fn hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t) -> hipError_t {
        use sys::CUfunction_attribute::*;
        let attribute = match attribute {
            FUNC_MAX_THREADS_PER_BLOCK => CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
            FUNC_SHARED_SIZE_BYTES => CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
            _ => return HIP_ERROR_INVALID_VALUE,
        };
        forward!(cuFuncGetAttribute(value, attribute, function.cast()))
    }
    fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) -> hipError_t {
        use sys::CUstreamCaptureMode::*;
        let mode = match mode {
            0 => CU_STREAM_CAPTURE_MODE_GLOBAL,
            1 => CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            CAPTURE_MODE_RELAXED => CU_STREAM_CAPTURE_MODE_RELAXED,
            _ => return HIP_ERROR_INVALID_VALUE,
        };
        forward!(cuStreamBeginCapture_v2(stream.cast(), mode))
    }
    fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) -> hipError_t {
        forward!(cuStreamEndCapture(stream.cast(), graph.cast()))
    }
    fn hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) -> hipError_t {
        // The numbers are the same.
        forward!(cuStreamIsCapturing(stream.cast(), status.cast()))
    }
    fn hipThreadExchangeStreamCaptureMode(mode: *mut hipStreamCaptureMode) -> hipError_t {
        // The numbers are the same.
        forward!(cuThreadExchangeStreamCaptureMode(mode.cast()))
    }
    fn hipGraphInstantiateWithFlags(exec: *mut hipGraphExec_t, graph: hipGraph_t, flags: u64) -> hipError_t {
        forward!(cuGraphInstantiateWithFlags(exec.cast(), graph.cast(), flags))
    }
    fn hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t) -> hipError_t {
        forward!(cuGraphLaunch(exec.cast(), stream.cast()))
    }
    fn hipGraphUpload(exec: hipGraphExec_t, stream: hipStream_t) -> hipError_t {
        forward!(cuGraphUpload(exec.cast(), stream.cast()))
    }
    fn hipGraphDestroy(graph: hipGraph_t) -> hipError_t {
        forward!(cuGraphDestroy(graph.cast()))
    }
    fn hipGraphExecDestroy(exec: hipGraphExec_t) -> hipError_t {
        forward!(cuGraphExecDestroy(exec.cast()))
    }
    fn hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) -> hipError_t {
        forward!(cuGraphGetNodes(graph.cast(), nodes.cast(), count))
    }
    fn hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, data: *mut c_void) -> hipError_t {
        forward!(cuLaunchHostFunc(stream.cast(), function, data))
    }
    fn hipMemsetD32Async(dst: hipDeviceptr_t, value: c_int, count: usize, stream: hipStream_t) -> hipError_t {
        forward!(cuMemsetD32Async(dst as sys::CUdeviceptr, value as c_uint, count, stream.cast()))
    }
    fn hipHostRegister(memory: *mut c_void, bytes: usize, flags: c_uint) -> hipError_t {
        forward!(cuMemHostRegister_v2(memory, bytes, flags))
    }
    fn hipHostUnregister(memory: *mut c_void) -> hipError_t {
        forward!(cuMemHostUnregister(memory))
    }
    fn hipHostGetDevicePointer(pointer: *mut *mut c_void, memory: *mut c_void, flags: c_uint) -> hipError_t {
        forward!(cuMemHostGetDevicePointer_v2(pointer.cast(), memory, flags))
    }
    fn hipDeviceGetPCIBusId(text: *mut c_char, bytes: c_int, device: c_int) -> hipError_t {
        match primary(device) {
            Err(error) => error,
            Ok(primary) => forward!(cuDeviceGetPCIBusId(text, bytes, primary.device)),
        }
    }
    fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> hipError_t {
        forward!(cuCtxGetStreamPriorityRange(least, greatest))
    }
    fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> hipError_t {
        match (primary(device), primary(peer)) {
            (Err(error), _) | (_, Err(error)) => error,
            (Ok(from), Ok(to)) => forward!(cuDeviceCanAccessPeer(can, from.device, to.device)),
        }
    }
    fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) -> hipError_t {
        match primary(peer) {
            Err(error) => error,
            Ok(primary) => forward!(cuCtxEnablePeerAccess(primary.context, flags)),
        }
    }
    fn hipRuntimeGetVersion(version: *mut c_int) -> hipError_t {
        forward!(cuDriverGetVersion(version))
    }
    fn hipGetErrorName(error: hipError_t) -> *const c_char {
        error_text(error, driver().cuGetErrorName)
    }
    fn hipGetErrorString(error: hipError_t) -> *const c_char {
        error_text(error, driver().cuGetErrorString)
    }
}
