//! The `amd` provider: AMD's own HIP library, loaded when first needed.

use super::table::{HipTable, MissingSymbol};
use crate::base::dynamic_library::{symbol, Found, Search};
use crate::base::error::{Error, ErrorKind, Result};

/// The variable that names the library to load, and the only place then looked at.
pub const LIBRARY_VARIABLE: &str = candle_rocm_variables::HIP_LIBRARY.name;

const SEARCH: Search = Search {
    variable: LIBRARY_VARIABLE,
    roots: &[],
    rocm: &["lib"],
    folders: &[],
    // Newest interface first. The unversioned name exists where the development package is installed.
    names: &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"],
};

/// Loads the library and fills the table. Returns where it was found as well.
pub fn load() -> Result<(HipTable, String)> {
    let Found { library, path } = SEARCH.load().map_err(|tried| {
        Error::new(
            ErrorKind::Runtime,
            format!(
                "AMD's HIP library was not found. Install ROCm, or set ROCM_PATH to where it is, or activate the Python \
                 environment of its wheels, or set {LIBRARY_VARIABLE} to the library itself. {}. {tried}",
                super::without_gpu()
            ),
        )
    })?;
    // SAFETY: the library presents itself as libamdhip64, whose functions have these signatures, and it
    // is never unloaded.
    let table = unsafe { HipTable::from_lookup(|name| symbol(library, name)) };
    let table = table.map_err(|MissingSymbol(symbol)| {
        Error::new(
            ErrorKind::Runtime,
            format!(
                "{path} is not a HIP runtime that candle-rocm can use: it has no function {symbol} (ROCm 6 or later is \
                 needed)"
            ),
        )
    })?;
    Ok((table, path))
}
