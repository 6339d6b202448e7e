//! index_select, gather, index_add, scatter, scatter_add.

use crate::device::{Arg, Gpu};
use crate::elements::{assert_same, for_all, for_sizes, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::INDEXING;
use candle_rocm_testing::random::Random;

/// (left, dim, right) shapes: rows to copy as vectors, single elements, odd sizes.
const SHAPES: [(usize, usize, usize); 4] = [(1, 9, 64), (3, 5, 1), (2, 7, 5), (4, 3, 16)];
const IDS: usize = 11;

fn source<T: Element>(numbers: &mut Random, count: usize) -> Vec<T> {
    (0..count)
        .map(|_| T::of((numbers.signed() * 8.0).round()))
        .collect()
}

/// Indices below `size`, every fourth the type's largest value, which means none.
fn ids<I: Element>(numbers: &mut Random, count: usize, size: usize) -> Vec<I> {
    let absent = match I::NAME {
        "u8" => I::get(&[0xff]),
        "u32" => I::get(&[0xff; 4]),
        _ => I::get(&i64::MAX.to_le_bytes()),
    };
    let pick = |i: usize, numbers: &mut Random| match i % 4 {
        3 => absent,
        _ => I::of(numbers.below(size) as f64),
    };
    (0..count).map(|i| pick(i, numbers)).collect()
}

/// An index as a place; none for the largest value.
fn place<I: Element>(id: I, size: usize) -> Option<usize> {
    Some(id.number() as usize).filter(|&at| at < size)
}

fn grid(threads: usize) -> [u32; 3] {
    [threads.div_ceil(1024) as u32, 1, 1]
}

fn sum<T: Element>(a: T, b: T) -> T {
    match T::EPSILON == 0.0 {
        // Integers wrap in their own bits.
        true => T::get(&((a.number() + b.number()) as i64).to_le_bytes()[..T::BYTES]),
        false => T::of(a.number() + b.number()),
    }
}

fn selected<T: Element>(gpu: &Gpu) {
    selected_by::<T, u8>(gpu);
    selected_by::<T, u32>(gpu);
    selected_by::<T, i64>(gpu);
}

fn selected_by<T: Element, I: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(9);
    for (left, dim, right) in SHAPES {
        select::<T, I>(gpu, &mut numbers, left, dim, right);
    }
}

fn updated<T: Element>(gpu: &Gpu) {
    by::<T, u8>(gpu);
    by::<T, u32>(gpu);
    by::<T, i64>(gpu);
}

fn by<T: Element, I: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(7);
    for (left, dim, right) in SHAPES {
        let updates = Updates {
            left,
            count: IDS,
            dim,
            right,
            workgroups: 1,
        };
        update::<T, I>(gpu, &mut numbers, &updates, source);
    }
}

fn select<T: Element, I: Element>(
    gpu: &Gpu,
    numbers: &mut Random,
    left: usize,
    dim: usize,
    right: usize,
) {
    let block = [1024, 1, 1];
    let values: Vec<T> = source(numbers, left * dim * right);
    let zero = T::of(0.0);

    // Every second id of a longer list: a strided layout.
    let list: Vec<I> = ids(numbers, 2 * IDS, dim);
    let mut expected = Vec::new();
    for l in 0..left {
        for i in 0..IDS {
            let row = place(list[2 * i], dim).map(|at| (l * dim + at) * right);
            expected.extend((0..right).map(|r| row.map_or(zero, |row| values[row + r])));
        }
    }
    let found: Vec<T> = gpu.run(
        &INDEXING,
        &format!("is_{}_{}", I::NAME, T::NAME),
        grid(expected.len()),
        block,
        &[
            Arg::N(expected.len()),
            Arg::N(1),
            Arg::sizes(&[IDS, 2]),
            Arg::input(&list),
            Arg::input(&values),
            Arg::output::<T>(expected.len()),
            Arg::N(left),
            Arg::N(dim),
            Arg::N(IDS),
            Arg::N(right),
        ],
    );
    assert_same(&found, &expected, "index_select");

    let list: Vec<I> = ids(numbers, left * IDS * right, dim);
    let expected: Vec<T> = (0..list.len())
        .map(|i| {
            let (l, r) = (i / (IDS * right), i % right);
            place(list[i], dim).map_or(zero, |at| values[(l * dim + at) * right + r])
        })
        .collect();
    let found: Vec<T> = gpu.run(
        &INDEXING,
        &format!("gather_{}_{}", I::NAME, T::NAME),
        grid(expected.len()),
        block,
        &[
            Arg::N(expected.len()),
            Arg::input(&list),
            Arg::input(&values),
            Arg::output::<T>(expected.len()),
            Arg::N(left),
            Arg::N(dim),
            Arg::N(IDS),
            Arg::N(right),
        ],
    );
    assert_same(&found, &expected, "gather");
}

/// Updates of a destination of (left, dim, right) by `count` indices of each column, or of all.
struct Updates {
    left: usize,
    count: usize,
    dim: usize,
    right: usize,
    workgroups: u32,
}

/// Work-items of a workgroup of the updating kernels.
const UPDATE_THREADS: u32 = 256;

/// Every sum is rounded in the order of the indices, so that `start` and `values` may be fractions.
fn update<T: Element, I: Element>(
    gpu: &Gpu,
    numbers: &mut Random,
    updates: &Updates,
    value: fn(&mut Random, usize) -> Vec<T>,
) {
    let &Updates {
        left,
        count,
        dim,
        right,
        workgroups,
    } = updates;
    let (grid, block) = ([workgroups, 1, 1], [UPDATE_THREADS, 1, 1]);
    let start: Vec<T> = value(numbers, left * dim * right);
    let values: Vec<T> = value(numbers, left * count * right);
    let sizes = [Arg::N(left), Arg::N(count), Arg::N(dim), Arg::N(right)];

    let list: Vec<I> = ids(numbers, count, dim);
    let mut expected = start.clone();
    for l in 0..left {
        for (i, &id) in list.iter().enumerate() {
            let Some(at) = place(id, dim) else { continue };
            for r in 0..right {
                let to = &mut expected[(l * dim + at) * right + r];
                *to = sum(*to, values[(l * count + i) * right + r]);
            }
        }
    }
    let arguments = [
        Arg::input(&list),
        Arg::N(count),
        Arg::input(&values),
        Arg::in_out(&start),
    ];
    let name = format!("ia_{}_{}", I::NAME, T::NAME);
    let arguments = [&arguments[..], &sizes].concat();
    let found: Vec<T> = gpu.run(&INDEXING, &name, grid, block, &arguments);
    assert_same(&found, &expected, &name);

    let list: Vec<I> = ids(numbers, left * count * right, dim);
    let (mut set, mut added) = (start.clone(), start.clone());
    for (i, &id) in list.iter().enumerate() {
        let (l, r) = (i / (count * right), i % right);
        let Some(at) = place(id, dim) else { continue };
        let to = (l * dim + at) * right + r;
        set[to] = values[i];
        added[to] = sum(added[to], values[i]);
    }
    for (name, expected) in [("s", set), ("sa", added)] {
        let arguments = [Arg::input(&list), Arg::input(&values), Arg::in_out(&start)];
        let kernel = format!("{name}_{}_{}", I::NAME, T::NAME);
        let arguments = [&arguments[..], &sizes].concat();
        let found: Vec<T> = gpu.run(&INDEXING, &kernel, grid, block, &arguments);
        assert_same(&found, &expected, &kernel);
    }
}

/// What the kernels share among wavefronts, threads and workgroups: (left, indices, dim, right, workgroups).
const SHARED: [(usize, usize, usize, usize, u32); 12] = [
    // A row for a wavefront, in LDS and in global memory, and rows that several wavefronts share.
    (40, 300, 100, 1, 2),
    (1, 3000, 3, 1, 1),
    (2, 2500, 30_000, 1, 3),
    (3, 70, 5000, 1, 12),
    // Columns of one workgroup and of several; fewer than a wavefront; places that only some workgroups have.
    (1, 1100, 40, 300, 20),
    (2, 2100, 7, 3, 16),
    (1, 50, 1, 2, 12),
    (2, 9, 600, 17, 36),
    // Several steps of bins; several tiles, of columns of more than one left.
    (1, 5000, 33, 1, 40),
    (2, 4500, 300, 4, 24),
    (1, 300, 40, 70, 8),
    (3, 500, 7, 33, 12),
];

fn fractions<T: Element>(numbers: &mut Random, count: usize) -> Vec<T> {
    (0..count).map(|_| T::of(numbers.signed() * 8.0)).collect()
}

fn shared_by<T: Element, I: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(8);
    for (left, count, dim, right, workgroups) in SHARED {
        let updates = Updates {
            left,
            count,
            dim,
            right,
            workgroups,
        };
        update::<T, I>(gpu, &mut numbers, &updates, fractions);
    }
}

#[test]
fn updates_are_shared_in_order() {
    on_each_gpu(|gpu| {
        shared_by::<f32, u32>(gpu);
        shared_by::<half::f16, i64>(gpu);
        shared_by::<half::bf16, u32>(gpu);
    });
}

#[test]
fn updates_match() {
    on_each_gpu(|gpu| {
        for_all!(updated, gpu);
    });
}

/// A type of each size: a kernel that moves elements stands once for all types of a size.
#[test]
fn elements_are_selected() {
    on_each_gpu(|gpu| {
        for_sizes!(selected, gpu);
    });
}
