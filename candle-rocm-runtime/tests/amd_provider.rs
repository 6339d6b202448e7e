//! The `amd` provider, with the emulator's `libamdhip64.so` in the place of AMD's: search, symbol lookup, a
//! missing library, a missing symbol, no device, and a kernel that runs through all of it.

mod common;

use std::path::Path;
use std::process::Command;

use candle_rocm_runtime::hip::table::HipTable;
use candle_rocm_runtime::hip::types::STREAM_PER_THREAD;
use candle_rocm_runtime::runtime::{self, RuntimeKind};
use candle_rocm_runtime::{Context, ErrorKind, LaunchConfig, PushKernelArg};
use candle_rocm_testing::process::is_child;
use candle_rocm_testing::stand_in::library;
use common::in_process;

/// Runs a body with the library at the path that `place` gives inside an empty folder.
fn with_library_at(test: &str, place: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join(place);
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    if !is_child() {
        std::os::unix::fs::symlink(library(), &target).unwrap();
    }
    let root = folder.path().to_str().unwrap().to_owned();
    let variables: Vec<(&str, String)> = variables
        .iter()
        .map(|(name, value)| (*name, value.replace("{folder}", &root)))
        .collect();
    let variables: Vec<(&str, &str)> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    in_process(test, &variables, body);
}

fn run_a_kernel() {
    let context = Context::new(0).unwrap();
    let stream = context.per_thread_stream();
    let function = common::probe(&context).load_function("saxpy").unwrap();
    let x = stream.clone_htod(&[1f32, 2., 3., 4., 5.]).unwrap();
    let mut y = stream.clone_htod(&[10f32; 5]).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&5u32).arg(&3f32).arg(&x).arg(&mut y);
    // SAFETY: the arguments are those of the kernel.
    unsafe { launch.launch(LaunchConfig::for_num_elems(5)) }.unwrap();
    assert_eq!(stream.clone_dtoh(&y).unwrap(), [13., 16., 19., 22., 25.]);
}

#[test]
fn the_named_library_is_used() {
    with_library_at(
        "the_named_library_is_used",
        "some/where/hip.so",
        &[
            ("CANDLE_ROCM_HIP_LIBRARY", "{folder}/some/where/hip.so"),
            ("CANDLE_ROCM_RUNTIME", "amd"),
        ],
        || {
            let runtime = runtime::current().unwrap();
            assert_eq!(runtime.kind(), RuntimeKind::Amd);
            assert!(runtime.library().ends_with("some/where/hip.so"));
            run_a_kernel();
            let context = Context::new(0).unwrap();
            assert!(!context.device().is_emulated());
            assert!(context.device().pool().is_caching());
            // The pool serves again from what was freed.
            let statistics = context.pool_statistics();
            assert_eq!((statistics.in_use, statistics.driver_allocations), (0, 1));
        },
    );
}

#[test]
fn rocm_path_is_searched_for_versioned_names() {
    for version in [".7", ".6", ""] {
        with_library_at(
            "rocm_path_is_searched_for_versioned_names",
            &format!("lib/libamdhip64.so{version}"),
            &[
                ("ROCM_PATH", "{folder}"),
                ("CANDLE_ROCM_HIP_LIBRARY", ""),
                ("CANDLE_ROCM_RUNTIME", ""),
            ],
            || {
                assert!(runtime::current()
                    .unwrap()
                    .library()
                    .contains("/lib/libamdhip64.so"));
                run_a_kernel();
            },
        );
    }
}

#[test]
fn wheels_of_the_active_environment_are_searched() {
    let place = "lib/python3.12/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7";
    with_library_at(
        "wheels_of_the_active_environment_are_searched",
        place,
        &[
            ("VIRTUAL_ENV", "{folder}"),
            ("ROCM_PATH", ""),
            ("HIP_PATH", ""),
            ("CANDLE_ROCM_HIP_LIBRARY", ""),
            ("CANDLE_ROCM_RUNTIME", ""),
        ],
        || {
            let library = runtime::current().unwrap().library();
            assert!(library.ends_with(place), "{library}");
            run_a_kernel();
        },
    );
}

/// Such a release ends the process when memory is allocated.
#[test]
fn a_release_that_ends_the_process_is_refused() {
    with_library_at(
        "a_release_that_ends_the_process_is_refused",
        "libamdhip64.so.7",
        &[
            ("CANDLE_ROCM_HIP_LIBRARY", "{folder}"),
            ("CANDLE_ROCM_RUNTIME", "amd"),
            ("ROCM_EMU_ARCH", "gfx1151,gfx1100"),
            ("ROCM_EMU_HIP_VERSION", "7.1.1"),
        ],
        || {
            let error = Context::new(0).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Runtime);
            for part in ["GPU 0", "gfx1151 needs ROCm 7.2 or later", "HIP 7.1.1"] {
                assert!(error.message().contains(part), "{part}: {error}");
            }
            // The card beside it is served.
            Context::new(1).unwrap();
            let machine = runtime::current().unwrap().machine();
            assert_eq!(machine.best(&["gfx11-generic"]), Some(1));
        },
    );
}

#[test]
fn a_threads_stream_outlives_it() {
    with_library_at(
        "a_threads_stream_outlives_it",
        "libamdhip64.so.7",
        &[
            ("CANDLE_ROCM_HIP_LIBRARY", "{folder}"),
            ("CANDLE_ROCM_RUNTIME", "amd"),
        ],
        || {
            let context = Context::new(0).unwrap();
            let stream = context.per_thread_stream();
            let handle = || stream.raw() as usize;
            let here = handle();
            assert_eq!((handle(), stream.cu_stream() as usize), (here, here));
            assert!(![0, STREAM_PER_THREAD as usize].contains(&here));
            let there = || std::thread::scope(|scope| scope.spawn(handle).join().unwrap());
            let first = there();
            assert_ne!(first, here);
            // The next thread takes the ended one's over.
            assert_eq!(there(), first);
        },
    );
}

#[test]
fn a_folder_may_be_named() {
    with_library_at(
        "a_folder_may_be_named",
        "libamdhip64.so.7",
        &[
            ("CANDLE_ROCM_HIP_LIBRARY", "{folder}"),
            ("CANDLE_ROCM_RUNTIME", "amd"),
        ],
        run_a_kernel,
    );
}

#[test]
fn the_loaders_path_is_searched() {
    with_library_at(
        "the_loaders_path_is_searched",
        "libamdhip64.so.6",
        &[
            ("LD_LIBRARY_PATH", "{folder}"),
            ("ROCM_PATH", "/nonexistent"),
            ("CANDLE_ROCM_HIP_LIBRARY", ""),
            ("CANDLE_ROCM_RUNTIME", "amd"),
        ],
        run_a_kernel,
    );
}

/// Compiles a C file to a library of HIP's name in this folder; in the child process it exists already.
fn stub(folder: &Path, source: &str) -> String {
    let (file, library) = (folder.join("stub.c"), folder.join("libamdhip64.so"));
    if !is_child() {
        std::fs::write(&file, source).unwrap();
        let compiler = ["cc", "clang", "clang-19"]
            .into_iter()
            .find(|name| which::which(name).is_ok())
            .expect("a C compiler");
        let status = Command::new(compiler)
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &file])
            .status()
            .unwrap();
        assert!(status.success());
    }
    library.to_str().unwrap().to_owned()
}

#[test]
fn a_library_without_a_device_says_so() {
    // HIP on a machine without a GPU: every function answers hipErrorNoDevice.
    let source: String = HipTable::SYMBOLS
        .iter()
        .filter(|(_, required)| *required)
        .map(|(name, _)| match *name {
            "hipGetErrorName" | "hipGetErrorString" => {
                format!("const char *{name}(int code) {{ return \"no device\"; }}\n")
            }
            name => format!("int {name}(void) {{ return 100; }}\n"),
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let library = stub(folder.path(), &source);
    in_process(
        "a_library_without_a_device_says_so",
        &[("CANDLE_ROCM_HIP_LIBRARY", &library)],
        || {
            let error = runtime::select(RuntimeKind::Amd).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::NoDevice, "{error}");
            let text = error.to_string();
            assert!(
                text.contains("libamdhip64.so was loaded, but finds no GPU"),
                "{text}"
            );
            assert!(text.contains("CANDLE_ROCM_RUNTIME=emulator"), "{text}");
        },
    );
}

#[test]
fn a_missing_symbol_is_named() {
    // A library that starts like HIP and then lacks most of it.
    let folder = tempfile::tempdir().unwrap();
    let library = stub(
        folder.path(),
        "int hipInit(unsigned f) { return 0; }\nint hipGetDeviceCount(int *n) { *n = 1; return 0; }\n",
    );
    in_process(
        "a_missing_symbol_is_named",
        &[("CANDLE_ROCM_HIP_LIBRARY", &library)],
        || {
            let error = runtime::select(RuntimeKind::Amd).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Runtime);
            let text = error.to_string();
            assert!(text.contains("no function hipSetDevice"), "{text}");
            assert!(text.contains("libamdhip64.so"), "{text}");
        },
    );
}

#[test]
fn a_file_that_is_no_library_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libamdhip64.so");
    std::fs::write(&file, "text").unwrap();
    in_process(
        "a_file_that_is_no_library_is_an_error",
        &[("CANDLE_ROCM_HIP_LIBRARY", file.to_str().unwrap())],
        || {
            let text = runtime::select(RuntimeKind::Amd).unwrap_err().to_string();
            assert!(
                text.contains("was not found") && text.contains("libamdhip64.so: "),
                "{text}"
            );
        },
    );
}
