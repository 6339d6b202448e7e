//! Problems of attention, drawn by a seeded generator, and the formula.

use crate::architectures;
use crate::device::{Arg, Gpu};
use crate::elements::Element;
use candle_rocm_testing::random::{asked, Random};

/// How many cases are drawn for each kernel and dtype.
const CASES_VARIABLE: &str = "CANDLE_ROCM_ATTENTION_CASES";
const LENGTHS: [usize; 7] = [1, 3, 64, 113, 128, 203, 256];
/// What stands where nothing may be read.
const UNREAD: f64 = f64::NAN;

/// How the keys' rows lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Packing {
    /// Each sequence of a batch has the same length.
    Padded,
    /// One after another, each of its own length.
    Packed,
    /// In pages of so many rows.
    Paged(usize),
}

#[derive(Clone, Debug)]
pub struct Case {
    pub dim: usize,
    /// Of each sequence.
    pub queries: Vec<usize>,
    pub keys: Vec<usize>,
    pub key_heads: usize,
    pub group: usize,
    pub packing: Packing,
    /// Heads before rows, and gaps between rows.
    pub heads_first: bool,
    pub gap: usize,
    pub left: i32,
    pub right: i32,
    pub scale: f32,
    pub softcap: f32,
    pub slopes: bool,
    /// Which of batch, head and row the mask has; it always has keys.
    pub mask: Option<[bool; 3]>,
}

impl Case {
    /// Packed in one of these ways.
    pub fn drawn(random: &mut Random, dim: usize, packings: &[Packing]) -> Case {
        let batch = 1 + random.below(2);
        let packing = random.choose(packings);
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

    pub fn heads(&self) -> usize {
        self.key_heads * self.group
    }

    /// The first row of each sequence where they are packed, and the end.
    pub fn starts(lengths: &[usize]) -> Vec<u32> {
        let mut starts = vec![0];
        starts.extend(lengths.iter().scan(0, |sum, length| {
            *sum += *length as u32;
            Some(*sum)
        }));
        starts
    }

    pub fn most_queries(&self) -> usize {
        *self.queries.iter().max().expect("a sequence")
    }

    pub fn most_keys(&self) -> usize {
        *self.keys.iter().max().expect("a sequence")
    }

    /// From the numbers of a sequence's queries to the next one's, and likewise of a head's.
    pub fn lse_strides(&self) -> [usize; 2] {
        match self.packing {
            Packing::Padded => [self.heads() * self.queries[0], self.queries[0]],
            _ => [0, self.queries.iter().sum()],
        }
    }

    /// Whether query i of a sequence sees key j.
    pub fn sees(&self, sequence: usize, i: usize, j: usize) -> bool {
        let place = i as i64 + self.keys[sequence] as i64 - self.queries[sequence] as i64;
        let ahead = j as i64 - place;
        (self.left < 0 || -ahead <= i64::from(self.left))
            && (self.right < 0 || ahead <= i64::from(self.right))
    }
}

/// Rows of heads by sequence, and how they lie in memory.
pub struct Tensor<T> {
    /// [sequence][row][head][element]
    pub numbers: Vec<Vec<Vec<Vec<f64>>>>,
    pub values: Vec<T>,
    pub batch: usize,
    pub row: usize,
    pub head: usize,
}

impl<T: Element> Tensor<T> {
    /// Where the elements of a row of a head begin, if those before it are packed with these starts or padded.
    pub fn at(&self, packed: Option<&[u32]>, [sequence, head, i]: [usize; 3]) -> usize {
        let (b, r) = match packed {
            Some(starts) => (0, starts[sequence] as usize + i),
            None => (sequence, i),
        };
        b * self.batch + r * self.row + head * self.head
    }

    /// `place` gives the batch and row at which a row of a sequence lies.
    pub fn new(
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

    pub fn fields(&self, memory: Arg) -> [Arg; 4] {
        [
            memory,
            Arg::N(self.batch),
            Arg::I(self.row as i32),
            Arg::I(self.head as i32),
        ]
    }
}

pub struct Inputs<T> {
    pub q: Tensor<T>,
    pub k: Tensor<T>,
    pub v: Tensor<T>,
    pub pages: Vec<u32>,
    pub pages_batch: usize,
    pub slopes: Vec<f32>,
    /// [batch][head][row][key], with sizes of 1 where it is repeated.
    pub mask: Vec<T>,
    pub mask_strides: [usize; 4],
}

pub fn inputs<T: Element>(random: &mut Random, case: &Case) -> Inputs<T> {
    let sequences = case.queries.len();
    let (starts_q, starts_k) = (Case::starts(&case.queries), Case::starts(&case.keys));
    let most_keys = case.most_keys();
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
    let (mut mask, mut mask_strides) = (Vec::new(), [0; 4]);
    if let Some([has_batch, has_head, has_row]) = case.mask {
        let size = |has: bool, size: usize| if has { size } else { 1 };
        let sizes = [
            size(has_batch, sequences),
            size(has_head, case.heads()),
            size(has_row, case.most_queries()),
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

impl<T: Element> Inputs<T> {
    /// The fields of `AttentionProblem`, for a result laid out like q.
    pub fn problem(&self, case: &Case, out: Arg, lse: Arg) -> Vec<Arg> {
        let packed = case.packing != Packing::Padded;
        let starts = [&case.queries, &case.keys].map(|lengths| Case::starts(lengths));
        let optional = |is_there: bool, arg: Arg| if is_there { arg } else { Arg::Null };
        let mut fields = Vec::new();
        for (tensor, memory) in [
            (&self.q, Arg::input(&self.q.values)),
            (&self.k, Arg::input(&self.k.values)),
            (&self.v, Arg::input(&self.v.values)),
            (&self.q, out),
        ] {
            fields.extend(tensor.fields(memory));
        }
        fields.push(lse);
        fields.extend(case.lse_strides().map(Arg::N));
        fields.push(optional(case.mask.is_some(), Arg::input(&self.mask)));
        fields.extend(self.mask_strides.map(Arg::N));
        fields.push(optional(case.slopes, Arg::input(&self.slopes)));
        fields.push(Arg::N(0));
        fields.extend(starts.map(|starts| optional(packed, Arg::input(&starts))));
        fields.push(optional(!self.pages.is_empty(), Arg::input(&self.pages)));
        let page_rows = match case.packing {
            Packing::Paged(rows) => rows,
            _ => 0,
        };
        let integers = [
            self.pages_batch,
            page_rows,
            case.most_queries(),
            case.most_keys(),
            case.group,
            case.key_heads,
            case.dim,
        ];
        fields.extend(integers.map(|x| Arg::I(x as i32)));
        fields.extend([Arg::I(case.left), Arg::I(case.right)]);
        fields.extend([Arg::F(case.scale), Arg::F(case.softcap), Arg::I(0)]);
        fields
    }
}

/// What the formula makes of a query.
pub struct Row {
    /// The normalised weight of each key.
    pub weights: Vec<f64>,
    /// How a score grows with what the softcap is applied to.
    pub growths: Vec<f64>,
    pub result: Vec<f64>,
    /// The logarithm of the sum of weights.
    pub lse: f64,
}

/// The formula for query i of a sequence and head, each operator's results passed through `round`.
pub fn attend<T: Element>(
    case: &Case,
    inputs: &Inputs<T>,
    [sequence, head, i]: [usize; 3],
    round: impl Fn(f64) -> f64,
) -> Row {
    let q = &inputs.q.numbers[sequence][i][head];
    let (keys, values) = (&inputs.k.numbers[sequence], &inputs.v.numbers[sequence]);
    let key_head = head / case.group;
    let place = i as f64 + case.keys[sequence] as f64 - case.queries[sequence] as f64;
    let score = |(j, key): (usize, &Vec<Vec<f64>>)| -> (f64, f64) {
        if !case.sees(sequence, i, j) {
            return (f64::NEG_INFINITY, 0.0);
        }
        let dot: f64 = q.iter().zip(&key[key_head]).map(|(a, b)| a * b).sum();
        let (mut score, mut growth) = (round(round(dot) * f64::from(case.scale)), 1.0);
        if case.softcap != 0.0 {
            let cap = f64::from(case.softcap);
            let bent = round(round(score / cap).tanh());
            score = round(cap * bent);
            growth = round(1.0 - round(bent * bent));
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
        (score, growth)
    };
    let (scores, growths): (Vec<f64>, Vec<f64>) = keys.iter().enumerate().map(score).unzip();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return Row {
            weights: vec![0.0; scores.len()],
            growths,
            result: vec![0.0; case.dim],
            lse: largest,
        };
    }
    let weights: Vec<f64> = scores
        .iter()
        .map(|x| round(round(x - largest).exp()))
        .collect();
    // Sums are in f32 or better everywhere.
    let sum: f64 = weights.iter().sum();
    let weights: Vec<f64> = weights.iter().map(|x| round(x / round(sum))).collect();
    let mut result = vec![0.0; case.dim];
    for (weight, value) in weights.iter().zip(values) {
        for (to, x) in result.iter_mut().zip(&value[key_head]) {
            *to += weight * x;
        }
    }
    Row {
        weights,
        growths,
        result: result.into_iter().map(round).collect(),
        lse: largest + sum.ln(),
    }
}

/// The emulated GPUs that the build has kernels for.
pub fn gpus() -> Vec<Gpu> {
    let of = |arch| Gpu::new(arch, None);
    architectures().into_iter().map(of).collect()
}

/// Draws cases for each kernel: its largest head, and smaller ones. A variable says how many.
pub fn each_case(
    seed: u64,
    elements: &[u32],
    packings: &[Packing],
    mut check: impl FnMut(&mut Random, &Case),
) {
    let cases = asked(CASES_VARIABLE).unwrap_or(3);
    let mut random = Random::new(seed);
    let mut smaller = 0;
    for &elements in elements {
        for case in 0..cases {
            let dim = match case % 2 {
                0 => elements as usize,
                _ => smaller + 8 + 8 * random.below((elements as usize - smaller) / 8 - 1),
            };
            let case = Case::drawn(&mut random, dim, packings);
            check(&mut random, &case);
        }
        smaller = elements as usize;
    }
}
