//! The table of HIP functions: one list, from which the structure, the lookup and the names come.
// The type of each field, which the list gives, is the type transmuted to.
#![allow(clippy::missing_transmute_annotations)]

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::types::*;

/// Calls `$callback!` with the whole list. `required` functions must exist in every provider; an
/// `optional` one that is missing makes its caller do without, or say so.
macro_rules! with_hip_functions {
    ($callback:ident) => {
        $callback! {
            required hipInit(flags: c_uint);
            required hipGetDeviceCount(count: *mut c_int);
            required hipSetDevice(device: c_int);
            required hipGetDevice(device: *mut c_int);
            required hipGetDevicePropertiesR0600(properties: *mut DeviceProperties, device: c_int);
            required hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int);
            required hipDeviceSynchronize();
            required hipMemGetInfo(free: *mut usize, total: *mut usize);
            required hipMalloc(pointer: *mut *mut c_void, bytes: usize);
            required hipFree(pointer: *mut c_void);
            required hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
            required hipHostFree(pointer: *mut c_void);
            required hipMemcpyAsync(dst: *mut c_void, src: *const c_void, bytes: usize, kind: hipMemcpyKind, stream: hipStream_t);
            required hipMemsetAsync(dst: *mut c_void, value: c_int, bytes: usize, stream: hipStream_t);
            required hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint);
            required hipStreamDestroy(stream: hipStream_t);
            required hipStreamSynchronize(stream: hipStream_t);
            required hipStreamQuery(stream: hipStream_t);
            required hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint);
            required hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint);
            required hipEventDestroy(event: hipEvent_t);
            required hipEventRecord(event: hipEvent_t, stream: hipStream_t);
            required hipEventSynchronize(event: hipEvent_t);
            required hipEventQuery(event: hipEvent_t);
            required hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, end: hipEvent_t);
            required hipModuleLoadData(module: *mut hipModule_t, image: *const c_void);
            required hipModuleUnload(module: hipModule_t);
            required hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char);
            required hipModuleLaunchKernel(
                function: hipFunction_t,
                grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
                block_x: c_uint, block_y: c_uint, block_z: c_uint,
                dynamic_lds: c_uint, stream: hipStream_t,
                arguments: *mut *mut c_void, extra: *mut *mut c_void
            );
            optional hipRuntimeGetVersion(version: *mut c_int);
            optional hipMemcpyPeerAsync(dst: *mut c_void, dst_device: c_int, src: *const c_void, src_device: c_int, bytes: usize, stream: hipStream_t);
            optional hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, priority: c_int);
            optional hipModuleGetGlobal(pointer: *mut hipDeviceptr_t, bytes: *mut usize, module: hipModule_t, name: *const c_char);
            optional hipModuleLaunchCooperativeKernel(
                function: hipFunction_t,
                grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
                block_x: c_uint, block_y: c_uint, block_z: c_uint,
                dynamic_lds: c_uint, stream: hipStream_t,
                arguments: *mut *mut c_void
            );
            optional hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: hipFunction_t, block_size: c_int, dynamic_lds: usize);
            optional hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t);
            optional hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode);
            optional hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t);
            optional hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus);
            optional hipThreadExchangeStreamCaptureMode(mode: *mut hipStreamCaptureMode);
            optional hipGraphInstantiateWithFlags(exec: *mut hipGraphExec_t, graph: hipGraph_t, flags: u64);
            optional hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t);
            optional hipGraphUpload(exec: hipGraphExec_t, stream: hipStream_t);
            optional hipGraphDestroy(graph: hipGraph_t);
            optional hipGraphExecDestroy(exec: hipGraphExec_t);
            optional hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize);
            optional hipLaunchHostFunc(stream: hipStream_t, function: hipHostFn_t, data: *mut c_void);
            optional hipMemsetD32Async(dst: hipDeviceptr_t, value: c_int, count: usize, stream: hipStream_t);
            optional hipHostRegister(memory: *mut c_void, bytes: usize, flags: c_uint);
            optional hipHostUnregister(memory: *mut c_void);
            optional hipHostGetDevicePointer(pointer: *mut *mut c_void, memory: *mut c_void, flags: c_uint);
            optional hipDeviceGetPCIBusId(text: *mut c_char, bytes: c_int, device: c_int);
            optional hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
            optional hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int);
            optional hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint);
            optional hipExtMallocWithFlags(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
        }
    };
}

macro_rules! field_type {
    (required ($($type:ty),*)) => { unsafe extern "C" fn($($type),*) -> hipError_t };
    (optional ($($type:ty),*)) => { Option<unsafe extern "C" fn($($type),*) -> hipError_t> };
}

macro_rules! is_required {
    (required) => {
        true
    };
    (optional) => {
        false
    };
}

macro_rules! field_value {
    (required $lookup:ident $name:ident) => {
        match $lookup(stringify!($name)) {
            // SAFETY: the caller of `from_lookup` promises that the symbol of this name is the HIP
            // function of this name, whose signature the table states.
            Some(pointer) => unsafe {
                std::mem::transmute::<*const c_void, _>(pointer.as_ptr().cast_const())
            },
            None => return Err(MissingSymbol(stringify!($name))),
        }
    };
    (optional $lookup:ident $name:ident) => {
        // SAFETY: as above; a null function pointer is `None`.
        unsafe {
            std::mem::transmute::<*const c_void, _>(
                $lookup(stringify!($name)).map_or(std::ptr::null(), |p| p.as_ptr().cast_const()),
            )
        }
    };
}

macro_rules! define_table {
    ($($need:ident $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        /// HIP's functions, from whichever provider the process chose.
        #[allow(non_snake_case, missing_docs)]
        pub struct HipTable {
            $(pub $name: field_type!($need ($($type),*)),)*
            /// `const char *hipGetErrorName(hipError_t)`.
            pub hipGetErrorName: unsafe extern "C" fn(hipError_t) -> *const c_char,
            /// `const char *hipGetErrorString(hipError_t)`.
            pub hipGetErrorString: unsafe extern "C" fn(hipError_t) -> *const c_char,
            /// `const char *rocmEmuGetLastFault(void)`: the emulator's account of the calling thread's last
            /// fault, or null. No other provider has it.
            pub rocmEmuGetLastFault: Option<unsafe extern "C" fn() -> *const c_char>,
        }

        impl HipTable {
            /// The functions' names, and whether a provider must have them.
            pub const SYMBOLS: &'static [(&'static str, bool)] = &[
                $((stringify!($name), is_required!($need)),)*
                ("hipGetErrorName", true),
                ("hipGetErrorString", true),
                ("rocmEmuGetLastFault", false),
            ];

            /// Fills the table, asking `lookup` for each symbol by its name.
            ///
            /// # Safety
            /// A pointer that `lookup` returns for a name is the C function that HIP documents under
            /// that name, and stays valid for the rest of the process.
            pub unsafe fn from_lookup(
                mut lookup: impl FnMut(&'static str) -> Option<std::ptr::NonNull<c_void>>,
            ) -> Result<Self, MissingSymbol> {
                Ok(Self {
                    $($name: field_value!($need lookup $name),)*
                    hipGetErrorName: field_value!(required lookup hipGetErrorName),
                    hipGetErrorString: field_value!(required lookup hipGetErrorString),
                    rocmEmuGetLastFault: field_value!(optional lookup rocmEmuGetLastFault),
                })
            }
        }
    };
}
with_hip_functions!(define_table);

/// The provider has no function of this name, and the runtime cannot do without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingSymbol(pub &'static str);
