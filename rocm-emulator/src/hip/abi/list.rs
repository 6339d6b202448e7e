//! The list of HIP functions: one source for their C signatures, the wrappers, the lookup by name and the
//! exports of `libamdhip64.so`.

/// Calls `$callback!` with every function: those of `status` return `hipError_t` and live, as functions that
/// return a `Result`, in the module named before them; those of `plain` return what the list says.
///
/// The types are those of [`types`](crate::hip::abi::types) and `std::ffi`, which the caller imports.
#[macro_export]
macro_rules! hip_functions {
    ($callback:path) => {
        $callback! {
            status {
                // Initialisation and devices.
                device::hipInit(flags: c_uint);
                device::hipDriverGetVersion(version: *mut c_int);
                device::hipRuntimeGetVersion(version: *mut c_int);
                device::hipGetDeviceCount(count: *mut c_int);
                device::hipGetDevice(device: *mut c_int);
                device::hipSetDevice(device: c_int);
                device::hipDeviceGet(device: *mut hipDevice_t, ordinal: c_int);
                device::hipDeviceGetName(name: *mut c_char, len: c_int, device: hipDevice_t);
                device::hipDeviceGetUuid(uuid: *mut hipUUID, device: hipDevice_t);
                device::hipDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: hipDevice_t);
                device::hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t);
                device::hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int);
                device::hipGetDeviceProperties(properties: *mut hipDeviceProp_tR0000, device: c_int);
                device::hipGetDevicePropertiesR0000(properties: *mut hipDeviceProp_tR0000, device: c_int);
                device::hipGetDevicePropertiesR0600(properties: *mut hipDeviceProp_tR0600, device: c_int);
                device::hipDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int);
                device::hipDeviceGetByPCIBusId(device: *mut c_int, id: *const c_char);
                device::hipDeviceSynchronize();
                device::hipDeviceReset();
                device::hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
                device::hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int);
                device::hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint);
                device::hipDeviceDisablePeerAccess(peer: c_int);
                device::hipSetDeviceFlags(flags: c_uint);
                device::hipGetDeviceFlags(flags: *mut c_uint);
                device::hipDeviceGetLimit(value: *mut usize, limit: hipLimit_t);
                device::hipDeviceSetLimit(limit: hipLimit_t, value: usize);
                device::hipDeviceSetCacheConfig(config: hipFuncCache_t);
                device::hipDeviceGetCacheConfig(config: *mut hipFuncCache_t);
                device::hipDeviceSetSharedMemConfig(config: hipSharedMemConfig);
                device::hipDeviceGetSharedMemConfig(config: *mut hipSharedMemConfig);
                device::hipProfilerStart();
                device::hipProfilerStop();
                // Contexts.
                device::hipDevicePrimaryCtxRetain(context: *mut hipCtx_t, device: hipDevice_t);
                device::hipDevicePrimaryCtxRelease(device: hipDevice_t);
                device::hipDevicePrimaryCtxReset(device: hipDevice_t);
                device::hipDevicePrimaryCtxGetState(device: hipDevice_t, flags: *mut c_uint, active: *mut c_int);
                device::hipDevicePrimaryCtxSetFlags(device: hipDevice_t, flags: c_uint);
                device::hipCtxCreate(context: *mut hipCtx_t, flags: c_uint, device: hipDevice_t);
                device::hipCtxDestroy(context: hipCtx_t);
                device::hipCtxGetCurrent(context: *mut hipCtx_t);
                device::hipCtxSetCurrent(context: hipCtx_t);
                device::hipCtxPushCurrent(context: hipCtx_t);
                device::hipCtxPopCurrent(context: *mut hipCtx_t);
                device::hipCtxGetDevice(device: *mut hipDevice_t);
                device::hipCtxGetApiVersion(context: hipCtx_t, version: *mut c_uint);
                device::hipCtxGetFlags(flags: *mut c_uint);
                device::hipCtxSynchronize();
                // Errors.
                errors::hipDrvGetErrorName(error: hipError_t, name: *mut *const c_char);
                errors::hipDrvGetErrorString(error: hipError_t, text: *mut *const c_char);
                // Memory.
                memory::hipMalloc(pointer: *mut *mut c_void, bytes: usize);
                memory::hipExtMallocWithFlags(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
                memory::hipMallocPitch(pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize);
                memory::hipFree(pointer: *mut c_void);
                memory::hipMallocAsync(pointer: *mut *mut c_void, bytes: usize, stream: hipStream_t);
                memory::hipMallocFromPoolAsync(pointer: *mut *mut c_void, bytes: usize, pool: hipMemPool_t, stream: hipStream_t);
                memory::hipFreeAsync(pointer: *mut c_void, stream: hipStream_t);
                memory::hipMallocManaged(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
                memory::hipMemPrefetchAsync(pointer: *const c_void, bytes: usize, device: c_int, stream: hipStream_t);
                memory::hipMemAdvise(pointer: *const c_void, bytes: usize, advice: c_uint, device: c_int);
                memory::hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
                memory::hipHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
                memory::hipMallocHost(pointer: *mut *mut c_void, bytes: usize);
                memory::hipMemAllocHost(pointer: *mut *mut c_void, bytes: usize);
                memory::hipHostFree(pointer: *mut c_void);
                memory::hipFreeHost(pointer: *mut c_void);
                memory::hipHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint);
                memory::hipHostUnregister(pointer: *mut c_void);
                memory::hipHostGetDevicePointer(device_pointer: *mut *mut c_void, host: *mut c_void, flags: c_uint);
                memory::hipHostGetFlags(flags: *mut c_uint, host: *mut c_void);
                memory::hipMemGetInfo(free: *mut usize, total: *mut usize);
                memory::hipMemPtrGetInfo(pointer: *mut c_void, bytes: *mut usize);
                memory::hipPointerGetAttributes(attributes: *mut hipPointerAttribute_t, pointer: *const c_void);
                memory::hipPointerGetAttribute(data: *mut c_void, attribute: hipPointer_attribute, pointer: hipDeviceptr_t);
                memory::hipMemGetAddressRange(base: *mut hipDeviceptr_t, bytes: *mut usize, pointer: hipDeviceptr_t);
                copy::hipMemcpy(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind);
                copy::hipMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind, stream: hipStream_t);
                copy::hipMemcpyWithStream(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind, stream: hipStream_t);
                copy::hipMemcpyHtoD(dst: hipDeviceptr_t, src: *const c_void, bytes: usize);
                copy::hipMemcpyDtoH(dst: *mut c_void, src: hipDeviceptr_t, bytes: usize);
                copy::hipMemcpyDtoD(dst: hipDeviceptr_t, src: hipDeviceptr_t, bytes: usize);
                copy::hipMemcpyHtoDAsync(dst: hipDeviceptr_t, src: *const c_void, bytes: usize, stream: hipStream_t);
                copy::hipMemcpyDtoHAsync(dst: *mut c_void, src: hipDeviceptr_t, bytes: usize, stream: hipStream_t);
                copy::hipMemcpyDtoDAsync(dst: hipDeviceptr_t, src: hipDeviceptr_t, bytes: usize, stream: hipStream_t);
                copy::hipMemcpyPeer(dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, bytes: usize);
                copy::hipMemcpyPeerAsync(dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, bytes: usize, stream: hipStream_t);
                copy::hipMemcpy2D(dst: *mut c_void, dst_pitch: usize, src: *const c_void, src_pitch: usize, width: usize, height: usize, kind: hipMemcpyKind);
                copy::hipMemcpy2DAsync(dst: *mut c_void, dst_pitch: usize, src: *const c_void, src_pitch: usize, width: usize, height: usize, kind: hipMemcpyKind, stream: hipStream_t);
                copy::hipMemset(dst: *mut c_void, value: c_int, bytes: usize);
                copy::hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t);
                copy::hipMemsetD8(dst: hipDeviceptr_t, value: c_uchar, count: usize);
                copy::hipMemsetD8Async(dst: hipDeviceptr_t, value: c_uchar, count: usize, stream: hipStream_t);
                copy::hipMemsetD16(dst: hipDeviceptr_t, value: c_ushort, count: usize);
                copy::hipMemsetD16Async(dst: hipDeviceptr_t, value: c_ushort, count: usize, stream: hipStream_t);
                copy::hipMemsetD32(dst: hipDeviceptr_t, value: c_int, count: usize);
                copy::hipMemsetD32Async(dst: hipDeviceptr_t, value: c_int, count: usize, stream: hipStream_t);
                copy::hipMemset2D(dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize);
                copy::hipMemset2DAsync(dst: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: hipStream_t);
                copy::hipGetSymbolAddress(pointer: *mut *mut c_void, symbol: *const c_void);
                copy::hipGetSymbolSize(bytes: *mut usize, symbol: *const c_void);
                copy::hipMemcpyToSymbol(symbol: *const c_void, src: *const c_void, bytes: usize, offset: usize, kind: hipMemcpyKind);
                copy::hipMemcpyToSymbolAsync(symbol: *const c_void, src: *const c_void, bytes: usize, offset: usize, kind: hipMemcpyKind, stream: hipStream_t);
                copy::hipMemcpyFromSymbol(dst: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: hipMemcpyKind);
                copy::hipMemcpyFromSymbolAsync(dst: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: hipMemcpyKind, stream: hipStream_t);
                // Memory pools.
                pool::hipDeviceGetDefaultMemPool(pool: *mut hipMemPool_t, device: c_int);
                pool::hipDeviceGetMemPool(pool: *mut hipMemPool_t, device: c_int);
                pool::hipDeviceSetMemPool(device: c_int, pool: hipMemPool_t);
                pool::hipMemPoolCreate(pool: *mut hipMemPool_t, properties: *const hipMemPoolProps);
                pool::hipMemPoolDestroy(pool: hipMemPool_t);
                pool::hipMemPoolTrimTo(pool: hipMemPool_t, bytes: usize);
                pool::hipMemPoolSetAttribute(pool: hipMemPool_t, attribute: hipMemPoolAttr, value: *mut c_void);
                pool::hipMemPoolGetAttribute(pool: hipMemPool_t, attribute: hipMemPoolAttr, value: *mut c_void);
                // Streams and events.
                stream::hipStreamCreate(stream: *mut hipStream_t);
                stream::hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint);
                stream::hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, priority: c_int);
                stream::hipStreamDestroy(stream: hipStream_t);
                stream::hipStreamSynchronize(stream: hipStream_t);
                stream::hipStreamQuery(stream: hipStream_t);
                stream::hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint);
                stream::hipStreamGetFlags(stream: hipStream_t, flags: *mut c_uint);
                stream::hipStreamGetPriority(stream: hipStream_t, priority: *mut c_int);
                stream::hipStreamGetDevice(stream: hipStream_t, device: *mut hipDevice_t);
                stream::hipStreamAddCallback(stream: hipStream_t, callback: hipStreamCallback_t, data: *mut c_void, flags: c_uint);
                stream::hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, data: *mut c_void);
                stream::hipEventCreate(event: *mut hipEvent_t);
                stream::hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint);
                stream::hipEventRecord(event: hipEvent_t, stream: hipStream_t);
                stream::hipEventRecordWithFlags(event: hipEvent_t, stream: hipStream_t, flags: c_uint);
                stream::hipEventQuery(event: hipEvent_t);
                stream::hipEventSynchronize(event: hipEvent_t);
                stream::hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, stop: hipEvent_t);
                stream::hipEventDestroy(event: hipEvent_t);
                // Modules and functions.
                module::hipModuleLoad(module: *mut hipModule_t, path: *const c_char);
                module::hipModuleLoadData(module: *mut hipModule_t, image: *const c_void);
                module::hipModuleLoadDataEx(module: *mut hipModule_t, image: *const c_void, options: c_uint, names: *mut hipJitOption, values: *mut *mut c_void);
                module::hipModuleUnload(module: hipModule_t);
                module::hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char);
                module::hipModuleGetGlobal(pointer: *mut hipDeviceptr_t, bytes: *mut usize, module: hipModule_t, name: *const c_char);
                module::hipGetFuncBySymbol(function: *mut hipFunction_t, symbol: *const c_void);
                module::hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t);
                module::hipFuncGetAttributes(attributes: *mut hipFuncAttributes, function: *const c_void);
                module::hipFuncSetAttribute(function: *const c_void, attribute: hipFuncAttribute, value: c_int);
                module::hipFuncSetCacheConfig(function: *const c_void, config: hipFuncCache_t);
                module::hipFuncSetSharedMemConfig(function: *const c_void, config: hipSharedMemConfig);
                module::hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: hipFunction_t, block: c_int, dynamic_lds: usize);
                module::hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut c_int, function: hipFunction_t, block: c_int, dynamic_lds: usize, flags: c_uint);
                module::hipModuleOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int, function: hipFunction_t, dynamic_lds: usize, limit: c_int);
                module::hipModuleOccupancyMaxPotentialBlockSizeWithFlags(grid: *mut c_int, block: *mut c_int, function: hipFunction_t, dynamic_lds: usize, limit: c_int, flags: c_uint);
                module::hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: *const c_void, block: c_int, dynamic_lds: usize);
                module::hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut c_int, function: *const c_void, block: c_int, dynamic_lds: usize, flags: c_uint);
                module::hipOccupancyMaxPotentialBlockSize(grid: *mut c_int, block: *mut c_int, function: *const c_void, dynamic_lds: usize, limit: c_int);
                // Launches.
                module::hipModuleLaunchKernel(function: hipFunction_t, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, dynamic_lds: c_uint, stream: hipStream_t, parameters: *mut *mut c_void, extra: *mut *mut c_void);
                module::hipModuleLaunchCooperativeKernel(function: hipFunction_t, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, dynamic_lds: c_uint, stream: hipStream_t, parameters: *mut *mut c_void);
                module::hipLaunchKernel(function: *const c_void, grid: dim3, block: dim3, parameters: *mut *mut c_void, dynamic_lds: usize, stream: hipStream_t);
                module::hipLaunchCooperativeKernel(function: *const c_void, grid: dim3, block: dim3, parameters: *mut *mut c_void, dynamic_lds: c_uint, stream: hipStream_t);
                module::__hipPushCallConfiguration(grid: dim3, block: dim3, dynamic_lds: usize, stream: hipStream_t);
                module::__hipPopCallConfiguration(grid: *mut dim3, block: *mut dim3, dynamic_lds: *mut usize, stream: *mut hipStream_t);
                // Graphs.
                graph::hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode);
                graph::hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t);
                graph::hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus);
                graph::hipStreamGetCaptureInfo(stream: hipStream_t, status: *mut hipStreamCaptureStatus, id: *mut c_ulonglong);
                graph::hipStreamGetCaptureInfo_v2(stream: hipStream_t, status: *mut hipStreamCaptureStatus, id: *mut c_ulonglong, graph: *mut hipGraph_t, dependencies: *mut *const hipGraphNode_t, count: *mut usize);
                graph::hipThreadExchangeStreamCaptureMode(mode: *mut hipStreamCaptureMode);
                graph::hipGraphInstantiate(exec: *mut hipGraphExec_t, graph: hipGraph_t, error_node: *mut hipGraphNode_t, log: *mut c_char, log_bytes: usize);
                graph::hipGraphInstantiateWithFlags(exec: *mut hipGraphExec_t, graph: hipGraph_t, flags: c_ulonglong);
                graph::hipGraphUpload(exec: hipGraphExec_t, stream: hipStream_t);
                graph::hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t);
                graph::hipGraphDestroy(graph: hipGraph_t);
                graph::hipGraphExecDestroy(exec: hipGraphExec_t);
                graph::hipGraphCreate(graph: *mut hipGraph_t, flags: c_uint);
                graph::hipGraphClone(clone: *mut hipGraph_t, graph: hipGraph_t);
                graph::hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize);
                graph::hipGraphGetRootNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize);
                graph::hipGraphNodeGetType(node: hipGraphNode_t, node_type: *mut hipGraphNodeType);
            }
            plain {
                errors::hipGetLastError() -> hipError_t;
                errors::hipExtGetLastError() -> hipError_t;
                errors::hipPeekAtLastError() -> hipError_t;
                errors::hipGetErrorName(error: hipError_t) -> *const c_char;
                errors::hipGetErrorString(error: hipError_t) -> *const c_char;
                errors::rocmEmuGetLastFault() -> *const c_char;
                module::__hipRegisterFatBinary(wrapper: *const c_void) -> *mut *mut c_void;
                module::__hipUnregisterFatBinary(binary: *mut *mut c_void) -> ();
                module::__hipRegisterFunction(binary: *mut *mut c_void, stub: *const c_void, device_function: *mut c_char, name: *const c_char, thread_limit: c_uint, thread: *mut c_void, block: *mut c_void, block_dim: *mut dim3, grid_dim: *mut dim3, wave_size: *mut c_int) -> ();
                module::__hipRegisterVar(binary: *mut *mut c_void, shadow: *mut c_void, host_name: *mut c_char, name: *const c_char, external: c_int, bytes: usize, constant: c_int, global: c_int) -> ();
                module::__hipRegisterManagedVar(binary: *mut c_void, pointer: *mut *mut c_void, initial: *mut c_void, name: *const c_char, bytes: usize, align: c_uint) -> ();
            }
        }
    };
}
