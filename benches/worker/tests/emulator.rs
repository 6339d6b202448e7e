//! The worker answers every kind of case, on the emulated GPU.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use candle_rocm_bench_protocol::{Answer, Case, Kind, Request, Settings};
use candle_rocm_benches::cases::{self, Group};
use candle_rocm_benches::measure::{Measurer, Plan};
use candle_rocm_benches::results::OURS;
use candle_rocm_benches::worker::Worker;

fn worker() -> Worker {
    let emulator = [("CANDLE_ROCM_RUNTIME".to_owned(), "emulator".to_owned())];
    let program = Path::new(env!("CARGO_BIN_EXE_candle-rocm-bench-worker"));
    Worker::start(OURS, program, &emulator).unwrap()
}

/// Measures the small cases of the groups that are wanted. The worker itself compares small results with Candle's CPU
/// backend.
fn measure(is_wanted: impl Fn(Group) -> bool) {
    let plan = Plan {
        settings: Settings::emulator(),
        rounds: 1,
        patience: Duration::ZERO,
    };
    let mut entries = cases::smallest();
    entries.retain(|entry| is_wanted(entry.group));
    let mut failed = Vec::new();
    let mut rows = 0;
    let mut measurer = Measurer::new(vec![worker()], plan);
    measurer
        .run(&entries, &indicatif::ProgressBar::hidden(), |new| {
            for row in new {
                rows += 1;
                let measured = row.median(OURS).is_some_and(|x| x.is_finite());
                if !measured || !row.errors.is_empty() || !row.wrong.is_empty() {
                    failed.push(format!("{}: {:?} {:?}", row.case, row.errors, row.wrong));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // A chain has two figures, and so have a model and a network.
    assert!(rows > entries.len());
}

#[test]
fn every_operator_link_and_model_is_measured() {
    measure(|group| group != Group::Networks);
}

/// By `im2col`, or in builds with the feature `cudnn` by our own convolutions.
#[test]
fn small_networks_compute_what_the_cpu_does() {
    measure(|group| group == Group::Networks);
}

/// A wrong request is answered, and the worker lives on.
#[test]
fn what_cannot_be_measured_is_an_error_in_the_answer() {
    let mut worker = worker();
    let mut ask = |case: Case| {
        let settings = Settings::emulator();
        worker.ask(&Request { case, settings }).unwrap()
    };
    for (case, words) in [
        (Case::device("frobnicate", "f32", &[4]), "frobnicate"),
        (Case::device("exp", "f31", &[4]), "f31"),
        (Case::device("qmatmul", "q9_K", &[1, 1, 256, 256]), "q9_K"),
        (Case::device("rope", "f32", &[4]), "4 dimensions"),
        (
            Case {
                kind: Kind::Model,
                ..Case::device("llama-9000b", "f16", &[])
            },
            "llama-9000b",
        ),
        (
            Case {
                kind: Kind::Network,
                ..Case::device("resnet9000", "f16", &[1, 3, 8, 8])
            },
            "resnet9000",
        ),
    ] {
        match ask(case) {
            Answer::Error(error) => assert!(error.contains(words), "{error}"),
            other => panic!("{words}: {other:?}"),
        }
    }
    let Answer::Device(times) = ask(Case::device("neg", "f32", &[16])) else {
        panic!("no times");
    };
    assert_eq!(times.bytes, 128);
    assert_eq!(times.probe.len(), 16);
}
