//! The checks as HIP's programs meet them: chosen by the environment, and a finding is a launch that failed.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Once;

use candle_rocm_testing::hip::{compile, Compile};
use rocm_emulator::hip::{abi, last_fault, Code};

#[macro_use]
mod hip_support;
use hip_support::{device, download, malloc};

const SOURCE: &str = r#"
#include "hip_min.h"
extern "C" __global__ void add_one(const int *in, int *out) { out[threadIdx_x] = in[threadIdx_x] + 1; }
"#;
const BYTES: usize = 4 * 64;

fn launch(function: *mut c_void, mut from: *mut c_void, mut to: *mut c_void) -> u32 {
    let mut parameters = [(&raw mut from).cast::<c_void>(), (&raw mut to).cast()];
    // SAFETY: the kernel takes these two pointers.
    unsafe {
        abi::hipModuleLaunchKernel(
            function.cast(),
            1,
            1,
            1,
            64,
            1,
            1,
            0,
            null_mut(),
            parameters.as_mut_ptr(),
            null_mut(),
        )
    }
}

#[test]
fn a_finding_ends_the_launch() {
    static ENVIRONMENT: Once = Once::new();
    ENVIRONMENT.call_once(|| std::env::set_var("ROCM_EMU_CHECK", "races, uninitialised,waits"));
    let _serial = device();
    let code = compile(SOURCE, &Compile::device("gfx1100"));
    for written in [true, false] {
        let (mut module, mut function) = (null_mut(), null_mut());
        ok!(hipModuleLoadData(&mut module, code.as_ptr().cast()));
        ok!(hipModuleGetFunction(
            &mut function,
            module,
            c"add_one".as_ptr()
        ));
        let (from, to) = (malloc(BYTES), malloc(BYTES));
        if written {
            ok!(hipMemset(from, 1, BYTES));
        }
        let status = launch(function.cast(), from, to);
        if written {
            assert_eq!(status, 0, "{:?}", last_fault());
            assert_eq!(download(to, 4), 0x0101_0102u32.to_le_bytes());
            continue;
        }
        assert_eq!(status, Code::LaunchFailure as u32);
        let text = last_fault().expect("the launch failed");
        for word in [
            "kernel add_one",
            "check uninitialised",
            "computed",
            "pc +0x",
            "wave 0",
            "lane 0",
        ] {
            assert!(text.contains(word), "{word:?} in {text}");
        }
        fails!(LaunchFailure, hipDeviceSynchronize());
        ok!(hipDeviceReset());
    }
}
