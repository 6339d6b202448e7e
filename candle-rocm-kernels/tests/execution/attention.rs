//! Attention's forward pass against the formula in f64: every kernel, with lengths, heads, layouts and masks drawn by a
//! seeded generator.
//!
//! The largest error may be twice that of the same formula composed in the dtype, each operator's results rounded to
//! it. Where that happens to be smaller than one rounding of the largest result, which any result takes, that counts.

use crate::architectures;
use crate::device::{Arg, Gpu};
use crate::elements::{from_bytes, Element};
use candle_rocm_kernels::attention::{kernel_name, tile, ELEMENTS};
use candle_rocm_kernels::FORWARD;
use candle_rocm_testing::random::Random;
use half::{bf16, f16};

/// How many cases are drawn for each kernel and dtype.
const CASES_VARIABLE: &str = "CANDLE_ROCM_ATTENTION_CASES";
const LENGTHS: [usize; 6] = [1, 3, 64, 113, 128, 203];
/// What stands where nothing may be read.
const UNREAD: f64 = f64::NAN;

/// How the keys' rows lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Packing {
    /// Each sequence of a batch has the same length.
    Padded,
    /// One after another, each of its own length.
    Packed,
    /// In pages of so many rows.
    Paged(usize),
}

#[derive(Clone, Debug)]
struct Case {
    dim: usize,
    /// Of each sequence.
    queries: Vec<usize>,
    keys: Vec<usize>,
    key_heads: usize,
    group: usize,
    packing: Packing,
    /// Heads before rows, and gaps between rows.
    heads_first: bool,
    gap: usize,
    left: i32,
    right: i32,
    scale: f32,
    softcap: f32,
    slopes: bool,
    /// Which of batch, head and row the mask has; it always has keys.
    mask: Option<[bool; 3]>,
}

impl Case {
    fn drawn(random: &mut Random, dim: usize) -> Case {
        let batch = 1 + random.below(2);
        let packing = random.choose(&[
            Packing::Padded,
            Packing::Padded,
            Packing::Packed,
            Packing::Paged(16),
            Packing::Paged(48),
        ]);
        let mut lengths = || -> Vec<usize> {
            let first = random.choose(&LENGTHS);
            let more = (1..batch).map(|_| match packing {
                Packing::Padded => first,
                _ => random.choose(&LENGTHS),
            });
            std::iter::once(first).chain(more).collect()
        };
        let (queries, keys) = (lengths(), lengths());
        let reach = |random: &mut Random| random.choose(&[-1, -1, 0, 5, 40, 100]);
        let (left, right) = match random.below(4) {
            0 => (-1, -1),
            1 => (-1, 0),
            2 => (reach(random), 0),
            _ => (reach(random), reach(random)),
        };
        let one_in = |random: &mut Random, n: usize| random.below(n) == 0;
        Case {
            dim,
            queries,
            keys,
            key_heads: 1 + random.below(2),
            group: 1 + random.below(3),
            heads_first: packing == Packing::Padded && one_in(random, 2),
            packing,
            gap: random.choose(&[0, 8, 24]),
            left,
            right,
            scale: random.choose(&[1.0, -0.7, 1.5]) / (dim as f32).sqrt(),
            softcap: if one_in(random, 3) { 5.0 } else { 0.0 },
            slopes: one_in(random, 3),
            mask: one_in(random, 3)
                .then(|| [one_in(random, 2), one_in(random, 2), !one_in(random, 4)]),
        }
    }

    fn heads(&self) -> usize {
        self.key_heads * self.group
    }

    /// The first row of each sequence where they are packed, and the end.
    fn starts(lengths: &[usize]) -> Vec<u32> {
        let mut starts = vec![0];
        starts.extend(lengths.iter().scan(0, |sum, length| {
            *sum += *length as u32;
            Some(*sum)
        }));
        starts
    }

    /// Whether query i of a sequence sees key j.
    fn sees(&self, sequence: usize, i: usize, j: usize) -> bool {
        let place = i as i64 + self.keys[sequence] as i64 - self.queries[sequence] as i64;
        let ahead = j as i64 - place;
        (self.left < 0 || -ahead <= i64::from(self.left))
            && (self.right < 0 || ahead <= i64::from(self.right))
    }
}

/// Rows of heads by sequence, and how they lie in memory.
struct Tensor<T> {
    /// [sequence][row][head][element]
    numbers: Vec<Vec<Vec<Vec<f64>>>>,
    values: Vec<T>,
    batch: usize,
    row: usize,
    head: usize,
}

impl<T: Element> Tensor<T> {
    /// `place` gives the batch and row at which a row of a sequence lies.
    fn new(
        random: &mut Random,
        case: &Case,
        lengths: &[usize],
        heads: usize,
        [batches, rows]: [usize; 2],
        place: impl Fn(usize, usize) -> (usize, usize),
    ) -> Tensor<T> {
        let line = case.dim + case.gap;
        let (row, head) = match case.heads_first {
            true => (line, rows * line),
            false => (heads * line, line),
        };
        let batch = rows * heads * line + case.gap;
        let mut values = vec![T::of(UNREAD); batches * batch];
        let mut numbers = Vec::new();
        for (sequence, &length) in lengths.iter().enumerate() {
            let mut of_sequence = vec![vec![vec![0.0; case.dim]; heads]; length];
            for (i, of_row) in of_sequence.iter_mut().enumerate() {
                let (b, r) = place(sequence, i);
                for (h, of_head) in of_row.iter_mut().enumerate() {
                    for (d, number) in of_head.iter_mut().enumerate() {
                        let value = T::of(random.normal());
                        values[b * batch + r * row + h * head + d] = value;
                        *number = value.number();
                    }
                }
            }
            numbers.push(of_sequence);
        }
        Tensor {
            numbers,
            values,
            batch,
            row,
            head,
        }
    }

    fn fields(&self, memory: Arg) -> [Arg; 4] {
        [
            memory,
            Arg::N(self.batch),
            Arg::I(self.row as i32),
            Arg::I(self.head as i32),
        ]
    }
}

struct Inputs<T> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    pages: Vec<u32>,
    pages_batch: usize,
    slopes: Vec<f32>,
    /// [batch][head][row][key], with sizes of 1 where it is repeated.
    mask: Vec<T>,
    mask_strides: [usize; 4],
}

fn inputs<T: Element>(random: &mut Random, case: &Case) -> Inputs<T> {
    let sequences = case.queries.len();
    let (starts_q, starts_k) = (Case::starts(&case.queries), Case::starts(&case.keys));
    let most_keys = *case.keys.iter().max().expect("a sequence");
    let packed = case.packing != Packing::Padded;
    let q_room = match packed {
        true => [1, starts_q[sequences] as usize],
        false => [sequences, case.queries[0]],
    };
    let place_q = |sequence: usize, i: usize| match packed {
        true => (0, starts_q[sequence] as usize + i),
        false => (sequence, i),
    };
    // Pages are dealt from the last to the first, with one between that nobody has.
    let (mut pages, mut pages_batch) = (Vec::new(), 0);
    if let Packing::Paged(rows) = case.packing {
        pages_batch = most_keys.div_ceil(rows) + 1;
        pages = vec![u32::MAX; pages_batch * sequences];
        let mut next: u32 = case
            .keys
            .iter()
            .map(|keys| keys.div_ceil(rows) as u32)
            .sum();
        for (sequence, keys) in case.keys.iter().enumerate() {
            for page in 0..keys.div_ceil(rows) {
                pages[sequence * pages_batch + page] = next;
                next -= 1;
            }
        }
    }
    let k_room = match case.packing {
        Packing::Padded => [sequences, case.keys[0]],
        Packing::Packed => [1, starts_k[sequences] as usize],
        Packing::Paged(rows) => [pages.len() + 1, rows],
    };
    let place_k = |sequence: usize, i: usize| match case.packing {
        Packing::Padded => (sequence, i),
        Packing::Packed => (0, starts_k[sequence] as usize + i),
        Packing::Paged(rows) => {
            let page = pages[sequence * pages_batch + i / rows];
            (page as usize, i % rows)
        }
    };
    let q = Tensor::new(random, case, &case.queries, case.heads(), q_room, place_q);
    let k = Tensor::new(random, case, &case.keys, case.key_heads, k_room, place_k);
    let v = Tensor::new(random, case, &case.keys, case.key_heads, k_room, place_k);
    let slopes = (0..case.heads())
        .map(|_| (random.unit() * 0.3) as f32)
        .collect();
    let most_queries = *case.queries.iter().max().expect("a sequence");
    let (mut mask, mut mask_strides) = (Vec::new(), [0; 4]);
    if let Some([has_batch, has_head, has_row]) = case.mask {
        let size = |has: bool, size: usize| if has { size } else { 1 };
        let sizes = [
            size(has_batch, sequences),
            size(has_head, case.heads()),
            size(has_row, most_queries),
            most_keys,
        ];
        mask = (0..sizes.iter().product())
            .map(|_| match random.below(5) {
                0 => T::of(f64::NEG_INFINITY),
                _ => T::of(random.normal()),
            })
            .collect();
        let mut stride = 1;
        for (to, size) in mask_strides.iter_mut().zip(sizes).rev() {
            *to = if size == 1 { 0 } else { stride };
            stride *= size;
        }
    }
    Inputs {
        q,
        k,
        v,
        pages,
        pages_batch,
        slopes,
        mask,
        mask_strides,
    }
}

/// The result and the logarithm of the sum of weights for query i of a sequence and head, each operator's results
/// passed through `round`.
fn attend<T: Element>(
    case: &Case,
    inputs: &Inputs<T>,
    [sequence, head, i]: [usize; 3],
    round: impl Fn(f64) -> f64,
) -> (Vec<f64>, f64) {
    let q = &inputs.q.numbers[sequence][i][head];
    let (keys, values) = (&inputs.k.numbers[sequence], &inputs.v.numbers[sequence]);
    let key_head = head / case.group;
    let place = i as f64 + case.keys[sequence] as f64 - case.queries[sequence] as f64;
    let score = |(j, key): (usize, &Vec<Vec<f64>>)| -> f64 {
        if !case.sees(sequence, i, j) {
            return f64::NEG_INFINITY;
        }
        let dot: f64 = q.iter().zip(&key[key_head]).map(|(a, b)| a * b).sum();
        let mut score = round(round(dot) * f64::from(case.scale));
        if case.softcap != 0.0 {
            let cap = f64::from(case.softcap);
            score = round(cap * round(round(score / cap).tanh()));
        }
        if case.slopes {
            let slope = f64::from(inputs.slopes[head]);
            score = round(score - round(slope * (place - j as f64).abs()));
        }
        if case.mask.is_some() {
            let [b, h, r, k] = inputs.mask_strides;
            let at = sequence * b + head * h + i * r + j * k;
            score = round(score + inputs.mask[at].number());
        }
        score
    };
    let scores: Vec<f64> = keys.iter().enumerate().map(score).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return (vec![0.0; case.dim], f64::NEG_INFINITY);
    }
    let weights: Vec<f64> = scores
        .iter()
        .map(|x| round(round(x - largest).exp()))
        .collect();
    // Sums are in f32 or better everywhere.
    let sum: f64 = weights.iter().sum();
    let mut result = vec![0.0; case.dim];
    for (weight, value) in weights.iter().zip(values) {
        let weight = round(weight / round(sum));
        for (to, x) in result.iter_mut().zip(&value[key_head]) {
            *to += weight * x;
        }
    }
    let result = result.into_iter().map(round).collect();
    (result, largest + sum.ln())
}

/// Runs the kernel on every GPU and compares.
fn check<T: Element>(gpus: &[Gpu], random: &mut Random, case: &Case) {
    let inputs = inputs::<T>(random, case);
    let sequences = case.queries.len();
    let packed = case.packing != Packing::Padded;
    let [starts_q, starts_k] = [&case.queries, &case.keys].map(|lengths| Case::starts(lengths));
    let total_queries = starts_q[sequences] as usize;
    let heads = case.heads();

    let mut expected = Vec::new();
    let (mut composed_error, mut largest) = (0f64, 0f64);
    for (sequence, &queries) in case.queries.iter().enumerate() {
        for i in 0..queries {
            for head in 0..heads {
                let at = [sequence, head, i];
                let (exact, lse) = attend(case, &inputs, at, |x| x);
                let (composed, _) = attend(case, &inputs, at, |x| T::of(x).number());
                for (exact, composed) in exact.iter().zip(composed) {
                    composed_error = composed_error.max((exact - composed).abs());
                    largest = largest.max(exact.abs());
                }
                expected.push((at, exact, lse));
            }
        }
    }
    let bound = (2.0 * composed_error).max(T::EPSILON * largest);

    // Results are packed like the queries, with a marker in what they leave free.
    let marker = T::of(-77.0);
    let out_memory: Vec<T> = vec![marker; inputs.q.values.len()];
    let lse_strides = match packed {
        true => [0, total_queries],
        false => [heads * case.queries[0], case.queries[0]],
    };
    let optional = |is_there: bool, arg: Arg| if is_there { arg } else { Arg::Null };
    let (queries, keys) = (case.queries.iter().max(), case.keys.iter().max());
    let (queries, keys) = (*queries.expect("one"), *keys.expect("one"));
    let mut fields = Vec::new();
    fields.extend(inputs.q.fields(Arg::input(&inputs.q.values)));
    fields.extend(inputs.k.fields(Arg::input(&inputs.k.values)));
    fields.extend(inputs.v.fields(Arg::input(&inputs.v.values)));
    fields.extend(inputs.q.fields(Arg::in_out(&out_memory)));
    fields.push(Arg::output::<f32>(total_queries * heads));
    fields.extend(lse_strides.map(Arg::N));
    fields.push(optional(case.mask.is_some(), Arg::input(&inputs.mask)));
    fields.extend(inputs.mask_strides.map(Arg::N));
    fields.push(optional(case.slopes, Arg::input(&inputs.slopes)));
    fields.push(Arg::N(0));
    fields.push(optional(packed, Arg::input(&starts_q)));
    fields.push(optional(packed, Arg::input(&starts_k)));
    fields.push(optional(
        !inputs.pages.is_empty(),
        Arg::input(&inputs.pages),
    ));
    let page_rows = match case.packing {
        Packing::Paged(rows) => rows,
        _ => 0,
    };
    let integers = [
        inputs.pages_batch,
        page_rows,
        queries,
        keys,
        case.group,
        case.key_heads,
        case.dim,
    ];
    fields.extend(integers.map(|x| Arg::I(x as i32)));
    fields.extend([Arg::I(case.left), Arg::I(case.right)]);
    fields.extend([Arg::F(case.scale), Arg::F(case.softcap), Arg::I(0)]);

    for gpu in gpus {
        let Some(tile) = tile(gpu.arch, case.dim as u32) else {
            continue;
        };
        let name = kernel_name(T::NAME, tile);
        let tiles = queries.div_ceil(tile.queries as usize) as u32 * tile.parts;
        let grid = [heads as u32, tiles, sequences as u32];
        let block = [tile.threads, 1, 1];
        let args = [Arg::Struct(fields.clone())];
        let (results, _) = gpu.launch(&FORWARD, &name, grid, block, 0, &args);
        let [out, lse] = results.as_slice() else {
            panic!("{name} has {} results", results.len());
        };
        let (mut out, lse) = (from_bytes::<T>(out), from_bytes::<f32>(lse));
        let on = gpu.arch;
        for ([sequence, head, i], exact, exact_lse) in &expected {
            let (b, r) = match packed {
                true => (0, starts_q[*sequence] as usize + i),
                false => (*sequence, *i),
            };
            let at = b * inputs.q.batch + r * inputs.q.row + head * inputs.q.head;
            let found = &mut out[at..][..case.dim];
            for (d, (found, exact)) in found.iter_mut().zip(exact).enumerate() {
                let is = found.number();
                assert!(
                    (is - exact).abs() <= bound,
                    "{name} on {on}, {case:?}: ({sequence}, {head}, {i}, {d}) is {is}, not {exact} +- {bound}"
                );
                *found = marker;
            }
            let is = f64::from(lse[b * lse_strides[0] + head * lse_strides[1] + r]);
            // Sums of as many products as a head has elements, in f32.
            let near = is == *exact_lse || (is - exact_lse).abs() <= 5e-5 * (1.0 + exact_lse.abs());
            assert!(
                near,
                "{name} on {on}, {case:?}: lse ({sequence}, {head}, {i}) is {is}, not {exact_lse}"
            );
        }
        let untouched = out.iter().all(|x| x.number() == marker.number());
        assert!(untouched, "{name} on {on}, {case:?}: wrote beyond its rows");
    }
}

/// Cases for each kernel: its largest head, and smaller ones drawn.
fn drawn<T: Element>(seed: u64) {
    let gpus: Vec<Gpu> = architectures()
        .into_iter()
        .map(|arch| Gpu::new(arch, None))
        .collect();
    let cases: usize = match std::env::var(CASES_VARIABLE) {
        Ok(count) => count.parse().expect("a number of cases"),
        Err(_) => 3,
    };
    let mut random = Random::new(seed);
    let mut smaller = 0;
    for elements in ELEMENTS {
        for case in 0..cases {
            let dim = match case % 2 {
                0 => elements as usize,
                _ => smaller + 8 + 8 * random.below((elements as usize - smaller) / 8 - 1),
            };
            let case = Case::drawn(&mut random, dim);
            check::<T>(&gpus, &mut random, &case);
        }
        smaller = elements as usize;
    }
}

#[test]
fn f16_is_near_the_formula() {
    drawn::<f16>(1);
}

#[test]
fn bf16_is_near_the_formula() {
    drawn::<bf16>(2);
}
