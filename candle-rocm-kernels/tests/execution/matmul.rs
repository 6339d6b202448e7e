//! Products on matrix units, every kernel, against sums in f64 (f64 for f64, too: the sums differ by its own roundings) and,
//! for bytes, in wrapping i32.

use crate::architectures;
use crate::device::{Arg, Gpu};
use crate::elements::{from_bytes, Element};
use candle_rocm_kernels::matmul::{
    exists, kernel_name, prefetch_depth, threads, Dtype, SplitKReduction, Tile, TILES,
};
use candle_rocm_kernels::order::TileOrder;
use candle_rocm_kernels::{Processor, MATMUL};
use candle_rocm_testing::activations;
use candle_rocm_testing::needs::{self, Need};
use candle_rocm_testing::random::Random;
use half::{bf16, f16};
use rocm_emulator::exec::{Class, Counters};

/// What follows a product.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Activation {
    None,
    GeluErf,
    GeluTanh,
    Silu,
}

impl Activation {
    fn of(self, x: f64) -> f64 {
        match self {
            Self::None => x,
            Self::GeluErf => activations::gelu_erf(x),
            Self::GeluTanh => activations::gelu(x),
            Self::Silu => activations::silu(x),
        }
    }
}

/// A product of m x k and k x n.
#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    /// By how much leading dimensions exceed what they must be; an odd one ends the rows' alignment.
    more: usize,
    alpha: f64,
    beta: f64,
    bias: bool,
    activation: Activation,
    residual: bool,
    /// Elements of k that are summed apart; 0 for none.
    split: usize,
    group: usize,
    xcds: usize,
}

/// Plain: C = A B.
const PLAIN: Case = Case {
    m: 1,
    n: 1,
    k: 1,
    batch: 1,
    more: 0,
    alpha: 1.0,
    beta: 0.0,
    bias: false,
    activation: Activation::None,
    residual: false,
    split: 0,
    group: 1,
    xcds: 1,
};

/// Each kernel is run for these: within one tile, tiles in both directions none of them full, whole tiles alone.
fn cases(tile: Tile, depth: usize) -> Vec<Case> {
    let (rows, columns) = (tile.rows as usize, tile.columns as usize);
    let largest = rows * columns > 128 * 128;
    vec![
        // Three K-blocks and no edge.
        Case {
            m: rows,
            n: columns,
            k: 3 * depth,
            ..PLAIN
        },
        // Less than a stage, odd distances, batches.
        Case {
            m: rows - 1,
            n: 7,
            k: 7,
            batch: 2,
            more: 3,
            alpha: -1.0,
            beta: 3.0,
            ..PLAIN
        },
        // Vectors reach over both edges; a K-block, a stage and a part of one.
        Case {
            m: rows + 1,
            n: if largest { columns - 3 } else { columns + 1 },
            k: 2 * depth - 1,
            more: 5,
            alpha: 2.0,
            bias: true,
            activation: Activation::GeluErf,
            residual: true,
            group: 2,
            ..PLAIN
        },
        // Parts, of which the last is short.
        Case {
            m: rows / 2 + 9,
            n: columns / 2 + 5,
            k: 3 * depth + depth / 2 + 1,
            more: 1,
            split: 2 * depth,
            alpha: 2.0,
            beta: -1.0,
            bias: true,
            activation: Activation::Silu,
            ..PLAIN
        },
    ]
}

/// K-blocks one after another where C ends within the rows of those wavefronts that have fewer of them, and what is
/// left of k.
fn uneven_case(tile: Tile, depth: usize) -> Case {
    Case {
        m: 2 * tile.rows as usize - 19,
        n: tile.columns as usize + 1,
        k: 3 * depth + 5,
        more: 3,
        alpha: 0.5,
        beta: 2.0,
        ..PLAIN
    }
}

/// Parts of odd and of even numbers of K-blocks, several of which are on their way.
fn prefetch_case(tile: Tile, depth: usize) -> Case {
    Case {
        m: tile.rows as usize - 5,
        n: 9,
        k: 9 * depth,
        split: 5 * depth,
        more: 3,
        ..PLAIN
    }
}

/// Cases that need no kernel in particular: one element; matrices so thin that a vector covers several columns; many tiles,
/// dealt to XCDs that do not divide them; no k; splits of k, of all tiles' sums and of two XCDs.
fn more_cases(tile: Tile, depth: usize) -> Vec<Case> {
    let (rows, columns) = (tile.rows as usize, tile.columns as usize);
    vec![
        Case { more: 2, ..PLAIN },
        Case {
            m: 1,
            n: 3,
            k: 2 * depth + 1,
            batch: 3,
            ..PLAIN
        },
        Case {
            m: 2 * rows + 17,
            n: 3 * columns + 1,
            k: depth,
            activation: Activation::GeluTanh,
            group: 2,
            xcds: 8,
            ..PLAIN
        },
        Case {
            m: 5 * rows,
            n: columns,
            k: 1,
            group: 4,
            xcds: 4,
            residual: true,
            ..PLAIN
        },
        // Whole vectors, but not of the whole tile; k without a rest, so that the last column is the matrix's last.
        Case {
            m: rows / 2,
            n: columns / 4,
            k: depth,
            ..PLAIN
        },
        Case {
            m: 9,
            n: 5,
            k: 0,
            beta: 2.0,
            bias: true,
            ..PLAIN
        },
        Case {
            m: 9,
            n: 5,
            k: depth,
            split: depth,
            batch: 2,
            residual: true,
            ..PLAIN
        },
        Case {
            m: rows + 3,
            n: columns + 1,
            k: 3 * depth + 1,
            split: depth,
            batch: 2,
            group: 2,
            xcds: 2,
            bias: true,
            ..PLAIN
        },
    ]
}

/// Operands and what must come of them, without any layout.
struct Truth {
    a: Vec<f64>,
    b: Vec<f64>,
    old: Vec<f64>,
    bias: Vec<f64>,
    residual: Vec<f64>,
    /// (value, bound) of each element by (batch, column, row).
    expected: Vec<(f64, f64)>,
}

/// Half a unit in the last place of one, of what sums are made in. Matrix units may truncate where others round, so that a
/// rounding counts twice that.
fn sum_epsilon(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => 2f64.powi(-53),
        Dtype::I8 => 0.0,
        _ => 2f64.powi(-24),
    }
}

fn truth<T: Element, C: Element>(dtype: Dtype, case: &Case) -> Truth {
    let Case { m, n, k, batch, .. } = *case;
    let mut numbers = Random::new((m * 31 + n * 7 + k) as u64);
    let scale = if dtype == Dtype::I8 { 127.9 } else { 1.0 };
    let mut random = |count: usize, scale: f64| -> Vec<f64> {
        (0..count)
            .map(|_| T::of(numbers.signed() * scale).number())
            .collect()
    };
    let (a, b) = (random(batch * m * k, scale), random(batch * k * n, scale));
    let (old, bias, residual) = (
        random(batch * m * n, scale),
        random(m, scale),
        random(batch * m * n, scale),
    );
    let epsilon = 2.0 * sum_epsilon(dtype);
    let mut expected = Vec::with_capacity(batch * m * n);
    for z in 0..batch {
        for column in 0..n {
            for row in 0..m {
                let from_a = &a[(z * m + row) * k..][..k];
                let from_b = &b[(z * n + column) * k..][..k];
                let (mut sum, mut size) = (0.0, 0.0);
                for (x, y) in from_a.iter().zip(from_b) {
                    sum += x * y;
                    size += (x * y).abs();
                }
                let index = (z * n + column) * m + row;
                let mut value = case.alpha * sum;
                let mut size = (case.alpha * size).abs();
                if case.beta != 0.0 {
                    value += case.beta * old[index];
                    size += (case.beta * old[index]).abs();
                }
                if case.bias {
                    value += bias[row];
                    size += bias[row].abs();
                }
                // k products are added in some order with as many roundings; alpha, beta and bias make three more.
                let mut bound = (k + 3) as f64 * epsilon * size;
                if case.activation != Activation::None {
                    // None is steeper than 1.13, and each takes a few roundings.
                    bound = 1.13 * bound + 8.0 * epsilon * value.abs();
                    value = case.activation.of(value);
                }
                if case.residual {
                    value += residual[index];
                    bound += epsilon * (value.abs() + residual[index].abs());
                }
                // One rounding to C's type; f16's subnormal numbers are 2^-24 apart.
                if dtype == Dtype::I8 {
                    value = value.rem_euclid(2f64.powi(32));
                    value = f64::from(value as u32 as i32);
                } else {
                    bound += C::EPSILON * (value.abs() + bound) + 3e-8 * C::EPSILON;
                    if dtype == Dtype::F16 {
                        bound += 2f64.powi(-25);
                    }
                }
                expected.push((value, bound));
            }
        }
    }
    Truth {
        a,
        b,
        old,
        bias,
        residual,
        expected,
    }
}

/// A batch of matrices as they lie in memory, not one element longer than they are.
struct Stored<T> {
    values: Vec<T>,
    ld: usize,
    stride: usize,
}

impl<T: Element> Stored<T> {
    /// `lines` of `length` elements that are together, in `batch` matrices.
    fn new(
        [batch, lines, length]: [usize; 3],
        more: usize,
        filler: f64,
        at: impl Fn(usize, usize, usize) -> f64,
    ) -> Self {
        let (ld, stride) = (length + more, (length + more) * lines + more);
        let total = match lines {
            0 => 0,
            _ => (batch - 1) * stride + (lines - 1) * ld + length,
        };
        // No buffer is empty: there is always an element after which none is read.
        let mut values = vec![T::of(filler); total.max(1)];
        for z in 0..batch {
            for line in 0..lines {
                for i in 0..length {
                    values[z * stride + line * ld + i] = T::of(at(z, line, i));
                }
            }
        }
        Self { values, ld, stride }
    }
}

/// Runs one kernel for one case and compares.
fn product<T: Element, C: Element>(
    gpu: &Gpu,
    arch: &str,
    dtype: Dtype,
    tile: Tile,
    transposed: [bool; 2],
    case: &Case,
    truth: &Truth,
) {
    let Case {
        m,
        n,
        k,
        batch,
        more,
        ..
    } = *case;
    let a_at = |z: usize, row: usize, l: usize| truth.a[(z * m + row) * k + l];
    let b_at = |z: usize, column: usize, l: usize| truth.b[(z * n + column) * k + l];
    // What lies between the lines is NaN, where there is one: it must not be used.
    let a: Stored<T> = match transposed[0] {
        true => Stored::new([batch, m, k], more, f64::NAN, a_at),
        false => Stored::new([batch, k, m], more, f64::NAN, |z, l, row| a_at(z, row, l)),
    };
    let b: Stored<T> = match transposed[1] {
        true => Stored::new([batch, k, n], more, f64::NAN, |z, l, column| {
            b_at(z, column, l)
        }),
        false => Stored::new([batch, n, k], more, f64::NAN, b_at),
    };
    let of =
        |values: &[f64], z: usize, column: usize, row: usize| values[(z * n + column) * m + row];
    const MARKER: f64 = -77.0;
    // Without beta C is not read, so that its NaN goes nowhere.
    let c: Stored<C> = Stored::new([batch, n, m], more, MARKER, |z, column, row| {
        match case.beta {
            0.0 => f64::NAN,
            _ => of(&truth.old, z, column, row),
        }
    });
    let residual: Stored<C> = Stored::new([batch, n, m], 2 * more, f64::NAN, |z, column, row| {
        of(&truth.residual, z, column, row)
    });
    let bias: Vec<C> = truth.bias.iter().map(|&x| C::of(x)).collect();
    let splits = if case.split == 0 {
        1
    } else {
        k.div_ceil(case.split).max(2)
    };
    let tiles = [
        m.div_ceil(tile.rows as usize),
        n.div_ceil(tile.columns as usize),
    ];
    // Nothing is reduced in the kernel.
    let splits_per_xcd = splits > 1 && case.xcds > 1;
    let (sums, xcds, grid) = match splits_per_xcd {
        true => (SplitKReduction::PerXcd, 1, [splits, tiles[0] * tiles[1]]),
        false => (
            SplitKReduction::SeparateKernel,
            case.xcds,
            [tiles[0] * tiles[1], splits],
        ),
    };

    let problem = |c: Arg, partial: Arg| {
        let integers =
            |values: &[usize]| values.iter().map(|&x| Arg::I(x as i32)).collect::<Vec<_>>();
        let longs = |values: &[usize]| values.iter().map(|&x| Arg::N(x)).collect::<Vec<_>>();
        let mut fields = vec![Arg::input(&a.values), Arg::input(&b.values), c];
        fields.extend(longs(&[
            a.ld,
            b.ld,
            1,
            m + more,
            a.stride,
            b.stride,
            (m + more) * n + more,
        ]));
        fields.extend([Arg::D(case.alpha), Arg::D(case.beta)]);
        fields.extend(integers(&[m, n, k, 0]));
        // Bare results have code of their own.
        let changed = case.bias || case.residual || case.activation as usize != 0;
        let is_bare = !changed && case.beta == 0.0;
        fields.extend([partial, Arg::I(sums as i32), Arg::I(is_bare.into())]);
        fields.push(if case.bias {
            Arg::input(&bias)
        } else {
            Arg::Null
        });
        fields.push(if case.residual {
            Arg::input(&residual.values)
        } else {
            Arg::Null
        });
        fields.extend(longs(&[residual.ld, residual.stride]));
        fields.extend(integers(&[
            batch,
            splits,
            if case.split == 0 { k } else { case.split },
            case.activation as usize,
        ]));
        let [group, xcds] = [case.group, xcds].map(|count| count as u32);
        let order = TileOrder::new(tiles.map(|tiles| tiles as u32), group, xcds);
        fields.extend(order.words().map(|word| Arg::I(word as i32)));
        [Arg::Struct(fields)]
    };
    let name = kernel_name(dtype, tile, transposed);
    let grid = [grid[0], grid[1], batch].map(|x| x as u32);
    let block = [threads(Processor::of(arch), tile), 1, 1];
    let found: Vec<C> = if splits == 1 {
        gpu.run(
            &MATMUL,
            &name,
            grid,
            block,
            &problem(Arg::in_out(&c.values), Arg::Null),
        )
    } else {
        let room = splits * batch * m * n;
        let unread = || Arg::input(&c.values);
        let sum = format!("matmul_sum_{}", dtype.name());
        let add = |partial: Arg, c: Arg| {
            gpu.run(&MATMUL, &sum, [3, 1, 1], [256, 1, 1], &problem(c, partial))
        };
        let result = Arg::in_out(&c.values);
        match dtype {
            Dtype::F64 => {
                let partial: Vec<f64> = gpu.run(
                    &MATMUL,
                    &name,
                    grid,
                    block,
                    &problem(unread(), Arg::output::<f64>(room)),
                );
                add(Arg::input(&partial), result)
            }
            Dtype::I8 => {
                let partial: Vec<i32> = gpu.run(
                    &MATMUL,
                    &name,
                    grid,
                    block,
                    &problem(unread(), Arg::output::<i32>(room)),
                );
                add(Arg::input(&partial), result)
            }
            _ => {
                let partial: Vec<f32> = gpu.run(
                    &MATMUL,
                    &name,
                    grid,
                    block,
                    &problem(unread(), Arg::output::<f32>(room)),
                );
                add(Arg::input(&partial), result)
            }
        }
    };
    for z in 0..batch {
        for column in 0..n {
            for row in 0..m + more {
                let at = z * c.stride + column * c.ld + row;
                let Some(found) = found.get(at).map(|x| x.number()) else {
                    continue;
                };
                if row >= m {
                    assert_eq!(
                        found,
                        C::of(MARKER).number(),
                        "{name} on {arch}, {case:?}: past row {m} of column {column}"
                    );
                    continue;
                }
                let (value, bound) = truth.expected[(z * n + column) * m + row];
                assert!(
                    (found - value).abs() <= bound,
                    "{name} on {arch}, {case:?}: ({row}, {column}) of {z} is {found}, not {value} +- {bound}"
                );
            }
        }
    }
}

fn all_kernels<T: Element, C: Element>(dtype: Dtype) {
    let archs = architectures();
    let gpus: Vec<Gpu> = archs.iter().map(|arch| Gpu::new(arch, None)).collect();
    let depth = dtype.depth() as usize;
    let mut ran = 0;
    for tile in TILES {
        let mut run = |case: Case| {
            let case = match dtype {
                Dtype::I8 => Case {
                    activation: Activation::None,
                    ..case
                },
                _ => case,
            };
            let truth = truth::<T, C>(dtype, &case);
            for (arch, gpu) in archs.iter().zip(&gpus) {
                if !exists(Processor::of(arch), dtype, tile) {
                    continue;
                }
                for ops in 0..4 {
                    let transposed = [ops & 2 != 0, ops & 1 != 0];
                    product::<T, C>(gpu, arch, dtype, tile, transposed, &case, &truth);
                    ran += 1;
                }
            }
        };
        for case in cases(tile, depth) {
            run(case);
        }
        if tile.rows == 224 {
            run(uneven_case(tile, depth));
        }
        let ahead = |arch: &&str| prefetch_depth(Processor::of(arch), dtype, tile) > 1;
        if archs.iter().any(ahead) {
            run(prefetch_case(tile, depth));
        }
        if tile.rows == 64 {
            for case in more_cases(tile, depth) {
                run(case);
            }
        }
    }
    // A few that were chosen may have no matrix unit for it; one of all has.
    let all = needs::BY_DEFAULT.iter().all(|arch| archs.contains(arch));
    assert!(ran > 0 || !all, "no architecture has {}", dtype.name());
}

#[test]
fn f16() {
    all_kernels::<f16, f16>(Dtype::F16);
}

#[test]
fn bf16() {
    all_kernels::<bf16, bf16>(Dtype::BF16);
}

#[test]
fn bytes_wrap_in_i32() {
    all_kernels::<i8, i32>(Dtype::I8);
}

#[test]
fn f32() {
    all_kernels::<f32, f32>(Dtype::F32);
}

#[test]
fn f64() {
    all_kernels::<f64, f64>(Dtype::F64);
}

/// What one tile of bf16 executes with `k`.
fn counted(gpu: &Gpu, tile: Tile, transposed: [bool; 2], k: usize) -> Counters {
    let [m, n] = [tile.rows, tile.columns].map(|size| size as usize);
    let ld = |line: bool| if line { k } else { m };
    let mut fields = vec![
        Arg::input(&vec![bf16::ONE; m * k]),
        Arg::input(&vec![bf16::ONE; n * k]),
        Arg::output::<bf16>(m * n),
        Arg::N(ld(transposed[0])),
        Arg::N(if transposed[1] { n } else { k }),
        Arg::N(1),
        Arg::N(m),
    ];
    fields.extend([Arg::N(0), Arg::N(0), Arg::N(0), Arg::D(1.0), Arg::D(0.0)]);
    fields.extend([m, n, k, 0].map(|x| Arg::I(x as i32)));
    fields.extend([
        Arg::Null,
        Arg::Null,
        Arg::Null,
        Arg::Null,
        Arg::N(0),
        Arg::N(0),
    ]);
    fields.extend([1, 1, k as i32, 0].map(Arg::I));
    let order = TileOrder::new([1, 1], 1, 1);
    fields.extend(order.words().map(|word| Arg::I(word as i32)));
    let name = kernel_name(Dtype::BF16, tile, transposed);
    let (results, counters) = gpu.launch(
        &MATMUL,
        &name,
        [1; 3],
        [threads(Processor::of("gfx942"), tile), 1, 1],
        0,
        &[Arg::Struct(fields)],
    );
    let found: Vec<bf16> = from_bytes(&results[0]);
    assert!(found.iter().all(|x| x.to_f64() == k as f64), "{name}");
    counters
}

/// What more of k costs on gfx942: with 32 cycles for an MFMA of 32 x 32 x 8 and 4 for any other vector, LDS or memory
/// instruction, four fifths of a wavefront's issue cycles are matrix instructions'; and nothing is loaded twice, but rows
/// in place of those that 224 have not, where rows are together.
#[test]
fn the_inner_loop_is_mostly_matrix_instructions() {
    let there = candle_rocm_kernels::serves("gfx942");
    if !needs::holds(Need::Architecture("gfx942"), there, "no kernels for gfx942") {
        return;
    }
    let gpu = Gpu::new("gfx942", None);
    for (tile, ops) in TILES[..2]
        .iter()
        .flat_map(|&tile| (0..4).map(move |ops| (tile, ops)))
    {
        let transposed = [ops & 2 != 0, ops & 1 != 0];
        let (less, more) = (
            counted(&gpu, tile, transposed, 256),
            counted(&gpu, tile, transposed, 512),
        );
        let of = |class| (more.of(class) - less.of(class)) as f64;
        let matrix = 32.0 * of(Class::Matrix);
        let other = 4.0 * (of(Class::Vector) + of(Class::Lds) + of(Class::Memory));
        let fill = matrix / (matrix + other);
        let name = kernel_name(Dtype::BF16, tile, transposed);
        let scalar = matrix / (matrix + other + 4.0 * of(Class::Scalar));
        println!("{name}: {fill:.3} of the issue cycles, {scalar:.3} with scalar instructions");
        let [rows, columns] = [tile.rows, tile.columns].map(u64::from);
        let products = (rows * columns * 256 / (32 * 32 * 8)) as f64;
        assert_eq!(of(Class::Matrix), products, "{name}");
        assert!(fill >= 0.8, "{name}: {fill:.3}");
        let loaded = if transposed[0] { rows } else { 256 };
        assert_eq!(
            more.bytes_loaded - less.bytes_loaded,
            (loaded + columns) * 256 * 2,
            "{name}"
        );
    }
}
