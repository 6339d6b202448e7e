//! Graphs: capture, replay, the memory they use, and what a capture refuses.

mod common;

use std::sync::Arc;

use candle_rocm_runtime::cuda_names::{
    CUgraphInstantiate_flags as Flags, CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status,
};
use candle_rocm_runtime::{Context, LaunchConfig, PushKernelArg, Stream};
use common::{context, in_process, pooled, probe};

#[test]
fn a_graph_replays_its_work() {
    in_process("a_graph_replays_its_work", &[], || {
        let context = context();
        // SAFETY: one stream; a wait for an event from before the capture would end it.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        let function = probe(&context).load_function("increment").unwrap();
        let n = 300u32;
        for mode in MODES {
            let mut x = stream.clone_htod(&vec![5u32; n as usize]).unwrap();
            assert_eq!(
                stream.capture_status().unwrap(),
                Status::CU_STREAM_CAPTURE_STATUS_NONE
            );
            stream.begin_capture(mode).unwrap();
            assert_eq!(
                stream.capture_status().unwrap(),
                Status::CU_STREAM_CAPTURE_STATUS_ACTIVE
            );
            for _ in 0..3 {
                let mut launch = stream.launch_builder(&function);
                launch.arg(&n).arg(&mut x);
                // SAFETY: the arguments are those of the kernel.
                unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
            }
            let graph = stream.end_capture(Flags::NONE).unwrap().unwrap();
            // Nothing ran yet.
            assert_eq!(stream.clone_dtoh(&x).unwrap(), vec![5; n as usize]);
            graph.upload().unwrap();
            graph.launch().unwrap();
            graph.launch().unwrap();
            assert_eq!(stream.clone_dtoh(&x).unwrap(), vec![11; n as usize]);
        }
    });
}

#[test]
fn memory_of_a_capture_stays_until_the_graph_goes() {
    in_process(
        "memory_of_a_capture_stays_until_the_graph_goes",
        &[],
        || {
            let context = context();
            // SAFETY: one stream.
            unsafe { context.disable_event_tracking() };
            let stream = context.new_stream().unwrap();
            let input = stream.clone_htod(&[7u8; 64]).unwrap();
            let mut output = stream.alloc_zeros::<u8>(64).unwrap();
            let in_use = context.pool_statistics().in_use;
            stream
                .begin_capture(Mode::CU_STREAM_CAPTURE_MODE_GLOBAL)
                .unwrap();
            // A result on the way, allocated and freed inside the capture, twice: the second reuses the first.
            for _ in 0..2 {
                let temporary = stream.clone_dtod(&input).unwrap();
                stream.memcpy_dtod(&temporary, &mut output).unwrap();
            }
            let graph = stream.end_capture(Flags::NONE).unwrap().unwrap();
            let statistics = context.pool_statistics();
            let held = pooled(&context, 64);
            assert_eq!(
                (statistics.in_use, statistics.held_by_graphs),
                (in_use, held)
            );
            for _ in 0..2 {
                stream.memset_zeros(&mut output).unwrap();
                graph.launch().unwrap();
                assert_eq!(stream.clone_dtoh(&output).unwrap(), [7; 64]);
            }
            drop(graph);
            let statistics = context.pool_statistics();
            assert_eq!((statistics.in_use, statistics.held_by_graphs), (in_use, 0));
        },
    );
}

#[test]
fn a_buffer_freed_after_the_capture_is_still_the_graphs() {
    in_process(
        "a_buffer_freed_after_the_capture_is_still_the_graphs",
        &[],
        || {
            let context = context();
            // SAFETY: one stream.
            unsafe { context.disable_event_tracking() };
            let stream = context.new_stream().unwrap();
            let input = stream.clone_htod(&[9u8; 32]).unwrap();
            stream
                .begin_capture(Mode::CU_STREAM_CAPTURE_MODE_RELAXED)
                .unwrap();
            let result = stream.clone_dtod(&input).unwrap();
            let graph = stream.end_capture(Flags::NONE).unwrap().unwrap();
            graph.launch().unwrap();
            assert_eq!(stream.clone_dtoh(&result).unwrap(), [9; 32]);
            drop(result);
            // The graph still writes there.
            graph.launch().unwrap();
            stream.synchronize().unwrap();
            let held = context.pool_statistics().held_by_graphs;
            assert_eq!(held, pooled(&context, 32));
            drop(graph);
            assert_eq!(context.pool_statistics().held_by_graphs, 0);
        },
    );
}

#[test]
fn host_memory_that_may_be_gone_is_refused() {
    in_process("host_memory_that_may_be_gone_is_refused", &[], || {
        let context = context();
        // SAFETY: one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        let mut x = stream.alloc_zeros::<u32>(4).unwrap();
        stream
            .begin_capture(Mode::CU_STREAM_CAPTURE_MODE_RELAXED)
            .unwrap();
        let error = stream.memcpy_htod(&[1u32; 4], &mut x).unwrap_err();
        assert!(error.to_string().contains("pageable"), "{error}");
        let error = stream.clone_dtoh(&x).unwrap_err();
        assert!(error.to_string().contains("captured"), "{error}");
        stream.memset_zeros(&mut x).unwrap();
        // The refusals did not end the capture.
        assert!(stream.end_capture(Flags::NONE).unwrap().is_some());
        assert_eq!(stream.clone_dtoh(&x).unwrap(), [0; 4]);
    });
}

#[test]
fn ending_what_never_began_is_an_error() {
    let stream = context().new_stream().unwrap();
    assert!(stream.end_capture(Flags::NONE).is_err());
    stream.synchronize().unwrap();
}

/// Runs `body` on another thread while `stream` is captured in this mode, between two increments of `x`, and holds the
/// graph to what it should do.
fn beside_a_capture(
    context: &Arc<Context>,
    stream: &Arc<Stream>,
    mode: Mode,
    body: impl FnOnce() + Send,
) {
    let function = probe(context).load_function("increment").unwrap();
    let n = 100u32;
    let mut x = stream.clone_htod(&vec![1u32; n as usize]).unwrap();
    let mut increment = || {
        let mut launch = stream.launch_builder(&function);
        launch.arg(&n).arg(&mut x);
        // SAFETY: the arguments are those of the kernel.
        unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
    };
    stream.begin_capture(mode).unwrap();
    increment();
    std::thread::scope(|scope| scope.spawn(body).join().unwrap());
    assert_eq!(
        stream.capture_status().unwrap(),
        Status::CU_STREAM_CAPTURE_STATUS_ACTIVE,
        "{mode:?}"
    );
    increment();
    let graph = stream.end_capture(Flags::NONE).unwrap().unwrap();
    graph.launch().unwrap();
    assert_eq!(stream.clone_dtoh(&x).unwrap(), vec![3; n as usize]);
}

const MODES: [Mode; 3] = [
    Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
    Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
];

#[test]
fn waiting_for_the_whole_gpu_ends_no_capture() {
    in_process("waiting_for_the_whole_gpu_ends_no_capture", &[], || {
        let context = context();
        // SAFETY: each stream uses buffers of its own.
        unsafe { context.disable_event_tracking() };
        let (stream, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        for mode in MODES {
            beside_a_capture(&context, &stream, mode, || {
                let x = other.clone_htod(&[1u8; 100]).unwrap();
                context.synchronize().unwrap();
                drop(x);
                // A stream that was destroyed meanwhile, and one that a borrower names.
                drop(context.new_stream().unwrap());
                // SAFETY: the stream outlives the object.
                let borrowed = unsafe { context.wrap_borrowed_stream(other.raw()) };
                context.synchronize().unwrap();
                drop(borrowed);
                context.synchronize().unwrap();
            });
            // By the thread that captures.
            stream.begin_capture(mode).unwrap();
            context.synchronize().unwrap();
            let error = stream.synchronize().unwrap_err();
            assert!(error.to_string().contains("captured"), "{error}");
            assert!(stream.end_capture(Flags::NONE).is_ok(), "{mode:?}");
        }
        context.synchronize().unwrap();
    });
}

#[test]
fn a_new_contexts_first_stream_ends_no_capture() {
    in_process("a_new_contexts_first_stream_ends_no_capture", &[], || {
        let context = context();
        // SAFETY: one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        for mode in MODES {
            beside_a_capture(&context, &stream, mode, || {
                // Buffers of a new context are tracked from its first stream on, which waits for all work before.
                let new = Context::new(0).unwrap();
                let before = new.default_stream().clone_htod(&[3u32; 5]).unwrap();
                let first = new.new_stream().unwrap();
                assert_eq!(first.clone_dtoh(&before).unwrap(), [3; 5]);
            });
        }
    });
}

#[test]
fn another_threads_calls_end_no_capture() {
    in_process("another_threads_calls_end_no_capture", &[], || {
        let context = context();
        // SAFETY: each stream uses buffers of its own.
        unsafe { context.disable_event_tracking() };
        let (stream, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        for mode in MODES {
            beside_a_capture(&context, &stream, mode, || {
                // Memory of the driver's, copies, events, modules, page-locked memory, and a graph of its own.
                let mut x = other.alloc_zeros::<u32>(5 << 20).unwrap();
                other.memcpy_htod(&[8u32; 7], &mut x).unwrap();
                let event = other.record_event(None).unwrap();
                event.synchronize().unwrap();
                assert!(event.try_is_complete().unwrap());
                assert_eq!(other.clone_dtoh(&x.slice(..7)).unwrap(), [8; 7]);
                drop(probe(&context));
                // SAFETY: written before it is read.
                let mut pinned = unsafe { context.alloc_pinned::<u32>(7) }.unwrap();
                pinned.as_mut_slice().unwrap().fill(2);
                other.memcpy_htod(&pinned, &mut x).unwrap();
                other.synchronize().unwrap();
                drop(pinned);
                other
                    .begin_capture(Mode::CU_STREAM_CAPTURE_MODE_RELAXED)
                    .unwrap();
                other.memset_zeros(&mut x).unwrap();
                let graph = other.end_capture(Flags::NONE).unwrap().unwrap();
                graph.launch().unwrap();
                drop(graph);
                assert_eq!(other.clone_dtoh(&x.slice(..7)).unwrap(), [0; 7]);
                context.device().pool().flush().unwrap();
            });
        }
    });
}

#[test]
fn a_graph_dropped_during_the_next_capture_ends_nothing() {
    in_process(
        "a_graph_dropped_during_the_next_capture_ends_nothing",
        &[],
        || {
            let context = context();
            // SAFETY: one stream.
            unsafe { context.disable_event_tracking() };
            let stream = context.new_stream().unwrap();
            let mut x = stream.clone_htod(&[1u8; 16]).unwrap();
            let mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
            stream.begin_capture(mode).unwrap();
            drop(stream.clone_dtod(&x).unwrap());
            let first = stream.end_capture(Flags::NONE).unwrap().unwrap();
            first.launch().unwrap();
            stream.begin_capture(mode).unwrap();
            drop(first);
            stream.memset_zeros(&mut x).unwrap();
            let second = stream.end_capture(Flags::NONE).unwrap().unwrap();
            second.launch().unwrap();
            assert_eq!(stream.clone_dtoh(&x).unwrap(), [0; 16]);
        },
    );
}

#[test]
fn work_on_a_stream_that_joined_a_capture_is_waited_for() {
    in_process(
        "work_on_a_stream_that_joined_a_capture_is_waited_for",
        &[],
        || {
            let context = context();
            // SAFETY: each stream uses buffers of its own.
            unsafe { context.disable_event_tracking() };
            let (stream, joined) = (context.new_stream().unwrap(), context.new_stream().unwrap());
            let mut x = joined.alloc_zeros::<u32>(9).unwrap();
            beside_a_capture(
                &context,
                &stream,
                Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
                || {
                    joined.join(&stream).unwrap();
                    joined.memset_zeros(&mut x).unwrap();
                    context.synchronize().unwrap();
                    stream.join(&joined).unwrap();
                },
            );
            joined.synchronize().unwrap();
        },
    );
}

#[test]
fn the_default_stream_is_left_alone_while_a_threads_own_is_captured() {
    in_process(
        "the_default_stream_is_left_alone_while_a_threads_own_is_captured",
        &[],
        || {
            let context = context();
            // SAFETY: each stream uses buffers of its own.
            unsafe { context.disable_event_tracking() };
            let legacy = context.default_stream();
            let x = legacy.clone_htod(&[4u8; 10]).unwrap();
            let y = legacy.clone_htod(&[5u8; 10]).unwrap();
            beside_a_capture(
                &context,
                &context.per_thread_stream(),
                Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
                || {
                    context.synchronize().unwrap();
                    // What is freed meanwhile on any stream needs an event there.
                    drop(x);
                    let own = context.per_thread_stream();
                    drop(own.clone_htod(&[6u8; 10]).unwrap());
                    context.synchronize().unwrap();
                },
            );
            assert_eq!(legacy.clone_dtoh(&y).unwrap(), [5; 10]);
        },
    );
}

#[test]
fn only_the_thread_that_began_a_capture_ends_it() {
    in_process("only_the_thread_that_began_a_capture_ends_it", &[], || {
        let context = context();
        // SAFETY: one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        let mode = Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        beside_a_capture(&context, &stream, mode, || {
            assert!(stream.end_capture(Flags::NONE).is_err());
        });
        assert!(stream.end_capture(Flags::NONE).is_err());
    });
}
