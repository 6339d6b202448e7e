//! Checks of what C functions are given, and launches with arguments that passed them.

use crate::base::error::{Error, Result};

/// An argument as a count.
pub(super) fn count(name: &str, value: impl Into<i64>) -> Result<u32> {
    let value = value.into();
    u32::try_from(value)
        .ok()
        .filter(|&count| count <= i32::MAX as u32)
        .ok_or_else(|| Error::invalid(format!("{name} is {value}, and must be 0 to 2^31 - 1")))
}

/// An address that is not null.
pub(super) fn address(name: &str, address: u64) -> Result<u64> {
    if address == 0 {
        return Err(Error::invalid(format!("{name} is null")));
    }
    Ok(address)
}

/// The address of blocks of `bytes` bytes, which the kernels read in words of the power of two that divides these, up to
/// 16 bytes.
pub(super) fn blocks(name: &str, blocks: u64, bytes: u32) -> Result<u64> {
    let at = address(name, blocks)?;
    let alignment = 1 << bytes.trailing_zeros().min(4);
    if at % alignment != 0 {
        return Err(Error::invalid(format!(
            "{name} is at {at:#x}, and blocks of {bytes} bytes start at a multiple of {alignment}"
        )));
    }
    Ok(at)
}

/// Launches a kernel with these arguments, each a variable, in the kernel's order. To be called in an `unsafe` block: the
/// arguments are the kernel's, in number, order and type, and what the addresses name is memory that it may read and write.
macro_rules! launch {
    ($stream:expr, $module:expr, $name:expr, $grid:expr, $threads:expr, [$($argument:expr),* $(,)?]) => {{
        use crate::kernels::launch::PushKernelArg as _;
        let function = $stream.context().kernel($module, $name)?;
        let mut builder = $stream.launch_builder(&function);
        $(builder.arg(&$argument);)*
        let config = crate::kernels::submit::LaunchConfig {
            grid_dim: $grid,
            block_dim: ($threads, 1, 1),
            shared_mem_bytes: 0,
        };
        builder.launch(config).map(drop)
    }};
}
pub(super) use launch;
