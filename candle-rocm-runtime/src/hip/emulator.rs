//! The `emulator` provider: an AMD GPU in software, in this process.

use super::table::HipTable;
use crate::error::{Error, ErrorKind, Result};

/// The table of the emulator's functions.
pub fn table() -> Result<HipTable> {
    Err(Error::new(
        ErrorKind::Runtime,
        "the emulator cannot be reached in this build",
    ))
}
