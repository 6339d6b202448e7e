//! Ranges and marks: what AMD's profiler is told of, of which a stand-in (`libraries/roctx.c`) notes all.

mod common;

use std::ffi::{c_char, CStr};
use std::path::Path;

use candle_rocm_runtime::{nvtx, profile};
use candle_rocm_testing::process::is_child_of;
use common::in_process;

const CHOICE: &str = "CANDLE_ROCM_RANGES";
const LIBRARY: &str = "CANDLE_ROCM_RANGES_LIBRARY";
/// What `rocprofv3 --marker-trace` sets.
const PROFILER: &str = "ROCPROF_MARKER_API_TRACE";

/// What the stand-in was told.
fn told() -> String {
    let path = std::env::var(LIBRARY).unwrap();
    // SAFETY: the stand-in has no initialisers.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    // SAFETY: the library's variable of this name, which holds a C string.
    let text = unsafe { CStr::from_ptr(*library.get::<*const c_char>(b"stand_in_told").unwrap()) };
    text.to_str().unwrap().to_owned()
}

/// Runs a body in a process with the stand-in and these variables.
fn with_stand_in(test: &str, variables: &[(&str, &str)], body: impl Fn()) {
    let folder = tempfile::tempdir().unwrap();
    let path = common::shared_library(folder.path(), "roctx.c", "-DSTAND_IN");
    let none = [(CHOICE, ""), (PROFILER, "")];
    let library = [(LIBRARY, path.to_str().unwrap())];
    let all = [&none[..], &library, variables].concat();
    in_process(test, &all, body);
}

#[test]
fn ranges_and_marks_are_told_in_their_order() {
    const TEST: &str = "ranges_and_marks_are_told_in_their_order";
    with_stand_in(TEST, &[(CHOICE, "1")], || {
        let outer = profile::range("outer");
        {
            let _inner = profile::range_with(|| format!("layer {}", 7));
            profile::mark("a moment");
        }
        drop(outer);
        let mut event = nvtx::Event::message("zero\0byte");
        event.category(3).payload(nvtx::Payload::U32(5));
        nvtx::name_category(3, "forward");
        drop(event.range());
        nvtx::mark("token");
        assert_eq!(
            told(),
            "start outer 1\nstart layer 7 2\nmark a moment 0\nstop - 2\nstop - 1\n\
             start forward: zerobyte (5) 3\nstop - 3\nmark token 0\n"
        );
    });
}

#[test]
fn pushed_ranges_end_in_turn() {
    with_stand_in("pushed_ranges_end_in_turn", &[(CHOICE, "1")], || {
        use nvtx::result::{range_end, range_pop, range_push, range_start};
        assert_eq!([range_push("a"), range_push("b")], [0, 1]);
        let number = range_start("across threads");
        assert_eq!([range_pop(), range_pop(), range_pop()], [1, 0, -1]);
        // SAFETY: there is nothing to uphold.
        let end = move || unsafe { range_end(number) };
        std::thread::spawn(end).join().unwrap();
        end();
        assert_eq!(
            told(),
            "start a 1\nstart b 2\nstart across threads 3\nstop - 2\nstop - 1\nstop - 3\n"
        );
    });
}

/// Who started the program says whether anybody listens, unless the choice says it.
#[test]
fn the_profiler_is_told_that_started_the_program() {
    const TEST: &str = "the_profiler_is_told_that_started_the_program";
    /// Says what a process of this test expects.
    const EXPECTED: &str = "CANDLE_ROCM_TEST_EXPECTED";
    const TOLD: &str = "start r 1\nstop - 1\n";
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[], ""),
        (&[(PROFILER, "1")], TOLD),
        (&[(PROFILER, "False")], ""),
        (&[(PROFILER, "True"), (CHOICE, "0")], ""),
        (&[(PROFILER, "True"), (CHOICE, "auto")], TOLD),
    ];
    for (variables, expected) in cases {
        let variables = [variables, &[(EXPECTED, expected)]].concat();
        with_stand_in(TEST, &variables, || {
            drop(profile::range("r"));
            assert_eq!(told(), std::env::var(EXPECTED).unwrap_or_default());
        });
        if is_child_of(TEST) {
            return;
        }
    }
}

#[test]
fn a_program_goes_on_without_the_library() {
    const TEST: &str = "a_program_goes_on_without_the_library";
    let missing = Path::new("/no/such/librocprofiler-sdk-roctx.so");
    let variables = [(CHOICE, "1"), (LIBRARY, missing.to_str().unwrap())];
    in_process(TEST, &variables, || {
        drop(profile::range("r"));
        nvtx::mark("m");
        assert_eq!(nvtx::result::range_push("a"), 0);
        assert_eq!(nvtx::result::range_pop(), 0);
    });
}
