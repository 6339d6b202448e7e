//! Graphs that go wrong on purpose (`ROCM_EMU_GRAPH_FAULT`): as the releases do for which each fault is known, and no
//! other way.

use std::ffi::c_void;
use std::ptr::null_mut;

use candle_rocm_testing::process::alone;
use rocm_emulator::hip::abi::types::*;
use rocm_emulator::hip::{abi, last_fault, Code};
use rocm_emulator::isa::Target;

#[macro_use]
mod hip_support;
use hip_support::*;

const COUNT: usize = 64;

/// Numbers on the GPU, a kernel that scales them, and a stream.
struct Numbers {
    function: hipFunction_t,
    numbers: *mut c_void,
    stream: hipStream_t,
}

impl Numbers {
    fn new() -> Self {
        let (mut module, mut function) = (null_mut(), null_mut());
        ok!(hipModuleLoadData(
            &mut module,
            code(Target::Gfx1100).as_ptr().cast()
        ));
        ok!(hipModuleGetFunction(
            &mut function,
            module,
            c"scale".as_ptr()
        ));
        Self {
            function,
            numbers: malloc(4 * COUNT),
            stream: stream(),
        }
    }

    fn scale(&self, factor: f32) {
        let (mut x, mut factor, mut count) = (self.numbers, factor, COUNT as i32);
        let mut arguments = [
            (&raw mut x).cast::<c_void>(),
            (&raw mut factor).cast(),
            (&raw mut count).cast(),
        ];
        ok!(hipModuleLaunchKernel(
            self.function,
            1,
            1,
            1,
            128,
            1,
            1,
            0,
            self.stream,
            arguments.as_mut_ptr(),
            null_mut()
        ));
    }

    fn set(&self, value: f32) {
        let host = [value; COUNT];
        ok!(hipMemcpyAsync(
            self.numbers,
            host.as_ptr().cast(),
            4 * COUNT,
            1,
            self.stream
        ));
    }

    /// The first number.
    fn first(&self) -> f32 {
        let bytes = download(self.numbers, 4);
        f32::from_le_bytes(bytes.try_into().unwrap())
    }

    /// A graph that doubles the numbers so many times.
    fn doubling(&self, times: usize) -> hipGraphExec_t {
        let (mut graph, mut exec) = (null_mut(), null_mut());
        ok!(hipStreamBeginCapture(self.stream, 2));
        (0..times).for_each(|_| self.scale(2.));
        ok!(hipStreamEndCapture(self.stream, &mut graph));
        ok!(hipGraphInstantiateWithFlags(&mut exec, graph, 0));
        exec
    }

    fn launch(&self, exec: hipGraphExec_t) -> f32 {
        ok!(hipGraphLaunch(exec, self.stream));
        ok!(hipStreamSynchronize(self.stream));
        self.first()
    }
}

/// What a graph of ten kernels makes of 3, by what set it, and one of two kernels, where 1 was there when it was made.
fn of_three(fault: &str, expected: [f32; 3]) {
    let _serial = device();
    let numbers = Numbers::new();
    numbers.set(1.);
    let long = numbers.doubling(10);
    numbers.set(3.);
    let by_copy = numbers.launch(long);
    numbers.set(1.);
    let long = numbers.doubling(10);
    numbers.scale(3.);
    let by_kernel = numbers.launch(long);
    numbers.set(1.);
    let short = numbers.doubling(2);
    numbers.set(3.);
    let found = [by_copy, by_kernel, numbers.launch(short)];
    assert_eq!(found, expected, "{fault}");
}

macro_rules! faults {
    ($($test:ident: $fault:literal, $expected:expr;)*) => {
        $(
            #[test]
            fn $test() {
                alone(stringify!($test), &[("ROCM_EMU_GRAPH_FAULT", $fault)], || of_three($fault, $expected));
            }
        )*
    };
}
faults! {
    graphs_are_right_without_a_fault: "", [3072., 3072., 12.];
    copies_are_not_seen: "stale-copies", [1024., 3072., 12.];
    copies_and_kernels_are_not_seen: "stale", [1024., 1024., 12.];
    a_kernel_is_left_out: "garbage", [1536., 1536., 12.];
    later_graphs_alone_are_wrong: "garbage:1", [3072., 1536., 12.];
}

/// A fault that makes no sense is an error, and a release is what it is set to.
#[test]
fn settings_that_make_no_sense_are_refused() {
    let test = "settings_that_make_no_sense_are_refused";
    alone(test, &[("ROCM_EMU_GRAPH_FAULT", "late")], || {
        fails!(NoDevice, hipInit(0));
        let fault = last_fault().unwrap();
        assert!(fault.contains("stale-copies, stale and garbage"), "{fault}");
    });
}

#[test]
fn hip_is_of_the_release_that_is_asked_for() {
    let test = "hip_is_of_the_release_that_is_asked_for";
    alone(test, &[("ROCM_EMU_HIP_VERSION", "7.2.4")], || {
        let mut version = 0;
        ok!(hipRuntimeGetVersion(&mut version));
        assert_eq!(version, 70_200_004);
    });
}
