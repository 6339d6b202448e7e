//! Argument sort.

use crate::device::{Arg, Gpu};
use crate::elements::{for_all, Element};
use crate::on_each_gpu;
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
            let mut expected = Vec::new();
            for row in source.chunks(columns) {
                let mut order: Vec<u32> = (0..columns as u32).collect();
                // Stable: equal elements keep their order either way.
                order.sort_by(|&a, &b| {
                    let (a, b) = (row[a as usize], row[b as usize]);
                    let order = a.partial_cmp(&b).expect("no NaN here");
                    if ascending {
                        order
                    } else {
                        order.reverse()
                    }
                });
                expected.extend(order);
            }
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
