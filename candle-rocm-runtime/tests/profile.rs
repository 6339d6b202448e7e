//! Profiles: tables of sections and of whole programs, and traces.

mod common;

use std::sync::Arc;

use candle_rocm_runtime::cuda_names::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use candle_rocm_runtime::{profile, Context, LaunchConfig, PushKernelArg as _, Stream};
use candle_rocm_testing::process::{ended_alone, Ended};
use common::context;
use serde_json::Value;

const ELEMENTS: usize = 1000;

/// Two kernels, a fill and two copies.
fn work(context: &Arc<Context>, stream: &Arc<Stream>) {
    let affine = context
        .kernel(&candle_rocm_kernels::AFFINE, "affine_f32")
        .unwrap();
    let x = stream.clone_htod(&[1f32; ELEMENTS]).unwrap();
    let mut y = stream.alloc_zeros::<f32>(ELEMENTS).unwrap();
    for _ in 0..2 {
        let mut launch = stream.launch_builder(&affine);
        launch.arg(&ELEMENTS).arg(&1usize).arg(&0usize);
        launch.arg(&x).arg(&mut y).arg(&3f32).arg(&0.5f32);
        // SAFETY: the arguments are those of the kernel, and both buffers hold as many elements.
        unsafe { launch.launch(LaunchConfig::for_num_elems(ELEMENTS as u32)) }.unwrap();
    }
    assert_eq!(stream.clone_dtoh(&y).unwrap(), [3.5; ELEMENTS]);
}

/// Name, count and bytes of each row, by name.
fn rows(report: &profile::Report) -> Vec<(&str, u64, u64)> {
    let rows = report.rows.iter();
    let mut rows: Vec<_> = rows.map(|row| (&*row.name, row.count, row.bytes)).collect();
    rows.sort_unstable();
    rows
}

const BYTES: u64 = 4 * ELEMENTS as u64;
const WORK: [(&str, u64, u64); 4] = [
    ("affine_f32", 2, 0),
    ("copy from the host", 1, BYTES),
    ("copy to the host", 1, BYTES),
    ("fill", 1, BYTES),
];

#[test]
fn a_section_has_what_lies_in_it() {
    common::in_process("a_section_has_what_lies_in_it", &[], || {
        let context = context();
        let stream = context.default_stream();
        work(&context, &stream);
        profile::start();
        work(&context, &stream);
        let report = profile::stop();
        assert_eq!(rows(&report), WORK);
        assert_eq!((report.captured, report.lost), (0, 0));
        for row in &report.rows {
            assert!(
                row.shortest <= row.mean() && row.mean() <= row.longest,
                "{row:?}"
            );
            assert!(row.total >= row.longest, "{row:?}");
        }
        // Neither what comes after a section, nor another section's.
        work(&context, &stream);
        assert_eq!(profile::stop().rows, []);
        profile::start();
        assert_eq!(profile::stop().rows, []);
    });
}

/// So many that events are read in between, and used again.
#[test]
fn more_is_recorded_than_events_wait() {
    common::in_process("more_is_recorded_than_events_wait", &[], || {
        let stream = context().default_stream();
        let mut x = stream.alloc_zeros::<u8>(1).unwrap();
        profile::start();
        for _ in 0..5000 {
            stream.memset_zeros(&mut x).unwrap();
        }
        assert_eq!(rows(&profile::stop()), [("fill", 5000, 5000)]);
    });
}

#[test]
fn graphs_are_timed_as_a_whole() {
    common::in_process("graphs_are_timed_as_a_whole", &[], || {
        let stream = context().new_stream().unwrap();
        let mut x = stream.alloc_zeros::<u8>(100).unwrap();
        profile::start();
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        stream.begin_capture(mode).unwrap();
        for _ in 0..3 {
            stream.memset_zeros(&mut x).unwrap();
        }
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = stream.end_capture(flags).unwrap().unwrap();
        for _ in 0..4 {
            graph.launch().unwrap();
        }
        let report = profile::stop();
        assert_eq!(rows(&report), [("graph", 4, 0)]);
        assert_eq!((report.captured, report.lost), (3, 0));
    });
}

/// What a program that does the work in a range wrote, with these variables; `None` in that program.
fn program(test: &str, variables: &[(&str, &str)]) -> Option<Ended> {
    ended_alone(test, variables, || {
        let _range = profile::range("all of it");
        let context = context();
        work(&context, &context.default_stream());
    })
}

#[test]
fn a_program_has_a_table_at_its_end() {
    const TEST: &str = "a_program_has_a_table_at_its_end";
    let Some(ended) = program(TEST, &[("CANDLE_ROCM_PROFILE", "1")]) else {
        return;
    };
    for (name, count, _) in WORK {
        let is_row = |line: &str| {
            line.contains(&format!("  {name}"))
                && line.split_whitespace().nth(2) == Some(&count.to_string())
        };
        assert!(ended.stderr.lines().any(is_row), "{name}: {}", ended.text());
    }
}

#[test]
fn a_table_goes_to_a_file() {
    const TEST: &str = "a_table_goes_to_a_file";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.txt");
    let Some(ended) = program(TEST, &[("CANDLE_ROCM_PROFILE", file.to_str().unwrap())]) else {
        return;
    };
    assert!(!ended.stderr.contains("affine_f32"), "{}", ended.text());
    let table = std::fs::read_to_string(file).unwrap();
    assert!(table.contains("  affine_f32\n"), "{table}");
}

/// The sums of a trace's slices are the table's, and slices of a queue do not overlap.
#[test]
fn a_trace_has_what_the_table_has() {
    const TEST: &str = "a_trace_has_what_the_table_has";
    let folder = tempfile::tempdir().unwrap();
    let [trace, table] = ["trace.json", "table.txt"].map(|name| folder.path().join(name));
    let variables = [
        ("CANDLE_ROCM_TRACE", trace.to_str().unwrap()),
        ("CANDLE_ROCM_PROFILE", table.to_str().unwrap()),
    ];
    if program(TEST, &variables).is_none() {
        return;
    }
    let trace = std::fs::read_to_string(trace).unwrap();
    let events: Value = serde_json::from_str(&trace).unwrap();
    let events = events.as_array().unwrap();
    let slices = |category: &str| -> Vec<&Value> {
        let is_one = |event: &&Value| event["ph"] == "X" && event["cat"] == category;
        events.iter().filter(is_one).collect()
    };
    let ranges: Vec<&str> = slices("range")
        .iter()
        .filter_map(|slice| slice["name"].as_str())
        .collect();
    assert_eq!(ranges, ["all of it"]);
    let on_gpu = slices("gpu");
    let mut last_end = 0.0;
    for slice in &on_gpu {
        let (start, took) = (
            slice["ts"].as_f64().unwrap(),
            slice["dur"].as_f64().unwrap(),
        );
        // Times of events are rounded to f32's of a millisecond.
        assert!(start >= last_end - 1.0, "{slice} begins before {last_end}");
        last_end = start + took;
    }
    let table = std::fs::read_to_string(table).unwrap();
    for (name, count, bytes) in WORK {
        let of_name: Vec<_> = on_gpu
            .iter()
            .filter(|slice| slice["name"] == name)
            .collect();
        assert_eq!(of_name.len() as u64, count, "{name}");
        let moved: u64 = of_name
            .iter()
            .filter_map(|slice| slice["args"]["bytes"].as_u64())
            .sum();
        assert_eq!(moved, bytes, "{name}");
        let total: f64 = of_name
            .iter()
            .filter_map(|slice| slice["dur"].as_f64())
            .sum();
        let row = table
            .lines()
            .find(|line| line.contains(&format!("  {name}")));
        let in_table = row.unwrap().split_whitespace().next().unwrap();
        // Three digits of a millisecond.
        assert_eq!(format!("{:.3}", total / 1e3), in_table, "{name}");
        let given = slices("given");
        let given = given.iter().filter(|slice| slice["name"] == name);
        assert_eq!(given.count() as u64, count, "{name}");
    }
    let affine = on_gpu.iter().find(|slice| slice["name"] == "affine_f32");
    assert_eq!(affine.unwrap()["args"]["work-items"][1], 1);
    assert!(events
        .iter()
        .any(|event| event["ph"] == "C" && event["name"] == "memory in use"));
}

/// A trace that cannot be written stops no program.
#[test]
fn a_trace_without_a_folder_is_left_out() {
    const TEST: &str = "a_trace_without_a_folder_is_left_out";
    program(TEST, &[("CANDLE_ROCM_TRACE", "/no/such/folder/trace.json")]);
}
