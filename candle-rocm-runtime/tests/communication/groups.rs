//! Ranks of one thread, in groups.

use std::ops::Range;
use std::sync::Arc;

use candle_rocm_runtime::communication::{group_end, group_start, result, sys, Comm, Id, ReduceOp};
use candle_rocm_runtime::cuda_names::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use candle_rocm_runtime::{Context, DeviceBuffer, DevicePtr as _, Graph, Stream};

use crate::elements::{of_rank, reduced};
use crate::threads::on_gpus;

/// Elements of an all-reduce that is by pieces wherever its data goes through.
const LARGE: usize = 300_001;

pub fn streams(count: usize) -> Vec<Arc<Stream>> {
    let stream = |ordinal| Context::new(ordinal).unwrap().default_stream();
    (0..count).map(stream).collect()
}

/// Some or all ranks, of one thread: an all-reduce.
fn all_reduce(comms: &[Comm], count: usize) {
    let mut buffers: Vec<_> = comms
        .iter()
        .map(|comm| {
            let own = of_rank::<f32>(comm.rank(), count);
            comm.stream().clone_htod(&own).unwrap()
        })
        .collect();
    group_start().unwrap();
    for (comm, buffer) in comms.iter().zip(&mut buffers) {
        comm.all_reduce_in_place(buffer, &ReduceOp::Sum).unwrap();
    }
    group_end().unwrap();
    let expected = reduced::<f32>(ReduceOp::Sum, comms[0].world_size(), count);
    for (comm, buffer) in comms.iter().zip(&buffers) {
        assert!(comm.stream().clone_dtoh(buffer).unwrap() == expected);
    }
}

/// All ranks of a thread: all-reduces by packets and by pieces, then messages of each to each, longer than a slot.
pub fn of_one_thread(comms: &[Comm]) {
    const COUNT: usize = 40_001;
    let world = comms.len();
    for count in [9, COUNT, LARGE] {
        all_reduce(comms, count);
    }
    let zeros = |comm: &Comm| comm.stream().alloc_zeros::<f32>(COUNT * world).unwrap();
    let sends: Vec<_> = comms
        .iter()
        .map(|comm| {
            let all = of_rank::<f32>(comm.rank(), COUNT * world);
            comm.stream().clone_htod(&all).unwrap()
        })
        .collect();
    let mut recvs: Vec<_> = comms.iter().map(zeros).collect();
    group_start().unwrap();
    for (comm, (send, recv)) in comms.iter().zip(sends.iter().zip(&mut recvs)) {
        for peer in 0..world {
            let part = peer * COUNT..(peer + 1) * COUNT;
            comm.send(&send.slice(part.clone()), peer as i32).unwrap();
            comm.recv(&mut recv.slice_mut(part), peer as i32).unwrap();
        }
    }
    group_end().unwrap();
    for (comm, recv) in comms.iter().zip(&recvs) {
        let found = comm.stream().clone_dtoh(recv).unwrap();
        let own = comm.rank() * COUNT..(comm.rank() + 1) * COUNT;
        let of_peer = |peer| of_rank::<f32>(peer, COUNT * world)[own.clone()].to_vec();
        let expected: Vec<f32> = (0..world).flat_map(of_peer).collect();
        assert!(found == expected);
    }
}

#[test]
fn from_devices() {
    const TEST: &str = "groups::from_devices";
    on_gpus(TEST, "gfx1100", 4, &[], || {
        of_one_thread(&Comm::from_devices(streams(4)).unwrap());
        of_one_thread(&Comm::from_devices(streams(1)).unwrap());
    });
}

#[test]
fn with_work_that_runs_late() {
    const TEST: &str = "groups::with_work_that_runs_late";
    let order = [("ROCM_EMU_CHECK", "order"), ("ROCM_EMU_PEERS", "1")];
    on_gpus(TEST, "gfx942", 2, &order, || {
        of_one_thread(&Comm::from_devices(streams(2)).unwrap());
    });
}

#[test]
fn ranks_begin_in_a_group() {
    const TEST: &str = "groups::ranks_begin_in_a_group";
    on_gpus(TEST, "gfx1100", 3, &[], || {
        let id = Id::uninit(*Id::new().unwrap().internal());
        group_start().unwrap();
        let rank = |(rank, stream)| Comm::from_rank(stream, rank, 3, id).unwrap();
        let comms: Vec<Comm> = streams(3).into_iter().enumerate().map(rank).collect();
        group_end().unwrap();
        of_one_thread(&comms);
    });
}

/// A thread with two ranks gives each step of theirs to streams before the next; one alone all at once.
fn threads_of_two_ranks_and_of_one() {
    let id = Id::new().unwrap();
    let of_ranks = |ranks: Range<usize>| {
        group_start().unwrap();
        let rank = |rank: usize| {
            let stream = Context::new(rank).unwrap().new_stream().unwrap();
            Comm::from_rank(stream, rank, 3, id).unwrap()
        };
        let comms: Vec<Comm> = ranks.map(rank).collect();
        group_end().unwrap();
        for count in [9, 40_001, LARGE, 9, 1_000_001] {
            all_reduce(&comms, count);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| of_ranks(0..2));
        scope.spawn(|| of_ranks(2..3));
    });
}

#[test]
fn in_threads_with_peers() {
    const TEST: &str = "groups::in_threads_with_peers";
    let peers = [("ROCM_EMU_PEERS", "1")];
    on_gpus(TEST, "gfx942", 3, &peers, threads_of_two_ranks_and_of_one);
}

#[test]
fn in_threads_without_peers() {
    const TEST: &str = "groups::in_threads_without_peers";
    let peers = [("ROCM_EMU_PEERS", "0")];
    on_gpus(TEST, "gfx1100", 3, &peers, threads_of_two_ranks_and_of_one);
}

const MODE: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const FLAGS: CUgraphInstantiate_flags =
    CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;

/// A graph of an all-reduce in place.
fn captured(comm: &Comm, x: &mut DeviceBuffer<f32>) -> Graph {
    let stream = comm.stream();
    stream.begin_capture(MODE).unwrap();
    comm.all_reduce_in_place(x, &ReduceOp::Sum).unwrap();
    stream.end_capture(FLAGS).unwrap().expect("a graph")
}

/// Launches a graph again and again, which both ranks have.
fn replayed(graph: &Graph, stream: &Arc<Stream>, x: &DeviceBuffer<f32>) {
    let mut expected = reduced::<f32>(ReduceOp::Sum, 2, x.len());
    for _ in 0..5 {
        graph.launch().unwrap();
        let found = stream.clone_dtoh(x).unwrap();
        assert!(found == expected);
        // Both ranks have the same from now on.
        expected = found.iter().map(|it| it + it).collect();
    }
}

/// Collectives are captured: a replay counts its messages by itself.
#[test]
fn captured_collectives_are_replayed() {
    const TEST: &str = "groups::captured_collectives_are_replayed";
    on_gpus(TEST, "gfx1100", 2, &[("ROCM_EMU_PEERS", "1")], || {
        crate::threads::with_ranks(2, |comm| {
            let stream = comm.stream();
            for count in [100, LARGE] {
                let own = of_rank::<f32>(comm.rank(), count);
                let mut x = stream.clone_htod(&own).unwrap();
                let graph = captured(&comm, &mut x);
                replayed(&graph, &stream, &x);
            }
        });
    });
}

/// What a graph uses of its communicator lives as long as the graph.
#[test]
fn a_graph_outlives_its_communicator() {
    const TEST: &str = "groups::a_graph_outlives_its_communicator";
    on_gpus(TEST, "gfx1100", 2, &[("ROCM_EMU_PEERS", "1")], || {
        crate::threads::with_ranks(2, |comm| {
            let stream = comm.stream();
            let own = of_rank::<f32>(comm.rank(), 100);
            let mut x = stream.clone_htod(&own).unwrap();
            let graph = captured(&comm, &mut x);
            drop(comm);
            replayed(&graph, &stream, &x);
        });
    });
}

#[test]
fn by_handles() {
    const TEST: &str = "groups::by_handles";
    on_gpus(TEST, "gfx1100", 2, &[], || {
        let streams = streams(2);
        let mut comms = [std::ptr::null_mut(); 2];
        let own = |rank| of_rank::<i32>(rank, 9);
        let upload = |rank: usize| streams[rank].clone_htod(&own(rank)).unwrap();
        let buffers = [0, 1].map(upload);
        // SAFETY: the handles, streams and buffers are alive, and the buffers have nine elements.
        unsafe {
            result::comm_init_all(comms.as_mut_ptr(), 2, std::ptr::null()).unwrap();
            result::group_start().unwrap();
            for ((comm, buffer), stream) in comms.iter().zip(&buffers).zip(&streams) {
                let (address, _) = buffer.device_ptr(stream);
                result::all_reduce(
                    address as *const _,
                    address as *mut _,
                    9,
                    sys::ncclDataType_t::ncclInt,
                    sys::ncclRedOp_t::ncclMax,
                    *comm,
                    stream.raw(),
                )
                .unwrap();
            }
            result::group_end().unwrap();
            assert_eq!(result::comm_user_rank(comms[1]).unwrap(), 1);
            assert_eq!(result::comm_count(comms[1]).unwrap(), 2);
            assert_eq!(result::comm_cu_device(comms[1]).unwrap(), 1);
        }
        for (stream, buffer) in streams.iter().zip(&buffers) {
            let found = stream.clone_dtoh(buffer).unwrap();
            assert_eq!(found, reduced::<i32>(ReduceOp::Max, 2, 9));
        }
        for comm in comms {
            // SAFETY: made above, and used no more.
            unsafe { result::comm_destroy(comm) }.unwrap();
        }
    });
}
