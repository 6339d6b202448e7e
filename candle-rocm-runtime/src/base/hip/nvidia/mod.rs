//! The `nvidia` provider: HIP's functions over the CUDA driver, loaded when first needed.
//!
//! HIP has such a platform itself; this is as much of it as the runtime calls. Handles are CUDA's own, and so are
//! the numbers of errors, capture modes and function attributes, which HIP took over. Contexts are the devices'
//! primary ones, so that other libraries of the process that use CUDA share memory and streams with us.

mod driver;
mod functions;

use cuda::driver::sys;

use super::table::{HipTable, MissingSymbol};
use crate::base::error::{Error, ErrorKind, Result};
use functions::symbol;

/// The table of the CUDA driver's functions under HIP's names.
///
/// # Errors
/// No driver is installed; what to do is said.
pub fn load() -> Result<(HipTable, String)> {
    // SAFETY: loading libcuda runs the initialisers of NVIDIA's driver.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::new(
            ErrorKind::Runtime,
            "NVIDIA's driver was not found: no libcuda.so in the loader's search path. Install it, or choose another \
             runtime: CANDLE_ROCM_RUNTIME=amd or emulator",
        ));
    }
    // SAFETY: the functions below have HIP's signatures, under HIP's names, and are part of this program.
    let table = unsafe { HipTable::from_lookup(symbol) }.map_err(|MissingSymbol(name)| {
        Error::new(
            ErrorKind::Runtime,
            format!("the nvidia runtime has no function {name}"),
        )
    })?;
    Ok((table, "libcuda".to_owned()))
}
