//! What the C functions share: checking their arguments and launching.

use core::ffi::c_void;

use candle_rocm_runtime::{Error, Result, Stream};

/// An argument as a count.
pub(super) fn count(name: &str, value: i64) -> Result<u32> {
    u32::try_from(value)
        .ok()
        .filter(|&count| count <= i32::MAX as u32)
        .ok_or_else(|| Error::invalid(format!("{name} is {value}, and must be 0 to 2^31 - 1")))
}

/// A pointer as an address.
pub(super) fn address<T>(name: &str, pointer: *const T) -> Result<u64> {
    if pointer.is_null() {
        return Err(Error::invalid(format!("{name} is null")));
    }
    Ok(pointer as u64)
}

/// A pointer to blocks of `bytes` bytes, which the kernels read in words of the power of two that divides these, up to
/// 16 bytes.
pub(super) fn blocks<T>(name: &str, pointer: *const T, bytes: u64) -> Result<u64> {
    let at = address(name, pointer)?;
    let alignment = 1 << bytes.trailing_zeros().min(4);
    if at % alignment != 0 {
        return Err(Error::invalid(format!(
            "{name} is at {at:#x}, and blocks of {bytes} bytes start at a multiple of {alignment}"
        )));
    }
    Ok(at)
}

/// Launches a kernel with these arguments, each a variable, in the kernel's order.
macro_rules! launch {
    ($stream:expr, $module:expr, $name:expr, $grid:expr, $threads:expr, [$($argument:expr),* $(,)?]) => {{
        use candle_rocm_runtime::PushKernelArg as _;
        let function = $stream.context().kernel($module, $name)?;
        let mut builder = $stream.launch_builder(&function);
        $(builder.arg(&$argument);)*
        let config = candle_rocm_runtime::LaunchConfig {
            grid_dim: $grid,
            block_dim: ($threads, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are the kernel's, in number, order and type, which the kernels' contract test
        // holds; what the pointers point to is the promise of the C function's caller.
        unsafe { builder.launch(config) }.map(|_| ())
    }};
}
pub(super) use launch;

/// Runs the body of a C function on its stream.
///
/// # Safety
/// `stream` is a stream of the current GPU, or null.
pub(super) unsafe fn on_stream(
    function: &str,
    stream: *mut c_void,
    body: impl FnOnce(&Stream) -> Result<()>,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { candle_rocm_runtime::foreign::on_stream(function, stream, body) }
}
