//! Ranks as threads of one process.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use candle_rocm_runtime::communication::sys::ncclResult_t;
use candle_rocm_runtime::communication::{Comm, Id, ReduceOp};
use candle_rocm_runtime::Context;
use candle_rocm_testing::needs;

use crate::common::{in_process, select};
use crate::exercise::everything;

/// Whether the build has kernels for a GPU.
fn serves(arch: &str) -> bool {
    needs::serves(arch, candle_rocm_kernels::serves)
}

/// Runs a body in a process with so many emulated GPUs.
pub fn on_gpus(test: &str, arch: &str, count: usize, more: &[(&str, &str)], body: impl FnOnce()) {
    if !serves(arch) {
        return;
    }
    let archs = vec![arch; count].join(",");
    let mut variables = vec![
        ("ROCM_EMU_ARCH", archs.as_str()),
        ("ROCM_EMU_MEMORY", "1GiB"),
        ("CANDLE_ROCM_COMM", "own"),
        ("CANDLE_ROCM_COMM_TIMEOUT", "60"),
    ];
    variables.extend(more);
    in_process(test, &variables, || {
        select();
        body();
    });
}

/// A thread with a rank of `world`, for each.
pub fn with_ranks(world: usize, body: impl Fn(Comm) + Sync) {
    let id = Id::new().unwrap();
    std::thread::scope(|scope| {
        for rank in 0..world {
            let body = &body;
            scope.spawn(move || {
                let stream = Context::new(rank).unwrap().new_stream().unwrap();
                body(Comm::from_rank(stream, rank, world, id).unwrap());
            });
        }
    });
}

fn all_collectives(test: &str, arch: &str, world: usize, peers: &str) {
    on_gpus(test, arch, world, &[("ROCM_EMU_PEERS", peers)], || {
        let way = match peers {
            "1" => "our kernels, through the GPUs' memory",
            _ => "our kernels, through the host's memory",
        };
        with_ranks(world, |comm| {
            assert_eq!(comm.provider(), way);
            everything(&comm);
        });
    });
}

/// All kernels on the GPU that the tests are run for.
#[test]
fn one_alone() {
    const TEST: &str = "threads::one_alone";
    in_process(TEST, &[("CANDLE_ROCM_COMM", "own")], || {
        select();
        with_ranks(1, |comm| everything(&comm));
    });
}

#[test]
fn two_without_peers() {
    all_collectives("threads::two_without_peers", "gfx1100", 2, "0");
}

#[test]
fn two_with_peers() {
    all_collectives("threads::two_with_peers", "gfx942", 2, "1");
}

#[test]
fn four_without_peers() {
    all_collectives("threads::four_without_peers", "gfx942", 4, "0");
}

#[test]
fn four_with_peers() {
    all_collectives("threads::four_with_peers", "gfx1100", 4, "1");
}

/// The check `order` runs a rank's kernel on the other's call, which waits for calls that the other has not made.
#[test]
fn with_work_that_runs_late() {
    const TEST: &str = "threads::with_work_that_runs_late";
    let order = [("ROCM_EMU_CHECK", "order"), ("ROCM_EMU_PEERS", "1")];
    on_gpus(TEST, "gfx942", 2, &order, || {
        with_ranks(2, |comm| {
            let stream = comm.stream();
            let (rank, own) = (comm.rank() as i32, [comm.rank() as f32; 100]);
            let mut x = stream.clone_htod(&own).unwrap();
            let mut other = stream.alloc_zeros::<f32>(100).unwrap();
            for _ in 0..10 {
                comm.send(&x, 1 - rank).unwrap();
                comm.recv(&mut other, 1 - rank).unwrap();
                comm.all_reduce_in_place(&mut x, &ReduceOp::Sum).unwrap();
            }
            assert_eq!(stream.clone_dtoh(&x).unwrap(), [512f32; 100]);
            assert_eq!(stream.clone_dtoh(&other).unwrap(), [256f32; 100]);
        });
    });
}

#[test]
fn a_rank_that_leaves_is_named_by_the_others() {
    const TEST: &str = "threads::a_rank_that_leaves_is_named_by_the_others";
    // By packets, and by pieces.
    on_gpus(TEST, "gfx1100", 4, &[], || {
        rank_2_leaves(100);
        rank_2_leaves(50_000);
    });
}

fn rank_2_leaves(count: usize) {
    with_ranks(4, |comm| {
        let stream = comm.stream();
        let mut x = stream.clone_htod(&vec![1f32; count]).unwrap();
        comm.all_reduce_in_place(&mut x, &ReduceOp::Sum).unwrap();
        if comm.rank() == 2 {
            return;
        }
        let start = Instant::now();
        let error = comm
            .all_reduce_in_place(&mut x, &ReduceOp::Sum)
            .unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(10));
        assert_eq!(error.0, ncclResult_t::ncclRemoteError);
        assert!(error.message().contains("rank 2 (process"), "{error:?}");
        // It is of no use any more, and the GPU is.
        let again = comm
            .all_reduce_in_place(&mut x, &ReduceOp::Sum)
            .unwrap_err();
        assert_eq!(again, error);
        stream.synchronize().unwrap();
        let seven = stream.clone_htod(&[7u8; 3]).unwrap();
        assert_eq!(stream.clone_dtoh(&seven).unwrap(), [7; 3]);
    });
}

#[test]
fn a_rank_that_never_comes_is_named_in_time() {
    const TEST: &str = "threads::a_rank_that_never_comes_is_named_in_time";
    let soon = [("CANDLE_ROCM_COMM_TIMEOUT", "0.5")];
    on_gpus(TEST, "gfx1100", 2, &soon, || {
        let stream = Context::new(0).unwrap().default_stream();
        let id = Id::new().unwrap();
        let error = Comm::from_rank(stream.clone(), 0, 2, id).unwrap_err();
        assert_eq!(
            error.message(),
            "rank 1 has not come within 0.5 s (CANDLE_ROCM_COMM_TIMEOUT); rank 0 of 2 waited for it"
        );
        // One that comes and then makes no call.
        let (done, wait) = mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let done = std::sync::Mutex::new(Some(done));
        with_ranks(2, |comm| {
            if comm.rank() == 1 {
                // Until the other's end.
                let _ = wait.lock().unwrap().recv();
                return;
            }
            let done = done.lock().unwrap().take();
            let mut x = comm.stream().clone_htod(&[1f32]).unwrap();
            let error = comm
                .all_reduce_in_place(&mut x, &ReduceOp::Sum)
                .unwrap_err();
            assert!(error.message().contains("rank 1 (process"), "{error:?}");
            assert!(
                error.message().contains("not come within 0.5 s"),
                "{error:?}"
            );
            drop(done);
        });
    });
}

#[test]
fn calls_that_make_no_sense_are_refused() {
    const TEST: &str = "threads::calls_that_make_no_sense_are_refused";
    on_gpus(TEST, "gfx1100", 2, &[], || {
        let stream = Context::new(0).unwrap().default_stream();
        let twice = Comm::from_devices(vec![stream.clone(), stream.clone()]).unwrap_err();
        assert!(twice.message().contains("have one GPU, 0"), "{twice:?}");
        let none = Comm::from_rank(stream.clone(), 2, 2, Id::new().unwrap()).unwrap_err();
        assert!(none.message().contains("rank 2 of 2"), "{none:?}");
        let comm = Comm::from_devices(vec![stream.clone()]).unwrap().remove(0);
        let (x, mut y) = (
            stream.clone_htod(&[1f32; 4]).unwrap(),
            stream.alloc_zeros::<f32>(3).unwrap(),
        );
        let short = comm.all_gather(&x, &mut y).unwrap_err();
        assert_eq!(short.0, ncclResult_t::ncclInvalidArgument);
        assert!(
            short.message().contains("3 elements where 4 are needed"),
            "{short:?}"
        );
        for peer in [-1, 1] {
            let nobody = comm.send(&x, peer).unwrap_err();
            assert!(
                nobody.message().contains(&format!("no rank {peer}")),
                "{nobody:?}"
            );
        }
        let no_end = candle_rocm_runtime::communication::group_end().unwrap_err();
        assert_eq!(no_end.0, ncclResult_t::ncclInvalidUsage);
    });
}
