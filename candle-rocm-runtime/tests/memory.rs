//! The memory pool: reuse, order between streams, what the statistics say, running out and recovering.

mod common;

use candle_rocm_runtime::pool::Pool;
use candle_rocm_runtime::{ErrorKind, LaunchConfig, PushKernelArg};
use candle_rocm_testing::random::Random;
use common::{context, in_process};

const MIB: usize = 1 << 20;

#[test]
fn freed_memory_is_reused_without_the_driver() {
    let context = context();
    let stream = context.new_stream().unwrap();
    let pool = Pool::new_caching(context.device());
    let first = pool.allocate(1000, stream.key()).unwrap();
    pool.free(first, stream.key()).unwrap();
    for _ in 0..100 {
        let again = pool.allocate(900, stream.key()).unwrap();
        assert_eq!(again, first);
        pool.free(again, stream.key()).unwrap();
    }
    let statistics = pool.statistics();
    assert_eq!(
        (statistics.allocations, statistics.driver_allocations),
        (101, 1)
    );
    assert_eq!(statistics.in_use, 0);
    assert_eq!(statistics.cached, statistics.reserved);
    pool.flush().unwrap();
    let statistics = pool.statistics();
    assert_eq!(
        (statistics.cached, statistics.reserved, statistics.flushes),
        (0, 0, 1)
    );
}

#[test]
fn blocks_never_overlap_and_join_again() {
    let context = context();
    let stream = context.new_stream().unwrap();
    let pool = Pool::new_caching(context.device());
    // A fixed sequence of odd sizes, each third freed on the way.
    let mut live: Vec<(u64, usize)> = Vec::new();
    let mut random = Random::new(12_345);
    for step in 0..2000 {
        let bytes = 1 + random.below(if step % 10 == 0 { 5 * MIB } else { 20_000 });
        if step % 3 == 2 {
            let (ptr, _) = live.swap_remove(random.below(live.len()));
            pool.free(ptr, stream.key()).unwrap();
        } else {
            let ptr = pool.allocate(bytes, stream.key()).unwrap();
            assert_eq!(ptr % 256, 0);
            live.push((ptr, bytes));
        }
    }
    let mut sorted = live.clone();
    sorted.sort();
    for pair in sorted.windows(2) {
        assert!(pair[0].0 + pair[0].1 as u64 <= pair[1].0, "{pair:?}");
    }
    let statistics = pool.statistics();
    assert_eq!(statistics.in_use + statistics.cached, statistics.reserved);
    assert!(statistics.in_use >= live.iter().map(|(_, bytes)| bytes).sum());
    assert!(statistics.peak_in_use >= statistics.in_use);
    for (ptr, _) in live {
        pool.free(ptr, stream.key()).unwrap();
    }
    // Whole segments again, or the cache could not be given back.
    pool.flush().unwrap();
    assert_eq!(pool.statistics().reserved, 0);
}

#[test]
fn another_stream_waits_for_the_block() {
    let context = context();
    let (a, b) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let pool = Pool::new_caching(context.device());
    let ptr = pool.allocate(4 * MIB, a.key()).unwrap();
    pool.free(ptr, a.key()).unwrap();
    // On the other stream the block is found as well.
    let again = pool.allocate(4 * MIB, b.key()).unwrap();
    assert_eq!(again, ptr);
    pool.free(again, b.key()).unwrap();
    // A stream prefers what it freed itself, even if both fit.
    let on_a = pool.allocate(4 * MIB, a.key()).unwrap();
    let on_b = pool.allocate(4 * MIB, b.key()).unwrap();
    pool.free(on_a, a.key()).unwrap();
    pool.free(on_b, b.key()).unwrap();
    assert_eq!(pool.allocate(4 * MIB, b.key()).unwrap(), on_b);
    assert_eq!(pool.allocate(4 * MIB, a.key()).unwrap(), on_a);
    assert_eq!(pool.statistics().driver_allocations, 1);
}

#[test]
fn a_dead_streams_memory_is_reused() {
    in_process("a_dead_streams_memory_is_reused", &[], || {
        let context = context();
        let pool = context.device().pool();
        assert_eq!(
            pool.is_caching(),
            common::on_amds_hip(),
            "on the emulator each allocation is its own"
        );
        let stream = context.new_stream().unwrap();
        let buffer = stream.clone_htod(&[1u8; 100]).unwrap();
        drop(stream);
        let other = context.new_stream().unwrap();
        // The buffer keeps its stream alive.
        assert_eq!(other.clone_dtoh(&buffer).unwrap(), [1; 100]);
        drop(buffer);
        assert_eq!(context.pool_statistics().in_use, 0);
        pool.flush().unwrap();
        assert_eq!(context.pool_statistics().reserved, 0);
    });
}

#[test]
fn running_out_says_what_is_in_use_and_recovers() {
    in_process(
        "running_out_says_what_is_in_use_and_recovers",
        &[("ROCM_EMU_MEMORY", "67108864")],
        || {
            let context = context();
            let stream = context.default_stream();
            let half = stream.alloc_zeros::<u8>(32 * MIB).unwrap();
            let error = stream.alloc_zeros::<u8>(48 * MIB).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::OutOfMemory);
            let text = error.to_string();
            assert!(text.contains("50331648 bytes asked for"), "{text}");
            assert!(text.contains("33554432 bytes in use"), "{text}");
            assert!(text.contains("of 67108864"), "{text}");
            // What there is still works.
            assert_eq!(stream.clone_dtoh(&half.slice(..3)).unwrap(), [0; 3]);
            drop(half);
            assert_eq!(stream.alloc_zeros::<u8>(48 * MIB).unwrap().len(), 48 * MIB);
        },
    );
}

#[test]
fn running_out_gives_the_cache_back_first() {
    in_process(
        "running_out_gives_the_cache_back_first",
        &[("ROCM_EMU_MEMORY", "67108864")],
        || {
            let context = context();
            let stream = context.new_stream().unwrap();
            let pool = Pool::new_caching(context.device());
            // A cache of all the memory, in segments too small for the request that follows.
            let blocks: Vec<u64> = (0..20)
                .map(|_| pool.allocate(2 * MIB, stream.key()).unwrap())
                .collect();
            for ptr in blocks {
                pool.free(ptr, stream.key()).unwrap();
            }
            // Two shared segments.
            assert_eq!(pool.statistics().cached, 64 * MIB);
            // AMD's HIP gives no more than three quarters of the memory at once.
            let large = pool.allocate(46 * MIB, stream.key()).unwrap();
            let statistics = pool.statistics();
            assert_eq!((statistics.flushes, statistics.cached), (1, 0));
            assert_eq!(statistics.in_use, 46 * MIB);
            pool.free(large, stream.key()).unwrap();
        },
    );
}

#[test]
fn the_pool_can_be_turned_off() {
    in_process(
        "the_pool_can_be_turned_off",
        &[("CANDLE_ROCM_POOL", "0")],
        || {
            assert!(!context().device().pool().is_caching());
        },
    );
}

#[test]
fn threads_allocate_and_pass_buffers_on() {
    let context = context();
    let function = common::probe(&context).load_function("increment").unwrap();
    let (send, receive) = std::sync::mpsc::sync_channel(8);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (context, function, send) = (&context, &function, send.clone());
            scope.spawn(move || {
                let stream = context.per_thread_stream();
                for i in 0..50u32 {
                    let n = 1 + 37 * i;
                    let mut x = stream
                        .clone_htod(&vec![thread * 1000 + i; n as usize])
                        .unwrap();
                    let mut launch = stream.launch_builder(function);
                    launch.arg(&n).arg(&mut x);
                    // SAFETY: the arguments are those of the kernel.
                    unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
                    send.send((thread * 1000 + i + 1, x)).unwrap();
                }
            });
        }
        drop(send);
        let stream = context.per_thread_stream();
        let mut count = 0;
        for (expected, x) in receive {
            assert_eq!(stream.clone_dtoh(&x).unwrap(), vec![expected; x.len()]);
            count += 1;
        }
        assert_eq!(count, 200);
    });
    // More than one thread used the per-thread stream: uses are tracked.
    assert!(context.is_managing_stream_synchronization());
}

/// Work that begins untracked, while other threads make the context track: nobody may read over it.
#[test]
fn no_use_is_missed_when_a_second_thread_comes() {
    let function = common::probe(&context())
        .load_function("increment")
        .unwrap();
    let n = 300_000u32;
    for _ in 0..30 {
        let (context, start) = (context(), std::sync::Barrier::new(3));
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        std::thread::scope(|scope| {
            let (context, function, start) = (&context, &function, &start);
            scope.spawn(move || {
                let stream = context.per_thread_stream();
                let mut x = stream.alloc_zeros::<u32>(n as usize).unwrap();
                start.wait();
                let mut launch = stream.launch_builder(function);
                launch.arg(&n).arg(&mut x);
                // SAFETY: the arguments are those of the kernel.
                unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
                send.send(x).unwrap();
            });
            scope.spawn(move || {
                start.wait();
                // Its first use, which waits for what was not tracked.
                context.per_thread_stream().synchronize().unwrap();
            });
            start.wait();
            let x = receive.recv().unwrap();
            let read = context.per_thread_stream().clone_dtoh(&x).unwrap();
            let missed = read.iter().filter(|&&element| element != 1).count();
            assert_eq!(missed, 0);
        });
    }
}

#[test]
fn threads_share_a_caching_pool() {
    let context = context();
    let pool = Pool::new_caching(context.device());
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (context, pool) = (&context, &pool);
            scope.spawn(move || {
                let stream = context.per_thread_stream();
                context.bind_to_thread().unwrap();
                let mut live = Vec::new();
                for i in 0..300usize {
                    live.push(
                        pool.allocate(1 + (i * 7919 + thread) % 30_000, stream.key())
                            .unwrap(),
                    );
                    if i % 2 == 1 {
                        pool.free(live.swap_remove(i % live.len()), stream.key())
                            .unwrap();
                    }
                }
                for ptr in live {
                    pool.free(ptr, stream.key()).unwrap();
                }
            });
        }
    });
    let statistics = pool.statistics();
    assert_eq!((statistics.allocations, statistics.in_use), (1200, 0));
    pool.flush().unwrap();
    assert_eq!(pool.statistics().reserved, 0);
}
