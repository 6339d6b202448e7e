//! Every collective at one rank, the results beside plain Rust's.

use std::sync::Arc;

use candle_rocm_runtime::communication::{Comm, ReduceOp};
use candle_rocm_runtime::{DeviceBuffer, Stream};

use crate::elements::{for_each_element, of_rank, reduced, Element};
use crate::rows::with_norms;

/// All reductions.
pub const OPS: [ReduceOp; 5] = [
    ReduceOp::Sum,
    ReduceOp::Prod,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::Avg,
];

/// Counts of elements; odd ones, too.
pub const COUNTS: [usize; 4] = [0, 1, 77, 1024];

fn upload<T: Element>(stream: &Arc<Stream>, values: &[T]) -> DeviceBuffer<T> {
    stream.clone_htod(values).unwrap()
}

fn zeros<T: Element>(stream: &Arc<Stream>, count: usize) -> DeviceBuffer<T> {
    stream.alloc_zeros(count).unwrap()
}

/// All collectives of all types at this rank.
pub fn everything(comm: &Comm) {
    by_library(comm);
    with_norms(comm);
}

/// Those that libraries are held to, too. Averages of integers are not among them: RCCL's of i8 differ from ours.
pub fn by_library(comm: &Comm) {
    for_each_element!(collectives(comm, &COUNTS));
    for_each_element!(by_pieces(comm));
    // By packets or pieces, and by several of a workgroup.
    for count in [32_769, 300_001, 700_001] {
        all_reduce::<f32>(comm, ReduceOp::Sum, count);
    }
    all_reduce::<half::bf16>(comm, ReduceOp::Avg, 65_535);
    gather_and_scatter::<u8>(comm, 65_537);
    around::<f32>(comm, 65_537);
}

fn is_ours(comm: &Comm) -> bool {
    comm.provider().starts_with("our kernels")
}

/// An all-reduce of a type that is too large for packets through the host's memory; of one rank, through its GPU's.
fn by_pieces<T: Element>(comm: &Comm) {
    let bytes = if comm.world_size() == 1 {
        1 << 20
    } else {
        1 << 17
    };
    all_reduce::<T>(comm, ReduceOp::Sum, bytes / size_of::<T>() + 13);
}

/// All collectives of a type.
pub fn collectives<T: Element>(comm: &Comm, counts: &[usize]) {
    for count in counts {
        for op in OPS {
            if op == ReduceOp::Avg && !T::IS_FLOAT && !is_ours(comm) {
                continue;
            }
            all_reduce::<T>(comm, op, *count);
            reduce_to_root::<T>(comm, op, *count);
        }
        gather_and_scatter::<T>(comm, *count);
        from_root::<T>(comm, *count);
        around::<T>(comm, *count);
    }
}

fn all_reduce<T: Element>(comm: &Comm, op: ReduceOp, count: usize) {
    let (stream, world) = (comm.stream(), comm.world_size());
    let own = of_rank::<T>(comm.rank(), count);
    let expected = reduced::<T>(op, world, count);
    let (send, mut recv) = (upload(&stream, &own), zeros::<T>(&stream, count));
    comm.all_reduce(&send, &mut recv, &op).unwrap();
    let found = stream.clone_dtoh(&recv).unwrap();
    assert!(found == expected, "all_reduce of {count}, {op:?}");
    assert!(
        stream.clone_dtoh(&send).unwrap() == own,
        "what was sent stays"
    );
    let mut both = send;
    comm.all_reduce_in_place(&mut both, &op).unwrap();
    let found = stream.clone_dtoh(&both).unwrap();
    assert!(found == expected, "all_reduce in place of {count}, {op:?}");
}

fn reduce_to_root<T: Element>(comm: &Comm, op: ReduceOp, count: usize) {
    let (stream, world, rank) = (comm.stream(), comm.world_size(), comm.rank());
    let (root, own) = (world - 1, of_rank::<T>(rank, count));
    let expected = match rank == root {
        true => reduced::<T>(op, world, count),
        false => own.clone(),
    };
    let (send, mut recv) = (upload(&stream, &own), zeros::<T>(&stream, count));
    let room = (rank == root).then_some(&mut recv);
    comm.reduce(&send, room, &op, root as i32).unwrap();
    if rank == root {
        let found = stream.clone_dtoh(&recv).unwrap();
        assert!(found == expected, "reduce of {count}, {op:?}");
    }
    let mut both = send;
    comm.reduce_in_place(&mut both, &op, root as i32).unwrap();
    let found = stream.clone_dtoh(&both).unwrap();
    assert!(found == expected, "reduce in place of {count}, {op:?}");
}

fn gather_and_scatter<T: Element>(comm: &Comm, count: usize) {
    let (stream, world, rank) = (comm.stream(), comm.world_size(), comm.rank());
    let send = upload(&stream, &of_rank::<T>(rank, count));
    let mut recv = zeros::<T>(&stream, count * world);
    comm.all_gather(&send, &mut recv).unwrap();
    let expected: Vec<T> = (0..world).flat_map(|rank| of_rank(rank, count)).collect();
    let found = stream.clone_dtoh(&recv).unwrap();
    assert!(found == expected, "all_gather of {count}");
    let send = upload(&stream, &of_rank::<T>(rank, count * world));
    let mut recv = zeros::<T>(&stream, count);
    comm.reduce_scatter(&send, &mut recv, &ReduceOp::Sum)
        .unwrap();
    let all = reduced::<T>(ReduceOp::Sum, world, count * world);
    let found = stream.clone_dtoh(&recv).unwrap();
    assert!(
        found == all[rank * count..][..count],
        "reduce_scatter of {count}"
    );
}

fn from_root<T: Element>(comm: &Comm, count: usize) {
    let (stream, world, rank) = (comm.stream(), comm.world_size(), comm.rank());
    for root in [0, world - 1] {
        let expected = of_rank::<T>(root, count);
        let send = (rank == root).then(|| upload(&stream, &expected));
        let mut recv = zeros::<T>(&stream, count);
        comm.broadcast(send.as_ref(), &mut recv, root as i32)
            .unwrap();
        let found = stream.clone_dtoh(&recv).unwrap();
        assert!(found == expected, "broadcast of {count} from {root}");
        let mut both = upload(&stream, &of_rank::<T>(rank, count));
        comm.broadcast_in_place(&mut both, root as i32).unwrap();
        let found = stream.clone_dtoh(&both).unwrap();
        assert!(
            found == expected,
            "broadcast in place of {count} from {root}"
        );
    }
}

/// Each rank's elements to the next, in a group, and back to the one before, outside of one.
fn around<T: Element>(comm: &Comm, count: usize) {
    let (stream, world, rank) = (comm.stream(), comm.world_size(), comm.rank());
    let (next, before) = ((rank + 1) % world, (rank + world - 1) % world);
    let send = upload(&stream, &of_rank::<T>(rank, count));
    let mut recv = zeros::<T>(&stream, count);
    {
        let (from, to) = (send.slice(..), recv.slice_mut(..));
        let mut group = comm.group();
        group.send(from, next as i32).unwrap();
        group.recv(to, before as i32).unwrap();
    }
    let found = stream.clone_dtoh(&recv).unwrap();
    assert!(
        found == of_rank::<T>(before, count),
        "{count} from {before}"
    );
    if world == 1 {
        // To itself a rank sends in a group alone: nobody else makes room.
        return;
    }
    let mut back = zeros::<T>(&stream, count);
    // Even ranks send first.
    for sends in [rank % 2 == 0, rank % 2 == 1] {
        match sends {
            true => comm.send(&recv, before as i32).unwrap(),
            false => drop(comm.recv(&mut back, next as i32).unwrap()),
        }
    }
    let found = stream.clone_dtoh(&back).unwrap();
    assert!(
        found == of_rank::<T>(rank, count),
        "{count} back from {next}"
    );
}
