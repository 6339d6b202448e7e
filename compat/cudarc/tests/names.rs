//! What docs/user/cudarc.md says is there has cudarc 0.19.10's signatures.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cudarc::cublaslt::{self, CudaBlasLT, Matmul, MatmulConfig, MatmulShared};
use cudarc::driver::{
    result, sys, CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaModule, CudaSlice,
    CudaStream, DevicePtr, DriverError, HostSlice, LaunchConfig,
};
use cudarc::nvrtc::{CompileError, CompileOptions, Ptx};
use cudarc::types::CudaTypeName;

type Result<T, E = DriverError> = std::result::Result<T, E>;

/// Says that a function has a type; other types do not compile.
macro_rules! typed {
    ($($function:expr => $type:ty;)*) => {
        $(
            let _: $type = $function;
        )*
    };
}

#[test]
fn contexts_streams_and_events() {
    typed! {
        CudaContext::new => fn(usize) -> Result<Arc<CudaContext>>;
        CudaContext::new_non_primary => fn(usize, u32) -> Result<Arc<CudaContext>>;
        CudaContext::device_count => fn() -> Result<i32>;
        CudaContext::name => fn(&CudaContext) -> Result<String>;
        CudaContext::uuid => fn(&CudaContext) -> Result<sys::CUuuid>;
        CudaContext::total_mem => fn(&CudaContext) -> Result<usize>;
        CudaContext::mem_get_info => fn(&CudaContext) -> Result<(usize, usize)>;
        CudaContext::attribute => fn(&CudaContext, sys::CUdevice_attribute) -> Result<i32>;
        CudaContext::set_blocking_synchronize => fn(&CudaContext) -> Result<()>;
        CudaContext::set_flags => fn(&CudaContext, sys::CUctx_flags) -> Result<()>;
        CudaContext::get_limit => fn(&CudaContext, sys::CUlimit) -> Result<usize>;
        CudaContext::set_limit => fn(&CudaContext, sys::CUlimit, usize) -> Result<()>;
        CudaContext::get_cache_config => fn(&CudaContext) -> Result<sys::CUfunc_cache>;
        CudaContext::set_cache_config => fn(&CudaContext, sys::CUfunc_cache) -> Result<()>;
        CudaContext::new_event => fn(&Arc<CudaContext>, Option<sys::CUevent_flags>) -> Result<CudaEvent>;
        CudaContext::load_module => fn(&Arc<CudaContext>, Ptx) -> Result<Arc<CudaModule>>;
        CudaContext::new_stream_with_priority => fn(&Arc<CudaContext>, i32) -> Result<Arc<CudaStream>>;
        CudaContext::wrap_borrowed_stream => unsafe fn(&Arc<CudaContext>, sys::CUstream) -> Arc<CudaStream>;
        CudaStream::fork => fn(&CudaStream) -> Result<Arc<CudaStream>>;
        CudaStream::join => fn(&CudaStream, &CudaStream) -> Result<()>;
        CudaStream::wait => fn(&CudaStream, &CudaEvent) -> Result<()>;
        CudaStream::cu_stream => fn(&CudaStream) -> sys::CUstream;
        CudaStream::begin_capture => fn(&CudaStream, sys::CUstreamCaptureMode) -> Result<()>;
        CudaEvent::cu_event => fn(&CudaEvent) -> sys::CUevent;
        CudaEvent::elapsed_ms => fn(&CudaEvent, &CudaEvent) -> Result<f32>;
        CudaEvent::try_is_complete => fn(&CudaEvent) -> Result<bool>;
        CudaGraph::cu_graph => fn(&CudaGraph) -> sys::CUgraph;
        CudaGraph::cu_graph_exec => fn(&CudaGraph) -> sys::CUgraphExec;
        CudaSlice::<f32>::leak => fn(CudaSlice<f32>) -> sys::CUdeviceptr;
    }
    fn has<T: DevicePtr<f32>, H: HostSlice<f32>>() {}
    has::<CudaSlice<f32>, Vec<f32>>();
}

#[test]
fn functions() {
    type Flags = Option<sys::CUoccupancy_flags_enum>;
    type Needs = extern "C" fn(c_int) -> usize;
    type Pair = (u32, u32);
    typed! {
        CudaModule::load_function => fn(&Arc<CudaModule>, &str) -> Result<CudaFunction>;
        CudaFunction::cu_function => fn(&CudaFunction) -> sys::CUfunction;
        CudaFunction::get_attribute => fn(&CudaFunction, sys::CUfunction_attribute_enum) -> Result<i32>;
        CudaFunction::set_attribute => fn(&CudaFunction, sys::CUfunction_attribute_enum, i32) -> Result<()>;
        CudaFunction::set_function_cache_config => fn(&CudaFunction, sys::CUfunc_cache_enum) -> Result<()>;
        CudaFunction::num_regs => fn(&CudaFunction) -> Result<i32>;
        CudaFunction::max_threads_per_block => fn(&CudaFunction) -> Result<i32>;
        CudaFunction::occupancy_max_active_blocks_per_multiprocessor =>
            fn(&CudaFunction, u32, usize, Flags) -> Result<u32>;
        CudaFunction::occupancy_available_dynamic_smem_per_block => fn(&CudaFunction, u32, u32) -> Result<usize>;
        CudaFunction::occupancy_max_potential_block_size =>
            fn(&CudaFunction, Needs, usize, u32, Flags) -> Result<Pair>;
        CudaFunction::occupancy_max_active_clusters => fn(&CudaFunction, LaunchConfig, &CudaStream) -> Result<u32>;
    }
}

#[test]
fn what_the_driver_is_asked() {
    typed! {
        result::init => fn() -> Result<()>;
        result::mem_get_info => fn() -> Result<(usize, usize)>;
        result::device::get => fn(c_int) -> Result<sys::CUdevice>;
        result::device::get_count => fn() -> Result<c_int>;
        result::device::get_name => fn(sys::CUdevice) -> Result<String>;
        result::device::get_uuid => fn(sys::CUdevice) -> Result<sys::CUuuid>;
        result::device::total_mem => unsafe fn(sys::CUdevice) -> Result<usize>;
        result::device::get_attribute => unsafe fn(sys::CUdevice, sys::CUdevice_attribute) -> Result<i32>;
        result::device::get_default_mem_pool => unsafe fn(sys::CUdevice) -> Result<sys::CUmemoryPool>;
        result::mem_pool::trim_to => unsafe fn(sys::CUmemoryPool, usize) -> Result<()>;
        result::ctx::synchronize => fn() -> Result<()>;
        sys::CUresult::result => fn(sys::CUresult) -> Result<()>;
        sys::cuDeviceGetDefaultMemPool => unsafe fn(*mut sys::CUmemoryPool, sys::CUdevice) -> sys::CUresult;
        sys::cuMemPoolTrimTo => unsafe fn(sys::CUmemoryPool, usize) -> sys::CUresult;
        sys::cuMemPoolGetAttribute =>
            unsafe fn(sys::CUmemoryPool, sys::CUmemPool_attribute, *mut c_void) -> sys::CUresult;
        sys::cuMemGetInfo_v2 => unsafe fn(*mut usize, *mut usize) -> sys::CUresult;
    }
}

#[test]
fn handles_and_addresses() {
    type Raw<T> = unsafe fn(T) -> Result<()>;
    type HostFunction = unsafe extern "C" fn(*mut c_void);
    type Dim3 = (u32, u32, u32);
    type Arguments<'a> = &'a mut [*mut c_void];
    type Launch =
        unsafe fn(sys::CUfunction, Dim3, Dim3, u32, sys::CUstream, Arguments) -> Result<()>;
    typed! {
        CudaContext::cu_ctx => fn(&CudaContext) -> sys::CUcontext;
        DriverError::error_name => fn(&DriverError) -> Result<&std::ffi::CStr>;
        result::malloc_async => unsafe fn(sys::CUstream, usize) -> Result<sys::CUdeviceptr>;
        result::malloc_sync => unsafe fn(usize) -> Result<sys::CUdeviceptr>;
        result::malloc_host => unsafe fn(usize, u32) -> Result<*mut c_void>;
        result::free_async => unsafe fn(sys::CUdeviceptr, sys::CUstream) -> Result<()>;
        result::free_sync => Raw<sys::CUdeviceptr>;
        result::memset_d8_async => unsafe fn(sys::CUdeviceptr, u8, usize, sys::CUstream) -> Result<()>;
        result::memcpy_htod_async::<f32> => unsafe fn(sys::CUdeviceptr, &[f32], sys::CUstream) -> Result<()>;
        result::memcpy_dtoh_async::<f32> => unsafe fn(&mut [f32], sys::CUdeviceptr, sys::CUstream) -> Result<()>;
        result::memcpy_dtod_async =>
            unsafe fn(sys::CUdeviceptr, sys::CUdeviceptr, usize, sys::CUstream) -> Result<()>;
        result::launch_kernel => Launch;
        result::stream::create => fn(result::stream::StreamKind) -> Result<sys::CUstream>;
        result::stream::synchronize => Raw<sys::CUstream>;
        result::stream::wait_event =>
            unsafe fn(sys::CUstream, sys::CUevent, sys::CUevent_wait_flags) -> Result<()>;
        result::stream::launch_host_function =>
            unsafe fn(sys::CUstream, HostFunction, *mut c_void) -> Result<()>;
        result::stream::begin_capture => unsafe fn(sys::CUstream, sys::CUstreamCaptureMode) -> Result<()>;
        result::stream::end_capture => unsafe fn(sys::CUstream) -> Result<sys::CUgraph>;
        result::stream::is_capturing => unsafe fn(sys::CUstream) -> Result<sys::CUstreamCaptureStatus>;
        result::event::create => fn(sys::CUevent_flags) -> Result<sys::CUevent>;
        result::event::query => Raw<sys::CUevent>;
        result::event::elapsed => unsafe fn(sys::CUevent, sys::CUevent) -> Result<f32>;
        result::graph::instantiate =>
            unsafe fn(sys::CUgraph, sys::CUgraphInstantiate_flags) -> Result<sys::CUgraphExec>;
        result::graph::launch => unsafe fn(sys::CUgraphExec, sys::CUstream) -> Result<()>;
        result::module::load_data => unsafe fn(*const c_void) -> Result<sys::CUmodule>;
        result::module::get_function =>
            unsafe fn(sys::CUmodule, std::ffi::CString) -> Result<sys::CUfunction>;
        result::device::get_mem_pool => unsafe fn(sys::CUdevice) -> Result<sys::CUmemoryPool>;
        result::mem_pool::set_attribute =>
            unsafe fn(sys::CUmemoryPool, sys::CUmemPool_attribute, *mut c_void) -> Result<()>;
        sys::cuStreamBeginCapture_v2 => unsafe fn(sys::CUstream, sys::CUstreamCaptureMode) -> sys::CUresult;
        sys::cuStreamEndCapture => unsafe fn(sys::CUstream, *mut sys::CUgraph) -> sys::CUresult;
        sys::cuGraphInstantiateWithFlags =>
            unsafe fn(*mut sys::CUgraphExec, sys::CUgraph, u64) -> sys::CUresult;
        sys::cuGraphLaunch => unsafe fn(sys::CUgraphExec, sys::CUstream) -> sys::CUresult;
        sys::cuMemcpyHtoDAsync_v2 =>
            unsafe fn(sys::CUdeviceptr, *const c_void, usize, sys::CUstream) -> sys::CUresult;
        sys::cuDeviceCanAccessPeer => unsafe fn(*mut c_int, sys::CUdevice, sys::CUdevice) -> sys::CUresult;
        sys::cuCtxEnablePeerAccess => unsafe fn(sys::CUcontext, u32) -> sys::CUresult;
        cudarc::driver::profiler_start => fn() -> Result<()>;
    }
    let number = |error: DriverError| error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    let _ = number;
}

#[test]
fn errors_by_number() {
    let is_not_ready = |ended: Result<()>| match ended {
        Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => true,
        Ok(()) | Err(result::DriverError(_)) => false,
        Err(described) => described.0 == sys::CUresult::CUDA_ERROR_NOT_READY,
    };
    assert!(is_not_ready(sys::CUresult::CUDA_ERROR_NOT_READY.result()));
    assert!(!is_not_ready(sys::CUresult::CUDA_SUCCESS.result()));
    assert!(!is_not_ready(
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY.result()
    ));
    let error = DriverError(sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    assert_eq!(error.0 as u32, 704);
    assert_eq!(error.to_string(), "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED");
    assert_eq!(error.clone(), error);
    assert!(!error.is_out_of_memory());
}

#[test]
fn collectives() {
    use cudarc::nccl::result::{NcclError, NcclStatus};
    use cudarc::nccl::{result, sys, Comm, Group, Id, ReduceOp};
    type All<T> = Result<T, NcclError>;
    type Slice = CudaSlice<f32>;
    type Between = fn(&Comm, &Slice, &mut Slice, &ReduceOp) -> All<NcclStatus>;
    type Within = fn(&Comm, &mut Slice, &ReduceOp) -> All<NcclStatus>;
    type Bytes = [std::ffi::c_char; 128];
    typed! {
        Id::new => fn() -> All<Id>;
        Id::uninit => fn(Bytes) -> Id;
        Id::internal => fn(&Id) -> &Bytes;
        Comm::from_devices => fn(Vec<Arc<CudaStream>>) -> All<Vec<Comm>>;
        Comm::from_rank => fn(Arc<CudaStream>, usize, usize, Id) -> All<Comm>;
        Comm::stream => fn(&Comm) -> Arc<CudaStream>;
        Comm::context => fn(&Comm) -> &Arc<CudaContext>;
        Comm::ordinal => fn(&Comm) -> usize;
        Comm::rank => fn(&Comm) -> usize;
        Comm::world_size => fn(&Comm) -> usize;
        Comm::send::<Slice, f32> => fn(&Comm, &Slice, i32) -> All<()>;
        Comm::recv::<Slice, f32> => fn(&Comm, &mut Slice, i32) -> All<NcclStatus>;
        Comm::broadcast::<Slice, Slice, f32> => fn(&Comm, Option<&Slice>, &mut Slice, i32) -> All<NcclStatus>;
        Comm::broadcast_in_place::<Slice, f32> => fn(&Comm, &mut Slice, i32) -> All<NcclStatus>;
        Comm::all_gather::<Slice, Slice, f32> => fn(&Comm, &Slice, &mut Slice) -> All<NcclStatus>;
        Comm::all_reduce::<Slice, Slice, f32> => Between;
        Comm::all_reduce_in_place::<Slice, f32> => Within;
        Comm::reduce::<Slice, Slice, f32> =>
            fn(&Comm, &Slice, Option<&mut Slice>, &ReduceOp, i32) -> All<NcclStatus>;
        Comm::reduce_in_place::<Slice, f32> => fn(&Comm, &mut Slice, &ReduceOp, i32) -> All<NcclStatus>;
        Comm::reduce_scatter::<Slice, Slice, f32> => Between;
        Comm::group => fn(&Comm) -> Group<'_>;
        cudarc::nccl::group_start => fn() -> All<NcclStatus>;
        cudarc::nccl::safe::group_end => fn() -> All<NcclStatus>;
        result::get_uniqueid => fn() -> All<sys::ncclUniqueId>;
        result::get_nccl_version => fn() -> All<c_int>;
        result::comm_init_rank =>
            unsafe fn(*mut sys::ncclComm_t, c_int, sys::ncclUniqueId, c_int) -> All<NcclStatus>;
        result::comm_init_all => unsafe fn(*mut sys::ncclComm_t, c_int, *const c_int) -> All<NcclStatus>;
        result::comm_abort => unsafe fn(sys::ncclComm_t) -> All<NcclStatus>;
        result::comm_count => unsafe fn(sys::ncclComm_t) -> All<c_int>;
        result::all_reduce => unsafe fn(
            *const c_void,
            *mut c_void,
            usize,
            sys::ncclDataType_t,
            sys::ncclRedOp_t,
            sys::ncclComm_t,
            sys::cudaStream_t,
        ) -> All<NcclStatus>;
        result::recv => unsafe fn(
            *mut c_void,
            usize,
            sys::ncclDataType_t,
            c_int,
            sys::ncclComm_t,
            sys::cudaStream_t,
        ) -> All<NcclStatus>;
        sys::ncclResult_t::result => fn(sys::ncclResult_t) -> All<NcclStatus>;
    }
    let number = |error: NcclError| error.0 == sys::ncclResult_t::ncclRemoteError;
    let _ = number;
}

#[test]
fn libraries() {
    use cublaslt::result::CublasError;
    use cublaslt::sys as lt;
    typed! {
        CudaBlasLT::new => fn(Arc<CudaStream>) -> Result<CudaBlasLT, CublasError>;
        <CudaBlasLT as MatmulShared>::handle => fn(&CudaBlasLT) -> &lt::cublasLtHandle_t;
        <CudaBlasLT as Matmul<f32>>::matrix_type => fn() -> lt::cudaDataType;
        cublaslt::result::create_matrix_layout =>
            fn(lt::cudaDataType, u64, u64, i64) -> Result<lt::cublasLtMatrixLayout_t, CublasError>;
        cublaslt::result::create_matmul_desc =>
            fn(lt::cublasComputeType_t, lt::cudaDataType) -> Result<lt::cublasLtMatmulDesc_t, CublasError>;
        cublaslt::result::set_matmul_desc_attribute => unsafe fn(
            lt::cublasLtMatmulDesc_t,
            lt::cublasLtMatmulDescAttributes_t,
            *const c_void,
            usize,
        ) -> Result<(), CublasError>;
        Ptx::to_src => fn(&Ptx) -> String;
        cudarc::nvrtc::compile_ptx::<&str> => fn(&'static str) -> Result<Ptx, CompileError>;
        cudarc::nvrtc::compile_ptx_with_opts::<&str> => fn(&'static str, CompileOptions) -> Result<Ptx, CompileError>;
    }
    let half_of = |cfg: MatmulConfig| cfg.alpha / 2.0;
    let _ = half_of;
    assert_eq!(<f32 as CudaTypeName>::NAME, "float");
}
