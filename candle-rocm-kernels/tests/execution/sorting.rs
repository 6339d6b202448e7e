//! Argument sort.

use crate::device::{Arg, Gpu};
use crate::elements::{for_all, for_floats, from_bytes, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::long_sort::{merges, LongSort, MERGE, RUN, RUNS, THREADS};
use candle_rocm_kernels::SORT;
use candle_rocm_testing::random::Random;

fn sort<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(8);
    let rows = 2;
    for columns in [1usize, 2, 7, 64, 1500] {
        let source: Vec<T> = (0..rows * columns)
            .map(|_| T::of((numbers.signed() * 8.0).round()))
            .collect();
        let padded = columns.next_power_of_two();
        for ascending in [true, false] {
            let expected = expected(&source, columns, ascending);
            let name = format!(
                "asort_{}_{}",
                if ascending { "asc" } else { "desc" },
                T::NAME
            );
            let found: Vec<u32> = gpu.run_with_lds(
                &SORT,
                &name,
                [rows as u32, 1, 1],
                [padded.min(1024) as u32, 1, 1],
                padded * 4,
                &[
                    Arg::input(&source),
                    Arg::output::<u32>(source.len()),
                    Arg::I(columns as i32),
                    Arg::I(padded as i32),
                ],
            );
            assert_eq!(found, expected, "{name}, {columns} columns");
        }
    }
}

#[test]
fn sorts_are_stable() {
    on_each_gpu(|gpu| {
        for_all!(sort, gpu);
    });
}

/// The kernels that sort rows in memory, one after the other, as the runtime launches them; the grid is as small as may
/// be, so that all of them loop.
fn sort_in_memory<T: Element>(gpu: &Gpu, source: &[T], columns: usize, order: &str) -> Vec<u32> {
    let sort = LongSort::of("sort", &format!("asort_{order}_{}", T::NAME)).expect("a sort");
    let (count, rows) = (source.len(), source.len() / columns);
    let (grid, block) = ([2, 1, 1], [THREADS, 1, 1]);
    let keys: Vec<i64> = gpu.run(
        &SORT,
        &sort.keys,
        grid,
        block,
        &[
            Arg::input(source),
            Arg::output::<i64>(count),
            Arg::N(count),
            Arg::N(sort.flip as usize),
        ],
    );
    let both = |results: Vec<Vec<u8>>| {
        (
            from_bytes::<i64>(&results[0]),
            from_bytes::<u32>(&results[1]),
        )
    };
    let args = [
        Arg::in_out(&keys),
        Arg::output::<u32>(count),
        Arg::I(rows as i32),
        Arg::I(columns as i32),
    ];
    let (results, _) = gpu.launch(&SORT, RUNS, grid, block, 0, &args);
    let (mut keys, mut indices) = both(results);
    for run in merges(columns as u32) {
        let args = [
            Arg::input(&keys),
            Arg::input(&indices),
            Arg::output::<i64>(count),
            Arg::output::<u32>(count),
            Arg::N(count),
            Arg::I(columns as i32),
            Arg::I(run as i32),
        ];
        let (results, _) = gpu.launch(&SORT, MERGE, grid, block, 0, &args);
        (keys, indices) = both(results);
    }
    // Keys are those of the elements in order.
    for row in keys.chunks(columns) {
        assert!(row.windows(2).all(|pair| pair[0] as u64 <= pair[1] as u64));
    }
    indices
}

/// Where a stable sort puts the elements of each row; a NaN is larger than all numbers.
fn expected<T: Element>(source: &[T], columns: usize, ascending: bool) -> Vec<u32> {
    let mut all = Vec::with_capacity(source.len());
    for row in source.chunks(columns) {
        let mut places: Vec<u32> = (0..columns as u32).collect();
        places.sort_by(|&a, &b| {
            let [a, b] = [a, b].map(|place| row[place as usize].number());
            let order = a
                .partial_cmp(&b)
                .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
            if ascending {
                order
            } else {
                order.reverse()
            }
        });
        all.extend(places);
    }
    all
}

fn in_memory<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(9);
    // A run and less, no whole number of runs, and whole ones.
    for columns in [RUN as usize - 1, 2 * RUN as usize + 1, 3 * RUN as usize] {
        let source: Vec<T> = (0..3 * columns)
            .map(|_| T::of((numbers.signed() * 100.0).round()))
            .collect();
        for (order, ascending) in [("asc", true), ("desc", false)] {
            let found = sort_in_memory(gpu, &source, columns, order);
            let expected = expected(&source, columns, ascending);
            assert!(found == expected, "{} {order}, {columns} columns", T::NAME);
        }
    }
}

fn special_values_in_memory<T: Element>(gpu: &Gpu) {
    let special = [
        f64::NAN,
        1.0,
        -0.0,
        f64::INFINITY,
        -f64::NAN,
        0.0,
        f64::NEG_INFINITY,
        -1.0,
    ];
    let columns = 2 * RUN as usize + 7;
    let source: Vec<T> = (0..columns)
        .map(|i| T::of(special[i * 5 % special.len()]))
        .collect();
    for (order, ascending) in [("asc", true), ("desc", false)] {
        let found = sort_in_memory(gpu, &source, columns, order);
        assert!(
            found == expected(&source, columns, ascending),
            "{} {order}",
            T::NAME
        );
    }
}

#[test]
fn rows_are_sorted_in_memory() {
    on_each_gpu(|gpu| {
        for_all!(in_memory, gpu);
        for_floats!(special_values_in_memory, gpu);
    });
}
