//! Graphs: capture, replay, the memory they use, and what a capture refuses.

mod common;

use candle_rocm_runtime::cuda_names::{
    CUgraphInstantiate_flags as Flags, CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status,
};
use candle_rocm_runtime::{LaunchConfig, PushKernelArg};
use common::{context, in_process, probe};

#[test]
fn a_graph_replays_its_work() {
    in_process("a_graph_replays_its_work", &[], || {
        let context = context();
        // SAFETY: one stream; a wait for an event from before the capture would end it.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        let function = probe(&context).load_function("increment").unwrap();
        let n = 300u32;
        for mode in [
            Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
            Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
        ] {
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
            let graph = stream.end_capture(Flags(0)).unwrap().unwrap();
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
            let graph = stream.end_capture(Flags(0)).unwrap().unwrap();
            let statistics = context.pool_statistics();
            assert_eq!((statistics.in_use, statistics.held_by_graphs), (in_use, 64));
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
            let graph = stream.end_capture(Flags(0)).unwrap().unwrap();
            graph.launch().unwrap();
            assert_eq!(stream.clone_dtoh(&result).unwrap(), [9; 32]);
            drop(result);
            // The graph still writes there.
            graph.launch().unwrap();
            stream.synchronize().unwrap();
            assert_eq!(context.pool_statistics().held_by_graphs, 32);
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
        assert!(stream.end_capture(Flags(0)).unwrap().is_some());
        assert_eq!(stream.clone_dtoh(&x).unwrap(), [0; 4]);
    });
}

#[test]
fn ending_what_never_began_is_an_error() {
    let stream = context().new_stream().unwrap();
    assert!(stream.end_capture(Flags(0)).is_err());
    stream.synchronize().unwrap();
}
