//! All-reduces over GPUs of one machine, a thread for each: microseconds and bus bandwidth by size, given to a stream and
//! replayed from a graph. `CANDLE_ROCM_COMM` says whose they are.
//!
//!     cargo bench -p candle-rocm-runtime --bench communication -- --gpus 2
//!
//! prints the slowest rank's mean of several runs of many calls. Bus bandwidth is NCCL's measure: bytes / time times
//! 2 (n - 1) / n. On emulated GPUs the times say nothing.
#![allow(missing_docs)]

use std::sync::Barrier;
use std::time::{Duration, Instant};

use candle_rocm_runtime::communication::{Comm, Id, ReduceOp};
use candle_rocm_runtime::cuda_names::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use candle_rocm_runtime::{runtime, Context};
use half::f16;

/// All-reduces in a graph.
const CAPTURED: usize = 20;
/// Runs, of which the median counts.
const RUNS: usize = 7;

/// What a rank took for a call: in a stream, and from a graph.
type Times = [Duration; 2];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, otherwise: usize| {
        let at = arguments.iter().position(|argument| argument == name);
        let value = at.and_then(|at| arguments.get(at + 1));
        value.map_or(otherwise, |value| value.parse().expect(name))
    };
    let gpus = number("--gpus", 2);
    let most = number("--most", 512 << 20);
    let found = runtime::current().expect("a runtime").device_count();
    assert!(found >= gpus, "--gpus {gpus}: this machine has {found}");
    println!("f16, {gpus} GPUs; bytes, us in a stream, us in a graph, GB/s of the bus in a stream and in a graph");
    let mut bytes = 2048;
    while bytes <= most {
        let (provider, [stream, graph]) = all_reduces(gpus, bytes);
        let bus = |time: Duration| {
            let share = 2. * (gpus - 1) as f64 / gpus as f64;
            bytes as f64 * share / time.as_secs_f64() / 1e9
        };
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        println!(
            "{bytes:>10} {:>10.1} {:>10.1} {:>8.1} {:>8.1}  {provider}",
            us(stream),
            us(graph),
            bus(stream),
            bus(graph)
        );
        bytes *= 4;
    }
}

/// The slowest rank's times of a size.
fn all_reduces(gpus: usize, bytes: usize) -> (String, Times) {
    let (id, barrier) = (Id::new().expect("an identifier"), Barrier::new(gpus));
    let of_ranks: Vec<(String, Times)> = std::thread::scope(|scope| {
        let barrier = &barrier;
        let of_rank = |rank| scope.spawn(move || times_of(rank, gpus, id, bytes, barrier));
        let ranks: Vec<_> = (0..gpus).map(of_rank).collect();
        let ended = ranks.into_iter();
        ended.map(|rank| rank.join().expect("a rank")).collect()
    });
    let slowest = |way: usize| of_ranks.iter().map(|(_, times)| times[way]).max();
    let times = [0, 1].map(|way| slowest(way).unwrap_or_default());
    (of_ranks[0].0.clone(), times)
}

fn times_of(rank: usize, gpus: usize, id: Id, bytes: usize, barrier: &Barrier) -> (String, Times) {
    let context = Context::new(rank).expect("a GPU");
    let stream = context.new_stream().expect("a stream");
    let comm = Comm::from_rank(stream.clone(), rank, gpus, id).expect("all ranks");
    let from = stream.alloc_zeros::<f16>(bytes / 2).expect("memory");
    let mut to = stream.alloc_zeros::<f16>(bytes / 2).expect("memory");
    let mut reduce = || {
        comm.all_reduce(&from, &mut to, &ReduceOp::Sum)
            .map(drop)
            .expect("an all-reduce")
    };
    let calls: usize = if bytes < 1 << 24 { 200 } else { 20 };
    let in_stream = median(barrier, || {
        for _ in 0..calls {
            reduce();
        }
        stream.synchronize().expect("the stream");
    });
    stream
        .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        .expect("a capture");
    for _ in 0..CAPTURED {
        reduce();
    }
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream
        .end_capture(flags)
        .expect("its end")
        .expect("a graph");
    let launches = calls.div_ceil(CAPTURED);
    let in_graph = median(barrier, || {
        for _ in 0..launches {
            graph.launch().expect("a launch");
        }
        stream.synchronize().expect("the stream");
    });
    let times = [
        in_stream / calls as u32,
        in_graph / (launches * CAPTURED) as u32,
    ];
    (comm.provider().to_owned(), times)
}

/// The median time of runs that all ranks begin together.
fn median(barrier: &Barrier, mut run: impl FnMut()) -> Duration {
    run();
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            barrier.wait();
            let begin = Instant::now();
            run();
            begin.elapsed()
        })
        .collect();
    times.sort();
    times[RUNS / 2]
}
