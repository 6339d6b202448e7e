//! Checks of what C functions are given.

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
