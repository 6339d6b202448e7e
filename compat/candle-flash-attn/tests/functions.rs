//! Every function, on the emulated GPU, against the formula in f64: what the published tests leave out, such as
//! windows, ALiBi, soft caps, sequences of different lengths, shared key heads, and ranges in several sequences.

use std::sync::LazyLock;

use candle_core::{DType, Device, Result, Tensor};
use candle_flash_attn::{
    flash_attn, flash_attn_alibi, flash_attn_alibi_windowed, flash_attn_alibi_windowed_softcap,
    flash_attn_varlen, flash_attn_varlen_alibi, flash_attn_varlen_alibi_windowed,
    flash_attn_varlen_alibi_windowed_softcap, flash_attn_varlen_paged_windowed,
    flash_attn_varlen_windowed, flash_attn_windowed, FlashAttn,
};

#[path = "../../../candle-rocm-backend/tests/common/mod.rs"]
mod common;

use common::{numbers, Random};

const SCALE: f32 = 0.2;
/// Above 0: some scores are beyond it.
const CAP: f32 = 1.5;
const HEADS: usize = 6;
const KEY_HEADS: usize = 2;

type Windows = [Option<usize>; 2];
const CAUSAL: Windows = [None, Some(0)];
const OPEN: Windows = [None, None];

/// What a function is asked to do with scores.
#[derive(Clone, Debug, Default)]
struct Asked {
    windows: Windows,
    softcap: Option<f32>,
    /// Of (sequences, heads), or of (heads).
    slopes: Option<Vec<f64>>,
    /// Of each sequence, if any: first and end.
    ranges: Vec<Vec<[i32; 2]>>,
}

impl Asked {
    fn windows(windows: Windows) -> Self {
        Self {
            windows,
            ..Self::default()
        }
    }
}

/// Sequences with their rows one after another, as exact numbers of a dtype.
struct Drawn {
    queries: Vec<usize>,
    keys: Vec<usize>,
    elements: usize,
    dtype: DType,
    q: Tensor,
    k: Tensor,
    v: Tensor,
}

impl Drawn {
    fn new(
        queries: &[usize],
        keys: &[usize],
        elements: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let mut random = Random::new((queries.len() * 1000 + elements) as u64);
        let mut draw = |rows: &[usize], heads: usize| -> Result<Tensor> {
            let shape = (rows.iter().sum::<usize>(), heads, elements);
            let drawn = common::normal(&mut random, shape.0 * shape.1 * shape.2);
            Tensor::from_vec(drawn, shape, device)?.to_dtype(dtype)
        };
        Ok(Self {
            q: draw(queries, HEADS)?,
            k: draw(keys, KEY_HEADS)?,
            v: draw(keys, KEY_HEADS)?,
            queries: queries.to_vec(),
            keys: keys.to_vec(),
            elements,
            dtype,
        })
    }

    /// As (batch, rows, heads, elements), heads first in memory.
    fn batch(&self) -> Result<[Tensor; 3]> {
        let batch = self.queries.len();
        let of = |x: &Tensor| {
            let (rows, heads, elements) = x.dims3()?;
            let x = x.reshape((batch, rows / batch, heads, elements))?;
            x.transpose(1, 2)?.contiguous()?.transpose(1, 2)
        };
        Ok([of(&self.q)?, of(&self.k)?, of(&self.v)?])
    }

    fn starts(&self) -> Result<[Tensor; 2]> {
        let of = |lengths: &[usize]| {
            let ends = lengths.iter().scan(0, |end, length| {
                *end += *length as u32;
                Some(*end)
            });
            let starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
            Tensor::new(starts, self.q.device())
        };
        Ok([of(&self.queries)?, of(&self.keys)?])
    }

    fn longest(&self) -> [usize; 2] {
        [&self.queries, &self.keys].map(|lengths| lengths.iter().copied().max().unwrap_or(0))
    }

    /// The formula in f64.
    fn expected(&self, asked: &Asked) -> Result<Vec<f64>> {
        let (q, k, v) = (numbers(&self.q)?, numbers(&self.k)?, numbers(&self.v)?);
        let (mut first_query, mut first_key) = (0, 0);
        let mut all = Vec::new();
        for (sequence, (&queries, &keys)) in self.queries.iter().zip(&self.keys).enumerate() {
            for i in 0..queries {
                let place = i as i64 + keys as i64 - queries as i64;
                for head in 0..HEADS {
                    let slope = asked.slopes.as_ref().map_or(0.0, |slopes| {
                        slopes[(sequence * HEADS + head) % slopes.len()]
                    });
                    let row = |x: &[f64], row: usize, head: usize, heads: usize| {
                        x[(row * heads + head) * self.elements..][..self.elements].to_vec()
                    };
                    let of_query = row(&q, first_query + i, head, HEADS);
                    let key_head = head / (HEADS / KEY_HEADS);
                    let score = |j: usize| {
                        let ahead = j as i64 - place;
                        if !asked.sees(sequence, place, j as i64) {
                            return f64::NEG_INFINITY;
                        }
                        let key = row(&k, first_key + j, key_head, KEY_HEADS);
                        let dot: f64 = of_query.iter().zip(key).map(|(a, b)| a * b).sum();
                        let mut score = dot * f64::from(SCALE);
                        if let Some(cap) = asked.softcap.map(f64::from) {
                            score = cap * (score / cap).tanh();
                        }
                        score - slope * ahead.abs() as f64
                    };
                    let scores: Vec<f64> = (0..keys).map(score).collect();
                    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let mut sum = 0.0;
                    let mut result = vec![0.0; self.elements];
                    for (j, score) in scores.iter().enumerate() {
                        if *score == f64::NEG_INFINITY {
                            continue;
                        }
                        let weight = (score - most).exp();
                        sum += weight;
                        let value = row(&v, first_key + j, key_head, KEY_HEADS);
                        for (to, value) in result.iter_mut().zip(value) {
                            *to += weight * value;
                        }
                    }
                    let seen = |x: f64| if sum > 0.0 { x / sum } else { 0.0 };
                    all.extend(result.into_iter().map(seen));
                }
            }
            first_query += queries;
            first_key += keys;
        }
        Ok(all)
    }

    /// That a function gives what the formula does. Kernels round weights and results to the dtype, once each: two
    /// times half of its step, of the largest value. The rest of twice that is for sums and exponentials in f32.
    fn check(&self, found: &Tensor, asked: &Asked, what: &str) -> Result<()> {
        let what = format!("{what}, {:?}, {} elements", self.dtype, self.elements);
        assert_eq!(found.dtype(), self.dtype, "{what}");
        let step = match self.dtype {
            DType::F16 => 2f64.powi(-10),
            _ => 2f64.powi(-7),
        };
        let largest = numbers(&self.v)?
            .into_iter()
            .fold(0f64, |most, x| most.max(x.abs()));
        let (found, expected) = (numbers(found)?, self.expected(asked)?);
        assert_eq!(found.len(), expected.len(), "{what}");
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!(
                (found - expected).abs() <= 2.0 * step * largest,
                "{what}: element {at} is {found}, not {expected}; {asked:?}"
            );
        }
        Ok(())
    }
}

impl Asked {
    fn sees(&self, sequence: usize, place: i64, key: i64) -> bool {
        let within =
            |distance: i64, most: Option<usize>| most.is_none_or(|most| distance <= most as i64);
        let [left, right] = self.windows;
        let is_in =
            |at: i64, [first, end]: [i32; 2]| (i64::from(first)..i64::from(end)).contains(&at);
        within(place - key, left) && within(key - place, right)
            || self.ranges.get(sequence).is_some_and(|ranges| {
                ranges
                    .iter()
                    .any(|&range| is_in(place, range) && is_in(key, range))
            })
    }

    fn of_heads(&self, count: usize) -> Self {
        let slopes = (0..count)
            .map(|i| f64::from(0.03 * (i + 1) as f32))
            .collect();
        Self {
            slopes: Some(slopes),
            ..self.clone()
        }
    }

    fn capped(&self) -> Self {
        Self {
            softcap: Some(CAP),
            ..self.clone()
        }
    }
}

/// One for all tests: of two that stand for one GPU, Candle's operators take operands of one alone.
fn device() -> Device {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| common::device().expect("a GPU"));
    DEVICE.clone()
}

fn slopes(asked: &Asked, shape: &[usize]) -> Result<Tensor> {
    let slopes = asked.slopes.iter().flatten().map(|x| *x as f32).collect();
    Tensor::from_vec::<_, f32>(slopes, shape, &device())
}

#[test]
fn batches() -> Result<()> {
    for (dtype, elements) in [(DType::F16, 64), (DType::BF16, 40)] {
        // Fewer keys than queries too: the first queries then see nothing.
        for (queries, keys) in [(37, 75), (40, 21)] {
            let given = Drawn::new(&[queries; 2], &[keys; 2], elements, dtype, &device())?;
            let [q, k, v] = &given.batch()?;
            for windows in [CAUSAL, OPEN] {
                let (plain, causal) = (Asked::windows(windows), windows == CAUSAL);
                let y = flash_attn(q, k, v, SCALE, causal)?;
                assert_eq!(y.shape(), q.shape());
                given.check(&y, &plain, "flash_attn")?;
                let asked = plain.of_heads(HEADS);
                let y = flash_attn_alibi(q, k, v, &slopes(&asked, &[HEADS])?, SCALE, causal)?;
                given.check(&y, &asked, "flash_attn_alibi")?;
            }
            for windows in [[Some(9), Some(4)], [None, Some(7)], [Some(5), Some(0)]] {
                let (plain, [left, right]) = (Asked::windows(windows), windows);
                let y = flash_attn_windowed(q, k, v, SCALE, left, right)?;
                given.check(&y, &plain, "flash_attn_windowed")?;
                let of_each = plain.of_heads(2 * HEADS);
                let table = slopes(&of_each, &[2, HEADS])?;
                let y = flash_attn_alibi_windowed(q, k, v, &table, SCALE, left, right)?;
                given.check(&y, &of_each, "flash_attn_alibi_windowed")?;
                let capped = |slopes: Option<&Tensor>, cap: f32| {
                    flash_attn_alibi_windowed_softcap(q, k, v, slopes, SCALE, left, right, cap)
                };
                let name = "flash_attn_alibi_windowed_softcap";
                given.check(&capped(Some(&table), CAP)?, &of_each.capped(), name)?;
                given.check(&capped(None, CAP)?, &plain.capped(), name)?;
                given.check(&capped(None, 0.0)?, &plain, name)?;
            }
        }
    }
    Ok(())
}

#[test]
fn windows_that_are_wider_than_all_keys() -> Result<()> {
    let given = Drawn::new(&[30], &[8], 32, DType::F16, &device())?;
    let [q, k, v] = &given.batch()?;
    let y = |left, right| flash_attn_windowed(q, k, v, SCALE, left, right);
    // One of more than all keys is none, also to queries that stand further away.
    given.check(&y(None, Some(9))?, &Asked::windows(OPEN), "a right window")?;
    given.check(&y(Some(9), Some(9))?, &Asked::windows(OPEN), "both windows")?;
    // One on the left alone comes with all keys on the right.
    let asked = Asked::windows([Some(8), Some(8)]);
    given.check(&y(Some(8), None)?, &asked, "a left window")
}

/// Sequences of different lengths: one without queries, one of more queries than keys, one of a single query.
const QUERIES: [usize; 5] = [5, 0, 40, 12, 1];
const KEYS: [usize; 5] = [33, 7, 40, 4, 90];

#[test]
fn packed_sequences() -> Result<()> {
    for (dtype, elements) in [(DType::BF16, 64), (DType::F16, 104)] {
        let given = Drawn::new(&QUERIES, &KEYS, elements, dtype, &device())?;
        let (q, k, v) = (&given.q, &given.k, &given.v);
        let ([sq, sk], [mq, mk]) = (&given.starts()?, given.longest());
        for windows in [CAUSAL, OPEN] {
            let (plain, causal) = (Asked::windows(windows), windows == CAUSAL);
            let y = flash_attn_varlen(q, k, v, sq, sk, mq, mk, SCALE, causal)?;
            assert_eq!(y.shape(), q.shape());
            given.check(&y, &plain, "flash_attn_varlen")?;
            let asked = plain.of_heads(HEADS);
            let table = slopes(&asked, &[HEADS])?;
            let y = flash_attn_varlen_alibi(q, k, v, &table, sq, sk, mq, mk, SCALE, causal)?;
            given.check(&y, &asked, "flash_attn_varlen_alibi")?;
        }
        for windows in [[Some(9), Some(4)], [Some(30), Some(0)]] {
            let (plain, [left, right]) = (Asked::windows(windows), windows);
            let y = flash_attn_varlen_windowed(q, k, v, sq, sk, mq, mk, SCALE, left, right)?;
            given.check(&y, &plain, "flash_attn_varlen_windowed")?;
            let of_each = plain.of_heads(QUERIES.len() * HEADS);
            let table = &slopes(&of_each, &[QUERIES.len(), HEADS])?;
            let y = flash_attn_varlen_alibi_windowed(
                q, k, v, table, sq, sk, mq, mk, SCALE, left, right,
            )?;
            given.check(&y, &of_each, "flash_attn_varlen_alibi_windowed")?;
            let capped = |slopes: Option<&Tensor>| {
                flash_attn_varlen_alibi_windowed_softcap(
                    q, k, v, slopes, sq, sk, mq, mk, SCALE, left, right, CAP,
                )
            };
            let name = "flash_attn_varlen_alibi_windowed_softcap";
            given.check(&capped(Some(table))?, &of_each.capped(), name)?;
            given.check(&capped(None)?, &plain.capped(), name)?;
        }
    }
    Ok(())
}

/// The rows in pages of 32, from the last page to the first, with one that nobody uses before and NaN in what no key is
/// in.
fn paged(given: &Drawn, x: &Tensor, most: usize) -> Result<(Tensor, Vec<u32>)> {
    let device = x.device();
    let nothing =
        Tensor::full(f32::NAN, (32, KEY_HEADS, given.elements), device)?.to_dtype(given.dtype)?;
    let (mut pages, mut table, mut first) = (vec![nothing.clone()], Vec::new(), 0);
    let count: usize = given.keys.iter().map(|keys| keys.div_ceil(32)).sum();
    let mut number = count as u32;
    for &keys in &given.keys {
        let of_sequence = keys.div_ceil(32);
        for page in 0..most {
            if page >= of_sequence {
                table.push(0);
                continue;
            }
            let rows = (keys - page * 32).min(32);
            let rows = x.narrow(0, first + page * 32, rows)?;
            let padding = nothing.narrow(0, 0, 32 - rows.dim(0)?)?;
            pages.insert(1, Tensor::cat(&[&rows, &padding], 0)?);
            table.push(number);
            number -= 1;
        }
        first += keys;
    }
    Ok((Tensor::stack(&pages, 0)?, table))
}

#[test]
fn pages_and_ranges() -> Result<()> {
    let ranges = vec![
        vec![[2, 20], [25, 33]],
        vec![[0, 7], [0, 0]],
        // The second is empty, the third overlaps the first.
        vec![[0, 9], [30, 12], [7, 38]],
        vec![[0, 3]],
        // As far as numbers go.
        vec![[-5, 3], [80, i32::MAX]],
    ];
    let most_ranges = 3;
    let flat: Vec<i32> = ranges
        .iter()
        .flat_map(|ranges| (0..most_ranges).flat_map(|i| ranges.get(i).copied().unwrap_or([0, 0])))
        .collect();
    let device = device();
    let flat = Tensor::from_vec(flat, (ranges.len(), most_ranges, 2), &device)?;
    for (dtype, elements) in [(DType::F16, 64), (DType::BF16, 256)] {
        let given = Drawn::new(&QUERIES, &KEYS, elements, dtype, &device)?;
        let ([sq, sk], [mq, mk]) = (&given.starts()?, given.longest());
        // As many pages as the longest has, and one more.
        let most = mk.div_ceil(32) + 1;
        let (k, table) = paged(&given, &given.k, most)?;
        let (v, _) = paged(&given, &given.v, most)?;
        let signed: Vec<i32> = table.iter().map(|page| *page as i32).collect();
        let signed = Tensor::from_vec(signed, (KEYS.len(), most), &device)?;
        let table = Tensor::from_vec(table, (KEYS.len(), most), &device)?;
        let call = |table: &Tensor, ranges: Option<&Tensor>, mk, [left, right]: Windows, cap| {
            flash_attn_varlen_paged_windowed(
                &given.q, &k, &v, sq, sk, table, ranges, mq, mk, SCALE, left, right, 32, cap,
            )
        };
        for windows in [CAUSAL, OPEN, [Some(9), Some(4)], [Some(3), Some(0)]] {
            let plain = Asked::windows(windows);
            let y = call(&table, None, mk, windows, Some(CAP))?;
            given.check(&y, &plain.capped(), "pages")?;
            let asked = Asked {
                ranges: ranges.clone(),
                ..plain
            };
            let y = call(&table, Some(&flat), mk, windows, None)?;
            given.check(&y, &asked, "pages and ranges")?;
            // More keys than there are pages for, in a table of signed numbers.
            let y = call(&signed, Some(&flat), 4096, windows, Some(CAP))?;
            given.check(&y, &asked.capped(), "pages of signed numbers")?;
        }
    }
    Ok(())
}

#[test]
fn the_operator_applied_by_hand() -> Result<()> {
    let given = Drawn::new(&[20; 2], &[50; 2], 64, DType::F16, &device())?;
    let [q, k, v] = &given.batch()?;
    let asked = Asked::windows([Some(12), Some(3)]).of_heads(HEADS).capped();
    let op = FlashAttn {
        softmax_scale: SCALE,
        alibi_slopes: Some(slopes(&asked, &[HEADS])?),
        window_size_left: Some(12),
        window_size_right: Some(3),
        softcap: Some(CAP),
    };
    given.check(&q.apply_op3(k, v, op)?, &asked, "FlashAttn")
}
