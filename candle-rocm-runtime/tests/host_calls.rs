//! What an operator costs the host, in calls of HIP: `candle_rocm_testing::no_gpu` counts them in libamdhip64's place. And
//! in allocations, which this program counts.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use candle_rocm_runtime::gemm::{gemm_strided_batched, GemmDtype, GemmProblem, Transpose};
use candle_rocm_runtime::{
    Context, DeviceBuffer, Function, LaunchConfig, Module, PushKernelArg, Stream,
};
use candle_rocm_testing::needs::{self, Need};
use candle_rocm_testing::no_gpu::{self, HipCalls};
use common::{in_process, no_code};

/// The system's allocator, and how often each thread asked it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending counts no more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, and it came from there.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread while a body runs.
fn allocations(body: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    body();
    ALLOCATIONS.get() - before
}

/// Runs a body on the GPU that is not there.
fn without_a_gpu(test: &str, body: impl FnOnce(&HipCalls, &Arc<Context>, &Arc<Module>)) {
    let folder = tempfile::tempdir().unwrap();
    const LIBRARY: &str = "CANDLE_ROCM_HIP_LIBRARY";
    let path = no_gpu::library(folder.path());
    in_process(
        test,
        &[
            ("CANDLE_ROCM_RUNTIME", "amd"),
            ("CANDLE_ROCM_POOL", ""),
            (LIBRARY, path.to_str().unwrap()),
        ],
        || {
            let calls = HipCalls::of(&std::env::var(LIBRARY).unwrap());
            let context = Context::new(0).unwrap();
            let module = context.load_module(no_code()).unwrap();
            body(&calls, &context, &module);
        },
    );
}

/// What Candle does for an operator of one operand: find the kernel, allocate the result, launch.
fn operator(
    stream: &Arc<Stream>,
    module: &Arc<Module>,
    x: &DeviceBuffer<f32>,
) -> DeviceBuffer<f32> {
    let function = module.load_function("affine_f32").unwrap();
    // SAFETY: nothing reads it.
    let y = unsafe { stream.alloc::<f32>(x.len()) }.unwrap();
    let (count, dims, layout) = (x.len(), 1usize, 0usize);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&count).arg(&dims).arg(&layout).arg(x).arg(&y);
    launch.arg(&2f32).arg(&1f32);
    // SAFETY: there is no GPU that could access memory.
    unsafe { launch.launch(LaunchConfig::for_num_elems(64)) }.unwrap();
    y
}

fn chain(stream: &Arc<Stream>, module: &Arc<Module>, length: usize) {
    // SAFETY: nothing reads it.
    let mut x = unsafe { stream.alloc::<f32>(64) }.unwrap();
    for _ in 0..length {
        x = operator(stream, module, &x);
    }
}

fn expected(calls: &[(&str, u64)]) -> BTreeMap<String, u64> {
    calls
        .iter()
        .map(|&(name, calls)| (name.to_owned(), calls))
        .collect()
}

#[test]
fn an_operator_on_one_stream_is_a_launch() {
    without_a_gpu(
        "an_operator_on_one_stream_is_a_launch",
        |calls, context, module| {
            let stream = context.per_thread_stream();
            chain(&stream, module, 3);
            let counted = calls.during(|| chain(&stream, module, 1000));
            // Each launch makes the GPU current, which is a thread-local of HIP's.
            assert_eq!(
                counted,
                expected(&[("hipModuleLaunchKernel", 1000), ("hipSetDevice", 1000)])
            );
        },
    );
}

/// What Candle does for an operator on a tensor that is not contiguous, beyond [`operator`].
fn strided(stream: &Arc<Stream>, function: &Function, n: usize) {
    // SAFETY: nothing reads it.
    let x = unsafe { stream.alloc::<f32>(64) }.unwrap();
    let layout = stream.clone_htod(&[n, 4, 1, 4]).unwrap();
    let (count, dims) = (x.len(), 2usize);
    let mut launch = stream.launch_builder(function);
    launch.arg(&count).arg(&dims).arg(&layout).arg(&x).arg(&x);
    launch.arg(&2f32).arg(&1f32);
    // SAFETY: there is no GPU that could access memory.
    unsafe { launch.launch(LaunchConfig::for_num_elems(64)) }.unwrap();
}

#[test]
fn dimensions_that_our_kernels_read_are_copied_once() {
    without_a_gpu(
        "dimensions_that_our_kernels_read_are_copied_once",
        |calls, context, module| {
            let copies = |stream: &Arc<Stream>, function: &Function| {
                let counted =
                    calls.during(|| (0..1000).for_each(|i| strided(stream, function, i % 4)));
                counted.get("hipMemcpyAsync").copied().unwrap_or(0)
            };
            let stream = context.per_thread_stream();
            // Of another's kernel nobody knows what it writes.
            let foreign = module.load_function("affine_f32").unwrap();
            assert_eq!(copies(&stream, &foreign), 1000);
            let there = candle_rocm_kernels::serves("gfx1100");
            if !needs::holds(
                Need::Architecture("gfx1100"),
                there,
                "no kernels for gfx1100",
            ) {
                return;
            }
            let ours = context
                .kernel(&candle_rocm_kernels::AFFINE, "affine_f32")
                .unwrap();
            assert_eq!(copies(&stream, &ours), 4);
            assert_eq!(copies(&stream, &ours), 0);
            // Another stream has its own, and so does whoever holds one.
            let other = context.new_stream().unwrap();
            assert_eq!(copies(&other, &ours), 4);
            let held = stream.clone_htod(&[0usize, 4, 1, 4]).unwrap();
            assert_eq!(copies(&stream, &ours), 250);
            drop(held);
            // Whoever has the address may write there.
            let written = stream.clone_htod(&[1usize, 4, 1, 4]).unwrap();
            let _ = written.slice(1..);
            drop(written);
            assert_eq!(copies(&stream, &ours), 1);
        },
    );
}

#[test]
fn with_a_second_stream_uses_are_noted_by_events() {
    without_a_gpu(
        "with_a_second_stream_uses_are_noted_by_events",
        |calls, context, module| {
            let stream = context.new_stream().unwrap();
            chain(&stream, module, 3);
            let counted = calls.during(|| chain(&stream, module, 1000));
            assert_eq!(counted["hipModuleLaunchKernel"], 1000);
            // As many as the buffers have uses, and no more: x is read, y is passed as if read.
            println!("{counted:?}");
            assert!(counted["hipEventRecord"] <= 2000, "{counted:?}");
            assert!(!counted.contains_key("hipMalloc"), "{counted:?}");
        },
    );
}

/// Names are formatted in memory: without an allocation no kernel is looked for.
#[test]
fn a_second_product_of_a_shape_plans_nothing() {
    without_a_gpu(
        "a_second_product_of_a_shape_plans_nothing",
        |calls, context, _| {
            let there = candle_rocm_kernels::serves("gfx1100");
            let needed = Need::Architecture("gfx1100");
            if !needs::holds(needed, there, "no kernels for gfx1100") {
                return;
            }
            let stream = context.per_thread_stream();
            let multiply = |sizes, at: u64| {
                let problem = GemmProblem::packed(
                    GemmDtype::F16,
                    [Transpose::Yes, Transpose::No],
                    sizes,
                    [at, at + (1 << 30), at + (2 << 30)],
                );
                // SAFETY: there is no GPU that could access memory.
                unsafe { gemm_strided_batched(&stream, &problem) }.unwrap();
            };
            // Few columns, a tile, and several of them with k in parts.
            for sizes in [[2048, 1, 2048], [64, 64, 64], [64, 64, 8192]] {
                assert!(allocations(|| multiply(sizes, 1 << 40)) > 0, "{sizes:?}");
                let launches = |body: &dyn Fn()| calls.during(body)["hipModuleLaunchKernel"];
                let of_one = launches(&|| multiply(sizes, 1 << 41));
                let counted = Cell::new(0);
                let of_all = launches(&|| {
                    counted.set(allocations(|| {
                        for turn in 0..100 {
                            multiply(sizes, (1 << 42) + 512 * turn);
                        }
                    }));
                });
                assert_eq!((counted.get(), of_all), (0, 100 * of_one), "{sizes:?}");
            }
        },
    );
}
