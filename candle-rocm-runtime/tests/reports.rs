//! What kernels say before they trap, in the error of the call that notices: which launches, and of whom.

mod common;

use std::sync::Arc;

use candle_rocm_kernels::INDEXING;
use candle_rocm_runtime::cuda_names::{
    CUgraphInstantiate_flags as Flags, CUstreamCaptureMode as Mode,
};
use candle_rocm_runtime::{
    Context, DeviceBuffer, Function, Image, LaunchConfig, PushKernelArg, Result, Stream,
};
use common::{context, in_process, on_each_device, probe};

const KERNEL: &str = "is_u32_u32";
const ROWS: usize = 32_000;
const IDS: usize = 8;
/// The eighth is past the last row.
const BAD: [u32; IDS] = [0, 1, 2, 3, 4, 5, 6, 32_001];
const SENTENCE: &str =
    "index_select: index 32001 at position 7 is outside of 32,000 rows (ids: u32)";

/// A table of rows of one element, ids, and room for what they select.
struct Selection {
    info: DeviceBuffer<usize>,
    ids: DeviceBuffer<u32>,
    table: DeviceBuffer<f32>,
    rows: DeviceBuffer<f32>,
}

impl Selection {
    fn new(stream: &Arc<Stream>) -> Result<Self> {
        Ok(Self {
            info: stream.clone_htod(&[IDS, 1])?,
            ids: stream.clone_htod(&[9; IDS])?,
            table: stream.clone_htod(&vec![2.5; ROWS])?,
            rows: stream.alloc_zeros(IDS)?,
        })
    }

    /// By Candle's kernel, or the one of the code object, to which nobody adds the type of the indices.
    fn launch(&mut self, stream: &Arc<Stream>, kernel: &Function) -> Result<()> {
        let index_type = INDEXING.last_argument(KERNEL).unwrap().value;
        let mut launch = stream.launch_builder(kernel);
        launch.arg(&IDS).arg(&1usize).arg(&self.info);
        launch.arg(&self.ids).arg(&self.table).arg(&mut self.rows);
        launch.arg(&1usize).arg(&ROWS).arg(&IDS).arg(&1usize);
        if kernel.name() != KERNEL {
            launch.arg(&index_type);
        }
        // SAFETY: the arguments are the kernel's, which traps before it reads what is not in the table.
        unsafe { launch.launch(LaunchConfig::for_num_elems(IDS as u32)) }.map(drop)
    }
}

/// The error of a launch that fails, at the latest where it is waited for.
fn error_of(stream: &Arc<Stream>, launched: Result<()>) -> String {
    let ended = launched.and_then(|()| stream.synchronize());
    ended.expect_err("a bad id ends the launch").to_string()
}

/// Selects good rows, then bad ones; returns what the error says.
fn fail(context: &Arc<Context>, kernel: &Function) -> String {
    let stream = context.default_stream();
    let mut selection = Selection::new(&stream).unwrap();
    selection.launch(&stream, kernel).unwrap();
    assert_eq!(stream.clone_dtoh(&selection.rows).unwrap(), [2.5; IDS]);
    stream.memcpy_htod(&BAD, &mut selection.ids).unwrap();
    let launched = selection.launch(&stream, kernel);
    let text = error_of(&stream, launched);
    // Whoever asks later is told as well.
    let later = stream.clone_dtoh(&selection.rows).unwrap_err();
    assert!(later.to_string().contains(SENTENCE), "{later}");
    text
}

#[test]
fn the_error_says_which_index_and_where() {
    on_each_device("the_error_says_which_index_and_where", |context| {
        let text = fail(context, &context.kernel(&INDEXING, KERNEL).unwrap());
        assert_eq!(text.matches(SENTENCE).count(), 1, "{text}");
        assert!(
            text.contains("LaunchFailure") || text.contains("LAUNCH_FAILED"),
            "{text}"
        );
    });
}

#[test]
fn a_module_loaded_again_has_a_report_of_its_own() {
    in_process("a_module_loaded_again_has_a_report_of_its_own", &[], || {
        let context = context();
        let arch = &context.info().arch;
        let code = INDEXING.code_object(arch).unwrap();
        let load = || {
            let image = Image::from_binary(code.clone());
            let module = context.load_module(image).unwrap();
            module.load_function(&INDEXING.symbol(KERNEL)).unwrap()
        };
        context.kernel(&INDEXING, KERNEL).unwrap();
        // One that is gone takes its memory with it.
        drop(load());
        let text = fail(&context, &load());
        assert!(text.contains(SENTENCE), "{text}");
    });
}

#[test]
fn a_graph_says_why_with_kernels_loaded_while_it_was_captured() {
    in_process(
        "a_graph_says_why_with_kernels_loaded_while_it_was_captured",
        &[],
        || {
            let context = context();
            // SAFETY: one stream; a wait for an event from before the capture would end it.
            unsafe { context.disable_event_tracking() };
            let stream = context.new_stream().unwrap();
            let mut selection = Selection::new(&stream).unwrap();
            stream
                .begin_capture(Mode::CU_STREAM_CAPTURE_MODE_GLOBAL)
                .unwrap();
            let kernel = context.kernel(&INDEXING, KERNEL).unwrap();
            selection.launch(&stream, &kernel).unwrap();
            let graph = stream.end_capture(Flags::NONE).unwrap().unwrap();
            graph.launch().unwrap();
            assert_eq!(stream.clone_dtoh(&selection.rows).unwrap(), [2.5; IDS]);
            stream.memcpy_htod(&BAD, &mut selection.ids).unwrap();
            let text = error_of(&stream, graph.launch());
            assert!(text.contains(SENTENCE), "{text}");
        },
    );
}

#[test]
fn a_kernel_that_says_nothing_has_nobody_elses_words() {
    in_process(
        "a_kernel_that_says_nothing_has_nobody_elses_words",
        &[],
        || {
            let context = context();
            let stream = context.default_stream();
            let kernel = context.kernel(&INDEXING, KERNEL).unwrap();
            let mut selection = Selection::new(&stream).unwrap();
            selection.launch(&stream, &kernel).unwrap();
            let trap = probe(&context).load_function("trap").unwrap();
            // SAFETY: it takes nothing.
            let launched = unsafe {
                stream
                    .launch_builder(&trap)
                    .launch(LaunchConfig::for_num_elems(1))
            };
            let text = error_of(&stream, launched.map(drop));
            assert!(text.contains("hipErrorLaunchFailure"), "{text}");
            assert!(!text.contains("index"), "{text}");
        },
    );
}
