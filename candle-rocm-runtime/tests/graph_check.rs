//! Graphs that are tried before they are used, over the emulator's `libamdhip64.so` in the place of AMD's, with the faults
//! that AMD's releases are known for.

mod common;

use std::fmt;
use std::sync::{Arc, Mutex};

use candle_rocm_runtime::cuda_names::{
    CUgraphInstantiate_flags as Flags, CUstreamCaptureMode as Mode,
};
use candle_rocm_runtime::graph::check;
use candle_rocm_runtime::{enqueued, runtime, Context, RuntimeKind};
use candle_rocm_testing::process::is_child;
use candle_rocm_testing::stand_in::library;
use common::in_process;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The warnings that a body of code gives.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Whether graphs are on in a process of its own on AMD's runtime with these variables, why not, and the warnings.
fn tried(test: &str, variables: &[(&str, &str)], holds: impl Fn(bool, Option<&str>, &[String])) {
    // The process of its own has the variable.
    let path = match is_child() {
        true => "",
        false => library().to_str().unwrap(),
    };
    let amd = [
        ("CANDLE_ROCM_RUNTIME", "amd"),
        ("CANDLE_ROCM_HIP_LIBRARY", path),
        ("ROCM_EMU_HIP_VERSION", "7.2.2"),
    ];
    in_process(test, &[&amd[..], variables].concat(), || {
        let warnings = Warnings::default();
        let on = tracing::subscriber::with_default(warnings.clone(), || {
            let device = Context::new(0).unwrap().device().clone();
            let first = check::are_on(&device).unwrap();
            // Once is enough.
            let (second, noted) = enqueued::recorded(|| check::are_on(&device).unwrap());
            assert_eq!((first, noted.count()), (second, 0));
            first
        });
        let warnings = warnings.0.lock().unwrap().clone();
        let device = Context::new(0).unwrap().device().clone();
        holds(on, check::why_off(&device), &warnings);
    });
}

#[test]
fn right_graphs_are_on() {
    tried("right_graphs_are_on", &[], |on, why, warnings| {
        assert_eq!((on, why, warnings), (true, None, &[][..]));
    });
}

/// Inputs of steps are set by kernels, which such graphs see.
#[test]
fn graphs_that_do_not_see_copies_are_on() {
    let fault = [("ROCM_EMU_GRAPH_FAULT", "stale-copies")];
    let test = "graphs_that_do_not_see_copies_are_on";
    tried(test, &fault, |on, why, warnings| {
        assert_eq!((on, why, warnings), (true, None, &[][..]));
    });
}

/// What is said once of graphs that are off.
fn assert_off(on: bool, why: Option<&str>, warnings: &[String], issue: &str) {
    let why = why.expect("graphs are off");
    assert!(!on);
    assert_eq!(warnings, [why]);
    for part in [
        "graphs are off on GPU 0, AMD ",
        " (emulated) (gfx",
        "), by HIP 7.2.2",
        issue,
        "a graph of 200 kernels",
        "CANDLE_ROCM_GRAPHS=1",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

#[test]
fn stale_graphs_are_off() {
    let fault = [("ROCM_EMU_GRAPH_FAULT", "stale")];
    tried("stale_graphs_are_off", &fault, |on, why, warnings| {
        assert_off(on, why, warnings, "ROCm/hip 3887");
    });
}

#[test]
fn graphs_that_compute_garbage_are_off() {
    let fault = [("ROCM_EMU_GRAPH_FAULT", "garbage")];
    let test = "graphs_that_compute_garbage_are_off";
    tried(test, &fault, |on, why, warnings| {
        assert_off(on, why, warnings, "ROCm/clr 279");
    });
}

#[test]
fn the_variable_captures_nevertheless() {
    let variables = [
        ("ROCM_EMU_GRAPH_FAULT", "garbage"),
        ("CANDLE_ROCM_GRAPHS", "1"),
    ];
    let test = "the_variable_captures_nevertheless";
    tried(test, &variables, |on, why, warnings| {
        assert_eq!((on, why, warnings), (true, None, &[][..]));
    });
}

#[test]
fn the_variable_turns_right_graphs_off() {
    let test = "the_variable_turns_right_graphs_off";
    tried(test, &[("CANDLE_ROCM_GRAPHS", "0")], |on, why, warnings| {
        assert_eq!((on, why, warnings), (false, None, &[][..]));
    });
}

/// A fill and a copy that are captured are kernels, of whole words and of bytes.
#[test]
fn no_graph_holds_memory_nodes() {
    in_process("no_graph_holds_memory_nodes", &[], || {
        runtime::select(RuntimeKind::Emulator).unwrap();
        let context = Context::new(0).unwrap();
        // SAFETY: one stream.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().unwrap();
        for count in [4096usize, 4095, 7] {
            let source = stream.clone_htod(&vec![7u8; count]).unwrap();
            let mut copy = stream.alloc_zeros::<u8>(count).unwrap();
            let mut zeros = stream.clone_htod(&vec![9u8; count]).unwrap();
            let (graph, noted) = enqueued::recorded(|| {
                stream
                    .begin_capture(Mode::CU_STREAM_CAPTURE_MODE_GLOBAL)
                    .unwrap();
                stream.memcpy_dtod(&source, &mut copy).unwrap();
                stream.memset_zeros(&mut zeros).unwrap();
                stream.end_capture(Flags::NONE).unwrap().unwrap()
            });
            let kernels = match count % 4 {
                0 => ["copy2d_u32", "const_set_u32"],
                _ => ["copy2d_u8", "const_set_u8"],
            };
            assert_eq!(noted.kernels, kernels);
            assert_eq!((noted.copies, noted.fills), (0, 0));
            assert_eq!(stream.clone_dtoh(&zeros).unwrap(), vec![9; count]);
            graph.launch().unwrap();
            assert_eq!(stream.clone_dtoh(&copy).unwrap(), vec![7; count]);
            assert_eq!(stream.clone_dtoh(&zeros).unwrap(), vec![0; count]);
        }
    });
}
