//! The driver by its handles, as programs call it beside cudarc's safe layer: streams, events, captures, graphs, memory, code.

mod common;

use std::ffi::{c_void, CString};
use std::sync::atomic::{AtomicU32, Ordering};

use candle_rocm_runtime::cuda_names::{
    CUevent_flags, CUevent_wait_flags, CUfunction_attribute, CUgraphInstantiate_flags as Flags,
    CUgraphMem_attribute, CUmemPool_attribute, CUresult, CUstream, CUstreamCaptureMode as Mode,
    CUstreamCaptureStatus as Status,
};
use candle_rocm_runtime::driver_api::{cuDeviceGetMemPool, cuMemPoolSetAttribute};
use candle_rocm_runtime::raw_handles::devices::*;
use candle_rocm_runtime::raw_handles::graphs::*;
use candle_rocm_runtime::raw_handles::memory::*;
use candle_rocm_runtime::raw_handles::streams::*;
use candle_rocm_runtime::raw_handles::{modules, profiler, result};
use candle_rocm_runtime::{
    DevicePtr as _, DevicePtrMut as _, Error, Image, LaunchConfig, PushKernelArg as _,
};
use common::{context, in_process, probe, probe_code};

const RELAXED: Mode = Mode::CU_STREAM_CAPTURE_MODE_RELAXED;

/// Adds 1 to `n` words at an address, by the kernel's handle.
///
/// # Safety
/// The words are there.
unsafe fn increment(
    function: *mut c_void,
    stream: CUstream,
    mut n: u32,
    mut words: u64,
) -> Result<(), Error> {
    let mut arguments = [(&raw mut n).cast(), (&raw mut words).cast()];
    let grid = (n.div_ceil(256), 1, 1);
    // SAFETY: the arguments are those of the kernel; the rest is the caller's promise.
    unsafe { result::launch_kernel(function, grid, (256, 1, 1), 0, stream, &mut arguments) }
}

#[test]
fn memory_by_address() {
    let context = context();
    context.bind_to_thread().unwrap();
    let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
    let host: Vec<u32> = (0..100).collect();
    let mut back = vec![0u32; 100];
    // SAFETY: all addresses have 400 bytes, and every copy is waited for.
    unsafe {
        let x = result::malloc_async(stream, 400).unwrap();
        let y = result::malloc_sync(400).unwrap();
        result::memcpy_htod_async(x, &host, stream).unwrap();
        result::memcpy_dtod_async(y, x, 400, stream).unwrap();
        result::memcpy_dtoh_async(&mut back, y, stream).unwrap();
        result::stream::synchronize(stream).unwrap();
        assert_eq!(back, host);
        result::memset_d8_async(x, 0xff, 40, stream).unwrap();
        cuMemsetD32Async(x + 40, 7, 10, stream).result().unwrap();
        result::stream::synchronize(stream).unwrap();
        result::memcpy_dtoh_sync(&mut back, x).unwrap();
        assert_eq!(back[..10], [u32::MAX; 10]);
        assert_eq!(back[10..20], [7; 10]);
        assert_eq!(back[20..], host[20..]);
        result::memset_d8_sync(y, 1, 400).unwrap();
        result::memcpy_dtod_sync(x, y, 4).unwrap();
        result::memcpy_htod_sync(y, &[5u32]).unwrap();
        result::memcpy_dtoh_sync(&mut back[..1], x).unwrap();
        assert_eq!(back[0], 0x0101_0101);
        result::memcpy_dtoh_sync(&mut back[..2], y).unwrap();
        assert_eq!(back[..2], [5, 0x0101_0101]);
        result::free_async(x, stream).unwrap();
        result::free_sync(y).unwrap();
        result::memory_free(0).unwrap();
        let error = result::malloc_sync(0).unwrap_err();
        assert_eq!(error.0, CUresult::CUDA_ERROR_INVALID_VALUE, "{error}");
        result::stream::destroy(stream).unwrap();
    }
}

#[test]
fn what_a_buffer_leaks_is_freed_by_address() {
    // The pool's bytes in use are those of all tests of a process.
    in_process("what_a_buffer_leaks_is_freed_by_address", &[], || {
        let context = context();
        context.bind_to_thread().unwrap();
        let in_use = || context.pool_statistics().in_use;
        let stream = context.default_stream();
        let before = in_use();
        for is_waited_for in [true, false] {
            let address = stream.alloc_zeros::<u8>(1 << 20).unwrap().leak();
            assert_eq!(in_use(), before + (1 << 20));
            // SAFETY: nobody uses it any more.
            unsafe {
                match is_waited_for {
                    true => result::free_sync(address),
                    false => result::free_async(address, stream.cu_stream()),
                }
            }
            .unwrap();
            assert_eq!(in_use(), before);
        }
    });
}

#[test]
fn page_locked_memory_is_the_devices_too() {
    let context = context();
    context.bind_to_thread().unwrap();
    let stream = context.default_stream();
    let function = probe(&context).load_function("increment").unwrap();
    // SAFETY: the memory has 64 words, which are written before they are read, and lives until the kernel is done.
    unsafe {
        let memory = result::malloc_host(256, 2).unwrap().cast::<u32>();
        memory.write_bytes(0, 64);
        let mut address = 0;
        cuMemHostGetDevicePointer_v2(&mut address, memory.cast(), 0)
            .result()
            .unwrap();
        increment(function.cu_function(), stream.cu_stream(), 64, address).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(std::slice::from_raw_parts(memory, 64), [1; 64]);
        result::free_host(memory.cast()).unwrap();

        let mut own = vec![0u32; 4096];
        let bytes = std::mem::size_of_val(own.as_slice());
        cuMemHostRegister_v2(own.as_mut_ptr().cast(), bytes, 0)
            .result()
            .unwrap();
        result::memcpy_htod_async(
            stream.alloc_zeros::<u32>(4096).unwrap().leak(),
            &own,
            stream.cu_stream(),
        )
        .unwrap();
        stream.synchronize().unwrap();
        cuMemHostUnregister(own.as_mut_ptr().cast())
            .result()
            .unwrap();
    }
}

unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: what `streams_events_and_functions_of_the_host` passes.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn streams_events_and_functions_of_the_host() {
    let context = context();
    context.bind_to_thread().unwrap();
    let (least, greatest) = result::stream::get_priority_range().unwrap();
    assert!(greatest <= least);
    let counted = AtomicU32::new(0);
    for kind in [
        result::stream::StreamKind::Default,
        result::stream::StreamKind::NonBlocking,
    ] {
        let one = result::stream::create(kind).unwrap();
        let other = result::stream::create_with_priority(kind, least).unwrap();
        assert!(!one.is_null() && one != other);
        let begin = result::event::create(CUevent_flags::CU_EVENT_DEFAULT).unwrap();
        let end = result::event::create(CUevent_flags::CU_EVENT_DEFAULT).unwrap();
        // SAFETY: the handles are alive, and `counted` outlives both streams' work.
        unsafe {
            result::event::record(begin, one).unwrap();
            let data = (&raw const counted).cast_mut().cast();
            result::stream::launch_host_function(one, count, data).unwrap();
            result::event::record(end, one).unwrap();
            result::stream::wait_event(other, end, CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
                .unwrap();
            result::stream::launch_host_function(other, count, data).unwrap();
            result::stream::synchronize(other).unwrap();
            cuStreamQuery(other).result().unwrap();
            result::event::query(end).unwrap();
            result::event::synchronize(end).unwrap();
            assert!(result::event::elapsed(begin, end).unwrap() >= 0.);
            result::event::destroy(begin).unwrap();
            result::event::destroy(end).unwrap();
            result::stream::destroy(one).unwrap();
            result::stream::destroy(other).unwrap();
            // It is nobody's any more.
            let error = result::stream::destroy(one).unwrap_err();
            assert_eq!(error.0, CUresult::CUDA_ERROR_INVALID_HANDLE, "{error}");
        }
    }
    assert_eq!(counted.into_inner(), 4);
}

#[test]
fn a_capture_by_handle_is_one_to_the_safe_layer() {
    in_process("a_capture_by_handle_is_one_to_the_safe_layer", &[], || {
        let context = context();
        // SAFETY: one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        let raw = stream.cu_stream();
        let function = probe(&context).load_function("increment").unwrap();
        let n = 300u32;
        let mut x = stream.clone_htod(&vec![5u32; n as usize]).unwrap();
        let address = x.device_ptr(&stream).0;
        // SAFETY: the handles are alive, and the kernel's words are there.
        unsafe {
            result::stream::begin_capture(raw, RELAXED).unwrap();
            let active = Status::CU_STREAM_CAPTURE_STATUS_ACTIVE;
            assert_eq!(result::stream::is_capturing(raw).unwrap(), active);
            assert_eq!(stream.capture_status().unwrap(), active);
            let refused = result::stream::synchronize(raw).unwrap_err();
            assert!(
                refused.message().contains("end the capture first"),
                "{refused}"
            );
            increment(function.cu_function(), raw, n, address).unwrap();
            let mut launch = stream.launch_builder(&function);
            launch.arg(&n).arg(&mut x);
            launch.launch(LaunchConfig::for_num_elems(n)).unwrap();
            // What the capture frees is the graph's as long as something launchable of it is there.
            drop(stream.alloc::<u8>(4096).unwrap());
            let held = || {
                let mut held = 0u64;
                let current = CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT;
                cuDeviceGetGraphMemAttribute(0, current, (&raw mut held).cast())
                    .result()
                    .unwrap();
                held
            };
            assert_eq!(held(), 4096);
            let graph = result::stream::end_capture(raw).unwrap();
            let mut nodes = 0;
            cuGraphGetNodes(graph, std::ptr::null_mut(), &mut nodes)
                .result()
                .unwrap();
            assert_eq!(nodes, 2);
            let exec = result::graph::instantiate(graph, Flags::NONE).unwrap();
            result::graph::destroy(graph).unwrap();
            assert_eq!(held(), 4096);
            assert_eq!(stream.clone_dtoh(&x).unwrap(), vec![5; n as usize]);
            result::graph::upload(exec, raw).unwrap();
            result::graph::launch(exec, raw).unwrap();
            result::graph::launch(exec, raw).unwrap();
            assert_eq!(stream.clone_dtoh(&x).unwrap(), vec![9; n as usize]);
            result::graph::exec_destroy(exec).unwrap();
            assert_eq!(held(), 0);
            cuDeviceGraphMemTrim(0).result().unwrap();
        }
    });
}

#[test]
fn captures_that_fail_leave_nothing() {
    in_process("captures_that_fail_leave_nothing", &[], || {
        let context = context();
        context.bind_to_thread().unwrap();
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        // SAFETY: the handles are alive.
        unsafe {
            assert!(result::stream::end_capture(stream).is_err());
            result::stream::begin_capture(stream, RELAXED).unwrap();
            assert!(result::stream::begin_capture(stream, RELAXED).is_err());
            // A stream that is given up ends its capture: the next one, which is the same to HIP, is free of it.
            result::stream::destroy(stream).unwrap();
            let next = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
            let none = Status::CU_STREAM_CAPTURE_STATUS_NONE;
            assert_eq!(result::stream::is_capturing(next).unwrap(), none);
            context.synchronize().unwrap();
            let mut mode = RELAXED;
            cuThreadExchangeStreamCaptureMode(&mut mode)
                .result()
                .unwrap();
            assert_eq!(mode, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL);
            cuThreadExchangeStreamCaptureMode(&mut mode)
                .result()
                .unwrap();
            assert_eq!(mode, RELAXED);
            result::stream::destroy(next).unwrap();
        }
    });
}

#[test]
fn code_by_handles() {
    let context = context();
    context.bind_to_thread().unwrap();
    let stream = context.default_stream();
    let code = probe_code(&context.info().arch);
    let mut x = stream.clone_htod(&[3u32; 300]).unwrap();
    let address = x.device_ptr_mut(&stream).0;
    let most = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    // SAFETY: the code is whole, the handles are alive, and the kernel's words are there.
    unsafe {
        let module = result::module::load_data(code.as_ptr().cast()).unwrap();
        let name = |name: &str| CString::new(name).unwrap();
        let function = result::module::get_function(module, name("increment")).unwrap();
        assert!(result::function::get_function_attribute(function, most).unwrap() > 0);
        let mut fit = 0;
        modules::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut fit, function, 256, 0)
            .result()
            .unwrap();
        assert!(fit > 0);
        increment(function, stream.cu_stream(), 300, address).unwrap();
        assert_eq!(stream.clone_dtoh(&x).unwrap(), [4; 300]);
        let none = increment(function, stream.cu_stream(), 0, address).unwrap_err();
        assert_eq!(none.0, CUresult::CUDA_ERROR_INVALID_VALUE);
        assert!(none.message().contains("`increment`"), "{none}");
        let missing = result::module::get_function(module, name("decrement")).unwrap_err();
        assert_eq!(missing.0, CUresult::CUDA_ERROR_NOT_FOUND, "{missing}");
        result::module::unload(module).unwrap();
        let gone = increment(function, stream.cu_stream(), 300, address).unwrap_err();
        assert_eq!(gone.0, CUresult::CUDA_ERROR_INVALID_HANDLE, "{gone}");
        let text = name("no code").into_raw();
        let refused = result::module::load_data(text.cast()).unwrap_err();
        assert!(
            refused.message().contains("text without code objects"),
            "{refused}"
        );
        drop(CString::from_raw(text));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.hsaco");
        std::fs::write(&path, &code).unwrap();
        let module = result::module::load(name(path.to_str().unwrap())).unwrap();
        result::module::unload(module).unwrap();
    }
}

#[test]
fn our_own_kernels_by_handle_run_on_their_own_grids() {
    let context = context();
    let stream = context.default_stream();
    // Launched on as many workgroups as there are rows, which is what Candle asks for.
    let kernel = context
        .kernel(&candle_rocm_kernels::REDUCE, "softmax_f32")
        .unwrap();
    let (rows, columns) = (3u32, 500i32);
    let x: Vec<f32> = (0..rows as i32 * columns)
        .map(|i| (i % 13) as f32)
        .collect();
    let x = stream.clone_htod(&x).unwrap();
    let mut results = Vec::new();
    for by_handle in [false, true] {
        let mut y = stream.alloc_zeros::<f32>(x.len()).unwrap();
        let config = LaunchConfig {
            grid_dim: (rows, 1, 1),
            block_dim: (1, 32, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are those of the kernel.
        unsafe {
            if by_handle {
                let (mut from, mut to) = (x.device_ptr(&stream).0, y.device_ptr_mut(&stream).0);
                let mut columns = columns;
                let mut arguments = [
                    (&raw mut from).cast(),
                    (&raw mut to).cast(),
                    (&raw mut columns).cast(),
                ];
                let (grid, block) = (config.grid_dim, config.block_dim);
                let function = kernel.cu_function();
                result::launch_kernel(function, grid, block, 0, stream.cu_stream(), &mut arguments)
                    .unwrap();
            } else {
                let mut launch = stream.launch_builder(&kernel);
                launch.arg(&x).arg(&mut y).arg(&columns);
                launch.launch(config).unwrap();
            }
        }
        results.push(stream.clone_dtoh(&y).unwrap());
    }
    assert!(results[0].iter().any(|&y| y > 0.));
    assert_eq!(results[0], results[1]);
}

#[test]
fn contexts_and_peers() {
    let context = context();
    let (mut current, mut number, mut can) = (std::ptr::null_mut(), -1, -1);
    let mut name = [1; 8];
    let mut place = [1; 32];
    // SAFETY: the places are writable.
    unsafe {
        result::ctx::set_current(context.cu_ctx()).unwrap();
        assert_eq!(result::ctx::get_current().unwrap(), Some(context.cu_ctx()));
        cuDevicePrimaryCtxRetain(&mut current, 0).result().unwrap();
        assert_eq!(current, context.cu_ctx());
        result::primary_ctx::release(0).unwrap();
        assert!(result::ctx::set_current(64 as _).is_err());
        cuCtxGetDevice(&mut number).result().unwrap();
        assert_eq!(number, 0);
        // A GPU is no peer of its own.
        cuDeviceCanAccessPeer(&mut can, 0, 0).result().unwrap();
        assert_eq!(can, 0);
        assert!(cuCtxEnablePeerAccess(context.cu_ctx(), 0).result().is_err());
        cuDeviceGetName(name.as_mut_ptr(), 8, 0).result().unwrap();
        cuDeviceGetPCIBusId(place.as_mut_ptr(), 32, 0)
            .result()
            .unwrap();
        let mut pool = std::ptr::null_mut();
        cuDeviceGetMemPool(&mut pool, 0).result().unwrap();
        let mut on = 1i32;
        let reuse = CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
        cuMemPoolSetAttribute(pool, reuse, (&raw mut on).cast())
            .result()
            .unwrap();
        // From one GPU to itself, which is allowed.
        let stream = context.default_stream();
        let x = stream.clone_htod(&[1u8, 2, 3]).unwrap();
        let mut y = stream.alloc_zeros::<u8>(3).unwrap();
        let (from, to) = (x.device_ptr(&stream).0, y.device_ptr_mut(&stream).0);
        let gpu = context.cu_ctx();
        result::memcpy_peer_async(gpu, to, gpu, from, 3, stream.cu_stream()).unwrap();
        assert_eq!(stream.clone_dtoh(&y).unwrap(), [1, 2, 3]);
    }
    let whole = context.name().unwrap();
    let name: Vec<u8> = name.iter().map(|&byte| byte as u8).collect();
    assert_eq!((&name[..7], name[7]), (&whole.as_bytes()[..7], 0));
    assert!(place.contains(&0) && place[4] as u8 == b':');
}

#[test]
fn marks_for_a_profiler_mark_nothing() {
    context();
    profiler::profiler_start().unwrap();
    profiler::profiler_stop().unwrap();
    drop(profiler::Profiler::new().unwrap());
}

#[test]
fn errors_have_cudas_numbers_and_names() {
    context();
    let error = Error::invalid("so and\0so");
    assert_eq!(error.0, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(error.error_name().unwrap(), c"CUDA_ERROR_INVALID_VALUE");
    assert_eq!(error.error_string().unwrap(), c"so and so");
    let unknown = candle_rocm_runtime::ErrorKind::Hip(4711);
    assert_eq!(Error::new(unknown, "").0, CUresult::CUDA_ERROR_UNKNOWN);
    let peer = candle_rocm_runtime::ErrorKind::Hip(704);
    assert_eq!(
        Error::new(peer, "").0,
        CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
    );
}

#[test]
fn images_of_text_give_it_back() {
    assert_eq!(Image::from_src("text").to_src(), "text");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("code");
    std::fs::write(&path, "of a file").unwrap();
    assert_eq!(Image::from_file(&path).to_src(), "of a file");
    std::panic::catch_unwind(|| Image::from_binary(vec![1]).to_src()).unwrap_err();
}
