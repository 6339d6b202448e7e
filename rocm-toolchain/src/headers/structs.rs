//! Structs that kernels are told: the headers declare them, and this makes the layouts that the host's are held to.

use std::path::Path;

use crate::error::{Error, Result};

/// C's types, with their bytes, which are their alignment too.
const TYPES: &[(&str, usize)] = &[
    ("int8_t", 1),
    ("uint8_t", 1),
    ("int16_t", 2),
    ("uint16_t", 2),
    ("int32_t", 4),
    ("uint32_t", 4),
    ("float", 4),
    ("int64_t", 8),
    ("uint64_t", 8),
    ("double", 8),
];
const POINTER: usize = 8;

/// A struct as the compiler lays it out.
struct Layout {
    name: String,
    bytes: usize,
    alignment: usize,
    /// Name, offset, bytes.
    fields: Vec<(String, usize, usize)>,
}

/// What is wrong in a line of a header.
type Fault = (usize, String);

/// The Rust of some structs' layouts, a constant `Layout` for each, of these headers in the folder of kernels, each with the
/// names of those of its structs that are arguments or parts of them: parts before what they are in.
///
/// # Errors
/// A header cannot be read, lacks a struct, or has one with something else than fields.
pub fn rust(kernels: &Path, structs: &[(&str, &[&str])]) -> Result<String> {
    let mut known = Vec::new();
    let mut text = String::new();
    for (header, names) in structs {
        let path = kernels.join(header);
        let source = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
        for name in *names {
            let layout = Layout::of(name, &source, &known);
            let layout = layout.map_err(|(line, reason)| Error::header(&path, line, reason))?;
            text += &layout.rust(header);
            known.push(layout);
        }
    }
    Ok(text)
}

impl Layout {
    /// That of a struct of this source, whose fields' types are C's, or `known`.
    fn of(name: &str, source: &str, known: &[Self]) -> std::result::Result<Self, Fault> {
        let begin = format!("\nstruct {name} {{\n");
        let at = source
            .find(&begin)
            .ok_or_else(|| (0, format!("no struct {name}")))?;
        let line = source[..at + 1].matches('\n').count() + 1;
        let mut layout = Self {
            name: name.to_string(),
            bytes: 0,
            alignment: 1,
            fields: Vec::new(),
        };
        for (number, text) in source[at + begin.len()..].lines().enumerate() {
            if text == "};" {
                layout.bytes = layout.bytes.next_multiple_of(layout.alignment);
                return Ok(layout);
            }
            let code = text.split("//").next().unwrap_or_default().trim();
            if code.is_empty() {
                continue;
            }
            layout
                .add(code, known)
                .map_err(|reason| (line + 1 + number, reason))?;
        }
        Err((line, format!("struct {name} has no end")))
    }

    /// Adds the fields of a line such as `const float *lse;`, `uint32_t m, n;` or `uint32_t ends[64];`.
    fn add(&mut self, code: &str, known: &[Self]) -> std::result::Result<(), String> {
        let strange = || format!("{}: {code}: no field of an argument", self.name);
        let fields = code.strip_suffix(';').ok_or_else(strange)?;
        let declared = fields.strip_prefix("const ").unwrap_or(fields);
        let (of, names) = declared.split_once(' ').ok_or_else(strange)?;
        let plain = TYPES.iter().find(|(name, _)| *name == of);
        let nested = known.iter().find(|layout| layout.name == of);
        let by_value = match (plain, nested) {
            (Some((_, bytes)), _) => Some((*bytes, *bytes)),
            (None, Some(layout)) => Some((layout.bytes, layout.alignment)),
            (None, None) => None,
        };
        for name in names.split(',').map(str::trim) {
            let (name, of) = match name.strip_prefix('*') {
                Some(name) => (name, Some((POINTER, POINTER))),
                None => (name, by_value),
            };
            let (bytes, alignment) = of.ok_or_else(strange)?;
            let (name, count) = match name.strip_suffix(']').and_then(|of| of.split_once('[')) {
                Some((name, count)) => (name, count.parse().map_err(|_| strange())?),
                None => (name, 1),
            };
            let bytes = bytes * count;
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(strange());
            }
            let offset = self.bytes.next_multiple_of(alignment);
            self.fields.push((name.to_string(), offset, bytes));
            self.bytes = offset + bytes;
            self.alignment = self.alignment.max(alignment);
        }
        Ok(())
    }

    fn rust(&self, header: &str) -> String {
        let field = |(name, offset, bytes): &(String, usize, usize)| {
            format!("        Field {{ name: {name:?}, offset: {offset}, bytes: {bytes} }},\n")
        };
        let fields: String = self.fields.iter().map(field).collect();
        format!(
            "/// `{}` of kernels/{header}, which says what the fields are.\n\
             pub const {}: Layout = Layout {{\n    bytes: {},\n    fields: &[\n{fields}    ],\n}};\n",
            self.name,
            constant(&self.name),
            self.bytes
        )
    }
}

/// `GEMM_PROBLEM` of `GemmProblem`.
fn constant(name: &str) -> String {
    let mut constant = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !constant.is_empty() {
            constant.push('_');
        }
        constant.push(c.to_ascii_uppercase());
    }
    constant
}
