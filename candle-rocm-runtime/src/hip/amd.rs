//! The `amd` provider: AMD's own HIP library, loaded when first needed.

use std::ffi::{c_void, OsString};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use libloading::Library;

use super::table::{HipTable, MissingSymbol};
use crate::error::{Error, ErrorKind, Result};

/// Names of the library, newest interface first. The unversioned name exists where the development
/// package is installed.
const NAMES: [&str; 3] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"];

/// The variable that names the library to load, and the only place then looked at.
pub const LIBRARY_VARIABLE: &str = "CANDLE_ROCM_HIP_LIBRARY";

/// Where the library is looked for, in order.
fn candidates() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE).filter(|p| !p.is_empty()) {
        let path = PathBuf::from(path);
        return if path.is_dir() {
            NAMES.iter().map(|name| path.join(name)).collect()
        } else {
            vec![path]
        };
    }
    let rocm = |root: OsString| Path::new(&root).join("lib");
    let folders = std::env::var_os("ROCM_PATH")
        .filter(|p| !p.is_empty())
        .map(rocm)
        .into_iter()
        .chain([PathBuf::from("/opt/rocm/lib")])
        // A bare name goes through the loader's own search (LD_LIBRARY_PATH, ld.so.cache).
        .chain([PathBuf::new()]);
    folders
        .flat_map(|folder| NAMES.iter().map(move |name| folder.join(name)))
        .collect()
}

/// Loads the library and fills the table. Returns where it was found as well.
pub fn load() -> Result<(HipTable, String)> {
    let mut tried = Vec::new();
    for path in candidates() {
        // SAFETY: loading runs the initialisers of AMD's runtime, or of the library that the user named.
        match unsafe { Library::new(&path) } {
            Ok(library) => {
                // HIP keeps threads and per-process state: it must never be unloaded.
                let library: &'static Library = Box::leak(Box::new(library));
                let name = path.display().to_string();
                let table = table_of(library).map_err(|MissingSymbol(symbol)| {
                    Error::new(
                        ErrorKind::Runtime,
                        format!(
                            "{name} is not a HIP runtime that candle-rocm can use: it has no function {symbol} \
                             (ROCm 6 or later is needed)"
                        ),
                    )
                })?;
                return Ok((table, name));
            }
            Err(error) => tried.push(format!("  {}: {}", path.display(), cause(&error))),
        }
    }
    Err(Error::new(
        ErrorKind::Runtime,
        format!(
            "AMD's HIP library was not found. Install ROCm, or set ROCM_PATH to where it is, or {LIBRARY_VARIABLE} to \
             the library itself. CANDLE_ROCM_RUNTIME=emulator runs on the emulated GPU. Tried:\n{}",
            tried.join("\n")
        ),
    ))
}

/// The loader's reason; `libloading` keeps it in the source of its error.
fn cause(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error
        .source()
        .map_or_else(|| error.to_string(), |source| source.to_string())
}

fn table_of(library: &'static Library) -> Result<HipTable, MissingSymbol> {
    // SAFETY: the library presents itself as libamdhip64, whose functions have these signatures, and it
    // is never unloaded.
    unsafe {
        HipTable::from_lookup(|name| {
            let symbol = library.get::<*mut c_void>(name.as_bytes()).ok()?;
            NonNull::new(symbol.into_raw().into_raw())
        })
    }
}
