//! Attention's forward pass against the formula in f64: every kernel, with lengths, heads, layouts and masks drawn by a
//! seeded generator.
//!
//! The largest error may be twice that of the same formula composed in the dtype, each operator's results rounded to
//! it. Where that happens to be smaller than one rounding of the largest result, which any result takes, that counts.

use crate::attention_cases::{attend, each_case, gpus, inputs, Case, Packing};
use crate::device::{Arg, Gpu};
use crate::elements::{from_bytes, Element};
use candle_rocm_kernels::attention::{kernel_name, tile, Pass, ELEMENTS};
use candle_rocm_kernels::{Processor, ATTENTION_FORWARD};
use candle_rocm_testing::random::Random;
use half::{bf16, f16};

const PACKINGS: [Packing; 5] = [
    Packing::Padded,
    Packing::Padded,
    Packing::Packed,
    Packing::Paged(16),
    Packing::Paged(48),
];

/// Runs the kernel on every GPU and compares.
fn check<T: Element>(gpus: &[Gpu], random: &mut Random, case: &Case) {
    let inputs = inputs::<T>(random, case);
    let sequences = case.queries.len();
    let packed = case.packing != Packing::Padded;
    let starts_q = Case::starts(&case.queries);
    let total_queries = starts_q[sequences] as usize;
    let heads = case.heads();

    let mut expected = Vec::new();
    let (mut composed_error, mut largest) = (0f64, 0f64);
    for (sequence, &queries) in case.queries.iter().enumerate() {
        for i in 0..queries {
            for head in 0..heads {
                let at = [sequence, head, i];
                let exact = attend(case, &inputs, at, |x| x);
                let composed = attend(case, &inputs, at, |x| T::of(x).number());
                for (exact, composed) in exact.result.iter().zip(composed.result) {
                    composed_error = composed_error.max((exact - composed).abs());
                    largest = largest.max(exact.abs());
                }
                expected.push((at, exact.result, exact.lse));
            }
        }
    }
    let bound = (2.0 * composed_error).max(T::EPSILON * largest);

    // Results are packed like the queries, with a marker in what they leave free.
    let marker = T::of(-77.0);
    let out_memory: Vec<T> = vec![marker; inputs.q.values.len()];
    let lse_strides = case.lse_strides();
    let queries = case.most_queries();
    let fields = inputs.problem(
        case,
        Arg::in_out(&out_memory),
        Arg::output::<f32>(total_queries * heads),
    );

    for gpu in gpus {
        let Some(tile) = tile(Processor::of(gpu.arch), Pass::Forward, case.dim as u32) else {
            continue;
        };
        let name = kernel_name(Pass::Forward, T::NAME, tile);
        let tiles = queries.div_ceil(tile.rows as usize) as u32 * tile.head_tiles;
        let grid = [heads as u32, tiles, sequences as u32];
        let block = [tile.threads, 1, 1];
        let args = [Arg::Struct(fields.clone())];
        let (results, _) = gpu.launch(&ATTENTION_FORWARD, &name, grid, block, 0, &args);
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

fn drawn<T: Element>(seed: u64) {
    let gpus = gpus();
    each_case(seed, &ELEMENTS, &PACKINGS, |random, case| {
        check::<T>(&gpus, random, case);
    });
}

#[test]
fn f16_is_near_the_formula() {
    drawn::<f16>(1);
}

#[test]
fn bf16_is_near_the_formula() {
    drawn::<bf16>(2);
}
