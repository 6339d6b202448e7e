//! Lists that kernels and host share: element types, activations, and why kernels trap. The headers have them, as tables
//! of C macros; this makes the Rust of them.

use std::path::Path;

/// Writes `dtypes.rs`, `activations.rs` and `reasons.rs` to `out`.
///
/// # Errors
/// A header cannot be read or has no such list, or a file cannot be written.
pub fn write(kernels: &Path, out: &Path) -> Result<(), String> {
    let dtypes = kernels.join("portable/dtypes.cuh");
    let mut text = String::new();
    for (list, kind) in [
        ("FOR_INTEGERS", "Integer"),
        ("FOR_WIDE_FLOATS", "WideFloat"),
        ("FOR_SMALL_FLOATS", "SmallFloat"),
    ] {
        for entry in entries(&dtypes, list)? {
            let name = &entry[0];
            // The first number in the name: that of f8e4m3 is 8.
            let digits = name.trim_start_matches(char::is_alphabetic);
            let end = digits.find(|c: char| !c.is_ascii_digit());
            let bits: u64 = digits[..end.unwrap_or(digits.len())]
                .parse()
                .map_err(|error| format!("{}: {name}: {error}", dtypes.display()))?;
            text += &format!(
                "Dtype {{ name: {name:?}, bytes: {}, kind: Kind::{kind} }},\n",
                bits / 8
            );
        }
    }
    save(&out.join("dtypes.rs"), &format!("&[\n{text}]\n"))?;

    let activations = kernels.join("portable/activations.cuh");
    let (mut constants, mut all) = (String::new(), String::new());
    for list in ["FOR_ACTIVATIONS", "FOR_CURVES"] {
        for entry in entries(&activations, list)? {
            let [name, _, number, ..] = entry.as_slice() else {
                return Err(format!("{}: {entry:?}", activations.display()));
            };
            let constant = name.to_uppercase();
            constants += &format!(
                "/// `{name}`.\npub const {constant}: Activation = Activation {{ name: {name:?}, number: {number} }};\n"
            );
            all += &format!("{constant}, ");
        }
    }
    let text = format!("{constants}/// All of them.\npub const ALL: &[Activation] = &[{all}];\n");
    save(&out.join("activations.rs"), &text)?;

    let reports = kernels.join("portable/report.cuh");
    let mut text = String::new();
    for entry in entries(&reports, "FOR_REASONS")? {
        let [name, number] = entry.as_slice() else {
            return Err(format!("{}: {entry:?}", reports.display()));
        };
        text += &format!("const {}: u32 = {number};\n", name.to_uppercase());
    }
    save(&out.join("reasons.rs"), &text)
}

/// The arguments of each `X(...)` in the macro `list` of `header`.
fn entries(header: &Path, list: &str) -> Result<Vec<Vec<String>>, String> {
    let context = |what: &str| format!("{}: {what}", header.display());
    let text = std::fs::read_to_string(header).map_err(|error| context(&error.to_string()))?;
    let begin = text
        .find(&format!("#define {list}(X"))
        .ok_or_else(|| context(&format!("no list {list}")))?;
    let mut found = Vec::new();
    // A macro ends with the first line that no backslash continues.
    for line in text[begin..].lines() {
        for (at, _) in line.match_indices(" X(") {
            let arguments = line[at + 3..].split(')').next().unwrap_or_default();
            found.push(
                arguments
                    .split(',')
                    .map(|part| part.trim().to_string())
                    .collect(),
            );
        }
        if !line.ends_with('\\') {
            break;
        }
    }
    match found.is_empty() {
        true => Err(context(&format!("the list {list} is empty"))),
        false => Ok(found),
    }
}

fn save(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
