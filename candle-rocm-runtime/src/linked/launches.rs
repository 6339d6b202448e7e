//! `<<<>>>`, and launches by address.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use super::errors;
use super::registry;
use crate::base::error::Result;
use crate::base::hip::types::{hipStream_t, STREAM_PER_THREAD};
use crate::foreign::current_device;
use crate::kernels::submit::{submit, LaunchConfig};
use crate::stream::context::Context;

/// CUDA's `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

impl Dim3 {
    fn axes(self) -> (u32, u32, u32) {
        (self.x, self.y, self.z)
    }
}

/// What stands between `<<<` and `>>>`.
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: hipStream_t,
}

thread_local! {
    /// Until the kernel's host function asks for them; several where an argument launches, too.
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// What stands between `<<<` and `>>>`, before the kernel's host function is called.
#[no_mangle]
pub extern "C" fn __hipPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: hipStream_t,
) -> c_int {
    CONFIGURATIONS.with_borrow_mut(|all| {
        all.push(Configuration {
            grid,
            block,
            shared,
            stream,
        });
    });
    0
}

/// The same for that function.
///
/// # Safety
/// The outputs are writable.
#[no_mangle]
pub unsafe extern "C" fn __hipPopCallConfiguration(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared: *mut usize,
    stream: *mut hipStream_t,
) -> c_int {
    let Some(last) = CONFIGURATIONS.with_borrow_mut(Vec::pop) else {
        let error = crate::Error::invalid("a kernel was called as a function, without <<<>>>");
        return errors::returned("__hipPopCallConfiguration", Err(error));
    };
    // SAFETY: the caller's promise.
    unsafe {
        *grid = last.grid;
        *block = last.block;
        *shared = last.shared;
        *stream = last.stream;
    }
    0
}

/// Gives the kernel at an address of host code to a stream of the current GPU.
///
/// # Safety
/// `arguments` point to live values, the kernel's in number, order and type, and the stream is one of the current GPU.
unsafe fn launch(
    kernel: *const c_void,
    config: (Dim3, Dim3, usize),
    arguments: *mut *mut c_void,
    stream: hipStream_t,
    cooperative: bool,
) -> c_int {
    let device = match current_device() {
        Ok(device) => device,
        Err(error) => return errors::launched(Err(error), None),
    };
    let (grid, block, shared) = config;
    let config = LaunchConfig {
        grid_dim: grid.axes(),
        block_dim: block.axes(),
        // More than any GPU has, where it does not fit: then the launch says so.
        shared_mem_bytes: u32::try_from(shared).unwrap_or(u32::MAX),
    };
    let give = || -> Result<()> {
        let function = registry::function(kernel, device)?;
        let context = Context::new(device.ordinal())?;
        // SAFETY: the caller's promise.
        let stream = unsafe { context.wrap_borrowed_stream(stream) };
        // SAFETY: the same.
        unsafe { submit(&stream, &function, config, arguments, cooperative) }
    };
    errors::launched(give(), Some(device))
}

macro_rules! launchers {
    ($($(#[$doc:meta])* $name:ident($stream:ident => $handle:expr, $cooperative:literal);)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As C++ calls it: the arguments are those of the kernel, and the stream is one of the current GPU.
            #[no_mangle]
            pub unsafe extern "C" fn $name(
                kernel: *const c_void,
                grid: Dim3,
                block: Dim3,
                arguments: *mut *mut c_void,
                shared: usize,
                $stream: hipStream_t,
            ) -> c_int {
                // SAFETY: the caller's promise.
                unsafe { launch(kernel, (grid, block, shared), arguments, $handle, $cooperative) }
            }
        )*
    };
}
launchers! {
    /// What a kernel's host function calls.
    hipLaunchKernel(stream => stream, false);
    /// The same in code for which no stream is the thread's own (`--default-stream per-thread`).
    hipLaunchKernel_spt(stream => if stream.is_null() { STREAM_PER_THREAD } else { stream }, false);
    /// A launch by address.
    cudaLaunchKernel(stream => stream, false);
    /// The same, of a grid whose workgroups may wait for each other.
    cudaLaunchCooperativeKernel(stream => stream, true);
}
