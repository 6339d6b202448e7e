//! Attention's gradients against the formula's in f64: every kernel, with lengths, heads, layouts and masks drawn by a
//! seeded generator.
//!
//! The largest error of each may be three times that of the same formulas composed in the dtype, each operator's results
//! rounded to it. Where that happens to be smaller than one rounding of the largest gradient, which any takes, that
//! counts; or, where a gradient is what is left of large terms (nothing, of a query that sees one key), what f32 leaves
//! of sums of these.

use crate::attention_cases::{attend, each_case, gpus, inputs, Case, Inputs, Packing, Row, Tensor};
use crate::device::{Arg, Gpu};
use crate::elements::{from_bytes, Element};
use candle_rocm_kernels::attention::{
    delta_name, kernel_name, tile, Pass, DELTA_ROWS, DELTA_THREADS, ELEMENTS,
};
use candle_rocm_kernels::{Processor, ATTENTION_BACKWARD};
use candle_rocm_testing::random::Random;
use half::{bf16, f16};

const PACKINGS: [Packing; 3] = [Packing::Padded, Packing::Padded, Packing::Packed];
/// What a kernel has not written.
const MARKER: f64 = -77.0;

/// [sequence][row][head][element]
type Numbers = Vec<Vec<Vec<Vec<f64>>>>;

/// The gradients of a case, by the formula.
struct Gradients {
    q: Numbers,
    k: Numbers,
    v: Numbers,
    rows: Vec<([usize; 3], Row)>,
    /// What of which the largest gradient of a score is left.
    largest_term: f64,
}

fn zeros(lengths: &[usize], heads: usize, dim: usize) -> Numbers {
    let of = |&length: &usize| vec![vec![vec![0.0; dim]; heads]; length];
    lengths.iter().map(of).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], factor: f64, x: &[f64]) {
    for (to, x) in to.iter_mut().zip(x) {
        *to += factor * x;
    }
}

fn round_all(numbers: &mut Numbers, round: impl Fn(f64) -> f64) {
    let rows = numbers.iter_mut().flatten();
    for number in rows.flatten().flatten() {
        *number = round(*number);
    }
}

/// As the formula has them, each operator's results passed through `round`.
fn gradients<T: Element>(
    case: &Case,
    inputs: &Inputs<T>,
    dout: &Tensor<T>,
    round: impl Fn(f64) -> f64,
) -> Gradients {
    let mut of = Gradients {
        q: zeros(&case.queries, case.heads(), case.dim),
        k: zeros(&case.keys, case.key_heads, case.dim),
        v: zeros(&case.keys, case.key_heads, case.dim),
        rows: Vec::new(),
        largest_term: 0.0,
    };
    for (sequence, &queries) in case.queries.iter().enumerate() {
        let (q, k, v) = (
            &inputs.q.numbers[sequence],
            &inputs.k.numbers[sequence],
            &inputs.v.numbers[sequence],
        );
        for (i, head) in (0..queries).flat_map(|i| (0..case.heads()).map(move |head| (i, head))) {
            let row = attend(case, inputs, [sequence, head, i], &round);
            let (change, of_head) = (&dout.numbers[sequence][i][head], head / case.group);
            let changes: Vec<f64> = v.iter().map(|v| round(dot(change, &v[of_head]))).collect();
            let weighted = row.weights.iter().zip(&changes);
            let sum = round(
                weighted
                    .map(|(weight, change)| round(weight * change))
                    .sum(),
            );
            for (j, &weight) in row.weights.iter().enumerate() {
                if weight == 0.0 {
                    continue;
                }
                let term = weight * changes[j].abs().max(sum.abs()) * f64::from(case.scale).abs();
                of.largest_term = of.largest_term.max(term);
                let mut of_score = round(weight * round(changes[j] - sum));
                if case.softcap != 0.0 {
                    of_score = round(of_score * row.growths[j]);
                }
                let of_dot = round(of_score * f64::from(case.scale));
                add(&mut of.q[sequence][i][head], of_dot, &k[j][of_head]);
                add(&mut of.k[sequence][j][of_head], of_dot, &q[i][head]);
                add(&mut of.v[sequence][j][of_head], weight, change);
            }
            of.rows.push(([sequence, head, i], row));
        }
    }
    for numbers in [&mut of.q, &mut of.k, &mut of.v] {
        round_all(numbers, &round);
    }
    of
}

/// The largest error that a gradient may have, `least` or more.
fn bound<T: Element>(exact: &Numbers, composed: &Numbers, least: f64) -> f64 {
    let flat = |x: &Numbers| -> Vec<f64> {
        let rows = x.iter().flatten();
        rows.flatten().flatten().copied().collect()
    };
    let (exact, composed) = (flat(exact), flat(composed));
    let errors = exact.iter().zip(&composed).map(|(a, b)| (a - b).abs());
    let largest = exact.iter().fold(0f64, |most, x| most.max(x.abs()));
    (3.0 * errors.fold(0.0, f64::max))
        .max(T::EPSILON * largest)
        .max(least)
}

/// That memory laid out like `of` has these numbers, and the marker elsewhere.
fn assert_near<T: Element>(
    mut memory: Vec<T>,
    of: &Tensor<T>,
    packed: Option<&[u32]>,
    expected: &Numbers,
    bound: f64,
    what: &str,
) {
    for (sequence, rows) in expected.iter().enumerate() {
        for (i, heads) in rows.iter().enumerate() {
            for (head, exact) in heads.iter().enumerate() {
                let at = of.at(packed, [sequence, head, i]);
                let found = &mut memory[at..][..exact.len()];
                for (d, (found, exact)) in found.iter_mut().zip(exact).enumerate() {
                    let is = found.number();
                    assert!(
                        (is - exact).abs() <= bound,
                        "{what}: ({sequence}, {head}, {i}, {d}) is {is}, not {exact} +- {bound}"
                    );
                    *found = T::of(MARKER);
                }
            }
        }
    }
    let untouched = memory.iter().all(|x| x.number() == MARKER);
    assert!(untouched, "{what}: wrote beyond its rows");
}

/// What the kernels are given of a case besides its inputs.
struct Given<T> {
    /// Laid out as its inputs, the gradient unlike q.
    dout: Tensor<T>,
    out: Vec<T>,
    lse: Vec<f32>,
    delta: Vec<f64>,
}

fn given<T: Element>(
    case: &Case,
    inputs: &Inputs<T>,
    dout: Tensor<T>,
    exact: &Gradients,
) -> Given<T> {
    let starts = Case::starts(&case.queries);
    let packed = (case.packing == Packing::Packed).then_some(&starts[..]);
    let [batch, of_head] = case.lse_strides();
    let count = case.heads() * case.queries.iter().sum::<usize>();
    let mut out = vec![T::of(f64::NAN); inputs.q.values.len()];
    let (mut lse, mut delta) = (vec![f32::NAN; count], vec![f64::NAN; count]);
    for ([sequence, head, i], row) in &exact.rows {
        let at = inputs.q.at(packed, [*sequence, *head, *i]);
        let rounded: Vec<T> = row.result.iter().map(|&x| T::of(x)).collect();
        out[at..][..case.dim].copy_from_slice(&rounded);
        let number = match packed {
            Some(starts) => starts[*sequence] as usize,
            None => sequence * batch,
        };
        let number = number + head * of_head + i;
        lse[number] = row.lse as f32;
        let rounded: Vec<f64> = rounded.iter().map(|x| x.number()).collect();
        delta[number] = dot(&rounded, &dout.numbers[*sequence][*i][*head]);
    }
    Given {
        dout,
        out,
        lse,
        delta,
    }
}

/// Runs the kernels on every GPU and compares.
fn check<T: Element>(gpus: &[Gpu], random: &mut Random, case: &Case) {
    let inputs = inputs::<T>(random, case);
    let [starts_q, starts_k] = [&case.queries, &case.keys].map(|lengths| Case::starts(lengths));
    let (sequences, heads) = (case.queries.len(), case.heads());
    let is_packed = case.packing == Packing::Packed;
    let [packed_q, packed_k] = [&starts_q, &starts_k].map(|x| is_packed.then_some(&x[..]));
    // Laid out unlike q.
    let other = Case {
        gap: 16,
        heads_first: !is_packed && !case.heads_first,
        ..case.clone()
    };
    let room = match packed_q {
        Some(starts) => [1, starts[sequences] as usize],
        None => [sequences, case.queries[0]],
    };
    let place = |sequence: usize, i: usize| match packed_q {
        Some(starts) => (0, starts[sequence] as usize + i),
        None => (sequence, i),
    };
    let dout = Tensor::<T>::new(random, &other, &case.queries, heads, room, place);
    let exact = gradients(case, &inputs, &dout, |x| x);
    let composed = gradients(case, &inputs, &dout, |x| T::of(x).number());
    // Sums of as many products as a head has elements, times a number of a row of them, which are below 8.
    let least = exact.largest_term * 8.0 * case.dim as f64 * 2f64.powi(-24);
    let given = given(case, &inputs, dout, &exact);

    let marked = |of: &Tensor<T>| vec![T::of(MARKER); of.values.len()];
    let (dq, dk, dv) = (marked(&inputs.q), marked(&inputs.k), marked(&inputs.v));
    // A kernel's results alone are buffers that come back.
    let fields = |pass: Option<Pass>, delta: Arg| {
        let memory = |of: &[T], by: Pass| match pass == Some(by) {
            true => Arg::in_out(of),
            false => Arg::Null,
        };
        let mut fields = inputs.problem(case, Arg::input(&given.out), Arg::input(&given.lse));
        fields.extend(given.dout.fields(Arg::input(&given.dout.values)));
        fields.extend(inputs.q.fields(memory(&dq, Pass::BackwardQueries)));
        fields.extend(inputs.k.fields(memory(&dk, Pass::BackwardKeys)));
        fields.extend(inputs.v.fields(memory(&dv, Pass::BackwardKeys)));
        fields.push(delta);
        [Arg::Struct(fields)]
    };
    let gpus = gpus.iter().filter_map(|gpu| {
        Some((
            gpu,
            tile(Processor::of(gpu.arch), Pass::BackwardKeys, case.dim as u32)?,
        ))
    });
    for (gpu, _) in gpus {
        let what = |kernel: &str, of: &str| format!("{kernel} on {}, {case:?}: {of}", gpu.arch);
        let name = delta_name(T::NAME);
        let tiles = (case.most_queries() as u32).div_ceil(DELTA_ROWS);
        let grid = [heads as u32, tiles, sequences as u32];
        let args = fields(None, Arg::output::<f32>(given.delta.len()));
        let (results, _) = gpu.launch(
            &ATTENTION_BACKWARD,
            &name,
            grid,
            [DELTA_THREADS, 1, 1],
            0,
            &args,
        );
        let delta = from_bytes::<f32>(&results[0]);
        for (i, (is, exact)) in delta.iter().zip(&given.delta).enumerate() {
            // As many roundings of f32 as there are elements, of products of a few.
            let near = (f64::from(*is) - exact).abs() <= 1e-5 * case.dim as f64;
            assert!(near, "{}: {i} is {is}, not {exact}", what(&name, "delta"));
        }

        let run = |pass: Pass, rows: usize, heads: usize| {
            let tile =
                tile(Processor::of(gpu.arch), pass, case.dim as u32).expect("as for the other");
            let name = kernel_name(pass, T::NAME, tile);
            let tiles = (rows as u32).div_ceil(tile.rows) * tile.head_tiles;
            let grid = [heads as u32, tiles, sequences as u32];
            let args = fields(Some(pass), Arg::input(&delta));
            let (results, _) = gpu.launch(
                &ATTENTION_BACKWARD,
                &name,
                grid,
                [tile.threads, 1, 1],
                0,
                &args,
            );
            let results: Vec<Vec<T>> = results.iter().map(|bytes| from_bytes(bytes)).collect();
            (name, results.into_iter())
        };
        let (name, mut of_queries) = run(Pass::BackwardQueries, case.most_queries(), case.heads());
        let compare = |name: &str, of: &str, found: Option<Vec<T>>| {
            let (laid_out, packed, exact, composed) = match of {
                "dq" => (&inputs.q, packed_q, &exact.q, &composed.q),
                "dk" => (&inputs.k, packed_k, &exact.k, &composed.k),
                _ => (&inputs.v, packed_k, &exact.v, &composed.v),
            };
            let found = found.expect("a result");
            let bound = bound::<T>(exact, composed, least);
            assert_near(found, laid_out, packed, exact, bound, &what(name, of));
        };
        compare(&name, "dq", of_queries.next());
        let (name, mut of_keys) = run(Pass::BackwardKeys, case.most_keys(), case.key_heads);
        compare(&name, "dk", of_keys.next());
        compare(&name, "dv", of_keys.next());
    }
}

fn drawn<T: Element>(seed: u64) {
    let gpus = gpus();
    let elements = &ELEMENTS[..ELEMENTS.len() - 1];
    each_case(seed, elements, &PACKINGS, |random, case| {
        check::<T>(&gpus, random, case);
    });
}

#[test]
fn f16_is_near_the_formula() {
    drawn::<f16>(11);
}

#[test]
fn bf16_is_near_the_formula() {
    drawn::<bf16>(12);
}
