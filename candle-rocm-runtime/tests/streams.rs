//! Streams and events: order, waiting, tracking of buffers between streams.

mod common;

use candle_rocm_runtime::cuda_names::CUevent_flags;
use candle_rocm_runtime::{Context, LaunchConfig, PushKernelArg};
use common::{context, in_process, probe};

#[test]
fn a_single_stream_is_not_tracked() {
    in_process("a_single_stream_is_not_tracked", &[], || {
        let context = context();
        assert!(context.is_event_tracking());
        assert!(!context.is_in_multi_stream_mode());
        let stream = context.per_thread_stream();
        let buffer = stream.clone_htod(&[1f32; 4]).unwrap();
        assert!(!context.is_managing_stream_synchronization());
        let other = context.new_stream().unwrap();
        assert!(context.is_managing_stream_synchronization());
        assert_eq!(other.clone_dtoh(&buffer).unwrap(), [1.0; 4]);
        drop(other);
        // What it did to other streams' buffers may still run.
        assert!(context.is_in_multi_stream_mode());
    });
}

#[test]
fn work_of_a_stream_that_is_gone_is_waited_for() {
    let function = probe(&context()).load_function("increment").unwrap();
    let n = 1_000_000u32;
    for _ in 0..10 {
        let context = context();
        let stream = context.default_stream();
        let mut x = stream.alloc_zeros::<u32>(n as usize).unwrap();
        let other = context.new_stream().unwrap();
        let mut launch = other.launch_builder(&function);
        launch.arg(&n).arg(&mut x);
        // SAFETY: the arguments are those of the kernel.
        unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
        drop(other);
        let read = stream.clone_dtoh(&x).unwrap();
        let missed = read.iter().filter(|&&element| element != 1).count();
        assert_eq!(missed, 0);
    }
}

#[test]
fn streams_wait_for_each_others_buffers() {
    let context = context();
    let function = probe(&context).load_function("increment").unwrap();
    let (a, b) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let n = 10_000u32;
    let mut x = a.alloc_zeros::<u32>(n as usize).unwrap();
    for round in 0..20 {
        let stream = if round % 2 == 0 { &a } else { &b };
        let mut launch = stream.launch_builder(&function);
        launch.arg(&n).arg(&mut x);
        // SAFETY: the arguments are those of the kernel.
        unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
    }
    assert_eq!(b.clone_dtoh(&x).unwrap(), vec![20; n as usize]);
}

#[test]
fn events_order_and_measure() {
    let context = context();
    let stream = context.new_stream().unwrap();
    let unrecorded = context.new_event(None).unwrap();
    assert!(unrecorded.try_is_complete().unwrap());
    let start = stream
        .record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
        .unwrap();
    let buffer = stream.alloc_zeros::<u8>(1 << 20).unwrap();
    let end = stream
        .record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
        .unwrap();
    end.synchronize().unwrap();
    assert!(end.is_complete());
    assert!(start.elapsed_ms(&end).unwrap() >= 0.0);
    let fork = stream.fork().unwrap();
    fork.wait(&end).unwrap();
    assert_eq!(fork.clone_dtoh(&buffer.slice(..2)).unwrap(), [0, 0]);
    stream.join(&fork).unwrap();
    // An event that measures no time has none.
    let untimed = stream.record_event(None).unwrap();
    assert!(start.elapsed_ms(&untimed).is_err());
    // The error did not stay.
    stream.synchronize().unwrap();
}

#[test]
fn an_event_outlives_its_stream() {
    let context = context();
    let function = common::probe(&context).load_function("increment").unwrap();
    for _ in 0..3 {
        let stream = context.new_stream().unwrap();
        let mut x = stream.alloc_zeros::<u32>(4096).unwrap();
        let mut launch = stream.launch_builder(&function);
        launch.arg(&4096u32).arg(&mut x);
        // SAFETY: the arguments are those of the kernel.
        unsafe { launch.launch(LaunchConfig::for_num_elems(4096)) }.unwrap();
        let event = stream.record_event(None).unwrap();
        drop((x, stream));
        // Another stream, which may get the same handle.
        let _other = context.new_stream().unwrap();
        event.synchronize().unwrap();
        assert!(event.try_is_complete().unwrap());
    }
}

#[test]
fn work_of_a_thread_that_ends_is_waited_for() {
    let context = context();
    let function = common::probe(&context).load_function("increment").unwrap();
    let stream = context.per_thread_stream();
    let n = 1u32 << 16;
    for round in 0..30 {
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let (context, function) = (&context, &function);
            scope.spawn(move || {
                let stream = context.per_thread_stream();
                let mut x = stream.clone_htod(&vec![round; n as usize]).unwrap();
                let mut launch = stream.launch_builder(function);
                launch.arg(&n).arg(&mut x);
                // SAFETY: the arguments are those of the kernel.
                unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
                send.send(x).unwrap();
            });
            // The thread ends while this waits for what it gave its stream.
            let x = receive.recv().unwrap();
            let found = stream.clone_dtoh(&x).unwrap();
            assert!(found.iter().all(|&x| x == round + 1), "round {round}");
        });
    }
}

#[test]
fn streams_compare_by_what_they_are() {
    let context = context();
    let (a, b) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    assert_ne!(a, b);
    assert_eq!(a, a.clone());
    assert_eq!(context.default_stream(), context.default_stream());
    assert_ne!(context.default_stream(), context.per_thread_stream());
    assert_eq!(*context, *Context::new(0).unwrap());
    assert!(context.new_stream_with_priority(-1).is_ok());
}

#[test]
fn untracked_buffers_work_on_one_stream() {
    let context = context();
    // SAFETY: all uses are on one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let x = stream.clone_htod(&[3u16; 9]).unwrap();
    assert_eq!(stream.clone_dtoh(&x.clone()).unwrap(), [3; 9]);
    // SAFETY: the buffers above are gone.
    unsafe { context.enable_event_tracking() };
    assert!(context.is_event_tracking());
}

#[test]
fn contexts_describe_the_gpu() {
    in_process(
        "contexts_describe_the_gpu",
        &[
            ("ROCM_EMU_ARCH", "gfx942"),
            ("ROCM_EMU_MEMORY", "1073741824"),
        ],
        || {
            use candle_rocm_runtime::cuda_names::CUdevice_attribute as A;
            let context = context();
            let info = context.info();
            assert_eq!((info.arch.as_str(), info.wavefront_size), ("gfx942", 64));
            assert_eq!(info.arch_full, "gfx942:sramecc+:xnack-");
            assert_eq!(info.total_memory, 1 << 30);
            assert_eq!(
                (info.max_threads_per_block, info.max_lds_bytes),
                (1024, 65536)
            );
            assert_eq!(context.compute_capability().unwrap().0, 9);
            assert_eq!(
                context.attribute(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE).unwrap(),
                64
            );
            assert_eq!(
                context
                    .attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
                    .unwrap() as u32,
                info.compute_units
            );
            let (free, total) = context.mem_get_info().unwrap();
            assert!(free <= total && total == 1 << 30);
            assert_eq!(Context::device_count().unwrap(), 1);
            let error = Context::new(1).unwrap_err();
            assert!(
                error.to_string().contains("no GPU 1") && error.to_string().contains("has 1"),
                "{error}"
            );
        },
    );
}
