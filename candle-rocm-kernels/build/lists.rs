//! Lists that kernels and host share, the same for all architectures: element types, activations, types of
//! decoding's attention, and why kernels trap. The headers have them, as tables of C macros; this makes the Rust of them.

use std::path::Path;

use rocm_toolchain::headers::lists::Header;
use rocm_toolchain::Result;

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
