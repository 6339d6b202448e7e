//! Inclusive sums along a dimension, positions of elements, and counts by bin.

use crate::device::{Arg, Gpu};
use crate::elements::{for_all, from_bytes, to_bytes, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::dtypes::{self, Dtype};
use candle_rocm_kernels::scan::{group, word_bytes, Scan, REVERSED, THREADS, WIDE};
use candle_rocm_kernels::{CUMSUM, HISTOGRAM, POSITIONS};
use candle_rocm_testing::random::Random;
use rocm_gpus::CodeTarget;

fn wavefront(gpu: &Gpu) -> u32 {
    let target: CodeTarget = gpu.arch.parse().expect("in the table of GPUs");
    target.unit().wavefront
}

/// A contiguous tensor that is summed along its middle dimension.
#[derive(Clone, Copy, Debug)]
struct Case {
    outer: usize,
    count: usize,
    inner: usize,
    reversed: bool,
    /// Elements before the first.
    offset: usize,
    /// Rows that lanes sum at once, where it is not the launch's choice.
    together: Option<u32>,
}

impl Case {
    fn len(&self) -> usize {
        self.outer * self.count * self.inner
    }

    /// The sums, which are exact: of small whole numbers in i64, wrapped around or rounded once to the dtype.
    fn expected<T: Element>(&self, source: &[T]) -> Vec<T> {
        let mut sums = vec![T::of(0.0); source.len()];
        for scan in 0..self.outer * self.inner {
            let (outer, inner) = (scan / self.inner, scan % self.inner);
            let mut sum = 0_i64;
            for i in 0..self.count {
                let i = if self.reversed { self.count - 1 - i } else { i };
                let at = (outer * self.count + i) * self.inner + inner;
                sum += source[at].number() as i64;
                let number = match T::NAME {
                    "u8" => f64::from(sum as u8),
                    "u32" => f64::from(sum as u32),
                    "i16" => f64::from(sum as i16),
                    "i32" => f64::from(sum as i32),
                    _ => sum as f64,
                };
                sums[at] = T::of(number);
            }
        }
        sums
    }

    /// The sums by the kernel, as `candle_rocm_backend::ops::cumsum` launches it.
    fn run<T: Element>(&self, gpu: &Gpu, dtype: Dtype, source: &[T]) -> Vec<T> {
        let [outer, count, inner] = [self.outer, self.count, self.inner].map(|size| size as u64);
        let scan = match inner {
            1 => Scan::rows(dtype, outer, count, wavefront(gpu)),
            _ => Scan::columns(dtype, outer, count, inner),
        };
        let scan = scan.expect("no more than a grid has");
        let row = if inner == 1 { self.count } else { self.inner };
        let is_wide = (row * T::BYTES).is_multiple_of(16) && self.offset == 0;
        let flags = if is_wide { WIDE } else { 0 } | if self.reversed { REVERSED } else { 0 };
        let shifted = [&vec![T::of(7.0); self.offset], source].concat();
        let mut args = vec![
            Arg::input_from(&shifted, self.offset),
            Arg::output::<T>(source.len()),
            Arg::input(&vec![0_i64; (scan.word_bytes as usize / 8).max(1)]),
            Arg::N(self.outer),
            Arg::N(self.count),
        ];
        let (kernel, of_kernel) = if inner == 1 {
            let of_kernel = [
                scan.threads,
                self.together.unwrap_or(scan.together),
                scan.tiles,
            ];
            ("cumsum_rows", of_kernel)
        } else {
            args.push(Arg::N(self.inner));
            ("cumsum_columns", [scan.threads, scan.tiles, scan.blocks])
        };
        let numbers = [&of_kernel[..], &[scan.of_group, flags]].concat();
        args.extend(numbers.into_iter().map(|number| Arg::I(number as i32)));
        let name = format!("{kernel}_{}", T::NAME);
        // Where no workgroup waits for another, fewer than there is work for.
        let groups = match scan.tiles {
            1 => scan.workgroups.min(2),
            _ => scan.workgroups,
        };
        let (grid, block) = ([groups, 1, 1], [THREADS, 1, 1]);
        let (results, _) = gpu.launch(&CUMSUM, &name, grid, block, 0, &args);
        from_bytes(&results[0])
    }

    fn check<T: Element>(&self, gpu: &Gpu) {
        let mut numbers = Random::new(self.len() as u64);
        let dtype = dtypes::find(T::NAME).expect("a dtype");
        let source: Vec<T> = (0..self.len())
            .map(|_| T::of((numbers.signed() * 2.5).round()))
            .collect();
        let found = self.run(gpu, dtype, &source);
        let expected = self.expected(&source);
        let differs = (0..source.len()).find(|&i| found[i] != expected[i]);
        assert!(
            to_bytes(&found) == to_bytes(&expected) || differs.is_none(),
            "{} {self:?}: element {differs:?}",
            T::NAME
        );
    }
}

/// From the first element on, contiguous.
fn case(outer: usize, count: usize, inner: usize) -> Case {
    Case {
        outer,
        count,
        inner,
        reversed: false,
        offset: 0,
        together: None,
    }
}

fn check_rows<T: Element>(gpu: &Gpu) {
    let width = 16 / T::BYTES;
    // What a lane holds.
    let each = width * (64 / width).min(8);
    for (outer, count) in [
        (1, 2),
        (19, 7),
        (3, 8 * width),
        (5, 5 * width + 1),
        (2, 64 * each - 1),
        (2, 64 * each + width),
        (2, 256 * each),
        (2, 256 * each + 1),
        (1, 512 * each + width),
    ] {
        case(outer, count, 1).check::<T>(gpu);
    }
    // Rows of a lane, of eight, of a wavefront, of three vectors of a lane, and of three of a workgroup's: several at once.
    let lanes = wavefront(gpu) as usize;
    for (outer, count, of_row, together) in [
        (600, width, 1, 2),
        (77, 7 * width, 1, 3),
        (19, 32 * width, 1, 4),
        (11, 3 * lanes * width - 1, 3, 2),
        (7, 600 * width - 1, 3, 2),
    ] {
        let most = each / width / of_row;
        Case {
            together: Some(most.clamp(1, together) as u32),
            ..case(outer, count, 1)
        }
        .check::<T>(gpu);
    }
    for offset in [0, 1] {
        Case {
            reversed: true,
            offset,
            ..case(2, 256 * each + width, 1)
        }
        .check::<T>(gpu);
    }
}

fn check_columns<T: Element>(gpu: &Gpu) {
    let width = 16 / T::BYTES;
    // Rows of a strip, and of a tile of 32 lanes side by side.
    let of_strip = if T::BYTES == 2 { 16 } else { 8 };
    let rows = 8 * of_strip;
    for (outer, count, inner) in [
        (5, 3, 2),
        (1, rows, 33 * width),
        (2, rows + 1, 32 * width),
        (1, 2 * rows + 3, 32 * width + 1),
        // Lanes of few columns.
        (1, 256 * of_strip + 3, 2),
        (2, 64 * of_strip + 1, 3 * width),
    ] {
        case(outer, count, inner).check::<T>(gpu);
    }
    for (offset, count) in [(1, 2 * rows), (0, 2 * rows + 1)] {
        Case {
            reversed: true,
            offset,
            ..case(2, count, 17 * width)
        }
        .check::<T>(gpu);
    }
}

#[test]
fn rows_are_summed() {
    on_each_gpu(|gpu| {
        for_all!(check_rows, gpu);
    });
}

#[test]
fn columns_are_summed() {
    on_each_gpu(|gpu| {
        for_all!(check_columns, gpu);
    });
}

/// More tiles than a group has: two whole groups and a tile of a third.
#[test]
fn groups_of_tiles_are_summed() {
    on_each_gpu(|gpu| {
        case(1, 16 * 8192 + 3, 1).check::<f32>(gpu);
        case(1, 16 * 4096 + 3, 1).check::<i64>(gpu);
        case(1, 16 * 64 + 3, 125).check::<f32>(gpu);
        case(1, 16 * 64 + 3, 63).check::<i64>(gpu);
    });
}

/// Positions of a tile of 4,096 and less, of two, and of two whole groups of eight and a tile of a third.
fn check_positions<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(3);
    for count in [1_usize, 4096, 4097, 65_540] {
        if count > 5000 && T::BYTES > 1 {
            continue;
        }
        let source: Vec<T> = (0..count).map(|_| T::of(numbers.below(2) as f64)).collect();
        let tiles = count.div_ceil(4096);
        let words = word_bytes(1, tiles as u64, 1) as usize / 8;
        for kernel in ["nonzero", "changed"] {
            let is_wanted = |i: &u32| {
                let at = *i as usize;
                match kernel {
                    "nonzero" => source[at].number() != 0.0,
                    _ => at == 0 || source[at].number() != source[at - 1].number(),
                }
            };
            let expected: Vec<u32> = (0..count as u32).filter(is_wanted).collect();
            let args = [
                Arg::input(&source),
                Arg::output::<u32>(count),
                Arg::input(&vec![0_i64; words]),
                Arg::output::<u32>(1),
                Arg::I(count as i32),
                Arg::I(group(tiles as u64) as i32),
            ];
            let name = format!("positions_{kernel}_{}", T::NAME);
            let (grid, block) = ([tiles as u32, 1, 1], [THREADS, 1, 1]);
            let (results, _) = gpu.launch(&POSITIONS, &name, grid, block, 0, &args);
            let [positions, found] = [0, 1].map(|i| from_bytes::<u32>(&results[i]));
            assert_eq!(
                found[0] as usize,
                expected.len(),
                "{name}, {count} elements"
            );
            assert!(
                positions[..expected.len()] == expected,
                "{name}, {count} elements"
            );
        }
    }
}

#[test]
fn positions_are_in_order() {
    on_each_gpu(|gpu| {
        for_all!(check_positions, gpu);
    });
}

/// Counts with several sets of counters in LDS, one, and none; some elements are in no bin.
fn check_histogram<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(4);
    let source: Vec<T> = (0..5003).map(|_| T::of(numbers.below(12) as f64)).collect();
    let bins = 10;
    let mut expected = vec![0_u32; bins];
    for element in &source {
        if element.number() < bins as f64 {
            expected[element.number() as usize] += 1;
        } else if T::EPSILON > 0.0 && element.number() == bins as f64 {
            // The last bin of floats has its upper bound.
            expected[bins - 1] += 1;
        }
    }
    for copies in [4, 1, 0] {
        let args = [
            Arg::input(&source),
            Arg::in_out(&vec![0_u32; bins]),
            Arg::N(source.len()),
            Arg::I(bins as i32),
            Arg::I(copies),
            Arg::D(0.0),
            Arg::D(1.0),
            Arg::D(bins as f64),
        ];
        let name = format!("histogram_{}", T::NAME);
        let lds = 4 * bins * copies as usize;
        let (grid, block) = ([2, 1, 1], [THREADS, 1, 1]);
        let (results, _) = gpu.launch(&HISTOGRAM, &name, grid, block, lds, &args);
        assert_eq!(
            from_bytes::<u32>(&results[0]),
            expected,
            "{name}, {copies} copies"
        );
    }
}

#[test]
fn elements_are_counted_by_bin() {
    on_each_gpu(|gpu| {
        for_all!(check_histogram, gpu);
    });
}
