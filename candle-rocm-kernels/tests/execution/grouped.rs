//! Grouped products and those of FP8, every kernel, against sums that f32 holds exactly: small whole numbers, and factors that
//! are powers of two, or whole.

use crate::architectures;
use crate::device::{Arg, Gpu};
use crate::elements::Element as Number;
use candle_rocm_kernels::grouped::{
    kernel_name, skinny_columns, skinny_name, skinny_shape, threads, Element, ALONG_K, DEPTH, TILES,
};
use candle_rocm_kernels::matmul::Tile;
use candle_rocm_kernels::order::TileOrder;
use candle_rocm_kernels::{Processor, GROUPED};
use candle_rocm_testing::random::Random;
use float8::F8E4M3;
use half::{bf16, f16};

/// A product of m x k and k x n, column-major, with factors for as many rows of A.
#[derive(Clone, Copy, Debug)]
struct Case {
    element: Element,
    kernel: Kernel,
    transposed: [bool; 2],
    m: usize,
    n: usize,
    k: usize,
    /// Rows of A that share a factor.
    share: usize,
    splits: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kernel {
    Tile(Tile),
    /// For so many columns at a time, with 2^log2_slice_k warps to a row.
    Skinny {
        columns: u32,
        log2_slice_k: u32,
    },
}

impl Case {
    /// The kernel's name, workgroups in x, threads of one, and tiles of rows and columns.
    fn launch(&self, arch: &str) -> (String, usize, u32, [usize; 2]) {
        let blocks = self.share == DEPTH;
        match self.kernel {
            Kernel::Tile(tile) => {
                let (rows, columns) = (tile.rows as usize, tile.columns as usize);
                let tiles = [self.m.div_ceil(rows), self.n.div_ceil(columns)];
                let name = kernel_name(self.element, blocks, tile, self.transposed);
                let threads = threads(Processor::of(arch), self.element, tile);
                (name, tiles[0] * tiles[1], threads, tiles)
            }
            Kernel::Skinny {
                columns,
                log2_slice_k,
            } => {
                let shape = skinny_shape(Processor::of(arch), self.element, columns);
                let rows = shape.rows_of_workgroup(log2_slice_k) as usize;
                let name = skinny_name(self.element, blocks, columns);
                (
                    name,
                    self.m.div_ceil(rows),
                    shape.threads(log2_slice_k),
                    [0, 0],
                )
            }
        }
    }
}

/// Whole numbers of rows by k, as an operand stores them: rows one after another, or k.
fn stored<T: Number>(numbers: &[f64], rows: usize, k: usize, along_k: bool) -> Arg {
    let at = |i: usize| if along_k { i } else { i % rows * k + i / rows };
    let values: Vec<T> = (0..rows * k).map(|i| T::of(numbers[at(i)])).collect();
    Arg::input(&values)
}

fn check<C: Number>(gpu: &Gpu, arch: &str, case: Case, result: usize, random: &mut Random) {
    let Case { m, n, k, .. } = case;
    let mut whole = |count: usize, most: usize| -> Vec<f64> {
        (0..count)
            .map(|_| random.below(2 * most + 1) as f64 - most as f64)
            .collect()
    };
    let (a, b, more) = (whole(m * k, 3), whole(n * k, 3), whole(m * n, 100));
    let blocks = k.div_ceil(DEPTH).max(1);
    let factor = |at: usize| [1.0, 2.0, 0.5, 3.0][at * 7 % 4];
    let scaled = case.element == Element::F8e4m3;
    let of_a = |row: usize, block: usize| {
        if scaled {
            factor(row / case.share + 3 * block)
        } else {
            1.0
        }
    };
    let of_b = |column: usize, block: usize| if scaled { factor(column + block) } else { 1.0 };
    let [a_along_k, b_along_k] = [case.transposed[0], !case.transposed[1]];
    let operand = |numbers: &[f64], rows: usize, along_k: bool| match case.element {
        Element::Bf16 => stored::<bf16>(numbers, rows, k, along_k),
        Element::F8e4m3 => stored::<F8E4M3>(numbers, rows, k, along_k),
    };
    // By rows: those of one block of k lie together.
    let factors = |rows: usize, of: &dyn Fn(usize, usize) -> f64| {
        let all: Vec<f32> = (0..blocks * rows)
            .map(|at| of(at % rows, at / rows) as f32)
            .collect();
        Arg::input(&all)
    };
    let rows_of_a = m.div_ceil(case.share);
    let scales = |values: Arg, rows: usize, shift: u32| {
        [
            values,
            Arg::N(0),
            Arg::N(1),
            Arg::N(rows),
            Arg::I(shift as i32),
            Arg::I(0),
        ]
    };
    let k_per_split = k.div_ceil(DEPTH).div_ceil(case.splits).max(1) * DEPTH;
    let (name, workgroups, threads, tiles) = case.launch(arch);
    let log2_slice_k = match case.kernel {
        Kernel::Tile(_) => 0,
        Kernel::Skinny { log2_slice_k, .. } => log2_slice_k,
    };
    let more_values: Vec<C> = more.iter().map(|&x| C::of(x)).collect();
    let ld = |rows: usize, along_k: bool| if along_k { k } else { rows };
    let problem = |c: Arg, partial: Arg| {
        let mut fields = vec![operand(&a, m, a_along_k), operand(&b, n, b_along_k), c];
        fields.extend([ld(m, a_along_k), ld(n, b_along_k), 1, m, 0, 0, m * n].map(Arg::N));
        fields.extend([Arg::D(1.0), Arg::D(0.0)]);
        fields.extend([m, n, k, 0].map(|x| Arg::I(x as i32)));
        fields.extend([
            partial,
            Arg::Null,
            Arg::Null,
            Arg::input(&more_values),
            Arg::N(m),
            Arg::N(m * n),
        ]);
        fields.extend([1, case.splits, k_per_split, 0].map(|x| Arg::I(x as i32)));
        let order = TileOrder::new(tiles.map(|tiles| tiles as u32), 1, 1);
        fields.extend(order.words().map(|word| Arg::I(word as i32)));
        let of_rows = |row: usize, block: usize| of_a(row * case.share, block);
        fields.extend(scales(
            factors(rows_of_a, &of_rows),
            rows_of_a,
            case.share.ilog2(),
        ));
        fields.extend(scales(factors(n, &of_b), n, 0));
        fields.extend([Arg::Null, Arg::I(0), Arg::I(result as i32)]);
        fields.extend([Arg::I(log2_slice_k as i32), Arg::I(0)]);
        [Arg::Struct(fields)]
    };
    let grid = [workgroups, case.splits, 1].map(|x| x as u32);
    let block = [threads, 1, 1];
    let found: Vec<C> = if case.splits == 1 {
        gpu.run(
            &GROUPED,
            &name,
            grid,
            block,
            &problem(Arg::output::<C>(m * n), Arg::Null),
        )
    } else {
        let room = Arg::output::<f32>(case.splits * m * n);
        let unread = Arg::input(&more_values);
        let sums: Vec<f32> = gpu.run(&GROUPED, &name, grid, block, &problem(unread, room));
        let add = problem(Arg::output::<C>(m * n), Arg::input(&sums));
        gpu.run(&GROUPED, "grouped_sum", [3, 1, 1], [256, 1, 1], &add)
    };
    for column in 0..n {
        for row in 0..m {
            let products = |block: usize| -> f64 {
                let within = block * DEPTH..k.min((block + 1) * DEPTH);
                within.map(|at| a[row * k + at] * b[column * k + at]).sum()
            };
            let all = k.div_ceil(DEPTH);
            let sum: f64 = (0..all)
                .map(|block| products(block) * of_a(row, block) * of_b(column, block))
                .sum();
            let expected = C::of(sum + C::of(more[column * m + row]).number());
            let found = found[column * m + row];
            assert!(
                found.number() == expected.number(),
                "{arch}, {name}, {case:?}, row {row}, column {column}: {found:?} for {expected:?}"
            );
        }
    }
}

/// A case with results of one type after another.
fn check_one(gpu: &Gpu, arch: &str, case: Case, which: &mut usize, random: &mut Random) {
    match *which % 3 {
        0 => check::<f32>(gpu, arch, case, 0, random),
        1 => check::<f16>(gpu, arch, case, 1, random),
        _ => check::<bf16>(gpu, arch, case, 2, random),
    }
    *which += 1;
}

#[test]
fn every_grouped_kernel_is_exact() {
    for arch in architectures() {
        let gpu = Gpu::new(arch, None);
        let mut random = Random::new(31);
        let mut which = 0;
        for element in [Element::Bf16, Element::F8e4m3] {
            let orders = (0..4).map(|ops| [ops & 2 != 0, ops & 1 != 0]);
            for tile in TILES.into_iter().chain([ALONG_K]) {
                let orders = orders.clone();
                for transposed in orders.filter(|&of| tile != ALONG_K || of == [true, false]) {
                    let case = |m, n, k, share, splits| Case {
                        element,
                        kernel: Kernel::Tile(tile),
                        transposed,
                        m,
                        n,
                        k,
                        share,
                        splits,
                    };
                    // Whole K-blocks; edges of everything, split-K.
                    for case in [
                        case(128, 32, 256, 1, 1),
                        case(128, 32, 256, DEPTH, 1),
                        case(131, 37, 300, 1, 2),
                        case(131, 37, 300, DEPTH, 1),
                    ] {
                        check_one(&gpu, arch, case, &mut which, &mut random);
                    }
                }
            }
        }
    }
}

#[test]
fn every_kernel_of_few_columns_is_exact() {
    for arch in architectures() {
        let gpu = Gpu::new(arch, None);
        let mut random = Random::new(37);
        let mut which = 0;
        for element in [Element::Bf16, Element::F8e4m3] {
            for &columns in skinny_columns(Processor::of(arch)) {
                let warps = skinny_shape(Processor::of(arch), element, columns)
                    .warps
                    .ilog2();
                let all = columns as usize;
                // Whole rounds; a round and a half, in parts; what no vector covers; several times the columns.
                for (m, n, k, share, splits, log2_slice_k) in [
                    (160, all, 2048, DEPTH, 1, 1),
                    (131, all.div_ceil(2), 1664, DEPTH, 2, warps),
                    (70, all, 1664, 1, 1, 0),
                    (37, 1, 307, 1, 2, warps),
                    (37, 2 * all + 1, 435, DEPTH, 1, 0),
                ] {
                    let case = Case {
                        element,
                        kernel: Kernel::Skinny {
                            columns,
                            log2_slice_k,
                        },
                        transposed: [true, false],
                        m,
                        n,
                        k,
                        share,
                        splits,
                    };
                    check_one(&gpu, arch, case, &mut which, &mut random);
                }
            }
        }
    }
}
