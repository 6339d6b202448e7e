//! Numbers that kernels and host must agree on: enumerators, and constants without a sign.
//!
//! A constant's value is an expression of literals and of constants that were asked for before it: C and Rust compute the same of it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};

/// What is wrong in a line of a header.
type Fault = (usize, String);

/// C's types of constants, and Rust's.
const TYPES: [(&str, &str); 2] = [("uint32_t", "u32"), ("uint64_t", "u64")];

/// A constant as Rust has it.
struct Number {
    name: String,
    of: &'static str,
    value: String,
}

/// The Rust of some numbers: constants, in a module of the first name for each header in the folder of kernels, of whose
/// enums and constants the last names are.
///
/// # Errors
/// A header cannot be read, lacks a name, or has a value that is more than literals and known names.
pub fn rust(kernels: &Path, numbers: &[(&str, &str, &[&str])]) -> Result<String> {
    let mut modules: BTreeMap<&str, String> = BTreeMap::new();
    for (module, header, names) in numbers {
        let path = kernels.join(header);
        let source = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
        let text = modules.entry(module).or_default();
        let mut known = Vec::new();
        for name in *names {
            let found = numbers_of(&source, name, &known);
            known.extend(found.map_err(|(line, reason)| Error::header(&path, line, reason))?);
        }
        for Number { name, of, value } in known {
            *text += &format!(
                "    /// `{name}` of kernels/{header}.\n    pub const {name}: {of} = {value};\n"
            );
        }
    }
    let module = |(module, text): (&&str, &String)| {
        format!("/// Numbers of `{module}`.\npub mod {module} {{\n{text}}}\n")
    };
    Ok(modules.iter().map(module).collect())
}

/// The constants of an enum of this name, or the constant.
fn numbers_of(
    source: &str,
    name: &str,
    known: &[Number],
) -> std::result::Result<Vec<Number>, Fault> {
    match after(
        source,
        &[&format!("enum {name} {{"), &format!("enum {name} :")],
    ) {
        Some(at) => enumerators(source, at),
        None => constant(source, name, known).map(|constant| vec![constant]),
    }
}

/// Where a line begins with one of these.
fn after(source: &str, begins: &[&str]) -> Option<usize> {
    let found = begins
        .iter()
        .filter_map(|begin| source.find(&format!("\n{begin}")));
    found.min().map(|at| at + 1)
}

fn line_of(source: &str, at: usize) -> usize {
    source[..at].matches('\n').count() + 1
}

/// The enumerators of the enum that begins here, each with its number.
fn enumerators(source: &str, at: usize) -> std::result::Result<Vec<Number>, Fault> {
    let line = line_of(source, at);
    let body = source[at..]
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once("};"));
    let Some((body, _)) = body else {
        return Err((line, "an enum without its end".to_string()));
    };
    let code = body
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let code: String = code.collect();
    let mut next = 0;
    let mut found = Vec::new();
    for item in code
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let (name, number) = match item.split_once('=') {
            Some((name, number)) => (name.trim(), number.trim().parse().ok()),
            None => (item, Some(next)),
        };
        let number: u32 = match number {
            Some(number) if is_name(name) => number,
            _ => return Err((line, format!("{item}: no enumerator with a number"))),
        };
        found.push(Number {
            name: name.to_string(),
            of: "u32",
            value: number.to_string(),
        });
        next = number + 1;
    }
    Ok(found)
}

/// The constant of this name.
fn constant(source: &str, name: &str, known: &[Number]) -> std::result::Result<Number, Fault> {
    for (number, text) in source.lines().enumerate() {
        let declared = text.strip_prefix("static ").unwrap_or(text);
        let declared = declared
            .strip_prefix("constexpr ")
            .and_then(|rest| rest.split_once(' '));
        let of = |(of, rest)| Some((TYPES.iter().find(|(c, _)| *c == of)?.1, rest));
        let Some((of, declared)) = declared.and_then(of) else {
            continue;
        };
        let declared = declared.split(';').next().unwrap_or_default().split(',');
        let mut values = declared.filter_map(|item| item.split_once('='));
        let Some((_, value)) = values.find(|(of, _)| of.trim() == name) else {
            continue;
        };
        let value = value.trim();
        if !is_expression(value, known) {
            let reason = format!("{name} = {value}: no value that Rust computes alike");
            return Err((number + 1, reason));
        }
        return Ok(Number {
            name: name.to_string(),
            of,
            value: value.to_string(),
        });
    }
    Err((0, format!("no enum and no constant {name}")))
}

/// Whether this is an expression of literals and known names.
fn is_expression(text: &str, known: &[Number]) -> bool {
    let is_operator = |c: char| " +-*/<>()".contains(c);
    let words = text.split(is_operator).filter(|word| !word.is_empty());
    let mut words = words.peekable();
    words.peek().is_some()
        && words.all(|word| {
            word.parse::<u32>().is_ok() || known.iter().any(|number| number.name == word)
        })
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(is_part)
}
