//! All-reduces over GPUs of one machine, a thread for each: microseconds and bus bandwidth by size, given to a stream and
//! replayed from a graph; and those of few rows with the residual and the norm that follow, whose sums are looked at, too.
//! `CANDLE_ROCM_COMM` says whose they are.
//!
//!     cargo bench -p candle-rocm-runtime --bench communication -- --gpus 2
//!
//! prints the slowest rank's mean of several runs of many calls. Bus bandwidth is NCCL's measure: bytes / time times
//! 2 (n - 1) / n. On emulated GPUs the times say nothing.
#![allow(missing_docs)]

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use candle_rocm_runtime::communication::{Comm, Id, ReduceOp, RowsToAdd};
use candle_rocm_runtime::cuda_names::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use candle_rocm_runtime::{runtime, Context, Stream};
use half::f16;

/// All-reduces in a graph.
const CAPTURED: usize = 20;
/// Runs, of which the median counts.
const RUNS: usize = 7;
/// Rows of a model's state, and elements of one.
const ROWS: [(usize, usize); 4] = [(1, 4096), (1, 8192), (4, 4096), (16, 4096)];

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
    for (rows, columns) in ROWS {
        let (provider, [stream, graph]) = slowest_of(gpus, |rank, id, barrier| {
            rows_of(rank, gpus, id, (rows, columns), barrier)
        });
        println!(
            "{rows} x {columns} with residual and norm: {:.1} us in a stream, {:.1} in a graph  {provider}",
            us(stream),
            us(graph)
        );
    }
    println!("f16, {gpus} GPUs; bytes, us in a stream, us in a graph, GB/s of the bus in a stream and in a graph");
    let mut bytes = 2048;
    while bytes <= most {
        let (provider, [stream, graph]) = slowest_of(gpus, |rank, id, barrier| {
            all_reduces_of(rank, gpus, id, bytes, barrier)
        });
        let bus = |time: Duration| {
            let share = 2. * (gpus - 1) as f64 / gpus as f64;
            bytes as f64 * share / time.as_secs_f64() / 1e9
        };
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

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The slowest rank's times of what each does.
fn slowest_of(
    gpus: usize,
    of_rank: impl Fn(usize, Id, &Barrier) -> (String, Times) + Sync,
) -> (String, Times) {
    let (id, barrier) = (Id::new().expect("an identifier"), Barrier::new(gpus));
    let of_ranks: Vec<(String, Times)> = std::thread::scope(|scope| {
        let (barrier, of_rank) = (&barrier, &of_rank);
        let of_rank = |rank| scope.spawn(move || of_rank(rank, id, barrier));
        let ranks: Vec<_> = (0..gpus).map(of_rank).collect();
        let ended = ranks.into_iter();
        ended.map(|rank| rank.join().expect("a rank")).collect()
    });
    let slowest = |way: usize| of_ranks.iter().map(|(_, times)| times[way]).max();
    let times = [0, 1].map(|way| slowest(way).unwrap_or_default());
    (of_ranks[0].0.clone(), times)
}

fn join(rank: usize, gpus: usize, id: Id) -> Comm {
    let context = Context::new(rank).expect("a GPU");
    let stream = context.new_stream().expect("a stream");
    Comm::from_rank(stream, rank, gpus, id).expect("all ranks")
}

fn all_reduces_of(
    rank: usize,
    gpus: usize,
    id: Id,
    bytes: usize,
    barrier: &Barrier,
) -> (String, Times) {
    let comm = join(rank, gpus, id);
    let stream = comm.stream();
    let from = stream.alloc_zeros::<f16>(bytes / 2).expect("memory");
    let mut to = stream.alloc_zeros::<f16>(bytes / 2).expect("memory");
    let calls: usize = if bytes < 1 << 24 { 200 } else { 20 };
    let times = times_of(&stream, calls, barrier, || {
        comm.all_reduce(&from, &mut to, &ReduceOp::Sum)
            .map(drop)
            .expect("an all-reduce")
    });
    (comm.provider().to_owned(), times)
}

/// Of whole numbers, whose sums f16 has.
fn rows_of(
    rank: usize,
    gpus: usize,
    id: Id,
    (rows, columns): (usize, usize),
    barrier: &Barrier,
) -> (String, Times) {
    let comm = join(rank, gpus, id);
    let (stream, count) = (comm.stream(), rows * columns);
    if !comm.adds_rows::<f16>(rows, columns).expect("an answer") {
        return (format!("{} has none", comm.provider()), Times::default());
    }
    let number = |rank: usize, n: usize| f16::from_f32(((n * 7 + rank * 13) % 101) as f32);
    let of = |rank: usize| -> Vec<f16> { (0..count).map(|n| number(rank, n)).collect() };
    let upload = |values: &[f16]| stream.clone_htod(values).expect("memory");
    let (part, residual) = (upload(&of(rank)), upload(&of(gpus)));
    let weight = upload(&vec![f16::ONE; columns]);
    let mut sums = stream.alloc_zeros::<f16>(count).expect("memory");
    let mut normed = stream.alloc_zeros::<f16>(count).expect("memory");
    let times = times_of(&stream, 200, barrier, || {
        let rows = RowsToAdd {
            part: &part.slice(..),
            residual: &residual.slice(..),
            columns,
        };
        let norm = (&weight.slice(..), 1e-5);
        comm.all_reduce_add_rms_norm(rows, norm, &mut sums, &mut normed)
            .expect("an all-reduce")
    });
    let numbers = |x: Vec<f16>| -> Vec<f32> { x.into_iter().map(f32::from).collect() };
    let found = numbers(stream.clone_dtoh(&sums).expect("sums"));
    let normed = numbers(stream.clone_dtoh(&normed).expect("norms"));
    for (row, first) in (0..rows).map(|row| (row, row * columns)) {
        let x = &found[first..][..columns];
        let sum = |n: usize| {
            (0..=gpus)
                .map(|rank| f32::from(number(rank, n)))
                .sum::<f32>()
        };
        let wrong = (0..columns).find(|n| x[*n] != sum(first + n));
        assert_eq!(wrong, None, "the sums of row {row}");
        let mean = x.iter().map(|x| x * x).sum::<f32>() / columns as f32;
        // f16's rounding, and sums of squares in another order.
        let is_near = |n: &usize| (normed[first + n] - x[*n] / mean.sqrt()).abs() <= 2e-3;
        assert!((0..columns).all(|n| is_near(&n)), "the norm of row {row}");
    }
    (comm.provider().to_owned(), times)
}

/// The times of a call, in a stream and in a graph.
fn times_of(
    stream: &Arc<Stream>,
    calls: usize,
    barrier: &Barrier,
    mut give: impl FnMut(),
) -> Times {
    let in_stream = median(barrier, || {
        for _ in 0..calls {
            give();
        }
        stream.synchronize().expect("the stream");
    });
    stream
        .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        .expect("a capture");
    for _ in 0..CAPTURED {
        give();
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
    [
        in_stream / calls as u32,
        in_graph / (launches * CAPTURED) as u32,
    ]
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
