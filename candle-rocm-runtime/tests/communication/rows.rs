//! Rows' sums over the ranks, what they are added to, and the norm of that, in one launch, beside plain Rust.

use candle_rocm_runtime::communication::{Comm, ReduceOp, RowsToAdd};
use half::{bf16, f16};

use crate::elements::{of_rank, Element};

/// Rows and elements of one: of one unit; of several pieces; more rows than workgroups.
const SHAPES: [(usize, usize); 7] = [
    (1, 8),
    (3, 40),
    (1, 4096),
    (2, 6000),
    (1, 8192),
    (150, 64),
    (2, 16_384),
];

/// Bytes that every communicator's packets take.
const ALWAYS: usize = 16 << 10;

/// A type of models' states.
trait State: Element + Into<f32> {
    /// The nearest.
    fn nearest(x: f32) -> Self;

    /// How far a product of two may be off, of one: the type's rounding, and of f32 what sums of thousands of squares, a
    /// reciprocal and a square root's that are right to a unit, and three products add up to.
    const TOLERANCE: f64;
}

impl State for f16 {
    fn nearest(x: f32) -> Self {
        f16::from_f32(x)
    }
    const TOLERANCE: f64 = 1. / 2047.;
}

impl State for bf16 {
    fn nearest(x: f32) -> Self {
        bf16::from_f32(x)
    }
    const TOLERANCE: f64 = 1. / 255.;
}

impl State for f32 {
    fn nearest(x: f32) -> Self {
        x
    }
    const TOLERANCE: f64 = 3e-6;
}

/// All shapes of all types, and all-reduces between them: both count the same pieces.
pub fn with_norms(comm: &Comm) {
    for shape in SHAPES {
        of::<f16>(comm, shape);
        of::<bf16>(comm, shape);
        of::<f32>(comm, shape);
        between(comm);
    }
    let odd = comm.adds_rows::<f16>(1, 4097).unwrap();
    assert!(!odd, "a row of no whole units");
    assert!(!comm.adds_rows::<f64>(1, 64).unwrap());
    assert!(!comm.adds_rows::<u32>(1, 64).unwrap());
    assert!(!comm.adds_rows::<f16>(0, 64).unwrap());
}

fn between(comm: &Comm) {
    let stream = comm.stream();
    let mut ones = stream.clone_htod(&[1u32; 9]).unwrap();
    comm.all_reduce_in_place(&mut ones, &ReduceOp::Sum).unwrap();
    let world = comm.world_size() as u32;
    assert_eq!(stream.clone_dtoh(&ones).unwrap(), [world; 9]);
}

fn of<T: State>(comm: &Comm, (rows, columns): (usize, usize)) {
    let (stream, world, count) = (comm.stream(), comm.world_size(), rows * columns);
    let parts: Vec<Vec<T>> = (0..world).map(|rank| of_rank(rank, count)).collect();
    // One element further than an aligned address.
    let residual = of_rank::<T>(100, count + 1);
    let weight = of_rank::<T>(200, columns);
    let part = stream.clone_htod(&parts[comm.rank()]).unwrap();
    let device_residual = stream.clone_htod(&residual).unwrap();
    let device_weight = stream.clone_htod(&weight).unwrap();
    let [mut sums, mut alone, mut normed] = [(); 3].map(|()| stream.alloc_zeros(count).unwrap());
    let is_there = comm.adds_rows::<T>(rows, columns).unwrap();
    let rows_to_add = RowsToAdd {
        part: &part.slice(..),
        residual: &device_residual.slice(1..),
        columns,
    };
    let norm = (&device_weight.slice(..), 1e-5);
    let given = comm.all_reduce_add_rms_norm(rows_to_add, norm, &mut sums, &mut normed);
    if !is_there {
        let bytes = count * size_of::<T>();
        assert!(bytes > ALWAYS, "{rows} x {columns} of {bytes} bytes");
        assert!(given.unwrap_err().message().contains("for one launch"));
        return;
    }
    given.unwrap();
    comm.all_reduce_add(rows_to_add, &mut alone).unwrap();
    let expected: Vec<T> = (0..count)
        .map(|n| {
            let of_ranks = parts.iter().map(|part| part[n].into());
            let sum: Option<f32> = of_ranks.reduce(|a: f32, b: f32| a + b);
            T::nearest(sum.unwrap() + residual[n + 1].into())
        })
        .collect();
    let found = stream.clone_dtoh(&sums).unwrap();
    assert!(found == expected, "sums of {rows} x {columns}");
    let alone = stream.clone_dtoh(&alone).unwrap();
    assert!(alone == expected, "sums alone of {rows} x {columns}");
    let found = stream.clone_dtoh(&normed).unwrap();
    for (row, found) in expected.chunks(columns).zip(found.chunks(columns)) {
        let x: Vec<f64> = row.iter().map(|x| f64::from((*x).into())).collect();
        let mean = x.iter().map(|x| x * x).sum::<f64>() / columns as f64;
        let scale = 1. / (mean + 1e-5).sqrt();
        for n in 0..columns {
            let expected = x[n] * scale * f64::from(weight[n].into());
            let found = f64::from(found[n].into());
            assert!(
                (found - expected).abs() <= T::TOLERANCE * expected.abs() + 1e-7,
                "{rows} x {columns}, {n}: {found} for {expected}"
            );
        }
    }
}
