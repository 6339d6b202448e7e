//! The `emulator` provider: an AMD GPU in software, in this process.

use super::table::{HipTable, MissingSymbol};
use crate::base::error::{Error, ErrorKind, Result};

/// The table of the emulator's functions.
pub fn table() -> Result<HipTable> {
    // SAFETY: the emulator's functions have HIP's signatures, under HIP's names, and are part of this
    // program.
    unsafe { HipTable::from_lookup(rocm_emulator::hip::abi::symbol) }.map_err(
        |MissingSymbol(name)| {
            Error::new(
                ErrorKind::Runtime,
                format!("the emulator has no function {name}"),
            )
        },
    )
}
