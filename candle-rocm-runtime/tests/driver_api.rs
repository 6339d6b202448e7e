//! What programs ask the driver beside cudarc's safe layer: kernels' attributes and occupancy, memory and its pools.

mod common;

use candle_rocm_runtime::cuda_names::{
    CUctx_flags, CUdevice_attribute, CUfunc_cache, CUfunction_attribute, CUlimit,
    CUmemPool_attribute, CUresult,
};
use candle_rocm_runtime::driver_api::*;
use candle_rocm_runtime::{Context, ErrorKind, LaunchConfig};
use common::{context, on_amds_hip, probe};

#[test]
fn a_kernels_attributes() {
    let context = context();
    let kernel = probe(&context).load_function("saxpy").unwrap();
    let info = context.info();
    let most = info.max_lds_bytes as i32;
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(kernel.shared_size_bytes().unwrap(), 0);
    assert_eq!(kernel.get_attribute(attribute).unwrap(), most);
    assert_eq!(
        kernel.max_threads_per_block().unwrap() as u32,
        kernel.largest_workgroup()
    );
    assert!(kernel.num_regs().unwrap() > 0);
    assert_eq!(kernel.local_size_bytes().unwrap(), 0);

    kernel.set_attribute(attribute, most).unwrap();
    for bytes in [most + 1, 69_632.max(most + 4096), -1] {
        let error = kernel.set_attribute(attribute, bytes).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(error.cu_result(), CUresult::CUDA_ERROR_INVALID_VALUE);
        let limit = format!("has {most} for a workgroup");
        assert!(error.message().contains(&limit), "{error}");
    }
    let fixed = kernel.set_attribute(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS, 8);
    assert!(fixed.unwrap_err().message().contains("cannot be set"));
    let clusters = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
    assert!(kernel
        .set_attribute(clusters, 1)
        .unwrap_err()
        .message()
        .contains("clusters"));
    kernel
        .set_function_cache_config(CUfunc_cache::CU_FUNC_CACHE_PREFER_L1)
        .unwrap();
    let config = LaunchConfig::for_num_elems(1);
    let error = kernel.occupancy_max_active_clusters(config, &context.default_stream());
    assert_eq!(*error.unwrap_err().kind(), ErrorKind::Unsupported);
}

extern "C" fn sixteen_bytes_each(work_items: i32) -> usize {
    work_items as usize * 16
}

#[test]
fn occupancy_goes_by_what_fits() {
    let context = context();
    let kernel = probe(&context).load_function("saxpy").unwrap();
    let info = context.info();
    let fit = |lds| {
        kernel
            .occupancy_max_active_blocks_per_multiprocessor(256, lds, None)
            .unwrap()
    };
    assert!(fit(0) >= fit(16 << 10) && fit(16 << 10) >= 1);
    // With all of the LDS one fits, or two where two compute units share what each has.
    let all = fit(info.max_lds_bytes as usize);
    assert!((1..=2).contains(&all), "{all}");
    let available = kernel
        .occupancy_available_dynamic_smem_per_block(all, 256)
        .unwrap();
    assert_eq!(available, info.max_lds_bytes as usize);
    let for_more = kernel
        .occupancy_available_dynamic_smem_per_block(all + 1, 256)
        .unwrap();
    assert!(for_more < available);
    assert!(
        fit(for_more) > all && fit(for_more + 1) <= all,
        "{for_more}"
    );
    let error = kernel.occupancy_available_dynamic_smem_per_block(1000, 256);
    assert!(error.unwrap_err().message().contains("do not fit"));

    let (grid, block) = kernel
        .occupancy_max_potential_block_size(sixteen_bytes_each, 0, 512, None)
        .unwrap();
    assert!(block != 0 && block <= 512);
    let lds = sixteen_bytes_each(block as i32);
    let count = kernel
        .occupancy_max_active_blocks_per_multiprocessor(block, lds, None)
        .unwrap();
    assert_eq!(grid, count * info.compute_units);
    // No other size has more work-items on a compute unit.
    for size in (info.wavefront_size..=512).step_by(info.wavefront_size as usize) {
        let lds = sixteen_bytes_each(size as i32);
        let fits = kernel
            .occupancy_max_active_blocks_per_multiprocessor(size, lds, None)
            .unwrap();
        assert!(fits * size <= count * block, "{size}");
    }
}

#[test]
fn memory_and_pools_by_handle() {
    let context = context();
    context.bind_to_thread().unwrap();
    let (mut free, mut total) = (0, 0);
    // SAFETY: the places are writable, here and below.
    unsafe { cuMemGetInfo_v2(&mut free, &mut total) }
        .result()
        .unwrap();
    assert_eq!(total, context.total_mem().unwrap());
    assert!(free != 0 && free <= total);
    assert_eq!(mem_get_info().unwrap().1, total);

    let mut pool = std::ptr::null_mut();
    // SAFETY: as above.
    unsafe { cuDeviceGetDefaultMemPool(&mut pool, context.cu_device()) }
        .result()
        .unwrap();
    let ask = |attribute| {
        let mut value = 0u64;
        // SAFETY: as above, of a 64-bit number.
        let asked = unsafe { cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()) };
        asked.result().map(|()| value as usize)
    };
    let used = || ask(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT).unwrap();
    let reserved = || ask(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT).unwrap();
    let before = used();
    let buffer = context.default_stream().alloc_zeros::<u8>(1 << 20).unwrap();
    assert_eq!(used(), before + (1 << 20));
    drop(buffer);
    assert_eq!(used(), before);
    // SAFETY: nothing is needed.
    unsafe {
        cuMemPoolTrimTo(pool, usize::MAX).result().unwrap();
        cuMemPoolTrimTo(pool, 0).result().unwrap();
    }
    assert_eq!(reserved(), used());
    let error = ask(CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unsupported);
    // SAFETY: nothing is needed.
    let null = unsafe { cuMemPoolTrimTo(std::ptr::null_mut(), 0) };
    assert_eq!(null, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(null.result().unwrap_err().message(), "a null memory pool");
    // Told once: the same number again knows no more.
    let plain = CUresult::CUDA_ERROR_INVALID_VALUE.result().unwrap_err();
    assert_eq!(plain.message(), "CUDA_ERROR_INVALID_VALUE");
    CUresult::CUDA_SUCCESS.result().unwrap();
}

#[test]
fn gpus_by_number() {
    let context = context();
    let (mut count, mut device, mut threads) = (0, -1, 0);
    // SAFETY: the places are writable.
    unsafe {
        cuInit(0).result().unwrap();
        cuDeviceGetCount(&mut count).result().unwrap();
        cuDeviceGet(&mut device, 0).result().unwrap();
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        cuDeviceGetAttribute(&mut threads, attribute, 0)
            .result()
            .unwrap();
        assert_eq!(
            cuDeviceGet(&mut device, count),
            CUresult::CUDA_ERROR_INVALID_DEVICE
        );
        cuCtxSynchronize().result().unwrap();
    }
    assert_eq!(
        (device, threads as u32),
        (0, context.info().max_threads_per_block)
    );
    assert_eq!(name(0).unwrap(), context.name().unwrap());
    let none = get(count).unwrap_err();
    assert_eq!(
        none.cu_result(),
        CUresult::CUDA_ERROR_INVALID_DEVICE,
        "{none}"
    );
    assert!(get(-1).is_err());
}

#[test]
fn a_contexts_settings() {
    let context = context();
    context.set_blocking_synchronize().unwrap();
    context.set_flags(CUctx_flags::CU_CTX_SCHED_YIELD).unwrap();
    context
        .set_cache_config(CUfunc_cache::CU_FUNC_CACHE_PREFER_L1)
        .unwrap();
    assert_eq!(
        context.get_cache_config().unwrap(),
        CUfunc_cache::CU_FUNC_CACHE_PREFER_NONE
    );
    let limit = context.get_limit(CUlimit::CU_LIMIT_STACK_SIZE).unwrap_err();
    assert!(
        limit.message().starts_with("CU_LIMIT_STACK_SIZE: "),
        "{limit}"
    );
    assert!(context
        .set_limit(CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE, 1)
        .is_err());
    assert_eq!(Context::new_non_primary(0, 0).unwrap(), context);
    // AMD's HIP has none of the emulated GPU.
    if !on_amds_hip() {
        assert_ne!(context.uuid().unwrap().bytes, [0; 16]);
        assert_eq!(uuid(0).unwrap(), context.uuid().unwrap());
    }
}
