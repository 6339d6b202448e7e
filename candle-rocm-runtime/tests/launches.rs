//! Launches: every kind of argument, the limits, and what errors say.

mod common;

use std::sync::Arc;

use candle_rocm_runtime::{Context, DeviceRepr, ErrorKind, Image, LaunchConfig, PushKernelArg};
use common::{context, in_process, probe};
use half::f16;

const ONE: LaunchConfig = LaunchConfig {
    grid_dim: (1, 1, 1),
    block_dim: (64, 1, 1),
    shared_mem_bytes: 0,
};

#[test]
fn arguments_of_every_type_arrive() {
    #[repr(C)]
    struct Pair {
        first: i32,
        second: f64,
    }
    // SAFETY: plain data, laid out as the kernel's structure.
    unsafe impl DeviceRepr for Pair {}

    let context = context();
    let stream = context.default_stream();
    let function = probe(&context).load_function("every_type").unwrap();
    let mut out = stream.alloc_zeros::<u64>(15).unwrap();
    let half = f16::from_f32(0.5);
    let pair = Pair {
        first: -12,
        second: 1e300,
    };
    let mut launch = stream.launch_builder(&function);
    launch
        .arg(&mut out)
        .arg(&true)
        .arg(&-3i8)
        .arg(&200u8)
        .arg(&-300i16)
        .arg(&60_000u16)
        .arg(&-70_000i32)
        .arg(&4_000_000_000u32)
        .arg(&i64::MIN)
        .arg(&usize::MAX)
        .arg(&-1.5f32)
        .arg(&2.25f64)
        .arg(&half)
        .arg(&pair)
        .arg(&0usize);
    // SAFETY: the arguments are those of the kernel, which writes 15 numbers.
    unsafe { launch.launch(ONE) }.unwrap();
    let expected = [
        1,
        -3i64 as u64,
        200,
        -300i64 as u64,
        60_000,
        -70_000i64 as u64,
        4_000_000_000,
        i64::MIN as u64,
        u64::MAX,
        u64::from((-1.5f32).to_bits()),
        2.25f64.to_bits(),
        u64::from(f16::from_f32(0.5).to_bits()),
        -12i64 as u64,
        1e300f64.to_bits(),
        0,
    ];
    assert_eq!(stream.clone_dtoh(&out).unwrap(), expected);
}

#[test]
fn views_pass_their_own_address() {
    let context = context();
    let stream = context.default_stream();
    let function = probe(&context).load_function("saxpy").unwrap();
    let n = 1000u32;
    let x = stream
        .clone_htod(&(0..2 * n).map(|i| i as f32).collect::<Vec<_>>())
        .unwrap();
    let mut y = stream.clone_htod(&vec![1f32; 2 * n as usize]).unwrap();
    {
        let source = x.slice(n as usize..);
        let mut target = y.slice_mut(500..1500);
        let mut launch = stream.launch_builder(&function);
        launch.arg(&n).arg(&2f32).arg(&source).arg(&mut target);
        // SAFETY: the arguments are those of the kernel, with room for `n` elements each.
        unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }.unwrap();
    }
    let expected: Vec<f32> = (0..2 * n)
        .map(|i| match i {
            500..1500 => 1.0 + 2.0 * (n + i - 500) as f32,
            _ => 1.0,
        })
        .collect();
    assert_eq!(stream.clone_dtoh(&y).unwrap(), expected);
}

#[test]
fn an_empty_grid_does_nothing() {
    let context = context();
    let stream = context.default_stream();
    let function = probe(&context).load_function("increment").unwrap();
    let mut x = stream.alloc_zeros::<u32>(0).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&0u32).arg(&mut x);
    assert_eq!(LaunchConfig::for_num_elems(0).grid_dim.0, 0);
    // SAFETY: nothing runs.
    unsafe { launch.launch(LaunchConfig::for_num_elems(0)) }.unwrap();
    stream.synchronize().unwrap();
}

/// Of each launch the emulator executes the first and the last workgroup, and memory is pages that nothing has written.
fn of_two_workgroups(test: &str, body: fn(&Arc<Context>)) {
    let variables = [("ROCM_EMU_WORKGROUPS", "2"), ("ROCM_EMU_MEMORY", "20G")];
    in_process(test, &variables, || body(&context()));
}

/// Candle computes grids in 32 bits: of 2^32 elements none is left, of 1,024 more one workgroup.
#[test]
fn a_grid_that_wrapped_around_is_made_from_the_count() {
    of_two_workgroups(
        "a_grid_that_wrapped_around_is_made_from_the_count",
        |context| {
            let stream = context.default_stream();
            let module = context
                .load_module(Image::from(&candle_rocm_kernels::FILL))
                .unwrap();
            let function = module.load_function("copy2d_u8").unwrap();
            let columns = 1024u32;
            // Every row is copied from this one.
            let row = stream.clone_htod(&vec![7u8; columns as usize]).unwrap();
            for count in [1u64 << 32, (1 << 32) + 1024, 1 << 33] {
                let rows = (count / u64::from(columns)) as u32;
                // SAFETY: every bit pattern is a number.
                let mut copy = unsafe { stream.alloc::<u8>(count as usize) }.unwrap();
                let mut launch = stream.launch_builder(&function);
                launch.arg(&row).arg(&mut copy).arg(&rows).arg(&columns);
                launch.arg(&0u32).arg(&columns);
                // SAFETY: the kernel's arguments; a row is read, and there is room for the copy's elements.
                unsafe { launch.launch(LaunchConfig::for_num_elems(count as u32)) }.unwrap();
                // A vector of 16 bytes for each work-item of the grid, of which each has four.
                let workgroups = count.div_ceil(4 * 256 * 16);
                let period = workgroups * 256 * 16;
                // Where the first workgroup begins anew, and where the last one ends.
                let place = ((count - 1) / period * period) as usize;
                for place in [0, place - 256, place] {
                    let found = stream.clone_dtoh(&copy.slice(place..place + 256)).unwrap();
                    assert_eq!(found, [7; 256], "{count} elements, at {place}");
                }
            }
        },
    );
}

#[test]
fn an_empty_grid_for_a_buffer_that_32_bits_do_not_count_is_refused() {
    of_two_workgroups(
        "an_empty_grid_for_a_buffer_that_32_bits_do_not_count_is_refused",
        |context| {
            let stream = context.default_stream();
            let function = probe(context).load_function("increment").unwrap();
            // SAFETY: every bit pattern is a number.
            let mut x = unsafe { stream.alloc::<u8>(1 << 32) }.unwrap();
            let config = LaunchConfig::for_num_elems(x.len() as u32);
            let mut launch = stream.launch_builder(&function);
            launch.arg(&0u32).arg(&mut x);
            // SAFETY: nothing runs.
            let error = unsafe { launch.launch(config) }.unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::LaunchLimit, "{error}");
            let text = error.to_string();
            assert!(
                text.contains("`increment`") && text.contains("4294967296"),
                "{text}"
            );
        },
    );
}

#[test]
fn limits_are_checked_and_named() {
    let context = context();
    let stream = context.default_stream();
    let module = probe(&context);
    let mut x = stream.alloc_zeros::<u32>(4096).unwrap();
    let mut refused = |kernel: &str, config: LaunchConfig| {
        let function = module.load_function(kernel).unwrap();
        let mut launch = stream.launch_builder(&function);
        launch.arg(&0u32).arg(&mut x);
        // SAFETY: refused before anything runs.
        let error = unsafe { launch.launch(config) }.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::LaunchLimit, "{error}");
        assert!(
            error.to_string().contains(&format!("`{kernel}`")),
            "{error}"
        );
        error.to_string()
    };
    let with = |grid_dim, block_dim, shared_mem_bytes| LaunchConfig {
        grid_dim,
        block_dim,
        shared_mem_bytes,
    };
    let text = refused("increment", with((1, 1, 1), (1025, 1, 1), 0));
    assert!(text.contains("1024 work-items in x"), "{text}");
    let text = refused("increment", with((1, 1, 1), (64, 64, 1), 0));
    assert!(text.contains("workgroups of 1024"), "{text}");
    let text = refused("increment", with((1, 1, 1), (0, 1, 1), 0));
    assert!(text.contains("at least one work-item"), "{text}");
    let text = refused("increment", with((1, 100_000, 1), (1, 1, 1), 0));
    assert!(text.contains("workgroups in y"), "{text}");
    let text = refused("increment", with((1 << 30, 1, 1), (1024, 1, 1), 0));
    assert!(text.contains("2^32"), "{text}");
    let text = refused("increment", with((1, 1, 1), (64, 1, 1), 65 << 10));
    assert!(text.contains("66560 bytes of LDS"), "{text}");
    let text = refused("small_groups", with((1, 1, 1), (65, 1, 1), 0));
    assert!(
        text.contains("compiled for workgroups of at most 64"),
        "{text}"
    );
}

#[test]
fn modules_say_what_they_lack() {
    let context = context();
    let module = probe(&context);
    let error = module.load_function("nonexistent").unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::KernelNotFound);
    assert!(error.to_string().contains("`nonexistent`"), "{error}");
    assert!(module.load_function("a\0b").is_err());

    let ptx = ".version 8.0\n.target sm_80\n";
    let error = context.load_module(Image::from(ptx)).unwrap_err();
    assert!(
        error.to_string().contains("PTX") && error.to_string().contains("nvrtc::compile_ptx"),
        "{error}"
    );
    for bytes in [&b""[..], b"not code", b"\x7fELF and then nothing"] {
        let error = context.load_module(Image::from(bytes)).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Module, "{error}");
    }
    parts_of_an_image_are_refused(&context);
    let error = context
        .load_module(Image::from_file("/nonexistent.hsaco"))
        .unwrap_err();
    assert!(error.to_string().contains("/nonexistent.hsaco"), "{error}");
    let other = if context.info().arch == "gfx942" {
        "gfx1100"
    } else {
        "gfx942"
    };
    in_process_code(&context, other);
    let source = "__global__ void f() {}";
    let error = context.load_module(Image::from(source)).unwrap_err();
    assert!(
        error.to_string().contains("text without code objects"),
        "{error}"
    );
}

/// A code object or a bundle that ends too early is refused, wherever it ends, before HIP follows its headers.
fn parts_of_an_image_are_refused(context: &Arc<Context>) {
    let code = common::probe_code(&context.info().arch);
    let bundle = [
        &b"__CLANG_OFFLOAD_BUNDLE__"[..],
        &1u64.to_le_bytes(),
        &4096u64.to_le_bytes(),
        &(code.len() as u64).to_le_bytes(),
        &4u64.to_le_bytes(),
        b"host",
    ];
    let mut bundle = bundle.concat();
    bundle.resize(4096, 0);
    bundle.extend(&code);
    // Of a compressed one: version 2, a method, and how long it is.
    let compressed = [&b"CCOB\x02\0\x01\0"[..], &100u32.to_le_bytes(), &[0; 80]].concat();
    for image in [&code, &bundle, &compressed] {
        let lengths = (5..64).chain((64..image.len()).step_by(image.len() / 50 + 1));
        for length in lengths.filter(|&length| length < image.len()) {
            let part = Image::from(&image[..length]);
            let error = context.load_module(part).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Module, "{length}: {error}");
        }
    }
}

/// Code of another architecture is refused.
fn in_process_code(context: &std::sync::Arc<candle_rocm_runtime::Context>, arch: &str) {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("other.hsaco");
    std::fs::write(&object, common::probe_code(arch)).unwrap();
    let error = context.load_module(Image::from_file(&object)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Module);
    assert!(error.to_string().contains(&context.info().arch), "{error}");
}

#[test]
fn globals_can_be_read_and_written() {
    let context = context();
    let stream = context.default_stream();
    let module = probe(&context);
    let mut symbol = module.get_global("answer", &stream).unwrap();
    assert_eq!(
        stream.clone_dtoh(&symbol.as_view()).unwrap(),
        42i32.to_le_bytes()
    );
    stream
        .memcpy_htod(&43i32.to_le_bytes(), &mut symbol)
        .unwrap();
    let function = module.load_function("read_answer").unwrap();
    let mut out = stream.alloc_zeros::<i32>(1).unwrap();
    // SAFETY: the argument is that of the kernel.
    unsafe {
        stream
            .launch_builder(&function)
            .arg(&mut out)
            .launch(LaunchConfig {
                block_dim: (1, 1, 1),
                ..ONE
            })
    }
    .unwrap();
    assert_eq!(stream.clone_dtoh(&out).unwrap(), [43]);
    assert!(module.get_global("no_such", &stream).is_err());
}

/// A kernel that is stopped ends the work of its GPU, at the latest where that is waited for, with this error of HIP's.
fn stops(context: &Arc<Context>, kernel: &str, count: u32, error: &str) {
    let stream = context.default_stream();
    let function = probe(context).load_function(kernel).unwrap();
    let mut x = stream.alloc_zeros::<u32>(100).unwrap();
    let mut launch = stream.launch_builder(&function);
    if count != 0 {
        launch.arg(&count).arg(&mut x);
    }
    // SAFETY: the kernel is stopped before it changes another's memory.
    let launched = unsafe { launch.launch(LaunchConfig::for_num_elems(count.max(1))) };
    let stopped = launched.map(drop).and_then(|()| stream.synchronize());
    let text = stopped.unwrap_err().to_string();
    assert!(text.contains(error), "{text}");
    // It stays.
    let text = stream.clone_dtoh(&x).unwrap_err().to_string();
    assert!(text.contains(error), "{text}");
}

#[test]
fn memory_that_is_nobodys_is_an_illegal_address() {
    in_process("memory_that_is_nobodys_is_an_illegal_address", &[], || {
        // AMD's HIP shares 2 MiB out among small buffers: 64 MiB further there is nothing.
        stops(&context(), "increment", 16 << 20, "hipErrorIllegalAddress");
    });
}

#[test]
fn a_trap_is_a_launch_failure() {
    in_process("a_trap_is_a_launch_failure", &[], || {
        stops(&context(), "trap", 0, "hipErrorLaunchFailure");
    });
}

#[test]
fn one_element_too_many_is_caught() {
    in_process("one_element_too_many_is_caught", &[], || {
        let context = context();
        let stream = context.default_stream();
        let function = probe(&context).load_function("increment_too_many").unwrap();
        // A block of this size was free before: the emulator must still see the end of this one.
        drop(stream.alloc_zeros::<u32>(100).unwrap());
        let mut x = stream.alloc_zeros::<u32>(100).unwrap();
        let mut launch = stream.launch_builder(&function);
        launch.arg(&100u32).arg(&mut x);
        // SAFETY: the kernel writes beyond its memory, which the emulator catches.
        let launched = unsafe { launch.launch(LaunchConfig::for_num_elems(101)) };
        let error = launched
            .map(drop)
            .and_then(|()| stream.synchronize())
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("increment_too_many"), "{text}");
        println!("{text}");
    });
}

#[test]
fn an_error_in_a_c_function_is_that_of_the_next_call() {
    let context = context();
    let stream = context.default_stream();
    stream.context().bind_to_thread().unwrap();
    in_process(
        "an_error_in_a_c_function_is_that_of_the_next_call",
        &[],
        || {
            let fails = |_: &candle_rocm_runtime::Stream| {
                Err(candle_rocm_runtime::Error::invalid("rows is -1"))
            };
            // SAFETY: null is the default stream.
            let done = unsafe {
                candle_rocm_runtime::foreign::on_stream(
                    "launch_something",
                    std::ptr::null_mut(),
                    fails,
                )
            };
            assert!(!done);
            let error = stream.synchronize().unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::InvalidArgument);
            for part in ["`launch_something`", "rows is -1"] {
                assert!(error.to_string().contains(part), "{error}");
            }
            // Told once; the device goes on.
            stream.synchronize().unwrap();
        },
    );
}

#[test]
fn launches_can_be_timed() {
    use candle_rocm_runtime::cuda_names::CUevent_flags;
    let context = context();
    let stream = context.default_stream();
    let function = probe(&context).load_function("increment").unwrap();
    let mut x = stream.alloc_zeros::<u32>(5000).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch
        .record_kernel_launch(CUevent_flags::CU_EVENT_DEFAULT)
        .arg(&5000u32)
        .arg(&mut x);
    // SAFETY: the arguments are those of the kernel.
    let (start, end) = unsafe { launch.launch(LaunchConfig::for_num_elems(5000)) }
        .unwrap()
        .unwrap();
    assert!(start.elapsed_ms(&end).unwrap() >= 0.0);
    assert_eq!(stream.clone_dtoh(&x).unwrap(), [1; 5000]);
}
