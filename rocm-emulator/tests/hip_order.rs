//! The check of order: streams run late, so that a host or a stream that does not wait where it must is found out, and
//! one that does is right, however often it is tried.

#[macro_use]
mod hip_support;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{MutexGuard, Once};
use std::time::{Duration, Instant};

use hip_support::{device, event, malloc, stream};
use rocm_emulator::hip::{abi, last_fault};

/// Often enough that what is drawn comes out both ways.
const ROUNDS: u8 = 64;
const BYTES: usize = 64;

fn late() -> MutexGuard<'static, ()> {
    static ENVIRONMENT: Once = Once::new();
    ENVIRONMENT.call_once(|| {
        std::env::set_var("ROCM_EMU_CHECK", "order");
        std::env::set_var("ROCM_EMU_SEED", "7");
    });
    device()
}

fn pinned() -> *mut u8 {
    let mut pointer = null_mut();
    ok!(hipHostMalloc(&mut pointer, BYTES, 0));
    pointer.cast()
}

fn first(host: *mut u8) -> u8 {
    // SAFETY: pinned memory of the test's, which lives on; others may write it, hence volatile.
    unsafe { host.read_volatile() }
}

/// Rounds in which a copy of what was written just before shows something else.
fn wrong(mut round: impl FnMut(u8) -> u8) -> usize {
    (1..=ROUNDS).filter(|value| round(*value) != *value).count()
}

#[test]
fn a_host_that_does_not_wait() {
    let _guard = late();
    let (memory, host, stream) = (malloc(BYTES), pinned(), stream());
    let copy = |value: u8| {
        ok!(hipMemsetAsync(memory, value.into(), BYTES, stream));
        ok!(hipMemcpyAsync(host.cast(), memory, BYTES, 2, stream));
    };
    let careless = wrong(|value| {
        copy(value);
        first(host)
    });
    assert!(careless > 0);
    let careful = wrong(|value| {
        copy(value);
        ok!(hipStreamSynchronize(stream));
        first(host)
    });
    assert_eq!(careful, 0);
    let with_event = wrong(|value| {
        copy(value);
        let event = event();
        ok!(hipEventRecord(event, stream));
        ok!(hipEventSynchronize(event));
        first(host)
    });
    assert_eq!(with_event, 0);
    ok!(hipStreamDestroy(stream));
}

#[test]
fn a_stream_that_does_not_wait_for_another() {
    let _guard = late();
    let (memory, host) = (malloc(BYTES), pinned());
    let (writes, reads) = (stream(), stream());
    let round = |waits: bool, value: u8| {
        ok!(hipMemsetAsync(memory, value.into(), BYTES, writes));
        if waits {
            let event = event();
            ok!(hipEventRecord(event, writes));
            ok!(hipStreamWaitEvent(reads, event, 0));
            ok!(hipEventDestroy(event));
        }
        ok!(hipMemcpyAsync(host.cast(), memory, BYTES, 2, reads));
        ok!(hipStreamSynchronize(reads));
        let got = first(host);
        ok!(hipDeviceSynchronize());
        got
    };
    assert!(wrong(|value| round(false, value)) > 0);
    assert_eq!(wrong(|value| round(true, value)), 0);
}

#[test]
fn the_default_stream_waits_for_the_others() {
    let _guard = late();
    let (memory, stream) = (malloc(BYTES), stream());
    let mut host = [0u8; BYTES];
    let through_default = wrong(|value| {
        ok!(hipMemsetAsync(memory, value.into(), BYTES, stream));
        ok!(hipMemcpy(host.as_mut_ptr().cast(), memory, BYTES, 2));
        host[0]
    });
    assert_eq!(through_default, 0);
    // Memory that is not pinned is read and written before the call returns.
    let pageable = wrong(|value| {
        host.fill(value);
        ok!(hipMemcpyAsync(
            memory,
            host.as_ptr().cast(),
            BYTES,
            1,
            stream
        ));
        host.fill(0);
        ok!(hipMemcpyAsync(
            host.as_mut_ptr().cast(),
            memory,
            BYTES,
            2,
            stream
        ));
        host[0]
    });
    assert_eq!(pageable, 0);
}

#[test]
fn what_is_asked_for_comes() {
    let _guard = late();
    let (memory, host, stream, event) = (malloc(BYTES), pinned(), stream(), event());
    ok!(hipMemsetAsync(memory, 3, BYTES, stream));
    ok!(hipMemcpyAsync(host.cast(), memory, BYTES, 2, stream));
    ok!(hipEventRecord(event, stream));
    let start = Instant::now();
    let wait = |ready: &dyn Fn() -> bool| {
        while !ready() {
            assert!(start.elapsed() < Duration::from_secs(20));
        }
    };
    // SAFETY: handles of the test's.
    wait(&|| unsafe { abi::hipEventQuery(event) } == 0);
    assert_eq!(first(host), 3);
    // SAFETY: as above.
    wait(&|| unsafe { abi::hipStreamQuery(stream) } == 0);
    // A host that only looks at memory waits no longer than patience lasts.
    ok!(hipMemsetAsync(memory, 4, BYTES, stream));
    ok!(hipMemcpyAsync(host.cast(), memory, BYTES, 2, stream));
    wait(&|| first(host) == 4);
}

#[test]
fn memory_is_freed_after_its_last_use() {
    let _guard = late();
    let (host, stream) = (pinned(), stream());
    let wrong = wrong(|value| {
        let mut memory: *mut c_void = null_mut();
        ok!(hipMallocAsync(&mut memory, BYTES, stream));
        ok!(hipMemsetAsync(memory, value.into(), BYTES, stream));
        ok!(hipMemcpyAsync(host.cast(), memory, BYTES, 2, stream));
        ok!(hipFreeAsync(memory, stream));
        ok!(hipStreamSynchronize(stream));
        first(host)
    });
    assert_eq!(wrong, 0);
    let memory = malloc(BYTES);
    ok!(hipMemsetAsync(memory, 1, BYTES, stream));
    ok!(hipFree(memory));
    ok!(hipDeviceSynchronize());
}

#[test]
fn a_graphs_nodes_come_in_any_order_that_its_edges_allow() {
    let _guard = late();
    let (memory, host) = (malloc(BYTES), pinned());
    let (stream, other) = (stream(), stream());
    let run = |joined: bool, value: u8| {
        let (mut graph, mut exec) = (null_mut(), null_mut());
        let (begin, end) = (event(), event());
        ok!(hipStreamBeginCapture(stream, 2));
        ok!(hipEventRecord(begin, stream));
        ok!(hipStreamWaitEvent(other, begin, 0));
        ok!(hipMemsetAsync(memory, value.into(), BYTES, other));
        ok!(hipEventRecord(end, other));
        if joined {
            ok!(hipStreamWaitEvent(stream, end, 0));
        }
        ok!(hipMemcpyAsync(host.cast(), memory, BYTES, 2, stream));
        if !joined {
            ok!(hipStreamWaitEvent(stream, end, 0));
        }
        ok!(hipStreamEndCapture(stream, &mut graph));
        ok!(hipGraphInstantiate(
            &mut exec,
            graph,
            null_mut(),
            null_mut(),
            0
        ));
        ok!(hipGraphLaunch(exec, stream));
        ok!(hipStreamSynchronize(stream));
        ok!(hipGraphExecDestroy(exec));
        ok!(hipGraphDestroy(graph));
        first(host)
    };
    assert!(wrong(|value| run(false, value)) > 0);
    assert_eq!(wrong(|value| run(true, value)), 0);
}
