//! Kernels that stand in their module once for several types: for each size, where they move elements without reading their
//! values, for all types of indices, and for functions that an argument tells apart. What `src/symbols.rs` reads.

use std::path::{Path, PathBuf};

use rocm_toolchain::compile;
use rocm_toolchain::headers::lists::Header;
use rocm_toolchain::Result;

use crate::save;

/// The list of a kernel file: `MOVES(X)`, where X(kernel) is one by its name without types.
const LIST: &str = "MOVES";

/// The list of kernels with an argument for the type of their indices: `BY_INDEX(X)`, where X(kernel, arguments that hosts
/// pass) is one by its name without types.
const BY_INDEX: &str = "BY_INDEX";

/// The list of kernels that an argument tells apart: `TOLD_APART(X)`, where X(hosts' name, name here, arguments that
/// hosts pass, argument) is one by its names without types.
const TOLD_APART: &str = "TOLD_APART";

/// Writes `moves.rs`, `by_index.rs` and `told_apart.rs` to `out`, arrays of module and kernels, and `sizes.rs`, the types
/// that stand for all of their size.
///
/// # Errors
/// A file cannot be read, or has a list with other rows; or a result cannot be written.
pub fn write(sources: &[PathBuf], kernels: &Path, out: &Path) -> Result<()> {
    let (mut moves, mut by_index, mut told_apart) = (String::new(), String::new(), String::new());
    for source in sources {
        let file = Header::read(source)?;
        if file.has(LIST) {
            let names = first_of_rows(&file, LIST)?;
            let module = compile::module(source);
            moves += &format!("({module:?}, &{names:?}),\n");
        }
        if file.has(BY_INDEX) {
            let module = compile::module(source);
            for row in file.rows(BY_INDEX, 1)? {
                let [kernel, given] = row.arguments.as_slice() else {
                    return Err(row.strange());
                };
                by_index += &format!("({module:?}, {kernel:?}, {given}),\n");
            }
        }
        if file.has(TOLD_APART) {
            let module = compile::module(source);
            for row in file.rows(TOLD_APART, 1)? {
                let [hosts, own, given, value] = row.arguments.as_slice() else {
                    return Err(row.strange());
                };
                told_apart += &format!("({module:?}, {hosts:?}, {own:?}, {given}, {value}),\n");
            }
        }
    }
    save(&out.join("moves.rs"), &format!("&[\n{moves}]\n"))?;
    save(&out.join("by_index.rs"), &format!("&[\n{by_index}]\n"))?;
    save(&out.join("told_apart.rs"), &format!("&[\n{told_apart}]\n"))?;
    let header = Header::read(&kernels.join("portable/sizes.cuh"))?;
    let sizes = first_of_rows(&header, "FOR_SIZES")?;
    save(&out.join("sizes.rs"), &format!("&{sizes:?}\n"))
}

/// What each row of a list begins with.
fn first_of_rows(file: &Header, list: &str) -> Result<Vec<String>> {
    let rows = file.rows(list, 1)?;
    let first = rows.iter().map(|row| {
        let name = row.arguments.first().cloned();
        name.ok_or_else(|| row.strange())
    });
    first.collect()
}
