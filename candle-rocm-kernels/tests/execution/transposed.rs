//! Elementwise kernels on tensors whose neighbours in memory lie along another dimension than the last: permutations, by
//! themselves and beside operands of other layouts, with sizes and starts that vectors and tiles do not divide.

use crate::device::{Arg, Gpu};
use crate::elements::{assert_same, for_sizes, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::{AFFINE, BINARY, CAST, TERNARY, UNARY};
use half::{bf16, f16};

const BLOCK: [u32; 3] = [1024, 1, 1];

fn grid(count: usize) -> [u32; 3] {
    [count.div_ceil(1024) as u32, 1, 1]
}

/// Dimensions, and their order in memory, the outermost first.
const PERMUTATIONS: &[(&[usize], &[usize])] = &[
    // Whole tiles; whole vectors and cut-off tiles; neither.
    (&[128, 128], &[1, 0]),
    (&[80, 144], &[1, 0]),
    (&[67, 129], &[1, 0]),
    // Sizes that one side divides; few rows or columns, too few for tiles.
    (&[48, 83], &[1, 0]),
    (&[83, 48], &[1, 0]),
    (&[8, 400], &[1, 0]),
    (&[400, 9], &[1, 0]),
    (&[7, 400], &[1, 0]),
    (&[400, 3], &[1, 0]),
    // The outermost and the last, two in the middle, the last and the middle; dimensions of one element.
    (&[3, 40, 72], &[0, 2, 1]),
    (&[40, 3, 72], &[2, 1, 0]),
    (&[33, 5, 65], &[1, 2, 0]),
    (&[16, 1, 96], &[2, 1, 0]),
    // Images: channels last to channels first and back.
    (&[2, 24, 10, 12], &[0, 2, 3, 1]),
    (&[2, 10, 12, 32], &[0, 3, 1, 2]),
    (&[2, 3, 16, 17], &[3, 1, 0, 2]),
    // The last dimension stays.
    (&[3, 20, 64], &[1, 0, 2]),
    (&[2, 3, 16, 2, 40], &[4, 0, 1, 3, 2]),
    (&[2, 9, 3, 2, 33], &[0, 2, 4, 3, 1]),
];

/// An operand's place in memory.
#[derive(Clone)]
struct View {
    strides: Vec<usize>,
    start: usize,
}

impl View {
    /// Dense, in this order of dimensions, from `start` on.
    fn dense(dims: &[usize], order: &[usize], start: usize) -> Self {
        let mut strides = vec![0; dims.len()];
        let mut stride = 1;
        for &d in order.iter().rev() {
            strides[d] = stride;
            stride *= dims[d];
        }
        Self { strides, start }
    }

    fn contiguous(dims: &[usize], start: usize) -> Self {
        Self::dense(dims, &(0..dims.len()).collect::<Vec<_>>(), start)
    }

    /// Repeated along the dimensions but these.
    fn along(dims: &[usize], kept: &[usize]) -> Self {
        let mut view = Self::contiguous(dims, 0);
        let mut stride = 1;
        for d in (0..dims.len()).rev() {
            view.strides[d] = 0;
            if kept.contains(&d) {
                view.strides[d] = stride;
                stride *= dims[d];
            }
        }
        view
    }

    /// Every other element of a dense tensor.
    fn with_gaps(mut self) -> Self {
        self.strides.iter_mut().for_each(|stride| *stride *= 2);
        self
    }

    fn offsets(&self, dims: &[usize]) -> Vec<usize> {
        let mut offsets = vec![self.start];
        for (dim, stride) in dims.iter().zip(&self.strides) {
            offsets = offsets
                .iter()
                .flat_map(|offset| (0..*dim).map(move |i| offset + i * stride))
                .collect();
        }
        offsets
    }

    /// What it lies in, in which neighbours and their neighbours differ.
    fn memory<T: Element>(&self, dims: &[usize], seed: usize) -> Vec<T> {
        let last = self.offsets(dims).into_iter().max().unwrap_or(0);
        (0..=last)
            .map(|i| T::of(((i * 31 + i / 97 * 57 + seed) % 113) as f64))
            .collect()
    }
}

/// The first arguments: count, dimensions, and where they and the strides are.
fn layout_of(dims: &[usize], views: &[&View]) -> [Arg; 3] {
    let strides = views.iter().flat_map(|view| view.strides.iter());
    let info: Vec<usize> = dims.iter().chain(strides).copied().collect();
    [
        Arg::N(dims.iter().product()),
        Arg::N(dims.len()),
        Arg::sizes(&info),
    ]
}

/// An operand: its elements in the output's order, and the argument.
fn operand<T: Element>(dims: &[usize], view: &View, seed: usize) -> (Vec<T>, Arg) {
    let memory: Vec<T> = view.memory(dims, seed);
    let elements = view.offsets(dims).into_iter().map(|at| memory[at]);
    (elements.collect(), Arg::input_from(&memory, view.start))
}

fn copies<T: Element>(gpu: &Gpu) {
    for (dims, order) in PERMUTATIONS {
        for start in [0, 1, 16 / T::BYTES] {
            let view = View::dense(dims, order, start);
            let (expected, input) = operand::<T>(dims, &view, 3);
            let mut arguments = layout_of(dims, &[&view]).to_vec();
            arguments.extend([input, Arg::output::<T>(expected.len())]);
            let name = format!("ucopy_{}", T::NAME);
            let found: Vec<T> = gpu.run(&UNARY, &name, grid(expected.len()), BLOCK, &arguments);
            assert_same(
                &found,
                &expected,
                &format!("{name} of {dims:?} in {order:?}"),
            );
        }
    }
}

/// A type of each size: a kernel that moves elements stands once for all types of a size.
#[test]
fn permuted_copies_match() {
    on_each_gpu(|gpu| {
        for_sizes!(copies, gpu);
    });
}

/// Dimensions of which a few threads make several groups each: rows shorter and longer than the threads' number, of whole
/// vectors and not.
const LARGE: &[&[usize]] = &[
    &[5000],
    &[9, 33, 64],
    &[3, 7, 24, 48],
    &[6, 1600],
    &[700, 16],
    &[11, 13, 17],
    &[40, 131],
    &[2, 2500],
];

/// Types that share the cases of a test, each of which is one type's alone: every layout meets every type, if not in every
/// combination of sizes and operands.
const TYPES: usize = 4;

/// Whether a case, of this shape and these operands, is that of the type whose turn it is.
fn is_own([shape, operands]: [usize; 2], turn: usize) -> bool {
    (shape + operands) % TYPES == turn
}

fn by_few_threads<T: Element>(gpu: &Gpu, turn: usize) {
    for (shape, dims) in LARGE.iter().enumerate() {
        let all: Vec<usize> = (0..dims.len()).collect();
        let last = dims.len() - 1;
        let mut outer = all.clone();
        outer[..last].reverse();
        // A part of a wider tensor, and one whose other dimensions change places.
        let mut narrowed = View::contiguous(dims, 16);
        narrowed.strides[..last]
            .iter_mut()
            .for_each(|stride| *stride *= 2);
        let views = [
            View::contiguous(dims, 0),
            narrowed,
            View::dense(dims, &outer, 0),
            View::along(dims, &[last]),
            View::along(dims, &all[..last]),
            View::contiguous(dims, 1).with_gaps(),
        ];
        let second = View::along(dims, &[last]);
        for (at, view) in views.iter().enumerate() {
            if !is_own([shape, at], turn) {
                continue;
            }
            for workgroups in [1, 3] {
                let (x, lhs) = operand::<T>(dims, view, 3);
                let (y, rhs) = operand::<T>(dims, &second, 71);
                let what = format!("{dims:?} of strides {:?}", view.strides);
                let mut arguments = layout_of(dims, &[view]).to_vec();
                arguments.extend([lhs.clone(), Arg::output::<T>(x.len())]);
                let launch = |module, name: &str, arguments: &[Arg]| -> Vec<T> {
                    let name = format!("{name}_{}", T::NAME);
                    gpu.run(module, &name, [workgroups, 1, 1], [64, 1, 1], arguments)
                };
                assert_same(&launch(&UNARY, "ucopy", &arguments), &x, &what);
                let sum = x
                    .iter()
                    .zip(&y)
                    .map(|(x, y)| T::of(x.number() + y.number()));
                let mut arguments = layout_of(dims, &[view, &second]).to_vec();
                arguments.extend([lhs, rhs, Arg::output::<T>(x.len())]);
                let expected: Vec<T> = sum.collect();
                assert_same(&launch(&BINARY, "badd", &arguments), &expected, &what);
            }
        }
    }
}

#[test]
fn few_threads_make_many_elements() {
    on_each_gpu(|gpu| {
        by_few_threads::<u8>(gpu, 0);
        by_few_threads::<f16>(gpu, 1);
        by_few_threads::<f32>(gpu, 2);
        by_few_threads::<i64>(gpu, 3);
    });
}

fn affine<T: Element>(gpu: &Gpu) {
    for (dims, order) in PERMUTATIONS {
        let view = View::dense(dims, order, 0);
        let (x, input) = operand::<T>(dims, &view, 3);
        let expected: Vec<T> = x.iter().map(|x| T::of(x.number() * 2.0 + 5.0)).collect();
        let mut arguments = layout_of(dims, &[&view]).to_vec();
        arguments.extend([
            input,
            Arg::output::<T>(x.len()),
            Arg::element(T::of(2.0)),
            Arg::element(T::of(5.0)),
        ]);
        let name = format!("affine_{}", T::NAME);
        let found: Vec<T> = gpu.run(&AFFINE, &name, grid(x.len()), BLOCK, &arguments);
        assert_same(
            &found,
            &expected,
            &format!("{name} of {dims:?} in {order:?}"),
        );
    }
}

/// The other operand's layouts beside one of this order.
fn others(dims: &[usize], order: &[usize]) -> Vec<View> {
    let all: Vec<usize> = (0..dims.len()).collect();
    let last = dims.len() - 1;
    let reversed: Vec<usize> = all.iter().rev().copied().collect();
    vec![
        View::contiguous(dims, 0),
        View::contiguous(dims, 3),
        View::dense(dims, order, 0),
        View::dense(dims, order, 5),
        View::dense(dims, &reversed, 0),
        View::along(dims, &[last]),
        View::along(dims, &[order[last]]),
        View::along(dims, &[]),
        View::contiguous(dims, 1).with_gaps(),
        View::dense(dims, order, 0).with_gaps(),
    ]
}

fn binary<T: Element>(gpu: &Gpu, turn: usize) {
    for (shape, (dims, order)) in PERMUTATIONS.iter().enumerate() {
        let turned = View::dense(dims, order, 0);
        for (at, other) in others(dims, order).into_iter().enumerate() {
            if !is_own([shape, at], turn) {
                continue;
            }
            for views in [[&turned, &other], [&other, &turned]] {
                let (x, lhs) = operand::<T>(dims, views[0], 3);
                let (y, rhs) = operand::<T>(dims, views[1], 71);
                let pairs = || x.iter().zip(&y).map(|(x, y)| (x.number(), y.number()));
                let mut arguments = layout_of(dims, &views).to_vec();
                arguments.extend([lhs, rhs]);
                let what = format!(
                    "{} {dims:?} of strides {:?} and {:?}",
                    T::NAME,
                    views[0].strides,
                    views[1].strides
                );
                let expected: Vec<T> = pairs().map(|(x, y)| T::of(x + y)).collect();
                let all = [&arguments[..], &[Arg::output::<T>(x.len())]].concat();
                let name = format!("badd_{}", T::NAME);
                let found: Vec<T> = gpu.run(&BINARY, &name, grid(x.len()), BLOCK, &all);
                assert_same(&found, &expected, &format!("badd {what}"));
                let expected: Vec<u8> = pairs().map(|(x, y)| (x < y) as u8).collect();
                let all = [&arguments[..], &[Arg::output::<u8>(x.len())]].concat();
                let name = format!("lt_{}", T::NAME);
                let found: Vec<u8> = gpu.run(&BINARY, &name, grid(x.len()), BLOCK, &all);
                assert_same(&found, &expected, &format!("lt {what}"));
            }
        }
    }
}

#[test]
fn permuted_operands_match() {
    on_each_gpu(|gpu| {
        affine::<u8>(gpu);
        affine::<f16>(gpu);
        affine::<f32>(gpu);
        affine::<f64>(gpu);
        binary::<u8>(gpu, 0);
        binary::<bf16>(gpu, 1);
        binary::<f32>(gpu, 2);
        binary::<i64>(gpu, 3);
    });
}

fn cast<From: Element, To: Element>(gpu: &Gpu) {
    for (dims, order) in PERMUTATIONS {
        let view = View::dense(dims, order, 0);
        let (x, input) = operand::<From>(dims, &view, 3);
        let expected: Vec<To> = x.iter().map(|x| To::of(x.number())).collect();
        let mut arguments = layout_of(dims, &[&view]).to_vec();
        arguments.extend([input, Arg::output::<To>(x.len())]);
        let name = format!("cast_{}_{}", From::NAME, To::NAME);
        let found: Vec<To> = gpu.run(&CAST, &name, grid(x.len()), BLOCK, &arguments);
        assert_same(
            &found,
            &expected,
            &format!("{name} of {dims:?} in {order:?}"),
        );
    }
}

#[test]
fn permuted_casts_match() {
    on_each_gpu(|gpu| {
        cast::<u8, f64>(gpu);
        cast::<f64, u8>(gpu);
        cast::<f16, f32>(gpu);
        cast::<f32, bf16>(gpu);
        cast::<u32, f32>(gpu);
        cast::<i16, i64>(gpu);
    });
}

fn choose<C: Element, T: Element>(gpu: &Gpu, turn: usize) {
    for (shape, (dims, order)) in PERMUTATIONS.iter().enumerate() {
        let (turned, straight) = (View::dense(dims, order, 0), View::contiguous(dims, 0));
        let repeated = View::along(dims, &[dims.len() - 1]);
        let all = [
            [&turned, &turned, &turned],
            [&straight, &turned, &repeated],
            [&turned, &straight, &turned],
            [&repeated, &straight, &turned],
        ];
        for (at, views) in all.into_iter().enumerate() {
            if !is_own([shape, at], turn) {
                continue;
            }
            let (condition, first) = operand::<C>(dims, views[0], 3);
            let (x, second) = operand::<T>(dims, views[1], 29);
            let (y, third) = operand::<T>(dims, views[2], 71);
            // Zeros are a 113th of the numbers: odd ones are made zeros, too.
            let halved = |arg: Arg| match arg {
                Arg::Buffer {
                    bytes,
                    offset,
                    result,
                } => {
                    let even = |value: &C| value.number() % 2.0 == 0.0;
                    let values = crate::elements::from_bytes::<C>(&bytes);
                    let values: Vec<C> = values
                        .iter()
                        .map(|value| if even(value) { *value } else { C::of(0.0) })
                        .collect();
                    Arg::Buffer {
                        bytes: crate::elements::to_bytes(&values),
                        offset,
                        result,
                    }
                }
                other => other,
            };
            let chosen = condition.iter().zip(x.iter().zip(&y));
            let expected: Vec<T> = chosen
                .map(|(c, (x, y))| {
                    let truth = c.number() % 2.0 == 0.0 && c.number() != 0.0;
                    if truth {
                        *x
                    } else {
                        *y
                    }
                })
                .collect();
            let mut arguments = layout_of(dims, &views).to_vec();
            arguments.extend([halved(first), second, third, Arg::output::<T>(x.len())]);
            let name = format!("where_{}_{}", C::NAME, T::NAME);
            let found: Vec<T> = gpu.run(&TERNARY, &name, grid(x.len()), BLOCK, &arguments);
            assert_same(
                &found,
                &expected,
                &format!("{name} of {dims:?} in {order:?}"),
            );
        }
    }
}

#[test]
fn permuted_choices_match() {
    on_each_gpu(|gpu| {
        choose::<u8, u8>(gpu, 0);
        choose::<u8, f32>(gpu, 1);
        choose::<u32, f16>(gpu, 2);
        choose::<i64, f64>(gpu, 3);
    });
}
