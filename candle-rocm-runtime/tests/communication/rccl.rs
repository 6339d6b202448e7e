//! AMD's RCCL by our calls, on the GPUs that there are: `cargo xtask rocm --rccl` runs it over emulated ones.

use candle_rocm_runtime::communication::{Comm, ReduceOp};
use candle_rocm_runtime::runtime;

use crate::common::select;
use crate::elements::{of_rank, reduced};
use crate::exercise::by_library;
use crate::groups::{of_one_thread, streams};
use crate::threads::with_ranks;

/// How many GPUs there are.
fn gpus() -> usize {
    select();
    runtime::current().unwrap().device_count()
}

#[test]
#[ignore = "needs AMD's RCCL: cargo xtask rocm --rccl"]
fn by_threads() {
    with_ranks(gpus(), |comm| {
        assert!(comm.provider().ends_with("librccl.so.1"));
        by_library(&comm);
    });
}

#[test]
#[ignore = "needs AMD's RCCL: cargo xtask rocm --rccl"]
fn by_one_thread() {
    of_one_thread(&Comm::from_devices(streams(gpus())).unwrap());
}

/// Values that an earlier sum left in RCCL's packets must not be taken for a later one's.
#[test]
#[ignore = "needs AMD's RCCL: cargo xtask rocm --rccl"]
fn sums_again_and_again() {
    with_ranks(gpus(), |comm| {
        let stream = comm.stream();
        for turn in 0..300 {
            let count = [1, 33, 1000, 20_001][turn % 4];
            let shifted = |rank: usize| of_rank::<i32>(rank, count + turn)[turn..].to_vec();
            let mut x = stream.clone_htod(&shifted(comm.rank())).unwrap();
            comm.all_reduce_in_place(&mut x, &ReduceOp::Sum).unwrap();
            let expected = &reduced::<i32>(ReduceOp::Sum, comm.world_size(), count + turn)[turn..];
            let found = stream.clone_dtoh(&x).unwrap();
            assert!(found == expected, "turn {turn}, {count}");
        }
    });
}
