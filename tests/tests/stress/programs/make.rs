//! Makes random programs: the next operator from what is alive.
//!
//! The range of every tensor's elements is known from the operators that made it, so that none overflows, leaves an
//! operator's domain or divides by nothing; what grows beyond [`WILD`] is scaled and clamped before anything uses it.

use std::collections::HashMap;

use anyhow::Result;
use candle_core::{DType, Tensor, D};
use candle_nn::ops;

use super::super::compare::Nearness;
use super::super::inputs::{many_numbers, ties, Random};
use super::operators::{bound, Near, Operation, Range, BINARY, COMPARISONS, UNARY};

/// Tensors alive at once.
const ALIVE: usize = 40;
/// Elements of the largest tensor.
const LARGEST: usize = 1 << 14;
/// Elements of the largest source.
const SOURCE: usize = 1 << 11;
/// Elements of each tensor that sources are cut from.
const LONG: usize = 1 << 13;
/// Magnitudes above it are brought back to [`TAME`] at most.
const WILD: f64 = 8.0;
const TAME: f64 = 4.0;
/// Integers whose sums and products are true in i64, which is what they are compared with.
const LARGEST_INTEGER: f64 = 1e18;
/// Rows that sorting takes.
const SORTED: usize = 1024;

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
const INTEGERS: [DType; 3] = [DType::U8, DType::U32, DType::I64];
/// The last tensor of the bank: what indices are cut from.
const INDICES: usize = FLOATS.len() + INTEGERS.len();
/// Indices before they are held to a dimension.
const LARGEST_INDEX: usize = 63;

/// The tensors on the CPU that every program of this seed is made from.
pub fn bank(seed: u64) -> Result<Vec<Tensor>> {
    let mut bank = Vec::new();
    for (i, dtype) in FLOATS.into_iter().enumerate() {
        bank.push(many_numbers(dtype, seed * 16 + i as u64, LONG)?);
    }
    for (i, dtype) in INTEGERS.into_iter().enumerate() {
        bank.push(ties(dtype, seed * 16 + 8 + i as u64, LONG)?);
    }
    let mut random = Random::new(seed * 16 + 15);
    let indices: Vec<u32> = (0..LONG)
        .map(|_| random.below(LARGEST_INDEX + 1) as u32)
        .collect();
    bank.push(Tensor::from_vec(indices, LONG, &candle_core::Device::Cpu)?);
    Ok(bank)
}

/// What the dtype holds.
fn whole_range(dtype: DType) -> Range {
    match dtype {
        DType::U8 => (0.0, 255.0),
        DType::U32 => (0.0, f64::from(u32::MAX)),
        _ => (i64::MIN as f64, i64::MAX as f64),
    }
}

/// An operator with its inputs, by number, and the range of its result.
pub struct Made {
    pub operation: Operation,
    pub inputs: Vec<usize>,
    range: Range,
    /// The typical size of a sum of so many terms of size 1: what its result is divided by.
    spread: f64,
}

impl Made {
    fn new(operation: Operation, inputs: Vec<usize>, range: Range) -> Self {
        Self {
            operation,
            inputs,
            range,
            spread: 1.0,
        }
    }

    /// A sum of `terms` of magnitude up to `largest`.
    fn sum(operation: Operation, inputs: Vec<usize>, terms: usize, largest: f64) -> Self {
        let most = terms as f64 * largest;
        Self {
            operation,
            inputs,
            range: (-most, most),
            spread: (terms as f64).sqrt(),
        }
    }
}

#[derive(Clone, Copy)]
struct Alive {
    number: usize,
    range: Range,
}

/// Made and not yet fit for use.
struct Untamed {
    number: usize,
    range: Range,
    spread: f64,
}

/// A tensor that an operator may take.
struct Choice<'a> {
    number: usize,
    range: Range,
    tensor: &'a Tensor,
}

type Results = HashMap<usize, Tensor>;

pub struct Maker {
    random: Random,
    alive: Vec<Alive>,
    untamed: Vec<Untamed>,
    bank: Vec<Alive>,
}

impl Maker {
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed ^ 0x57_7265_7373),
            alive: Vec::new(),
            untamed: Vec::new(),
            bank: Vec::new(),
        }
    }

    /// Tells of a tensor of the bank, in its order.
    pub fn add_bank(&mut self, number: usize, dtype: DType) {
        let range = match dtype {
            _ if number == INDICES => (0.0, LARGEST_INDEX as f64),
            DType::U8 | DType::U32 => (0.0, 7.0),
            DType::I64 => (-4.0, 3.0),
            _ => (-3.0, 3.0),
        };
        self.bank.push(Alive { number, range });
    }

    /// The numbers of the tensors alive.
    pub fn alive(&self) -> impl Iterator<Item = usize> + '_ {
        self.alive.iter().map(|alive| alive.number)
    }

    /// Tells of the result of what was made; returns the results that nothing uses any more.
    pub fn note(&mut self, number: usize, result: &Tensor, made: &Made) -> Vec<usize> {
        let mut dead = Vec::new();
        // What was tamed was waiting for just that.
        if let Some(&input) = made.inputs.first() {
            if self
                .untamed
                .last()
                .is_some_and(|untamed| untamed.number == input)
            {
                self.untamed.pop();
                dead.push(input);
            }
        }
        let (dtype, range) = (result.dtype(), made.range);
        if dtype.is_int() {
            let whole = whole_range(dtype);
            let fits = range.0 >= whole.0 && range.1 <= whole.1;
            let range = if fits { range } else { whole };
            self.alive.push(Alive { number, range });
        } else if bound(range) > WILD {
            self.untamed.push(Untamed {
                number,
                range,
                spread: made.spread,
            });
        } else {
            self.alive.push(Alive { number, range });
        }
        while self.alive.len() > ALIVE {
            let at = self.random.below(self.alive.len());
            dead.push(self.alive.swap_remove(at).number);
        }
        dead
    }

    /// The next step.
    pub fn next(&mut self, results: &Results) -> Made {
        if let Some(untamed) = self.untamed.last() {
            return tame(untamed);
        }
        if self.alive.len() < 8 {
            return self.source();
        }
        // Weights in percent, more or less.
        type Make = fn(&mut Maker, &Results) -> Option<Made>;
        const KINDS: [(usize, Make); 13] = [
            (8, |maker, _| Some(maker.source())),
            (20, Maker::unary),
            (18, Maker::binary),
            (4, Maker::comparison),
            (3, Maker::affine),
            (10, Maker::reduction),
            (8, Maker::product),
            (12, Maker::view),
            (8, Maker::joining),
            (8, Maker::indexing),
            (4, Maker::selection),
            (6, Maker::cast),
            (8, Maker::rows),
        ];
        let all: usize = KINDS.iter().map(|(weight, _)| weight).sum();
        loop {
            let mut at = self.random.below(all);
            for (weight, make) in KINDS {
                if at < weight {
                    if let Some(made) = make(self, results) {
                        return made;
                    }
                    break;
                }
                at -= weight;
            }
        }
    }

    fn pick<'a>(&mut self, results: &'a Results) -> Choice<'a> {
        let Alive { number, range } = self.alive[self.random.below(self.alive.len())];
        Choice {
            number,
            range,
            tensor: &results[&number],
        }
    }

    fn pick_float<'a>(&mut self, results: &'a Results) -> Option<Choice<'a>> {
        let choice = self.pick(results);
        choice.tensor.dtype().is_float().then_some(choice)
    }

    /// A dimension of a tensor that has any.
    fn dim(&mut self, tensor: &Tensor) -> Option<usize> {
        (tensor.rank() > 0).then(|| self.random.below(tensor.rank()))
    }

    /// A shape of up to four dimensions with at most `most` elements.
    fn shape(&mut self, most: usize) -> Vec<usize> {
        const SIZES: [usize; 12] = [1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 64];
        let mut shape = Vec::new();
        let mut count = 1;
        for _ in 0..self.random.below(5) {
            let size = SIZES[self.random.below(SIZES.len())];
            if count * size <= most {
                count *= size;
                shape.push(size);
            }
        }
        shape
    }

    /// Numbers that were not used before, in a shape; contiguous, a part of a longer tensor, or all positive.
    fn source(&mut self) -> Made {
        let at = match self.random.below(16) {
            0..7 => 0,
            7..14 => self.random.below(FLOATS.len()),
            _ => FLOATS.len() + self.random.below(INTEGERS.len()),
        };
        let shape = self.shape(SOURCE);
        let count = shape.iter().product::<usize>();
        let start = self.random.below(LONG - count);
        let bank = self.bank[at];
        let name = format!("narrow {start} and reshape to {shape:?}");
        let cut = move |x: &Tensor| x.narrow(0, start, count)?.reshape(shape.as_slice());
        let (name, operation): (_, super::operators::Operator) = match self.random.below(3) {
            0 => (name, std::sync::Arc::new(move |x| cut(&x[0]))),
            1 if at < FLOATS.len() => {
                let operation = Operation::new(
                    format!("{name}, abs"),
                    Near::Is(Nearness::Same),
                    move |x: &[Tensor]| cut(&x[0])?.abs(),
                );
                // The bank's numbers are of magnitude 0.25 and more.
                return Made::new(operation, vec![bank.number], (0.24, bank.range.1));
            }
            _ => (
                format!("{name}, copied"),
                std::sync::Arc::new(move |x| cut(&x[0])?.force_contiguous()),
            ),
        };
        let operation = Operation::new(name, Near::Is(Nearness::Same), move |x: &[Tensor]| {
            operation(x)
        });
        Made::new(operation, vec![bank.number], bank.range)
    }

    fn unary(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick_float(results)?;
        let unary = &UNARY[self.random.below(UNARY.len())];
        if !(unary.takes)(x.range) {
            return None;
        }
        let operator = unary.operator;
        Some(Made::new(
            Operation::new(unary.name, unary.near, move |x: &[Tensor]| operator(&x[0])),
            vec![x.number],
            (unary.gives)(x.range),
        ))
    }

    /// A tensor whose shape broadcasts with this one's, of the same dtype.
    fn partner<'a>(&mut self, x: &Choice<'a>, results: &'a Results) -> Option<Choice<'a>> {
        let fits = |alive: &Alive| {
            let y = &results[&alive.number];
            let shape = x
                .tensor
                .shape()
                .broadcast_shape_binary_op(y.shape(), "partner");
            y.dtype() == x.tensor.dtype() && shape.is_ok_and(|shape| shape.elem_count() <= LARGEST)
        };
        let all: Vec<Alive> = self.alive.iter().copied().filter(fits).collect();
        let Alive { number, range } = *all.get(self.random.below(all.len().max(1)))?;
        Some(Choice {
            number,
            range,
            tensor: &results[&number],
        })
    }

    fn binary(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick(results);
        let y = self.partner(&x, results)?;
        let binary = &BINARY[self.random.below(BINARY.len())];
        let float = x.tensor.dtype().is_float();
        let range = (binary.gives)(x.range, y.range);
        if !(binary.integers || float) || !(binary.takes)(x.range, y.range) {
            return None;
        }
        if !float && bound(range) > LARGEST_INTEGER {
            return None;
        }
        let operator = binary.operator;
        Some(Made::new(
            Operation::new(binary.name, binary.near, move |x: &[Tensor]| {
                operator(&x[0], &x[1])
            }),
            vec![x.number, y.number],
            range,
        ))
    }

    fn comparison(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick(results);
        let y = self.partner(&x, results)?;
        let comparison = &COMPARISONS[self.random.below(COMPARISONS.len())];
        let operator = comparison.operator;
        Some(Made::new(
            Operation::new(comparison.name, comparison.near, move |x: &[Tensor]| {
                operator(&x[0], &x[1])
            }),
            vec![x.number, y.number],
            (0.0, 1.0),
        ))
    }

    /// Factors and terms that every dtype has, not negative so that magnitudes bound the error.
    fn affine(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick_float(results)?;
        let mul = [0.25, 0.5, 1.5, 2.0][self.random.below(4)];
        let add = [0.0, 0.5, 1.0][self.random.below(3)];
        Some(Made::new(
            Operation::new(
                format!("affine {mul} {add}"),
                Near::Is(Nearness::Sum(2.0)),
                move |x: &[Tensor]| x[0].affine(mul, add),
            ),
            vec![x.number],
            (x.range.0 * mul + add, x.range.1 * mul + add),
        ))
    }

    fn reduction(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick(results);
        let dim = self.dim(x.tensor)?;
        let terms = x.tensor.dims()[dim];
        let float = x.tensor.dtype().is_float();
        let same = Near::Is(Nearness::Same);
        let inputs = vec![x.number];
        let largest = bound(x.range);
        let index = (0.0, terms as f64);
        if !float && x.tensor.elem_count() as f64 * largest > LARGEST_INTEGER {
            return None;
        }
        Some(match self.random.below(9) {
            0 => {
                let operation =
                    Operation::new(format!("sum {dim}"), sum(terms), move |x: &[Tensor]| {
                        x[0].sum(dim)
                    });
                Made::sum(operation, inputs, terms, largest)
            }
            1 => {
                let operation = Operation::new(
                    format!("sum_keepdim {dim}"),
                    sum(terms),
                    move |x: &[Tensor]| x[0].sum_keepdim(dim),
                );
                Made::sum(operation, inputs, terms, largest)
            }
            2 => {
                let operation = Operation::new(
                    "sum_all",
                    sum(x.tensor.elem_count()),
                    move |x: &[Tensor]| x[0].sum_all(),
                );
                Made::sum(operation, inputs, x.tensor.elem_count(), largest)
            }
            // The quotient is rounded once more; in f16 and bf16 so is the sum. A sum in f16 stays below 65,504.
            3 if float && terms as f64 * largest < 30_000.0 => Made::new(
                Operation::new(
                    format!("mean_keepdim {dim}"),
                    Near::Sum { terms, parts: 2.0 },
                    move |x: &[Tensor]| x[0].mean_keepdim(dim),
                ),
                inputs,
                x.range,
            ),
            4 => Made::new(
                Operation::new(format!("max {dim}"), same, move |x: &[Tensor]| {
                    x[0].max(dim)
                }),
                inputs,
                x.range,
            ),
            5 => Made::new(
                Operation::new(format!("min_keepdim {dim}"), same, move |x: &[Tensor]| {
                    x[0].min_keepdim(dim)
                }),
                inputs,
                x.range,
            ),
            6 => Made::new(
                Operation::new(format!("argmax {dim}"), same, move |x: &[Tensor]| {
                    x[0].argmax(dim)
                }),
                inputs,
                index,
            ),
            7 => Made::new(
                Operation::new(
                    format!("argmin_keepdim {dim}"),
                    same,
                    move |x: &[Tensor]| x[0].argmin_keepdim(dim),
                ),
                inputs,
                index,
            ),
            _ => return None,
        })
    }

    /// Matrix products: with the tensor's own transpose, with a matrix or its transpose, batched.
    fn product(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick_float(results)?;
        let rank = x.tensor.rank();
        if rank < 2 {
            return None;
        }
        let dims = x.tensor.dims();
        let (m, k) = (dims[rank - 2], dims[rank - 1]);
        let rows = x.tensor.elem_count() / k;
        let near = sum(k);
        let largest = bound(x.range);
        if self.random.below(3) == 0 {
            if rows * m > LARGEST {
                return None;
            }
            let operation = Operation::new("matmul with its transpose", near, |x: &[Tensor]| {
                product(&x[0], &x[0].transpose(D::Minus2, D::Minus1)?)
            })
            // Candle's CPU backend is wrong on batches of transposed matrices: docs/user/candle-host-bugs.md.
            .with_truth(|x| {
                let turned = x[0].transpose(D::Minus2, D::Minus1)?;
                product(&x[0], &turned.force_contiguous()?)
            });
            return Some(Made::sum(operation, vec![x.number], k, largest * largest));
        }
        let n = [1, 2, 5, 8, 16, 31, 64][self.random.below(7)];
        if rows * n > LARGEST || k * n > LONG / 2 {
            return None;
        }
        let dtype = x.tensor.dtype();
        let weights = self.bank[FLOATS.iter().position(|float| *float == dtype)?];
        let start = self.random.below(LONG / 2);
        let turned = self.random.below(2) == 0;
        let cut = move |bank: &Tensor| {
            let part = bank.narrow(0, start, k * n)?;
            if turned {
                part.reshape((n, k))?.t()
            } else {
                part.reshape((k, n))
            }
        };
        let kind = if turned {
            "a turned matrix"
        } else {
            "a matrix"
        };
        let operation = Operation::new(
            format!("matmul of {rows} x {k} with {kind}, {k} x {n}"),
            near,
            move |x: &[Tensor]| product(&x[0].reshape((rows, k))?, &cut(&x[1])?),
        );
        Some(Made::sum(
            operation,
            vec![x.number, weights.number],
            k,
            largest * bound(weights.range),
        ))
    }

    /// Other shapes of the same elements, most of them without a copy.
    fn view(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick(results);
        let same = Near::Is(Nearness::Same);
        let (dims, rank) = (x.tensor.dims().to_vec(), x.tensor.rank());
        let kind = self.random.below(7);
        let operation = match kind {
            0 | 1 if rank >= 2 => {
                let (a, b) = (self.random.below(rank), self.random.below(rank));
                Operation::new(format!("transpose {a} {b}"), same, move |x: &[Tensor]| {
                    x[0].transpose(a, b)
                })
            }
            2 if rank >= 1 => {
                let dim = self.random.below(rank);
                let start = self.random.below(dims[dim]);
                let len = 1 + self.random.below(dims[dim] - start);
                Operation::new(
                    format!("narrow {dim} {start} {len}"),
                    same,
                    move |x: &[Tensor]| x[0].narrow(dim, start, len),
                )
            }
            3 if rank < 5 => {
                let dim = self.random.below(rank + 1);
                Operation::new(format!("unsqueeze {dim}"), same, move |x: &[Tensor]| {
                    x[0].unsqueeze(dim)
                })
            }
            4 => {
                let dim = dims.iter().position(|&size| size == 1)?;
                Operation::new(format!("squeeze {dim}"), same, move |x: &[Tensor]| {
                    x[0].squeeze(dim)
                })
            }
            5 => {
                // Factors of the number of elements, in any order.
                let mut rest = x.tensor.elem_count();
                let mut shape = Vec::new();
                for factor in [2, 3, 4, 8, 16, 7] {
                    if rest.is_multiple_of(factor) && shape.len() < 3 && self.random.below(2) == 0 {
                        rest /= factor;
                        shape.push(factor);
                    }
                }
                shape.insert(self.random.below(shape.len() + 1), rest);
                Operation::new(format!("reshape {shape:?}"), same, move |x: &[Tensor]| {
                    x[0].reshape(shape.as_slice())
                })
            }
            _ => {
                let mut shape = dims.clone();
                if let Some(one) = dims.iter().position(|&size| size == 1) {
                    shape[one] = [2, 3, 5, 16][self.random.below(4)];
                } else if rank < 5 {
                    shape.insert(0, [1, 2, 3][self.random.below(3)]);
                }
                if shape.iter().product::<usize>() > LARGEST {
                    return None;
                }
                Operation::new(
                    format!("broadcast_as {shape:?}"),
                    same,
                    move |x: &[Tensor]| x[0].broadcast_as(shape.as_slice()),
                )
            }
        };
        Some(Made::new(operation, vec![x.number], x.range))
    }

    /// Copies that join, repeat, turn around, pad and overwrite.
    fn joining(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick(results);
        let dim = self.dim(x.tensor)?;
        let same = Near::Is(Nearness::Same);
        let (size, count) = (x.tensor.dims()[dim], x.tensor.elem_count());
        let with_zero = (x.range.0.min(0.0), x.range.1.max(0.0));
        if 2 * count > LARGEST {
            return None;
        }
        Some(match self.random.below(7) {
            0 | 1 => {
                // With another tensor, where one fits, or with a part of itself.
                let fits = |alive: &&Alive| {
                    let y = &results[&alive.number];
                    y.dtype() == x.tensor.dtype()
                        && y.rank() == x.tensor.rank()
                        && y.elem_count() + count <= LARGEST
                        && (0..y.rank()).all(|d| d == dim || y.dims()[d] == x.tensor.dims()[d])
                };
                let all: Vec<Alive> = self.alive.iter().filter(fits).copied().collect();
                let y = *all.get(self.random.below(all.len().max(1)))?;
                let range = (x.range.0.min(y.range.0), x.range.1.max(y.range.1));
                let operation =
                    Operation::new(format!("cat {dim}"), same, move |x: &[Tensor]| {
                        Tensor::cat(x, dim)
                    });
                Made::new(operation, vec![x.number, y.number], range)
            }
            2 if x.tensor.rank() < 5 => Made::new(
                Operation::new(format!("stack {dim}"), same, move |x: &[Tensor]| {
                    Tensor::stack(&[&x[0], &x[0]], dim)
                }),
                vec![x.number],
                x.range,
            ),
            3 => Made::new(
                Operation::new(format!("flip {dim}"), same, move |x: &[Tensor]| {
                    x[0].contiguous()?.flip(&[dim])
                }),
                vec![x.number],
                x.range,
            ),
            4 => {
                let (left, right) = (self.random.below(3), self.random.below(3));
                if count / size * (size + left + right) > LARGEST {
                    return None;
                }
                let operation = Operation::new(
                    format!("pad_with_zeros {dim} {left} {right}"),
                    same,
                    move |x: &[Tensor]| x[0].pad_with_zeros(dim, left, right),
                );
                Made::new(operation, vec![x.number], with_zero)
            }
            5 => {
                let shift = self.random.below(size) as i32;
                let operation = Operation::new(
                    format!("roll {shift} {dim}"),
                    same,
                    move |x: &[Tensor]| x[0].roll(shift, dim),
                );
                Made::new(operation, vec![x.number], x.range)
            }
            _ => {
                let from = self.random.below(size);
                let len = 1 + self.random.below(size - from);
                let to = self.random.below(size - len + 1);
                let operation = Operation::new(
                    format!("slice_set of {from} to {} at {to} in {dim}", from + len),
                    same,
                    move |x: &[Tensor]| {
                        let copy = x[0].force_contiguous()?;
                        let part = x[0].narrow(dim, from, len)?.force_contiguous()?;
                        copy.slice_set(&part, dim, to)?;
                        Ok(copy)
                    },
                );
                Made::new(operation, vec![x.number], x.range)
            }
        })
    }

    fn indexing(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick(results);
        let dim = self.dim(x.tensor)?;
        let (dims, count) = (x.tensor.dims().to_vec(), x.tensor.elem_count());
        let (size, near) = (dims[dim], Near::Is(Nearness::Same));
        let wide = self.random.below(2) == 0;
        let picked = 1 + self.random.below(16);
        let start = self.random.below(LONG / 4);
        let indices = self.bank[INDICES].number;
        // Within the dimension; in u32 or i64.
        let cut = move |bank: &Tensor, count: usize| -> candle_core::Result<Tensor> {
            let ids = bank.narrow(0, start, count)?.minimum((size - 1) as u32)?;
            if wide {
                ids.to_dtype(DType::I64)
            } else {
                ids.force_contiguous()
            }
        };
        let mut shape = dims.clone();
        shape[dim] = picked;
        let total = shape.iter().product::<usize>();
        if start + total.max(picked) > LONG || count + total > LARGEST {
            return None;
        }
        let inputs = vec![x.number, indices];
        let ids_type = if wide { "i64" } else { "u32" };
        let float = x.tensor.dtype().is_float();
        let (lo, hi) = x.range;
        let many = (picked + 1) as f64;
        let grown = (lo.min(lo * many), hi.max(hi * many));
        Some(match self.random.below(4) {
            0 => Made::new(
                Operation::new(
                    format!("index_select of {picked} {ids_type} in {dim}"),
                    near,
                    move |x: &[Tensor]| x[0].contiguous()?.index_select(&cut(&x[1], picked)?, dim),
                ),
                inputs,
                x.range,
            ),
            1 => Made::new(
                Operation::new(
                    format!("gather {shape:?} by {ids_type} in {dim}"),
                    near,
                    move |x: &[Tensor]| {
                        let ids = cut(&x[1], total)?.reshape(shape.as_slice())?;
                        x[0].contiguous()?.gather(&ids, dim)
                    },
                ),
                inputs,
                x.range,
            ),
            // Every index may be the same one: so many additions are rounded to the dtype.
            2 if float => Made::new(
                Operation::new(
                    format!("index_add of {picked} {ids_type} in {dim}"),
                    Near::Is(Nearness::Sum(many)),
                    move |x: &[Tensor]| {
                        let ids = cut(&x[1], picked)?;
                        // Candle's host code is wrong on what starts at an offset: docs/user/candle-host-bugs.md.
                        let x = x[0].force_contiguous()?;
                        x.index_add(&ids, &x.index_select(&ids, dim)?, dim)
                    },
                ),
                inputs,
                grown,
            ),
            3 if float => Made::new(
                Operation::new(
                    format!("scatter_add {shape:?} by {ids_type} in {dim}"),
                    Near::Is(Nearness::Sum(many)),
                    move |x: &[Tensor]| {
                        let ids = cut(&x[1], total)?.reshape(shape.as_slice())?;
                        let x = x[0].contiguous()?;
                        x.scatter_add(&ids, &x.gather(&ids, dim)?, dim)
                    },
                ),
                inputs,
                grown,
            ),
            _ => return None,
        })
    }

    fn selection(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick_float(results)?;
        let y = self.partner(&x, results)?;
        if x.tensor.dims() != y.tensor.dims() {
            return None;
        }
        let range = (x.range.0.min(y.range.0), x.range.1.max(y.range.1));
        Some(Made::new(
            Operation::new(
                "where_cond of gt",
                Near::Is(Nearness::Same),
                |x: &[Tensor]| x[0].gt(&x[1])?.where_cond(&x[0], &x[1]),
            ),
            vec![x.number, y.number],
            range,
        ))
    }

    fn cast(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick(results);
        let all = FLOATS.len() + INTEGERS.len();
        let at = self.random.below(all);
        let to = *FLOATS.iter().chain(&INTEGERS).nth(at)?;
        let (lo, hi) = x.range;
        if bound(x.range) > 100.0 || to.is_int() && lo < 0.0 && to != DType::I64 {
            return None;
        }
        // Towards zero, of a number that the integers have.
        let (near, range) = if to.is_int() {
            (Near::Is(Nearness::Same), (lo.trunc(), hi.trunc()))
        } else {
            (Near::Is(Nearness::Smooth(2.0)), x.range)
        };
        Some(Made::new(
            Operation::new(format!("to_dtype {to:?}"), near, move |x: &[Tensor]| {
                x[0].to_dtype(to)
            })
            .with_truth(move |x| x[0].to_dtype(if to.is_int() { DType::I64 } else { DType::F64 })),
            vec![x.number],
            range,
        ))
    }

    /// Operators on rows: softmax, norms, sorting.
    fn rows(&mut self, results: &Results) -> Option<Made> {
        let x = self.pick_float(results)?;
        let columns = *x.tensor.dims().last()?;
        let dtype = x.tensor.dtype();
        // f32 or f64 inside: a sum over the row, of terms that may be equal and then round alike.
        let smooth = Near::Is(Nearness::Smooth(64.0 + columns as f64));
        let at = FLOATS.iter().position(|float| *float == dtype)?;
        let weights = self.bank[at];
        let start = self.random.below(LONG / 2);
        let largest = bound(weights.range) * (columns as f64).sqrt();
        Some(match self.random.below(5) {
            0 | 1 => Made::new(
                Operation::new("softmax_last_dim", smooth, |x: &[Tensor]| {
                    ops::softmax_last_dim(&x[0].contiguous()?)
                })
                .with_truth(|x| ops::softmax(&x[0], D::Minus1)),
                vec![x.number],
                (0.0, 1.001),
            ),
            2 => Made::new(
                Operation::new("rms_norm", smooth, move |x: &[Tensor]| {
                    let alpha = x[1].narrow(0, start, columns)?;
                    ops::rms_norm(&x[0].contiguous()?, &alpha, EPSILON)
                })
                .with_truth(move |x| {
                    let mean = x[0].sqr()?.mean_keepdim(D::Minus1)?;
                    let root = mean.affine(1.0, f64::from(EPSILON))?.sqrt()?;
                    x[0].broadcast_div(&root)?
                        .broadcast_mul(&x[1].narrow(0, start, columns)?)
                }),
                vec![x.number, weights.number],
                (-largest, largest),
            ),
            3 if columns <= SORTED => {
                let ascending = self.random.below(2) == 0;
                Made::new(
                    Operation::new(
                        format!("sort_last_dim, ascending: {ascending}"),
                        Near::Is(Nearness::Same),
                        move |x: &[Tensor]| Ok(x[0].contiguous()?.sort_last_dim(ascending)?.0),
                    ),
                    vec![x.number],
                    x.range,
                )
            }
            _ => return None,
        })
    }
}

const EPSILON: f32 = 1e-2;

/// A sum of so many terms, each inside f32 or f64.
fn sum(terms: usize) -> Near {
    Near::Sum { terms, parts: 0.0 }
}

/// Candle's host code refuses strides that a BLAS cannot have, and says so; and matrices stacked in more than two
/// dimensions, whose strides it does not look at, on the CPU as well.
fn product(a: &Tensor, b: &Tensor) -> candle_core::Result<Tensor> {
    if let [batches @ .., _, _] = a.dims() {
        if batches.len() > 2 {
            let last = batches.len() - 1;
            let result = product(&a.flatten_to(last)?, &b.flatten_to(last)?)?;
            let (m, n) = (result.dim(D::Minus2)?, result.dim(D::Minus1)?);
            return result.reshape([batches, &[m, n]].concat());
        }
    }
    match a.matmul(b) {
        Err(error) if error.to_string().contains("matmul is only supported") => {
            a.contiguous()?.matmul(&b.contiguous()?)
        }
        result => result,
    }
}

/// Sums are divided by their typical size (a power of two, which rounds nothing), then what is still large is cut off.
fn tame(untamed: &Untamed) -> Made {
    if untamed.spread >= 2.0 {
        let factor = 0.5f64.powi(untamed.spread.log2().round() as i32);
        let (lo, hi) = untamed.range;
        return Made::new(
            Operation::new(
                format!("affine {factor} 0"),
                Near::Is(Nearness::Sum(2.0)),
                move |x: &[Tensor]| x[0].affine(factor, 0.0),
            ),
            vec![untamed.number],
            (lo * factor, hi * factor),
        );
    }
    let (lo, hi) = untamed.range;
    Made::new(
        Operation::new("clamp", Near::Is(Nearness::Same), |x: &[Tensor]| {
            x[0].clamp(-TAME, TAME)
        }),
        vec![untamed.number],
        (lo.max(-TAME), hi.min(TAME)),
    )
}
