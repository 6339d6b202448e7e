//! Lists that kernels and host share, the same for all architectures: element types, activations, tiles of products without
//! matrix units, types of decoding's attention, and why kernels trap. The headers have them, as tables of C macros; this
//! makes the Rust of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocm_toolchain::headers::lists::Header;
use rocm_toolchain::Result;

use crate::families::ARCHITECTURES;
use crate::save;

/// Writes a file of each list to `out`.
///
/// # Errors
/// A header cannot be read, or has no such list or one with other rows; or a file cannot be written.
pub fn write(kernels: &Path, out: &Path) -> Result<()> {
    let dtypes = Header::read(&kernels.join("portable/dtypes.cuh"))?;
    let mut text = String::new();
    for (list, kind) in [
        ("FOR_INTEGERS", "Integer"),
        ("FOR_WIDE_FLOATS", "WideFloat"),
        ("FOR_SMALL_FLOATS", "SmallFloat"),
    ] {
        for row in dtypes.rows(list, 1)? {
            let name = &row.arguments[0];
            // The first number in the name: that of f8e4m3 is 8.
            let digits = name.trim_start_matches(char::is_alphabetic);
            let end = digits.find(|c: char| !c.is_ascii_digit());
            let bits: u64 = digits[..end.unwrap_or(digits.len())]
                .parse()
                .map_err(|error| row.error(format!("{name}: {error}")))?;
            text += &format!(
                "Dtype {{ name: {name:?}, bytes: {}, kind: Kind::{kind} }},\n",
                bits / 8
            );
        }
    }
    save(&out.join("dtypes.rs"), &format!("&[\n{text}]\n"))?;

    let activations = Header::read(&kernels.join("portable/activations.cuh"))?;
    let (mut constants, mut all) = (String::new(), String::new());
    for row in activations.rows("FOR_ACTIVATIONS", 1)? {
        let [name, _, number, ..] = row.arguments.as_slice() else {
            return Err(row.strange());
        };
        let constant = name.to_uppercase();
        constants += &format!(
            "/// `{name}`.\npub const {constant}: Activation = Activation {{ name: {name:?}, number: {number} }};\n"
        );
        all += &format!("{constant}, ");
    }
    let text = format!("{constants}/// All of them.\npub const ALL: &[Activation] = &[{all}];\n");
    save(&out.join("activations.rs"), &text)?;

    let gemm = Header::read(&kernels.join("matmul/gemm_kernels.cuh"))?;
    save(&out.join("gemm_tiles.rs"), &gemm_tiles(&gemm)?)?;

    let attend = Header::read(&kernels.join("attention/decode_kernels.cuh"))?;
    let types = attend.rows("FOR_ATTEND_TYPES", 1)?;
    let types: Vec<_> = types.iter().map(|row| &row.arguments[0]).collect();
    save(&out.join("attend_types.rs"), &format!("&{types:?}\n"))?;

    let reports = Header::read(&kernels.join("portable/report.cuh"))?;
    let mut text = String::new();
    for row in reports.rows("FOR_REASONS", 1)? {
        let [name, number] = row.arguments.as_slice() else {
            return Err(row.strange());
        };
        text += &format!("const {}: u32 = {number};\n", name.to_uppercase());
    }
    save(&out.join("reasons.rs"), &text)
}

/// The tiles of module `gemm`, largest first: its list's, of all architectures.
fn gemm_tiles(header: &Header) -> Result<String> {
    // (rows, columns), threads, types.
    type Tiles = BTreeMap<Reverse<(u32, u32)>, (u32, BTreeSet<String>)>;
    let tiles_of = |architecture: &str| -> Result<Tiles> {
        let mut tiles = Tiles::new();
        let rows = header.rows(&format!("GEMM_KERNELS_{architecture}"), 3)?;
        for row in rows.iter().filter(|row| row.callback == 0) {
            let [dtype, _, _, _, _] = row.arguments.as_slice() else {
                return Err(row.strange());
            };
            let [rows, columns, thread_rows, thread_columns] = row.numbers(1)?;
            let threads = rows * columns / (thread_rows * thread_columns);
            let tile = tiles.entry(Reverse((rows, columns)));
            let (of_tile, dtypes) = tile.or_insert((threads, BTreeSet::new()));
            if *of_tile != threads || !dtypes.insert(dtype.clone()) {
                return Err(row.strange());
            }
        }
        Ok(tiles)
    };
    let tiles = tiles_of(ARCHITECTURES[0].0)?;
    for (architecture, _) in ARCHITECTURES {
        if tiles_of(architecture)? != tiles {
            let reason = format!("GEMM_KERNELS_{architecture} has other tiles than others");
            return Err(header.error(reason));
        }
    }
    let row = |(Reverse((rows, columns)), (threads, dtypes)): (&Reverse<_>, &(u32, _))| {
        let dtypes: &BTreeSet<String> = dtypes;
        let f64 = dtypes.contains("f64");
        format!("Tile {{ rows: {rows}, columns: {columns}, threads: {threads}, f64: {f64} }},\n")
    };
    let rows: String = tiles.iter().map(row).collect();
    Ok(format!(
        "/// Every tile, largest first.\npub const TILES: [Tile; {}] = [\n{rows}];\n",
        tiles.len()
    ))
}
