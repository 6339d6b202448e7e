//! HIP's C functions: what they do, and what they say to wrong arguments.

use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::{null, null_mut};

use rocm_emulator::hip::abi::types::*;
use rocm_emulator::hip::{abi, last_fault, statistics, Code};
use rocm_emulator::isa::Target;

#[macro_use]
mod hip_support;
use hip_support::*;

#[test]
fn devices_and_properties() {
    let _serial = device();
    let mut count = 0;
    ok!(hipGetDeviceCount(&mut count));
    assert_eq!(count, 2);
    // SAFETY: integers, characters and pointers.
    let mut new: hipDeviceProp_tR0600 = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut old: hipDeviceProp_tR0000 = unsafe { std::mem::zeroed() };
    for (ordinal, arch, wave, major) in
        [(0, "gfx1100", 32, 11), (1, "gfx942:sramecc+:xnack-", 64, 9)]
    {
        ok!(hipGetDevicePropertiesR0600(&mut new, ordinal));
        ok!(hipGetDeviceProperties(&mut old, ordinal));
        assert_eq!(string(&new.gcnArchName), arch);
        assert_eq!(string(&old.gcnArchName), arch);
        assert!(string(&new.name).contains("emulated"));
        assert_eq!((new.warpSize, new.major, old.warpSize), (wave, major, wave));
        assert_eq!(
            (
                new.totalGlobalMem,
                new.maxThreadsPerBlock,
                new.sharedMemPerBlock
            ),
            (1 << 30, 1024, 65536)
        );
        let attribute = |number: u32| {
            let mut value = -1;
            ok!(hipDeviceGetAttribute(&mut value, number, ordinal));
            value
        };
        assert_eq!(attribute(87), wave);
        assert_eq!(attribute(56), 1024);
        assert_eq!(attribute(23), major);
        assert_eq!(attribute(63), new.multiProcessorCount);
        assert_eq!(attribute(74), 65536);
        let mut name = [0; 8];
        ok!(hipDeviceGetName(name.as_mut_ptr(), 8, ordinal));
        assert_eq!(
            string(&name),
            "AMD Rad"[..7].replace("Rad", if ordinal == 0 { "Rad" } else { "Ins" })
        );
        let mut bus = [0; 16];
        ok!(hipDeviceGetPCIBusId(bus.as_mut_ptr(), 16, ordinal));
        let mut found = -1;
        ok!(hipDeviceGetByPCIBusId(&mut found, bus.as_ptr()));
        assert_eq!(found, ordinal);
    }
    let mut value = 0;
    fails!(InvalidValue, hipDeviceGetAttribute(&mut value, 5000, 0));
    fails!(InvalidValue, hipDeviceGetAttribute(null_mut(), 87, 0));
    for bad in [-1, 2, i32::MAX] {
        fails!(InvalidDevice, hipSetDevice(bad));
        fails!(InvalidDevice, hipGetDevicePropertiesR0600(&mut new, bad));
    }
    fails!(InvalidValue, hipGetDeviceCount(null_mut()));
    assert!(last_fault().unwrap().contains("null"));
    let mut version = 0;
    ok!(hipRuntimeGetVersion(&mut version));
    assert!(version >= 60_000_000);
    let (mut peer, mut uuids) = (1, [hipUUID { bytes: [0; 16] }; 2]);
    ok!(hipDeviceCanAccessPeer(&mut peer, 0, 1));
    assert_eq!(peer, 0);
    ok!(hipDeviceGetUuid(&mut uuids[0], 0));
    ok!(hipDeviceGetUuid(&mut uuids[1], 1));
    assert_ne!(uuids[0], uuids[1]);
}

#[test]
fn contexts_are_the_devices() {
    let _serial = device();
    let (mut first, mut second, mut current, mut ordinal) =
        (null_mut(), null_mut(), null_mut(), -1);
    ok!(hipDevicePrimaryCtxRetain(&mut first, 0));
    ok!(hipDevicePrimaryCtxRetain(&mut second, 1));
    ok!(hipCtxPushCurrent(second));
    ok!(hipGetDevice(&mut ordinal));
    assert_eq!(ordinal, 1);
    ok!(hipCtxGetCurrent(&mut current));
    assert_eq!(current, second);
    ok!(hipCtxPopCurrent(&mut current));
    ok!(hipCtxGetDevice(&mut ordinal));
    assert_eq!((current, ordinal), (second, 0));
    ok!(hipCtxSetCurrent(second));
    ok!(hipCtxSetCurrent(first));
    fails!(InvalidContext, hipCtxSetCurrent(BAD));
    fails!(InvalidContext, hipCtxPopCurrent(&mut current));
}

#[test]
fn copies_and_fills() {
    let _serial = device();
    let a = malloc(1 << 20);
    let b = malloc(1 << 20);
    let data: Vec<u8> = (0..1 << 20)
        .map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    ok!(hipMemcpy(a, data.as_ptr().cast(), data.len(), 1));
    ok!(hipMemcpyAsync(b, a, data.len(), 3, null_mut()));
    assert_eq!(download(b, data.len()), data);
    // Overlapping, and at odd offsets.
    ok!(hipMemcpyDtoD(at(a, 1), a, 1000));
    assert_eq!(download(at(a, 1), 1000), data[..1000]);
    ok!(hipMemcpy(at(b, 3), data.as_ptr().cast(), 0, 1));
    ok!(hipMemset(b, 0x1ab, 10));
    ok!(hipMemsetD16(at(b, 10), 0x1234, 2));
    ok!(hipMemsetD32(at(b, 16), 0x0102_0304, 1));
    ok!(hipMemsetD8(at(b, 14), 7, 2));
    let mut expected = vec![0xab; 10];
    expected.extend([0x34, 0x12, 0x34, 0x12, 7, 7, 4, 3, 2, 1]);
    assert_eq!(download(b, 20), expected);
    fails!(InvalidValue, hipMemsetD32(at(b, 1), 0, 1));
    // Rows: 3 of 4 bytes, 16 apart, packed on the host.
    ok!(hipMemset2D(b, 16, 9, 4, 3));
    let mut rows = [0u8; 12];
    ok!(hipMemcpy2D(rows.as_mut_ptr().cast(), 4, b, 16, 4, 3, 2));
    assert_eq!(rows, [9; 12]);
    fails!(
        InvalidPitchValue,
        hipMemcpy2D(rows.as_mut_ptr().cast(), 2, b, 16, 4, 3, 2)
    );
    // Across devices.
    ok!(hipSetDevice(1));
    let c = malloc(64);
    ok!(hipMemcpyPeer(c, 1, a, 0, 64));
    ok!(hipSetDevice(0));
    assert_eq!(download(c, 64), download(a, 64));
    // Wrong ends, sizes, directions and host pointers.
    fails!(
        InvalidValue,
        hipMemcpy(a, data.as_ptr().cast(), data.len() + 1, 1)
    );
    assert!(
        last_fault().unwrap().contains("1048576"),
        "{:?}",
        last_fault()
    );
    fails!(
        InvalidValue,
        hipMemcpy(at(a, 1 << 20), data.as_ptr().cast(), 1, 1)
    );
    fails!(
        InvalidValue,
        hipMemcpy(null_mut(), data.as_ptr().cast(), 1, 1)
    );
    fails!(InvalidValue, hipMemcpy(a, BAD, 16, 1));
    fails!(InvalidValue, hipMemcpy(BAD, a, 16, 2));
    fails!(
        InvalidValue,
        hipMemcpy(data.as_ptr().cast_mut().cast(), a, 4, 1)
    );
    fails!(InvalidMemcpyDirection, hipMemcpy(a, b, 4, 5));
    fails!(InvalidValue, hipMemset(BAD, 0, 4));
    fails!(InvalidValue, hipMemset(a, 0, (1 << 20) + 1));
    for pointer in [a, b, c] {
        ok!(hipFree(pointer));
    }
    fails!(InvalidValue, hipFree(a));
    fails!(InvalidValue, hipMemcpy(a, b, 4, 3));
    ok!(hipFree(null_mut()));
}

#[test]
fn memory_is_counted_and_described() {
    let _serial = device();
    let (mut free, mut total, mut after) = (0, 0, 0);
    ok!(hipMemGetInfo(&mut free, &mut total));
    assert_eq!(total, 1 << 30);
    let a = malloc(1000);
    ok!(hipMemGetInfo(&mut after, null_mut()));
    assert_eq!(free - after, 1000);
    let (mut base, mut size) = (null_mut(), 0);
    ok!(hipMemGetAddressRange(&mut base, &mut size, at(a, 999)));
    assert_eq!((base, size), (a, 1000));
    fails!(
        InvalidDevicePointer,
        hipMemGetAddressRange(&mut base, &mut size, at(a, 1000))
    );
    let mut pointer = null_mut();
    fails!(OutOfMemory, hipMalloc(&mut pointer, 2 << 30));
    assert!(pointer.is_null() && last_fault().unwrap().contains("out of device memory"));
    fails!(OutOfMemory, hipMalloc(&mut pointer, usize::MAX));
    fails!(InvalidValue, hipMalloc(null_mut(), 4));
    ok!(hipMalloc(&mut pointer, 0));
    assert!(pointer.is_null());

    // SAFETY: integers and pointers.
    let mut attributes: hipPointerAttribute_t = unsafe { std::mem::zeroed() };
    ok!(hipPointerGetAttributes(&mut attributes, at(a, 5)));
    assert_eq!(
        (
            attributes.type_,
            attributes.device,
            attributes.devicePointer
        ),
        (2, 0, at(a, 5))
    );
    let local = 0u32;
    ok!(hipPointerGetAttributes(
        &mut attributes,
        (&raw const local).cast()
    ));
    assert_eq!(attributes.type_, 0);
    let mut host = null_mut();
    ok!(hipHostMalloc(&mut host, 4096, 2));
    ok!(hipPointerGetAttributes(&mut attributes, host));
    assert_eq!(
        (
            attributes.type_,
            attributes.hostPointer,
            attributes.allocationFlags
        ),
        (1, host, 2)
    );
    let mut mapped = null_mut();
    ok!(hipHostGetDevicePointer(&mut mapped, host, 0));
    assert_eq!(mapped, host);
    // SAFETY: 4096 bytes of pinned memory.
    unsafe { std::ptr::write_bytes(host.cast::<u8>(), 3, 4096) };
    ok!(hipMemcpyAsync(a, host, 1000, 1, null_mut()));
    assert_eq!(download(a, 1000), [3; 1000]);
    fails!(InvalidValue, hipFree(host));
    ok!(hipHostFree(host));
    fails!(InvalidValue, hipHostFree(host));

    let mut own = vec![1u8; 8192];
    let pointer: *mut c_void = own.as_mut_ptr().cast();
    fails!(HostMemoryNotRegistered, hipHostUnregister(pointer));
    ok!(hipHostRegister(pointer, 8192, 0));
    fails!(
        HostMemoryAlreadyRegistered,
        hipHostRegister(at(pointer, 8), 8, 0)
    );
    ok!(hipMemset(pointer, 5, 8192));
    assert_eq!(own, [5; 8192]);
    ok!(hipHostUnregister(pointer));
    fails!(InvalidValue, hipHostRegister(BAD, 4096, 0));

    let mut managed = null_mut();
    ok!(hipMallocManaged(&mut managed, 64, 1));
    ok!(hipMemset(managed, 8, 64));
    // SAFETY: 64 bytes that the host may read.
    let seen = unsafe { std::slice::from_raw_parts(managed.cast::<u8>(), 64) };
    assert_eq!(seen, [8; 64]);
    ok!(hipMemPrefetchAsync(managed, 64, 0, null_mut()));
    fails!(
        InvalidValue,
        hipMemPrefetchAsync(managed, 65, 0, null_mut())
    );
    ok!(hipFree(managed));
    ok!(hipFree(a));
}

#[test]
fn pools() {
    let _serial = device();
    let (mut pool, mut current, stream) = (null_mut(), null_mut(), stream());
    ok!(hipDeviceGetDefaultMemPool(&mut pool, 0));
    ok!(hipDeviceGetMemPool(&mut current, 0));
    assert_eq!(pool, current);
    let mut threshold = u64::MAX;
    ok!(hipMemPoolSetAttribute(pool, 4, (&raw mut threshold).cast()));
    threshold = 0;
    ok!(hipMemPoolGetAttribute(pool, 4, (&raw mut threshold).cast()));
    assert_eq!(threshold, u64::MAX);
    let used = |pool| {
        let mut used = 0u64;
        ok!(hipMemPoolGetAttribute(pool, 7, (&raw mut used).cast()));
        used
    };
    let before = used(pool);
    let mut a = null_mut();
    ok!(hipMallocAsync(&mut a, 500, stream));
    assert_eq!(used(pool), before + 500);
    ok!(hipMemsetAsync(a, 1, 500, stream));
    ok!(hipFreeAsync(a, stream));
    assert_eq!(used(pool), before);
    fails!(InvalidValue, hipFreeAsync(a, stream));
    ok!(hipMemPoolTrimTo(pool, 0));
    fails!(InvalidHandle, hipMemPoolTrimTo(BAD, 0));
    fails!(InvalidValue, hipMemPoolDestroy(pool));
    ok!(hipStreamDestroy(stream));
}

#[test]
fn streams_and_events() {
    let _serial = device();
    let (s, e, f) = (stream(), event(), event());
    ok!(hipEventRecord(e, s));
    std::thread::sleep(std::time::Duration::from_millis(3));
    ok!(hipEventRecord(f, s));
    ok!(hipEventQuery(f));
    let (gone, last) = (stream(), event());
    ok!(hipEventRecord(last, gone));
    ok!(hipStreamDestroy(gone));
    fails!(ContextIsDestroyed, hipEventQuery(last));
    fails!(ContextIsDestroyed, hipEventSynchronize(last));
    ok!(hipEventRecord(last, s));
    ok!(hipEventQuery(last));
    ok!(hipEventDestroy(last));
    let mut ms = 0.0;
    ok!(hipEventElapsedTime(&mut ms, e, f));
    assert!((3.0..3000.0).contains(&ms), "{ms}");
    ok!(hipEventElapsedTime(&mut ms, f, e));
    assert!(ms <= -3.0);
    ok!(hipStreamWaitEvent(s, e, 0));
    ok!(hipStreamQuery(s));
    ok!(hipStreamSynchronize(s));
    ok!(hipStreamSynchronize(null_mut()));
    let per_thread = 2 as hipStream_t;
    ok!(hipEventRecord(e, per_thread));
    ok!(hipStreamSynchronize(per_thread));
    ok!(hipDeviceSynchronize());
    let mut untimed = null_mut();
    ok!(hipEventCreateWithFlags(&mut untimed, 2));
    ok!(hipEventRecord(untimed, s));
    fails!(InvalidHandle, hipEventElapsedTime(&mut ms, e, untimed));
    let never = event();
    ok!(hipEventSynchronize(never));
    fails!(InvalidHandle, hipEventElapsedTime(&mut ms, e, never));
    fails!(InvalidValue, hipEventElapsedTime(null_mut(), e, f));
    fails!(
        InvalidValue,
        hipStreamCreateWithFlags(&mut { null_mut() }, 77)
    );
    fails!(InvalidValue, hipStreamCreate(null_mut()));

    // A handle of one kind is none of another, and a destroyed one is none at all.
    fails!(InvalidHandle, hipEventRecord(s, e));
    fails!(InvalidHandle, hipStreamSynchronize(e));
    fails!(InvalidHandle, hipStreamSynchronize(BAD));
    fails!(InvalidHandle, hipStreamDestroy(null_mut()));
    for event in [e, f, untimed, never] {
        ok!(hipEventDestroy(event));
    }
    fails!(InvalidHandle, hipEventDestroy(e));
    ok!(hipStreamDestroy(s));
    fails!(InvalidHandle, hipStreamDestroy(s));
    fails!(InvalidHandle, hipMemsetAsync(BAD, 0, 1, s));

    // A second device's event does not fit a stream of the first.
    ok!(hipSetDevice(1));
    let other = event();
    ok!(hipSetDevice(0));
    let s = stream();
    fails!(InvalidHandle, hipEventRecord(other, s));
    ok!(hipStreamDestroy(s));
    ok!(hipEventDestroy(other));
}

#[test]
fn host_functions_run_in_order() {
    unsafe extern "C" fn push(data: *mut c_void) {
        // SAFETY: the test passes its vector, and runs one thread.
        unsafe { (*data.cast::<Vec<u32>>()).push(1) };
    }
    unsafe extern "C" fn callback(_: hipStream_t, status: hipError_t, data: *mut c_void) {
        // SAFETY: as above.
        unsafe { (*data.cast::<Vec<u32>>()).push(10 + status) };
    }
    let _serial = device();
    let mut calls: Vec<u32> = Vec::new();
    let data = (&raw mut calls).cast();
    ok!(hipLaunchHostFunc(null_mut(), Some(push), data));
    ok!(hipStreamAddCallback(null_mut(), Some(callback), data, 0));
    ok!(hipStreamSynchronize(null_mut()));
    assert_eq!(calls, [1, 10]);
    fails!(InvalidValue, hipLaunchHostFunc(null_mut(), None, data));
    fails!(
        InvalidValue,
        hipStreamAddCallback(null_mut(), Some(callback), data, 1)
    );
}

#[test]
fn captures_replay() {
    let _serial = device();
    let (s, t, e, f) = (stream(), stream(), event(), event());
    let a = malloc(256);
    ok!(hipMemset(a, 0, 256));
    ok!(hipStreamBeginCapture(s, 0));
    let mut status = 9;
    ok!(hipStreamIsCapturing(s, &mut status));
    assert_eq!(status, 1);
    // A fork into another stream and back.
    ok!(hipMemsetAsync(a, 1, 64, s));
    ok!(hipEventRecord(e, s));
    ok!(hipStreamWaitEvent(t, e, 0));
    ok!(hipStreamIsCapturing(t, &mut status));
    assert_eq!(status, 1);
    ok!(hipMemcpyAsync(at(a, 64), a, 64, 3, t));
    ok!(hipEventRecord(f, t));
    ok!(hipStreamWaitEvent(s, f, 0));
    ok!(hipMemcpyAsync(at(a, 128), at(a, 64), 64, 3, s));
    let mut graph = null_mut();
    ok!(hipStreamEndCapture(s, &mut graph));
    ok!(hipStreamIsCapturing(t, &mut status));
    assert_eq!(status, 0);
    // Recorded, not run.
    assert_eq!(download(a, 256), [0; 256]);
    let mut count = 0;
    ok!(hipGraphGetNodes(graph, null_mut(), &mut count));
    assert_eq!(count, 3);
    let mut nodes = [null_mut(); 4];
    count = 4;
    ok!(hipGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count));
    assert!(count == 3 && nodes[3].is_null());
    let types = nodes[..3].iter().map(|&node| {
        let mut kind = 99;
        ok!(hipGraphNodeGetType(node, &mut kind));
        kind
    });
    assert_eq!(types.collect::<Vec<_>>(), [2, 1, 1]);
    count = 4;
    ok!(hipGraphGetRootNodes(graph, nodes.as_mut_ptr(), &mut count));
    assert_eq!(count, 1);
    let mut exec = null_mut();
    ok!(hipGraphInstantiate(
        &mut exec,
        graph,
        null_mut(),
        null_mut(),
        0
    ));
    ok!(hipGraphDestroy(graph));
    ok!(hipGraphUpload(exec, s));
    for _ in 0..2 {
        ok!(hipMemset(a, 0, 256));
        ok!(hipGraphLaunch(exec, s));
        let mut expected = vec![1; 192];
        expected.extend([0; 64]);
        assert_eq!(download(a, 256), expected);
    }
    ok!(hipGraphExecDestroy(exec));
    fails!(InvalidHandle, hipGraphLaunch(exec, s));
    fails!(InvalidValue, hipGraphNodeGetType(nodes[0], &mut { 0 }));
    fails!(InvalidValue, hipGraphNodeGetType(BAD, &mut { 0 }));
    for event in [e, f] {
        ok!(hipEventDestroy(event));
    }
    for stream in [s, t] {
        ok!(hipStreamDestroy(stream));
    }
    ok!(hipFree(a));
}

#[test]
fn captured_allocations_live_with_their_graph() {
    let _serial = device();
    let s = stream();
    let (mut free, mut now, mut a, mut graph, mut exec) =
        (0, 0, null_mut(), null_mut(), null_mut());
    ok!(hipMemGetInfo(&mut free, null_mut()));
    ok!(hipStreamBeginCapture(s, 2));
    ok!(hipMallocAsync(&mut a, 4096, s));
    ok!(hipMemsetAsync(a, 1, 4096, s));
    ok!(hipFreeAsync(a, s));
    ok!(hipStreamEndCapture(s, &mut graph));
    ok!(hipGraphInstantiateWithFlags(&mut exec, graph, 0));
    ok!(hipGraphLaunch(exec, s));
    ok!(hipGraphLaunch(exec, s));
    ok!(hipGraphDestroy(graph));
    ok!(hipGraphExecDestroy(exec));
    ok!(hipMemGetInfo(&mut now, null_mut()));
    assert_eq!(free, now);
    ok!(hipStreamDestroy(s));
}

#[test]
fn what_captures_forbid() {
    let _serial = device();
    let (s, t, e) = (stream(), stream(), event());
    let a = malloc(64);
    let (mut graph, mut pointer, mut status) = (null_mut(), null_mut(), 0);
    macro_rules! status_of {
        ($name:ident($($arg:expr),*)) => {{
            // SAFETY: valid or null pointers.
            unsafe { abi::$name($($arg),*) }
        }};
    }
    let unsupported = Code::StreamCaptureUnsupported;
    let forbidden: [(&str, &dyn Fn() -> u32, Code); 6] = [
        (
            "synchronize",
            &|| status_of!(hipStreamSynchronize(s)),
            unsupported,
        ),
        ("query", &|| status_of!(hipStreamQuery(s)), unsupported),
        (
            "device",
            &|| status_of!(hipDeviceSynchronize()),
            unsupported,
        ),
        (
            "malloc",
            &|| status_of!(hipMalloc(&mut { null_mut() }, 4)),
            unsupported,
        ),
        ("memset", &|| status_of!(hipMemset(a, 0, 4)), unsupported),
        (
            "legacy",
            &|| status_of!(hipMemsetAsync(a, 0, 4, null_mut())),
            Code::StreamCaptureImplicit,
        ),
    ];
    for (name, call, expected) in forbidden {
        ok!(hipStreamBeginCapture(s, 0));
        assert_eq!(call(), expected as u32, "{name}");
        ok!(hipStreamIsCapturing(s, &mut status));
        assert_eq!(status, 2, "{name}");
        fails!(StreamCaptureInvalidated, hipMemsetAsync(a, 0, 4, s));
        fails!(StreamCaptureInvalidated, hipStreamEndCapture(s, &mut graph));
        assert!(graph.is_null());
        ok!(hipStreamSynchronize(s));
    }
    // Relaxed captures let the thread allocate.
    ok!(hipStreamBeginCapture(s, 2));
    ok!(hipMalloc(&mut pointer, 4));
    ok!(hipFree(pointer));
    fails!(IllegalState, hipStreamBeginCapture(s, 2));
    ok!(hipEventRecord(e, s));
    fails!(CapturedEvent, hipEventQuery(e));
    // Forked and not joined.
    ok!(hipStreamWaitEvent(t, e, 0));
    ok!(hipMemsetAsync(a, 0, 4, t));
    fails!(StreamCaptureUnmatched, hipStreamEndCapture(t, &mut graph));
    fails!(StreamCaptureUnjoined, hipStreamEndCapture(s, &mut graph));
    ok!(hipStreamSynchronize(t));
    // Nothing lets a whole device be waited for.
    ok!(hipStreamBeginCapture(s, 2));
    fails!(StreamCaptureUnsupported, hipDeviceSynchronize());
    fails!(StreamCaptureInvalidated, hipStreamEndCapture(s, &mut graph));
    // Other streams and their events may be waited for by a thread that is relaxed, not by others.
    ok!(hipEventRecord(e, t));
    let mut mode = 2;
    ok!(hipStreamBeginCapture(s, 0));
    ok!(hipThreadExchangeStreamCaptureMode(&mut mode));
    ok!(hipStreamSynchronize(t));
    ok!(hipStreamQuery(t));
    ok!(hipEventSynchronize(e));
    ok!(hipThreadExchangeStreamCaptureMode(&mut mode));
    ok!(hipStreamEndCapture(s, &mut graph));
    ok!(hipGraphDestroy(graph));
    let waits: [&dyn Fn() -> u32; 3] = [
        &|| status_of!(hipStreamSynchronize(t)),
        &|| status_of!(hipStreamQuery(t)),
        &|| status_of!(hipEventSynchronize(e)),
    ];
    for wait in waits {
        ok!(hipStreamBeginCapture(s, 0));
        assert_eq!(wait(), unsupported as u32);
        fails!(StreamCaptureInvalidated, hipStreamEndCapture(s, &mut graph));
    }
    // Waiting for work outside.
    ok!(hipEventRecord(e, t));
    ok!(hipStreamBeginCapture(s, 0));
    fails!(StreamCaptureIsolation, hipStreamWaitEvent(s, e, 0));
    fails!(StreamCaptureInvalidated, hipStreamEndCapture(s, &mut graph));
    // Where none began, there is a handle, as AMD's HIP leaves one, that is no graph's.
    fails!(IllegalState, hipStreamEndCapture(s, &mut graph));
    assert!(!graph.is_null());
    fails!(InvalidHandle, hipGraphDestroy(graph));
    fails!(
        StreamCaptureUnsupported,
        hipStreamBeginCapture(null_mut(), 0)
    );
    fails!(InvalidValue, hipStreamBeginCapture(s, 3));
    // Another thread may not end it.
    ok!(hipStreamBeginCapture(s, 1));
    let handle = s as usize;
    let ended = std::thread::spawn(move || {
        // SAFETY: valid pointers.
        unsafe { abi::hipStreamEndCapture(handle as hipStream_t, &mut { null_mut() }) }
    });
    assert_eq!(ended.join().unwrap(), Code::StreamCaptureWrongThread as u32);
    // Destroying the stream ends the capture, and with it the restrictions.
    ok!(hipStreamDestroy(s));
    ok!(hipDeviceSynchronize());
    let mut mode = 2;
    ok!(hipThreadExchangeStreamCaptureMode(&mut mode));
    assert_eq!(mode, 0);
    ok!(hipThreadExchangeStreamCaptureMode(&mut mode));
    assert_eq!(mode, 2);
    ok!(hipStreamDestroy(t));
    ok!(hipEventDestroy(e));
    ok!(hipFree(a));
}

#[test]
fn modules() {
    let _serial = device();
    let image = code(Target::Gfx1100);
    let (mut module, mut function, mut again) = (null_mut(), null_mut(), null_mut());
    ok!(hipModuleLoadData(&mut module, image.as_ptr().cast()));
    ok!(hipModuleGetFunction(
        &mut function,
        module,
        c"scale".as_ptr()
    ));
    ok!(hipModuleGetFunction(&mut again, module, c"scale".as_ptr()));
    assert_eq!(function, again);
    fails!(
        NotFound,
        hipModuleGetFunction(&mut again, module, c"scald".as_ptr())
    );
    assert!(last_fault().unwrap().contains("scale"));
    fails!(
        InvalidValue,
        hipModuleGetFunction(&mut again, module, null())
    );
    fails!(
        InvalidHandle,
        hipModuleGetFunction(&mut again, BAD, c"scale".as_ptr())
    );
    let (mut global, mut bytes) = (null_mut(), 0);
    ok!(hipModuleGetGlobal(
        &mut global,
        &mut bytes,
        module,
        c"counter".as_ptr()
    ));
    assert_eq!(bytes, 16);
    assert_eq!(download(global, 8), [1, 0, 0, 0, 2, 0, 0, 0]);
    fails!(
        NotFound,
        hipModuleGetGlobal(&mut global, &mut bytes, module, c"absent".as_ptr())
    );
    let attribute = |number| {
        let mut value = -1;
        ok!(hipFuncGetAttribute(&mut value, number, function));
        value
    };
    assert_eq!((attribute(0), attribute(1), attribute(3)), (128, 4096, 0));
    assert_eq!(attribute(8), 65536 - 4096);
    fails!(InvalidValue, hipFuncGetAttribute(&mut 0, 99, function));
    let (mut blocks, mut grid, mut block) = (0, 0, 0);
    ok!(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        &mut blocks,
        function,
        128,
        0
    ));
    // 4 KiB of LDS each in the 128 KiB of a workgroup processor; 4 waves each of the 64 it holds.
    assert_eq!(blocks, 16);
    ok!(hipModuleOccupancyMaxPotentialBlockSize(
        &mut grid, &mut block, function, 0, 0
    ));
    assert!(block > 0 && block <= 128 && grid > 0);

    // Launches that are refused before they run.
    let (mut pointer, mut a, mut n) = (null_mut::<c_void>(), 2f32, 0i32);
    let mut parameters: [*mut c_void; 3] = [
        (&raw mut pointer).cast(),
        (&raw mut a).cast(),
        (&raw mut n).cast(),
    ];
    macro_rules! launch {
        ($code:ident, $function:expr, $grid:expr, $block:expr, $lds:expr, $params:expr, $extra:expr) => {{
            let ([gx, gy, gz], [bx, by, bz]): ([u32; 3], [u32; 3]) = ($grid, $block);
            fails!(
                $code,
                hipModuleLaunchKernel(
                    $function,
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    $lds,
                    null_mut(),
                    $params,
                    $extra
                )
            );
        }};
    }
    let params = parameters.as_mut_ptr();
    let one = [1, 1, 1];
    launch!(InvalidHandle, BAD, one, one, 0, params, null_mut());
    launch!(
        InvalidConfiguration,
        function,
        [0, 1, 1],
        one,
        0,
        params,
        null_mut()
    );
    launch!(
        InvalidConfiguration,
        function,
        one,
        [1, 0, 1],
        0,
        params,
        null_mut()
    );
    launch!(
        InvalidConfiguration,
        function,
        one,
        [129, 1, 1],
        0,
        params,
        null_mut()
    );
    assert!(last_fault().unwrap().contains("128"));
    launch!(
        InvalidConfiguration,
        function,
        one,
        [u32::MAX, u32::MAX, 2],
        0,
        params,
        null_mut()
    );
    launch!(
        InvalidConfiguration,
        function,
        [1 << 26, 1, 1],
        [64, 1, 1],
        0,
        params,
        null_mut()
    );
    launch!(
        LaunchOutOfResources,
        function,
        one,
        one,
        62 << 10,
        params,
        null_mut()
    );
    launch!(InvalidValue, function, one, one, 0, null_mut(), null_mut());
    launch!(InvalidValue, function, one, one, 0, BAD.cast(), null_mut());
    let mut short = 8usize;
    let buffer = [0u8; 16];
    let mut extra: [*mut c_void; 5] = [
        BUFFER_POINTER,
        buffer.as_ptr().cast_mut().cast(),
        2 as *mut c_void,
        (&raw mut short).cast(),
        3 as *mut c_void,
    ];
    launch!(
        InvalidValue,
        function,
        one,
        one,
        0,
        null_mut(),
        extra.as_mut_ptr()
    );
    assert!(last_fault().unwrap().contains("16"));
    launch!(
        InvalidValue,
        function,
        one,
        one,
        0,
        params,
        extra.as_mut_ptr()
    );
    extra[4] = 7 as *mut c_void;
    launch!(
        InvalidValue,
        function,
        one,
        one,
        0,
        null_mut(),
        extra.as_mut_ptr()
    );
    ok!(hipSetDevice(1));
    launch!(InvalidContext, function, one, one, 0, params, null_mut());
    ok!(hipSetDevice(0));
    ok!(hipModuleUnload(module));
    fails!(InvalidHandle, hipModuleUnload(module));
    launch!(InvalidHandle, function, one, one, 0, params, null_mut());
}

#[test]
fn wrong_modules() {
    let _serial = device();
    let mut module = null_mut();
    let other = code(Target::Gfx942);
    fails!(
        NoBinaryForGpu,
        hipModuleLoadData(&mut module, other.as_ptr().cast())
    );
    let message = last_fault().unwrap();
    assert!(
        message.contains("gfx942") && message.contains("gfx1100"),
        "{message}"
    );
    ok!(hipSetDevice(1));
    ok!(hipModuleLoadData(&mut module, other.as_ptr().cast()));
    ok!(hipModuleUnload(module));
    ok!(hipSetDevice(0));
    fails!(
        InvalidImage,
        hipModuleLoadData(&mut module, b"no code object at all".as_ptr().cast())
    );
    // A header that announces what is not there: nobody follows it.
    let mut torn = code(Target::Gfx1100)[..64].to_vec();
    torn[40..48].copy_from_slice(&(1u64 << 31).to_le_bytes());
    fails!(
        InvalidImage,
        hipModuleLoadData(&mut module, torn.as_ptr().cast())
    );
    fails!(InvalidValue, hipModuleLoadData(&mut module, null()));
    fails!(InvalidValue, hipModuleLoadData(&mut module, BAD));
    fails!(
        FileNotFound,
        hipModuleLoad(&mut module, c"/nonexistent/a.hsaco".as_ptr())
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.hsaco");
    let image = code(Target::Gfx1100);
    std::fs::write(&path, &image[..image.len() - 100]).unwrap();
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    fails!(InvalidImage, hipModuleLoad(&mut module, name.as_ptr()));
    assert!(last_fault().unwrap().contains("truncated"));
    std::fs::write(&path, &image).unwrap();
    ok!(hipModuleLoad(&mut module, name.as_ptr()));
    ok!(hipModuleUnload(module));
    fails!(
        InvalidDeviceFunction,
        hipLaunchKernel(
            BAD,
            dim3 { x: 1, y: 1, z: 1 },
            dim3 { x: 1, y: 1, z: 1 },
            null_mut(),
            0,
            null_mut()
        )
    );
    fails!(
        InvalidSymbol,
        hipMemcpyToSymbol(BAD, image.as_ptr().cast(), 1, 0, 1)
    );
    fails!(
        MissingConfiguration,
        __hipPopCallConfiguration(null_mut(), null_mut(), null_mut(), null_mut())
    );
}

#[test]
fn reset_frees_the_device() {
    let _serial = device();
    let (s, e, a) = (stream(), event(), malloc(100));
    ok!(hipStreamBeginCapture(s, 0));
    ok!(hipDeviceReset());
    let (mut free, mut total) = (0, 0);
    ok!(hipMemGetInfo(&mut free, &mut total));
    assert_eq!(free, total);
    fails!(InvalidHandle, hipStreamSynchronize(s));
    fails!(InvalidHandle, hipEventQuery(e));
    fails!(InvalidValue, hipFree(a));
    // No capture is left over.
    let a = malloc(4);
    ok!(hipFree(a));
}

#[test]
fn errors_are_named_and_kept_for_each_thread() {
    let _serial = device();
    // SAFETY: static strings.
    let name = |code| {
        // SAFETY: a static string.
        let name = unsafe { CStr::from_ptr(abi::hipGetErrorName(code)) };
        name.to_str().unwrap()
    };
    assert_eq!(
        (name(0), name(700), name(12345)),
        ("hipSuccess", "hipErrorIllegalAddress", "hipErrorUnknown")
    );
    let mut text: *const c_char = null();
    ok!(hipDrvGetErrorString(2, &mut text));
    // SAFETY: a static string.
    assert_eq!(unsafe { CStr::from_ptr(text) }, c"out of memory");
    fails!(InvalidValue, hipDrvGetErrorName(12345, &mut text));
    // SAFETY: a null pointer, which is refused; the others take none.
    unsafe {
        assert_eq!(abi::hipMalloc(null_mut(), 1), 1);
        let elsewhere = std::thread::spawn(|| abi::hipPeekAtLastError());
        assert_eq!(elsewhere.join().unwrap(), 0);
        assert_eq!(
            (
                abi::hipPeekAtLastError(),
                abi::hipGetLastError(),
                abi::hipGetLastError()
            ),
            (1, 1, 0)
        );
    }
}

#[test]
fn every_listed_function_is_found_by_name() {
    let names: HashSet<_> = abi::names().collect();
    assert!(names.len() > 150, "{}", names.len());
    let addresses: HashSet<_> = names
        .iter()
        .map(|name| abi::symbol(name).unwrap())
        .collect();
    // Functions with the same body may share one address, most do not.
    assert!(addresses.len() > names.len() / 2);
    for name in [
        "hipInit",
        "hipModuleLaunchKernel",
        "hipGetDevicePropertiesR0600",
        "rocmEmuGetLastFault",
    ] {
        assert!(names.contains(name), "{name}");
    }
    assert!(abi::symbol("hipNoSuchFunction").is_none());
}

#[test]
fn many_threads() {
    let _serial = device();
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            scope.spawn(move || {
                for round in 0..50 {
                    let (s, a) = (stream(), malloc(4096));
                    let mut host = vec![0u8; 4096];
                    ok!(hipMemsetAsync(a, c_int::from(thread), 4096, s));
                    ok!(hipMemsetAsync(at(a, 16), round, 16, null_mut()));
                    ok!(hipMemcpyAsync(host.as_mut_ptr().cast(), a, 4096, 2, s));
                    ok!(hipStreamSynchronize(s));
                    assert!(host[..16].iter().all(|&byte| byte == thread));
                    assert!(host[16..32].iter().all(|&byte| i32::from(byte) == round));
                    ok!(hipFree(a));
                    ok!(hipStreamDestroy(s));
                }
            });
        }
    });
}

#[test]
fn kernels_run_directly_and_in_graphs() {
    let _serial = device();
    for (ordinal, target) in [(0, Target::Gfx1100), (1, Target::Gfx942)] {
        ok!(hipSetDevice(ordinal));
        let (mut module, mut function, mut host) = (null_mut(), null_mut(), null_mut());
        ok!(hipModuleLoadData(&mut module, code(target).as_ptr().cast()));
        ok!(hipModuleGetFunction(
            &mut function,
            module,
            c"scale".as_ptr()
        ));
        let launches = || {
            let all = statistics();
            let found = all
                .iter()
                .find(|row| row.target == target && row.kernel == "scale");
            found.map_or((0, 0), |row| (row.launches, row.counters.workgroups))
        };
        let before = launches();
        // 200 floats in pinned memory, which kernels and the host both reach.
        ok!(hipHostMalloc(&mut host, 800, 0));
        // SAFETY: 800 bytes that nothing else uses while the host looks at them.
        let floats = || unsafe { std::slice::from_raw_parts_mut(host.cast::<f32>(), 200) };
        floats().fill(1.0);
        let (mut pointer, mut factor, mut count) = (host, 2f32, 199i32);
        let mut parameters: [*mut c_void; 3] = [
            (&raw mut pointer).cast(),
            (&raw mut factor).cast(),
            (&raw mut count).cast(),
        ];
        let params = parameters.as_mut_ptr();
        let s = stream();
        ok!(hipModuleLaunchKernel(
            function,
            2,
            1,
            1,
            128,
            1,
            1,
            0,
            s,
            params,
            null_mut()
        ));
        ok!(hipStreamSynchronize(s));
        assert!(floats()[..199].iter().all(|&x| x == 2.0) && floats()[199] == 1.0);
        // The same from a buffer: pointer, float, int.
        let mut buffer = [0u8; 16];
        buffer[..8].copy_from_slice(&(host as u64).to_le_bytes());
        buffer[8..12].copy_from_slice(&3f32.to_le_bytes());
        buffer[12..].copy_from_slice(&200i32.to_le_bytes());
        let mut size = buffer.len();
        let mut extra: [*mut c_void; 5] = [
            BUFFER_POINTER,
            buffer.as_mut_ptr().cast(),
            2 as *mut c_void,
            (&raw mut size).cast(),
            3 as *mut c_void,
        ];
        let extra = extra.as_mut_ptr();
        ok!(hipModuleLaunchKernel(
            function,
            2,
            1,
            1,
            128,
            1,
            1,
            0,
            s,
            null_mut(),
            extra
        ));
        assert!(floats()[..199].iter().all(|&x| x == 6.0) && floats()[199] == 3.0);
        // Captured arguments are those of the capture, whatever the program does to its own later.
        let (mut graph, mut exec) = (null_mut(), null_mut());
        ok!(hipStreamBeginCapture(s, 0));
        ok!(hipModuleLaunchKernel(
            function,
            2,
            1,
            1,
            128,
            1,
            1,
            0,
            s,
            params,
            null_mut()
        ));
        ok!(hipStreamEndCapture(s, &mut graph));
        factor = 100.0;
        assert_eq!(floats()[0], 6.0);
        ok!(hipGraphInstantiateWithFlags(&mut exec, graph, 0));
        ok!(hipGraphLaunch(exec, s));
        ok!(hipGraphLaunch(exec, s));
        assert!(floats()[..199].iter().all(|&x| x == 24.0) && floats()[199] == 3.0);
        assert_eq!(factor, 100.0);
        let after = launches();
        assert_eq!((after.0 - before.0, after.1 - before.1), (4, 8));
        ok!(hipGraphDestroy(graph));
        ok!(hipGraphExecDestroy(exec));
        ok!(hipStreamDestroy(s));
        ok!(hipHostFree(host));
        ok!(hipModuleUnload(module));
    }
    ok!(hipSetDevice(0));
}

#[test]
fn a_fault_stays_until_the_reset() {
    let _serial = device();
    ok!(hipSetDevice(1));
    let (mut module, mut function) = (null_mut(), null_mut());
    ok!(hipModuleLoadData(
        &mut module,
        code(Target::Gfx942).as_ptr().cast()
    ));
    ok!(hipModuleGetFunction(
        &mut function,
        module,
        c"scale".as_ptr()
    ));
    let a = malloc(400);
    let (mut pointer, mut factor, mut count) = (a, 2f32, 101i32);
    let mut parameters: [*mut c_void; 3] = [
        (&raw mut pointer).cast(),
        (&raw mut factor).cast(),
        (&raw mut count).cast(),
    ];
    let params = parameters.as_mut_ptr();
    fails!(
        IllegalAddress,
        hipModuleLaunchKernel(
            function,
            1,
            1,
            1,
            128,
            1,
            1,
            0,
            null_mut(),
            params,
            null_mut()
        )
    );
    let fault = last_fault().unwrap();
    assert!(
        fault.contains("kernel scale: out-of-bounds") && fault.contains("400 bytes"),
        "{fault}"
    );
    fails!(IllegalAddress, hipMalloc(&mut { null_mut() }, 4));
    fails!(IllegalAddress, hipMemset(a, 0, 4));
    fails!(IllegalAddress, hipDeviceSynchronize());
    assert_eq!(last_fault(), Some(fault.clone()));
    // Another thread learns it from the device.
    let elsewhere = std::thread::spawn(|| {
        ok!(hipSetDevice(1));
        last_fault()
    });
    assert_eq!(elsewhere.join().unwrap(), Some(fault));
    // The other device is not concerned, and memory can be freed.
    ok!(hipSetDevice(0));
    let b = malloc(4);
    ok!(hipFree(b));
    ok!(hipSetDevice(1));
    ok!(hipFree(a));
    ok!(hipDeviceReset());
    let a = malloc(400);
    ok!(hipMemset(a, 0, 400));
    ok!(hipFree(a));
    fails!(InvalidHandle, hipModuleUnload(module));
    ok!(hipSetDevice(0));
}
