//! What the kernels of a ladder compute: inputs, and plain Rust in f64.

use candle_rocm_testing::random::Random;
use half::f16;

/// A buffer, by the name that launches call it by.
pub struct Buffer {
    pub name: &'static str,
    /// In bytes; zeros where there is no data.
    pub bytes: u64,
    /// What lies in it before the first launch.
    pub data: Vec<f16>,
}

/// What is expected of a result, and how far off it may be.
pub struct Expected {
    pub value: f64,
    pub limit: f64,
}

/// A problem of some size.
pub struct Problem {
    /// Sizes by name.
    pub sizes: Vec<(&'static str, u32)>,
    pub buffers: Vec<Buffer>,
    /// The buffer with the results.
    pub result: &'static str,
    /// Of each element of it.
    pub expected: Vec<Expected>,
}

/// Half a last place of f16, and of f32, of a number near 1.
const HALF_ULP: f64 = 1.0 / 2048.0;
const HALF_ULP_F32: f64 = 1.0 / 16_777_216.0;

fn numbers(seed: u64, count: u32) -> Vec<f16> {
    let mut random = Random::new(seed);
    let next = |_| f16::from_f64(random.signed());
    (0..count).map(next).collect()
}

fn given(name: &'static str, data: Vec<f16>) -> Buffer {
    let bytes = 2 * data.len() as u64;
    Buffer { name, bytes, data }
}

fn empty(name: &'static str, bytes: u64) -> Buffer {
    let data = Vec::new();
    Buffer { name, bytes, data }
}

fn dot(left: &[f16], right: &[f16], each: impl Fn(f64) -> f64) -> f64 {
    let pairs = left.iter().zip(right);
    pairs.map(|(l, r)| each(l.to_f64() * r.to_f64())).sum()
}

/// C = A B, (m, n) of depth k. Products of two f16 are exact in f32; a result is off by its own rounding and at most k
/// roundings of partial sums.
pub fn gemm([m, n, k]: [u32; 3]) -> Problem {
    let (a, b) = (numbers(1, m * k), numbers(2, n * k));
    let mut expected = Vec::new();
    for row in a.chunks(k as usize) {
        for column in b.chunks(k as usize) {
            let value = dot(row, column, |product| product);
            let sum = dot(row, column, f64::abs);
            expected.push(Expected {
                value,
                limit: HALF_ULP * value.abs() + f64::from(k) * HALF_ULP_F32 * sum,
            });
        }
    }
    Problem {
        expected,
        ..gemm_unchecked([m, n, k])
    }
}

/// As [`gemm`], of which nothing is known.
pub fn gemm_unchecked([m, n, k]: [u32; 3]) -> Problem {
    let results = u64::from(m * n);
    Problem {
        sizes: vec![("m", m), ("n", n), ("k", k)],
        buffers: vec![
            given("a", numbers(1, m * k)),
            given("b", numbers(2, n * k)),
            empty("c", 2 * results),
            // f32, for at most 8 splits.
            empty("workspace", 8 * 4 * results),
        ],
        result: "c",
        expected: Vec::new(),
    }
}

/// Elements of a head.
const HEAD: usize = 64;

/// Causal attention of heads of 64 elements. A result is a mean of values below 1, off by its own rounding, that of its
/// weights to f16, and a quarter of that for scores and exponentials in f32.
pub fn attention([heads, seq]: [u32; 2]) -> Problem {
    let mut problem = attention_unchecked([heads, seq]);
    let of = |at: usize| problem.buffers[at].data.chunks(HEAD * seq as usize);
    for ((q, k), v) in of(0).zip(of(1)).zip(of(2)) {
        for (at, query) in q.chunks(HEAD).enumerate() {
            let score = |key| (dot(query, key, |product| product) / 8.0).exp();
            let weights: Vec<f64> = k.chunks(HEAD).take(at + 1).map(score).collect();
            let sum: f64 = weights.iter().sum();
            for element in 0..HEAD {
                let values = v.chunks(HEAD).map(|value| value[element].to_f64());
                let value = weights.iter().zip(values).map(|(w, v)| w * v).sum::<f64>() / sum;
                problem.expected.push(Expected {
                    value,
                    limit: HALF_ULP * (value.abs() + 1.25),
                });
            }
        }
    }
    problem
}

/// As [`attention`], of which nothing is known.
pub fn attention_unchecked([heads, seq]: [u32; 2]) -> Problem {
    let count = heads * seq * HEAD as u32;
    Problem {
        sizes: vec![("heads", heads), ("seq", seq)],
        buffers: vec![
            given("q", numbers(3, count)),
            given("k", numbers(4, count)),
            given("v", numbers(5, count)),
            empty("out", 2 * u64::from(count)),
            empty("scores", 4 * u64::from(heads * seq * seq)),
        ],
        result: "out",
        expected: Vec::new(),
    }
}
