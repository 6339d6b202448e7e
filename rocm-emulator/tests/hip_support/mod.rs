//! What the tests of HIP's C functions share: calls that must succeed or fail, one test at a time on two devices.
#![allow(dead_code)] // not every test uses all of it

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, OnceLock};

use candle_rocm_testing::hip::{compile, Compile};
use rocm_emulator::hip::abi::types::*;
use rocm_emulator::hip::{abi, last_fault};
use rocm_emulator::isa::Target;

/// Call a function and expect success.
macro_rules! ok {
    ($name:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: the test's pointers are valid for what they are passed for.
        let status = unsafe { abi::$name($($arg),*) };
        assert_eq!(status, 0, "{}: {:?}", stringify!($name), last_fault());
    }};
}

/// Call a function and expect a failure.
#[allow(unused_macros)] // nor all of these
macro_rules! fails {
    ($code:ident, $name:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: as in `ok!`; what is wrong on purpose is what the function must check.
        let status = unsafe { abi::$name($($arg),*) };
        assert_eq!(status, Code::$code as u32, "{}: {:?}", stringify!($name), last_fault());
        // SAFETY: takes no pointers.
        assert_eq!(unsafe { abi::hipGetLastError() }, if Code::$code == Code::NotReady { 0 } else { status });
    }};
}

/// One test at a time, on device 0 of a gfx1100 and a gfx942.
pub fn device() -> MutexGuard<'static, ()> {
    static SERIAL: Mutex<()> = Mutex::new(());
    static ENVIRONMENT: OnceLock<()> = OnceLock::new();
    let guard = SERIAL
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    ENVIRONMENT.get_or_init(|| {
        std::env::set_var("ROCM_EMU_ARCH", "gfx1100,gfx942:sramecc+:xnack-");
        std::env::set_var("ROCM_EMU_MEMORY", "1G");
    });
    ok!(hipSetDevice(0));
    guard
}

pub fn malloc(bytes: usize) -> *mut c_void {
    let mut pointer = null_mut();
    ok!(hipMalloc(&mut pointer, bytes));
    pointer
}

pub fn stream() -> hipStream_t {
    let mut stream = null_mut();
    ok!(hipStreamCreate(&mut stream));
    stream
}

pub fn event() -> hipEvent_t {
    let mut event = null_mut();
    ok!(hipEventCreate(&mut event));
    event
}

pub fn download(pointer: *const c_void, bytes: usize) -> Vec<u8> {
    let mut host = vec![0u8; bytes];
    ok!(hipMemcpy(host.as_mut_ptr().cast(), pointer, bytes, 2));
    host
}

pub fn at(pointer: *mut c_void, offset: usize) -> *mut c_void {
    pointer.wrapping_byte_add(offset)
}

pub fn string(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text
        .iter()
        .map(|&c| c as u8)
        .take_while(|&c| c != 0)
        .collect();
    String::from_utf8(bytes).unwrap()
}

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`.
pub const BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);

pub const BAD: *mut c_void = 0xdead_0000 as *mut c_void;

pub const MODULE: &str = r#"
#include "hip_min.h"
__device__ int counter[4] = {1, 2, 3, 4};
extern "C" __global__ __launch_bounds__(128) void scale(float *x, float a, int n) {
    __shared__ float lds[1024];
    int i = blockIdx_x * blockDim_x + threadIdx_x;
    lds[threadIdx_x] = a;
    __builtin_amdgcn_s_barrier();
    if (i < n) x[i] *= lds[127 - threadIdx_x] + counter[0] - 1;
}
"#;

pub fn code(target: Target) -> Vec<u8> {
    compile(MODULE, &Compile::device(target.name()))
}
