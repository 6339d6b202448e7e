//! Argument sort as Candle launches it, and the radix sort that the runtime launches instead.

use crate::device::{Arg, Gpu};
use crate::elements::{for_all, from_bytes, to_bytes, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::radix_sort::{
    chunks, tiles, RankedRows, Selecting, ShortRows, SortedDtype, ORDER_OF_KEYS, SCAN_CHUNKS,
    SCAN_TILES, THREADS, TILE,
};
use candle_rocm_kernels::{RADIX_SORT, SORT};
use candle_rocm_testing::random::Random;
use rocm_gpus::CodeTarget;

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

/// The rows of one launch or one sequence of launches.
struct Rows<'a, T> {
    source: &'a [T],
    columns: usize,
    kept: usize,
    ascending: bool,
}

impl<T: Element> Rows<'_, T> {
    fn dtype(&self) -> SortedDtype {
        SortedDtype::of(T::NAME, self.ascending).expect("a dtype that is sorted")
    }

    fn rows(&self) -> usize {
        self.source.len() / self.columns
    }

    /// The elements, which begin in the middle of a vector.
    fn elements(&self) -> Arg {
        let shifted = [&self.source[..1], self.source].concat();
        Arg::input_from(&shifted, 1)
    }

    /// Checks columns and elements against a stable sort, the elements bit by bit.
    fn check(&self, index: &[u32], values: &[T], what: &str) {
        let sorted = expected(self.source, self.columns, self.ascending);
        let first = |sorted: &[u32]| sorted[..self.kept].to_vec();
        let sorted: Vec<Vec<u32>> = sorted.chunks(self.columns).map(first).collect();
        let what = format!(
            "{what}, {} x {} {}, ascending {}",
            self.rows(),
            self.columns,
            T::NAME,
            self.ascending
        );
        assert!(index == sorted.concat(), "{what}: columns");
        let rows = self.source.chunks(self.columns).zip(&sorted);
        let expected: Vec<T> = rows
            .flat_map(|(row, sorted)| sorted.iter().map(|&column| row[column as usize]))
            .collect();
        assert!(to_bytes(values) == to_bytes(&expected), "{what}: elements");
    }
}

fn wavefront(gpu: &Gpu) -> u32 {
    let target: CodeTarget = gpu.arch.parse().expect("in the table of GPUs");
    target.unit().wavefront
}

fn sort_short<T: Element>(gpu: &Gpu, rows: &Rows<T>) {
    let (dtype, written) = (rows.dtype(), rows.rows() * rows.kept);
    let plan = ShortRows::of(&dtype, rows.columns as u32, wavefront(gpu));
    let args = [
        rows.elements(),
        Arg::Null,
        Arg::output::<u32>(written),
        Arg::output::<T>(written),
        Arg::I(rows.rows() as i32),
        Arg::I(rows.columns as i32),
        Arg::I(rows.kept as i32),
        Arg::I(plan.threads as i32),
        Arg::N(dtype.infinity as usize),
        Arg::I(dtype.order as i32),
    ];
    // One workgroup, so that all of them loop.
    let block = [plan.threads * plan.together, 1, 1];
    let lds = plan.lds_bytes as usize;
    let (results, _) = gpu.launch(&RADIX_SORT, dtype.rows, [1, 1, 1], block, lds, &args);
    rows.check(&from_bytes(&results[0]), &from_bytes(&results[1]), "short");
}

/// Ranks rows at `source`, whose columns go by `names`; the columns and elements kept.
fn ranked<T: Element>(gpu: &Gpu, rows: &Rows<T>, source: Arg, names: Arg) -> (Vec<u32>, Vec<T>) {
    // As many compute units as let any of the tests' rows be ranked.
    const UNITS: u32 = 1 << 12;
    let (dtype, written) = (rows.dtype(), rows.rows() * rows.kept);
    let plan = RankedRows::of(&dtype, rows.rows() as u32, rows.columns as u32, UNITS)
        .expect("few enough rows");
    let args = [
        source,
        names,
        Arg::output::<u32>(written),
        Arg::output::<T>(written),
        Arg::I(rows.columns as i32),
        Arg::I(rows.kept as i32),
        Arg::I(plan.parts as i32),
        Arg::I(dtype.order as i32),
        Arg::N(dtype.infinity as usize),
    ];
    let grid = [rows.rows() as u32 * plan.parts, 1, 1];
    let (block, lds) = ([plan.threads, 1, 1], plan.lds_bytes as usize);
    let (results, _) = gpu.launch(&RADIX_SORT, dtype.rank, grid, block, lds, &args);
    (from_bytes(&results[0]), from_bytes(&results[1]))
}

fn rank_short<T: Element>(gpu: &Gpu, rows: &Rows<T>) {
    let (index, values) = ranked(gpu, rows, rows.elements(), Arg::Null);
    rows.check(&index, &values, "ranked");
}

/// Columns go by other names.
fn rank_named<T: Element>(gpu: &Gpu, rows: &Rows<T>) {
    let (columns, kept) = (rows.columns, rows.kept);
    let names: Vec<u32> = (0..rows.source.len() as u32)
        .map(|place| place * 3 + 7)
        .collect();
    let (found, _) = ranked(gpu, rows, rows.elements(), Arg::input(&names));
    let sorted = expected(rows.source, columns, rows.ascending);
    let of_row = |(row, sorted): (usize, &[u32])| {
        let name = |&column: &u32| names[row * columns + column as usize];
        sorted[..kept].iter().map(name).collect::<Vec<_>>()
    };
    let wanted: Vec<u32> = sorted
        .chunks(columns)
        .enumerate()
        .flat_map(of_row)
        .collect();
    assert_eq!(found, wanted, "{} x {columns} {}", rows.rows(), T::NAME);
}

/// The launches of a sort of rows that fit no workgroup, as the runtime has them.
fn sort_long<T: Element, Key: Element>(gpu: &Gpu, rows: &Rows<T>) {
    let (dtype, columns) = (rows.dtype(), rows.columns as u32);
    let (count, written) = (rows.source.len(), rows.rows() * rows.kept);
    let [of_row, chunked] = [tiles, chunks].map(|each| each(columns) as usize);
    let grid = |each: usize| [(rows.rows() * each) as u32, 1, 1];
    let run = |kernel: &str, each: usize, args: &[Arg]| {
        gpu.launch(&RADIX_SORT, kernel, grid(each), [THREADS, 1, 1], 0, args)
            .0
    };
    let (infinity, int) = (Arg::N(dtype.infinity as usize), |value: u32| {
        Arg::I(value as i32)
    });
    let (mut from, mut index, mut given) = (rows.elements(), Arg::Null, dtype.order);
    let digits = dtype.shifts().count();
    for (digit, shift) in dtype.shifts().enumerate() {
        let counts = Arg::output::<u32>(rows.rows() * of_row * 256);
        let args = [
            from.clone(),
            counts,
            int(columns),
            int(shift),
            infinity.clone(),
            int(given),
        ];
        let counts = from_bytes::<u32>(&run(dtype.count, of_row, &args)[0]);
        assert_eq!(counts.iter().sum::<u32>() as usize, count);
        let starts = Arg::output::<u32>(rows.rows() * chunked * 256);
        let scanned = run(
            SCAN_TILES,
            chunked,
            &[Arg::in_out(&counts), starts, int(columns)],
        );
        let [counts, mut starts] = [0, 1].map(|i| from_bytes::<u32>(&scanned[i]));
        if chunked > 1 {
            let args = [Arg::in_out(&starts), int(chunked as u32)];
            starts = from_bytes(&run(SCAN_CHUNKS, 1, &args)[0]);
        }
        let is_last = digit + 1 == digits;
        let (keys, kept, values) = match is_last {
            true => (Arg::Null, rows.kept, Arg::output::<T>(written)),
            false => (Arg::output::<Key>(count), rows.columns, Arg::Null),
        };
        let args = [
            from.clone(),
            index.clone(),
            keys,
            Arg::output::<u32>(rows.rows() * kept),
            values,
            rows.elements(),
            Arg::input(&counts),
            Arg::input(&starts),
            int(columns),
            int(kept as u32),
            infinity.clone(),
            int(shift),
            int(given),
            int(dtype.order),
        ];
        let results = run(dtype.moved, of_row, &args);
        if is_last {
            return rows.check(&from_bytes(&results[0]), &from_bytes(&results[1]), "long");
        }
        from = Arg::input(&from_bytes::<Key>(&results[0]));
        index = Arg::input(&from_bytes::<u32>(&results[1]));
        given = ORDER_OF_KEYS;
    }
}

/// The launches that select the first elements of long rows, and sort them.
fn select<T: Element>(gpu: &Gpu, rows: &Rows<T>) {
    let (dtype, columns, kept) = (rows.dtype(), rows.columns as u32, rows.kept as u32);
    let (count, written) = (rows.rows(), rows.rows() * rows.kept);
    let selecting = Selecting::of(count as u32, columns, 1);
    let int = |value: u32| Arg::I(value as i32);
    let (infinity, order) = (Arg::N(dtype.infinity as usize), int(dtype.order));
    let run = |kernel: &str, each: u32, args: &[Arg]| {
        let grid = [count as u32 * each, 1, 1];
        gpu.launch(&RADIX_SORT, kernel, grid, [THREADS, 1, 1], 0, args)
            .0
    };
    let mut selections = vec![0_u32; selecting.selection_bytes as usize / 4];
    for shift in dtype.shifts().collect::<Vec<_>>().into_iter().rev() {
        let args = [
            rows.elements(),
            Arg::in_out(&selections),
            int(columns),
            int(kept),
            int(selecting.parts),
            int(shift),
            infinity.clone(),
            order.clone(),
        ];
        selections = from_bytes(&run(dtype.select, selecting.parts, &args)[0]);
    }
    let words = (selecting.zero_bytes - selecting.selection_bytes) as usize / 8;
    let args = [
        rows.elements(),
        Arg::input(&selections),
        Arg::input(&vec![0_i64; words]),
        Arg::output::<T>(written),
        Arg::output::<u32>(written),
        int(columns),
        int(kept),
        int(selecting.of_group),
        order.clone(),
        infinity.clone(),
    ];
    let taken = run(dtype.take, tiles(columns), &args);
    let plan = ShortRows::of(&dtype, kept, wavefront(gpu));
    let args = [
        Arg::input(&from_bytes::<T>(&taken[0])),
        Arg::input(&from_bytes::<u32>(&taken[1])),
        Arg::output::<u32>(written),
        Arg::output::<T>(written),
        int(count as u32),
        int(kept),
        int(kept),
        int(plan.threads),
        infinity,
        order,
    ];
    let block = [plan.threads * plan.together, 1, 1];
    let lds = plan.lds_bytes as usize;
    let (results, _) = gpu.launch(&RADIX_SORT, dtype.rows, [1, 1, 1], block, lds, &args);
    rows.check(
        &from_bytes(&results[0]),
        &from_bytes(&results[1]),
        "selected",
    );
}

/// [`sort_long`] with keys of the elements' size.
fn sort_long_of<T: Element>(gpu: &Gpu, rows: &Rows<T>) {
    match T::BYTES {
        1 => sort_long::<T, u8>(gpu, rows),
        2 => sort_long::<T, i16>(gpu, rows),
        4 => sort_long::<T, u32>(gpu, rows),
        _ => sort_long::<T, i64>(gpu, rows),
    }
}

/// Numbers with ties, and, of floats, all that is special.
fn elements<T: Element>(count: usize, seed: u64) -> Vec<T> {
    let special = [
        f64::NAN,
        -0.0,
        f64::INFINITY,
        -f64::NAN,
        0.0,
        f64::NEG_INFINITY,
    ];
    let mut numbers = Random::new(seed);
    let mut next = || match numbers.below(9) {
        0 if T::EPSILON > 0.0 => numbers.choose(&special),
        1 => (numbers.signed() * 4.0).round(),
        // Of 64-bit integers the upper digits too.
        2 if T::BYTES == 8 => numbers.signed() * 9e18,
        _ => numbers.signed() * 3e4,
    };
    (0..count).map(|_| T::of(next())).collect()
}

fn check_short<T: Element>(gpu: &Gpu) {
    for (columns, kept) in [(1, 1), (3, 3), (64, 5), (65, 65), (513, 513), (1500, 1)] {
        let source = elements::<T>(5 * columns, 10);
        for ascending in [true, false] {
            let rows = Rows {
                source: &source,
                columns,
                kept,
                ascending,
            };
            sort_short(gpu, &rows);
            rank_short(gpu, &rows);
        }
    }
}

/// Ranks by names, of rows that end within, at and behind what a thread reads at once.
fn check_names<T: Element>(gpu: &Gpu) {
    for (columns, kept) in [(31, 31), (128, 9), (300, 300)] {
        rank_named(
            gpu,
            &Rows {
                source: &elements::<T>(3 * columns, 14),
                columns,
                kept,
                ascending: columns != 128,
            },
        );
    }
}

/// Rows that fill a workgroup, and rows of one element alone, which are all ties.
fn check_full<T: Element>(gpu: &Gpu) {
    let columns = SortedDtype::of(T::NAME, true)
        .expect("a dtype")
        .short_columns() as usize;
    let mut source = elements::<T>(columns, 11);
    source.extend(std::iter::repeat_n(source[0], columns));
    let rows = Rows {
        source: &source,
        columns,
        kept: columns,
        ascending: false,
    };
    sort_short(gpu, &rows);
}

fn check_long<T: Element>(gpu: &Gpu) {
    // A tile and one element more, and one fewer than three tiles.
    for (columns, kept, ascending) in [
        (TILE as usize + 1, TILE as usize + 1, true),
        (3 * TILE as usize - 1, 100, false),
    ] {
        let mut source = elements::<T>(columns, 12);
        source.extend(std::iter::repeat_n(source[0], columns));
        sort_long_of(
            gpu,
            &Rows {
                source: &source,
                columns,
                kept,
                ascending,
            },
        );
    }
}

#[test]
fn short_rows_of_any_length_are_sorted() {
    on_each_gpu(|gpu| {
        for_all!(check_short, gpu);
    });
}

#[test]
fn ranked_columns_go_by_their_names() {
    on_each_gpu(|gpu| {
        for_all!(check_names, gpu);
    });
}

#[test]
fn rows_that_fill_a_workgroup_are_sorted() {
    on_each_gpu(|gpu| {
        for_all!(check_full, gpu);
    });
}

#[test]
fn long_rows_are_sorted_digit_by_digit() {
    on_each_gpu(|gpu| {
        for_all!(check_long, gpu);
    });
}

/// Few elements of rows of one tile, of several, and of one element alone, of which the first are taken.
fn check_selected<T: Element>(gpu: &Gpu) {
    for (columns, kept, ascending) in [(2100, 1, true), (2 * TILE as usize + 77, 130, false)] {
        let mut source = elements::<T>(columns, 14);
        source.extend(std::iter::repeat_n(source[0], columns));
        select(
            gpu,
            &Rows {
                source: &source,
                columns,
                kept,
                ascending,
            },
        );
    }
}

#[test]
fn the_first_elements_are_selected() {
    on_each_gpu(|gpu| {
        for_all!(check_selected, gpu);
    });
}

/// More tiles than one workgroup scans.
#[test]
fn chunks_of_tiles_are_scanned() {
    on_each_gpu(|gpu| {
        let columns = 65 * TILE as usize + 3;
        let source = elements::<u8>(columns, 13);
        sort_long_of(
            gpu,
            &Rows {
                source: &source,
                columns,
                kept: columns,
                ascending: true,
            },
        );
    });
}
