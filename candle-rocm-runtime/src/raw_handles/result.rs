//! The driver's functions with a result, as cudarc's `result` layer has them.
//!
//! Each is the function of the same work in the other modules, and its safety and errors are that one's.
#![allow(clippy::missing_safety_doc)]

use std::ffi::{c_uchar, c_uint, c_void};
use std::ptr::null_mut;

use super::memory::*;
use super::{devices, graphs, modules, streams};
use crate::base::cuda_names::{CUcontext, CUdeviceptr, CUresult, CUstream};
use crate::base::error::{Error, Result};
use crate::base::hip::types::hipFunction_t as CUfunction;

/// What a function writes at the place that it is given.
fn got<T>(mut place: T, ask: impl FnOnce(*mut T) -> CUresult) -> Result<T> {
    ask(&mut place).result()?;
    Ok(place)
}

/// Functions of a result by those of a number: of an empty one, and of what is written at a place.
macro_rules! results {
    ($($(#[$doc:meta])* fn $name:ident $(<$generic:ident>)? ($($arg:ident: $type:ty),*) $(-> $result:ty, $empty:expr)? => $function:path,
        ($($pass:expr),*);)*) => {
        $(
            $(#[$doc])*
            pub unsafe fn $name $(<$generic>)? ($($arg: $type),*) -> results!(@type $($result)?) {
                results!(@call $($empty)?, $function, ($($pass),*))
            }
        )*
    };
    (@type) => { $crate::base::error::Result<()> };
    (@type $result:ty) => { $crate::base::error::Result<$result> };
    (@call, $function:path, ($($pass:expr),*)) => {
        // SAFETY: the caller's promise, which is that of the function.
        unsafe { $function($($pass),*) }.result()
    };
    (@call $empty:expr, $function:path, ($($pass:expr),*)) => {
        // SAFETY: the caller's promise, which is that of the function; the place is writable.
        $crate::raw_handles::result::got($empty, |place| unsafe { $function(place, $($pass),*) })
    };
}

results! {
    /// Memory of the pool, in a stream's order.
    fn malloc_async(stream: CUstream, num_bytes: usize) -> CUdeviceptr, 0 => cuMemAllocAsync, (num_bytes, stream);
    /// Memory that belongs to no stream's order.
    fn malloc_sync(num_bytes: usize) -> CUdeviceptr, 0 => cuMemAlloc_v2, (num_bytes);
    /// Page-locked memory of the host.
    fn malloc_host(num_bytes: usize, flags: c_uint) -> *mut c_void, null_mut() => cuMemHostAlloc, (num_bytes, flags);
    /// Frees page-locked memory.
    fn free_host(host_ptr: *mut c_void) => cuMemFreeHost, (host_ptr);
    /// Returns memory to the pool, in a stream's order.
    fn free_async(dptr: CUdeviceptr, stream: CUstream) => cuMemFreeAsync, (dptr, stream);
    /// Frees memory, after waiting for the GPU.
    fn free_sync(dptr: CUdeviceptr) => cuMemFree_v2, (dptr);
    /// Frees memory, after waiting for the GPU.
    fn memory_free(device_ptr: CUdeviceptr) => cuMemFree_v2, (device_ptr);
    /// Sets bytes, in a stream's order.
    fn memset_d8_async(dptr: CUdeviceptr, uc: c_uchar, num_bytes: usize, stream: CUstream)
        => cuMemsetD8Async, (dptr, uc, num_bytes, stream);
    /// Sets bytes, and waits.
    fn memset_d8_sync(dptr: CUdeviceptr, uc: c_uchar, num_bytes: usize) => cuMemsetD8_v2, (dptr, uc, num_bytes);
    /// Copies from the host, in a stream's order.
    fn memcpy_htod_async<T>(dst: CUdeviceptr, src: &[T], stream: CUstream)
        => cuMemcpyHtoDAsync_v2, (dst, src.as_ptr().cast(), size_of_val(src), stream);
    /// Copies from the host, and waits.
    fn memcpy_htod_sync<T>(dst: CUdeviceptr, src: &[T])
        => cuMemcpyHtoD_v2, (dst, src.as_ptr().cast(), size_of_val(src));
    /// Copies to the host, in a stream's order.
    fn memcpy_dtoh_async<T>(dst: &mut [T], src: CUdeviceptr, stream: CUstream)
        => cuMemcpyDtoHAsync_v2, (dst.as_mut_ptr().cast(), src, size_of_val(dst), stream);
    /// Copies to the host, and waits.
    fn memcpy_dtoh_sync<T>(dst: &mut [T], src: CUdeviceptr)
        => cuMemcpyDtoH_v2, (dst.as_mut_ptr().cast(), src, size_of_val(dst));
    /// Copies within GPUs, in a stream's order.
    fn memcpy_dtod_async(dst: CUdeviceptr, src: CUdeviceptr, num_bytes: usize, stream: CUstream)
        => cuMemcpyDtoDAsync_v2, (dst, src, num_bytes, stream);
    /// Copies within GPUs, and waits.
    fn memcpy_dtod_sync(dst: CUdeviceptr, src: CUdeviceptr, num_bytes: usize)
        => cuMemcpyDtoD_v2, (dst, src, num_bytes);
    /// Copies from one GPU to another, in a stream's order.
    fn memcpy_peer_async(
        dst_ctx: CUcontext, dst: CUdeviceptr, src_ctx: CUcontext, src: CUdeviceptr, num_bytes: usize, stream: CUstream
    ) => devices::cuMemcpyPeerAsync, (dst, dst_ctx, src, src_ctx, num_bytes, stream);
}

/// Arguments of a kernel, and where it is launched.
type Dim3 = (c_uint, c_uint, c_uint);

/// Gives a kernel to a stream.
pub unsafe fn launch_kernel(
    f: CUfunction,
    grid_dim: Dim3,
    block_dim: Dim3,
    shared_mem_bytes: c_uint,
    stream: CUstream,
    kernel_params: &mut [*mut c_void],
) -> Result<()> {
    let ((gx, gy, gz), (bx, by, bz)) = (grid_dim, block_dim);
    let (arguments, shared) = (kernel_params.as_mut_ptr(), shared_mem_bytes);
    // SAFETY: the caller's promise.
    unsafe {
        modules::cuLaunchKernel(
            f,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            shared,
            stream,
            arguments,
            null_mut(),
        )
    }
    .result()
}

/// Gives a kernel to a stream whose workgroups may wait for each other.
pub unsafe fn launch_cooperative_kernel(
    f: CUfunction,
    grid_dim: Dim3,
    block_dim: Dim3,
    shared_mem_bytes: c_uint,
    stream: CUstream,
    kernel_params: &mut [*mut c_void],
) -> Result<()> {
    let ((gx, gy, gz), (bx, by, bz)) = (grid_dim, block_dim);
    let (arguments, shared) = (kernel_params.as_mut_ptr(), shared_mem_bytes);
    // SAFETY: the caller's promise.
    unsafe {
        modules::cuLaunchCooperativeKernel(f, gx, gy, gz, bx, by, bz, shared, stream, arguments)
    }
    .result()
}

/// Streams.
pub mod stream {
    use super::*;
    use crate::base::cuda_names::{
        CUevent_wait_flags, CUstreamCaptureMode, CUstreamCaptureStatus, CUstream_flags,
    };
    use crate::base::hip::types::{hipEvent_t as CUevent, hipGraph_t as CUgraph};

    /// Whether a stream and the legacy default stream wait for each other.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StreamKind {
        /// They do.
        Default,
        /// They do not.
        NonBlocking,
    }

    impl StreamKind {
        fn flags(self) -> c_uint {
            match self {
                Self::Default => CUstream_flags::CU_STREAM_DEFAULT as c_uint,
                Self::NonBlocking => CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint,
            }
        }
    }

    /// The legacy default stream.
    pub fn null() -> CUstream {
        null_mut()
    }

    /// A new stream.
    ///
    /// # Errors
    /// HIP makes none.
    pub fn create(kind: StreamKind) -> Result<CUstream> {
        // SAFETY: the place is writable.
        got(null_mut(), |place| unsafe {
            streams::cuStreamCreate(place, kind.flags())
        })
    }

    /// A new stream of a priority; lower numbers go first.
    ///
    /// # Errors
    /// HIP makes none.
    pub fn create_with_priority(kind: StreamKind, priority: i32) -> Result<CUstream> {
        got(null_mut(), |place| {
            // SAFETY: the place is writable.
            unsafe { streams::cuStreamCreateWithPriority(place, kind.flags(), priority) }
        })
    }

    /// The least and the greatest priority.
    ///
    /// # Errors
    /// HIP has no answer.
    pub fn get_priority_range() -> Result<(i32, i32)> {
        let mut greatest = 0;
        // SAFETY: both places are writable.
        let least = got(0, |least| unsafe {
            streams::cuCtxGetStreamPriorityRange(least, &mut greatest)
        })?;
        Ok((least, greatest))
    }

    results! {
        /// Waits until a stream is idle.
        fn synchronize(stream: CUstream) => streams::cuStreamSynchronize, (stream);
        /// Gives a stream up.
        fn destroy(stream: CUstream) => streams::cuStreamDestroy_v2, (stream);
        /// Makes a stream's further work wait for an event.
        fn wait_event(stream: CUstream, event: CUevent, flags: CUevent_wait_flags)
            => streams::cuStreamWaitEvent, (stream, event, flags as c_uint);
        /// Calls a function of the host in a stream's order.
        fn launch_host_function(stream: CUstream, func: unsafe extern "C" fn(*mut c_void), arg: *mut c_void)
            => streams::cuLaunchHostFunc, (stream, Some(func), arg);
        /// Begins a capture.
        fn begin_capture(stream: CUstream, mode: CUstreamCaptureMode) => streams::cuStreamBeginCapture_v2, (stream, mode);
        /// Ends a capture: the graph, null if nothing was captured.
        fn end_capture(stream: CUstream) -> CUgraph, null_mut() => end, (stream);
        /// Whether a stream's work is being captured.
        fn is_capturing(stream: CUstream)
            -> CUstreamCaptureStatus, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => is_captured, (stream);
    }

    /// [`streams::cuStreamEndCapture`], the place first.
    unsafe fn end(place: *mut CUgraph, stream: CUstream) -> CUresult {
        // SAFETY: the caller's promise.
        unsafe { streams::cuStreamEndCapture(stream, place) }
    }

    /// [`streams::cuStreamIsCapturing`], the place first.
    unsafe fn is_captured(place: *mut CUstreamCaptureStatus, stream: CUstream) -> CUresult {
        // SAFETY: the caller's promise.
        unsafe { streams::cuStreamIsCapturing(stream, place) }
    }
}

/// Events.
pub mod event {
    use super::*;
    use crate::base::cuda_names::CUevent_flags;
    use crate::base::hip::types::hipEvent_t as CUevent;

    /// An event with nothing recorded.
    ///
    /// # Errors
    /// HIP makes none.
    pub fn create(flags: CUevent_flags) -> Result<CUevent> {
        // SAFETY: the place is writable.
        got(null_mut(), |place| unsafe {
            streams::cuEventCreate(place, flags as c_uint)
        })
    }

    results! {
        /// Sets an event to the work that a stream has been given so far.
        fn record(event: CUevent, stream: CUstream) => streams::cuEventRecord, (event, stream);
        /// Milliseconds between two events that are done.
        fn elapsed(start: CUevent, end: CUevent) -> f32, 0.0 => streams::cuEventElapsedTime, (start, end);
        /// Whether the work before an event is done: an error of `CUDA_ERROR_NOT_READY` if not.
        fn query(event: CUevent) => streams::cuEventQuery, (event);
        /// Waits until the work before an event is done.
        fn synchronize(event: CUevent) => streams::cuEventSynchronize, (event);
        /// Gives an event up.
        fn destroy(event: CUevent) => streams::cuEventDestroy_v2, (event);
    }
}

/// Graphs.
pub mod graph {
    use super::*;
    use crate::base::cuda_names::CUgraphInstantiate_flags;
    use crate::base::hip::types::{hipGraphExec_t as CUgraphExec, hipGraph_t as CUgraph};

    results! {
        /// Makes a graph launchable.
        fn instantiate(graph: CUgraph, flags: CUgraphInstantiate_flags)
            -> CUgraphExec, null_mut() => graphs::cuGraphInstantiateWithFlags, (graph, flags as u64);
        /// Gives a launchable graph up.
        fn exec_destroy(graph_exec: CUgraphExec) => graphs::cuGraphExecDestroy, (graph_exec);
        /// Gives a graph up.
        fn destroy(graph: CUgraph) => graphs::cuGraphDestroy, (graph);
        /// Gives the captured work to a stream.
        fn launch(graph_exec: CUgraphExec, stream: CUstream) => graphs::cuGraphLaunch, (graph_exec, stream);
        /// Prepares the first launch ahead of time.
        fn upload(graph_exec: CUgraphExec, stream: CUstream) => graphs::cuGraphUpload, (graph_exec, stream);
    }
}

/// Code.
pub mod module {
    use std::ffi::CString;

    use super::*;
    use crate::base::hip::types::hipModule_t as CUmodule;

    results! {
        /// Loads code on the thread's current GPU.
        fn load_data(image: *const c_void) -> CUmodule, null_mut() => modules::cuModuleLoadData, (image);
        /// The kernel of this name.
        fn get_function(module: CUmodule, name: CString)
            -> CUfunction, null_mut() => modules::cuModuleGetFunction, (module, name.as_ptr());
        /// Unloads code.
        fn unload(module: CUmodule) => modules::cuModuleUnload, (module);
    }

    /// Loads code from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no code.
    pub fn load(fname: CString) -> Result<CUmodule> {
        use std::os::unix::ffi::OsStrExt as _;
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(fname.as_bytes()));
        let mut image = std::fs::read(path)
            .map_err(|error| Error::invalid(format!("reading {}: {error}", path.display())))?;
        // Text needs it, and code has its own size.
        image.push(0);
        // SAFETY: the image is there, and ends in NUL.
        unsafe { load_data(image.as_ptr().cast()) }
    }

    /// Address and bytes of the global variable of this name.
    pub unsafe fn get_global(module: CUmodule, name: CString) -> Result<(CUdeviceptr, usize)> {
        let mut bytes = 0;
        // SAFETY: the caller's promise; both places are writable.
        let address = got(0, |place| unsafe {
            modules::cuModuleGetGlobal_v2(place, &mut bytes, module, name.as_ptr())
        })?;
        Ok((address, bytes))
    }
}

/// What can be asked of a kernel, and set.
pub mod function {
    use super::*;
    use crate::base::cuda_names::{CUfunc_cache, CUfunction_attribute};

    results! {
        /// An attribute of a kernel.
        fn get_function_attribute(f: CUfunction, attribute: CUfunction_attribute)
            -> i32, 0 => modules::cuFuncGetAttribute, (attribute, f);
        /// Sets an attribute of a kernel.
        fn set_function_attribute(f: CUfunction, attribute: CUfunction_attribute, value: i32)
            => modules::cuFuncSetAttribute, (f, attribute, value);
        /// A preference, which nothing here depends on.
        fn set_function_cache_config(f: CUfunction, attribute: CUfunc_cache)
            => modules::cuFuncSetCacheConfig, (f, attribute);
    }
}

/// Contexts of GPUs.
pub mod ctx {
    use super::*;

    /// Makes a context's GPU the thread's current one.
    pub unsafe fn set_current(ctx: CUcontext) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { devices::cuCtxSetCurrent(ctx) }.result()
    }

    /// The context of the thread's current GPU.
    ///
    /// # Errors
    /// The runtime cannot start.
    pub fn get_current() -> Result<Option<CUcontext>> {
        // SAFETY: the place is writable.
        let context = got(null_mut(), |place| unsafe {
            devices::cuCtxGetCurrent(place)
        })?;
        Ok((!context.is_null()).then_some(context))
    }
}

/// Contexts of GPUs, which live as long as the process.
pub mod primary_ctx {
    use super::*;
    use crate::base::cuda_names::CUdevice;

    results! {
        /// The context of a GPU.
        fn retain(dev: CUdevice) -> CUcontext, null_mut() => devices::cuDevicePrimaryCtxRetain, (dev);
        /// Changes nothing.
        fn release(dev: CUdevice) => devices::cuDevicePrimaryCtxRelease_v2, (dev);
    }
}

/// Memory pools.
pub mod mem_pool {
    use super::*;
    use crate::base::cuda_names::{CUmemPool_attribute, CUmemoryPool};
    use crate::driver_api::{cuMemPoolGetAttribute, cuMemPoolSetAttribute};

    results! {
        /// What is known of a pool.
        fn get_attribute(pool: CUmemoryPool, attr: CUmemPool_attribute, value: *mut c_void)
            => cuMemPoolGetAttribute, (pool, attr, value);
        /// Sets something of a pool.
        fn set_attribute(pool: CUmemoryPool, attr: CUmemPool_attribute, value: *mut c_void)
            => cuMemPoolSetAttribute, (pool, attr, value);
        /// Memory of a pool, in a stream's order.
        fn alloc_async(pool: CUmemoryPool, num_bytes: usize, stream: CUstream)
            -> CUdeviceptr, 0 => cuMemAllocFromPoolAsync, (num_bytes, pool, stream);
    }
}
