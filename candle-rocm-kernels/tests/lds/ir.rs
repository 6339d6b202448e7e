//! What LLVM IR says of LDS, as clang's front end makes it, before any pass: which variables in LDS a kernel can reach, and how
//! large they are.

use std::collections::{BTreeMap, BTreeSet};

/// The IR of a module.
#[derive(Default)]
pub struct Ir<'a> {
    /// Bodies of named types.
    types: BTreeMap<&'a str, &'a str>,
    /// Bytes of variables in LDS, by their names.
    lds: BTreeMap<&'a str, u64>,
    /// What functions name, by their own names.
    functions: BTreeMap<&'a str, BTreeSet<&'a str>>,
    kernels: Vec<&'a str>,
}

impl<'a> Ir<'a> {
    /// Reads it.
    pub fn read(text: &'a str) -> Self {
        let mut ir = Self::default();
        let mut variables = Vec::new();
        let mut function = None;
        for line in text.lines() {
            if let Some((name, body)) = line.split_once(" = type ") {
                ir.types.insert(name, body);
            } else if let Some((name, of)) = line.split_once(" addrspace(3) global ") {
                variables.push((names(name).next().expect("a variable's name"), of));
            } else if line.starts_with("define ") {
                let name = names(line).next().expect("a function's name");
                ir.functions.insert(name, BTreeSet::new());
                function = Some(name);
                if line.contains(" amdgpu_kernel ") {
                    ir.kernels.push(name);
                }
            } else if line == "}" {
                function = None;
            } else if let Some(of) = function.and_then(|name| ir.functions.get_mut(name)) {
                of.extend(names(line));
            }
        }
        for (name, of) in variables {
            let (layout, _) = ir.layout(of);
            let align = of
                .rsplit_once(" align ")
                .and_then(|(_, align)| align.parse().ok());
            // The compiler may align a variable better than it must be.
            let align = align.unwrap_or(layout.align).max(16);
            ir.lds.insert(name, layout.size.next_multiple_of(align));
        }
        ir
    }

    /// The most LDS that each kernel's source has for it, by the kernel's name.
    pub fn lds_of_kernels(&self) -> BTreeMap<&'a str, u64> {
        let of = |kernel: &&'a str| (*kernel, self.lds_of(kernel));
        self.kernels.iter().map(of).collect()
    }

    fn lds_of(&self, kernel: &'a str) -> u64 {
        let (mut seen, mut next) = (BTreeSet::new(), vec![kernel]);
        while let Some(name) = next.pop() {
            if seen.insert(name) {
                next.extend(self.functions.get(name).into_iter().flatten());
            }
        }
        seen.iter().filter_map(|name| self.lds.get(name)).sum()
    }

    /// The layout of the type that a text begins with, and what follows it.
    fn layout<'t>(&self, text: &'t str) -> (Layout, &'t str) {
        let text = text.trim_start();
        if let Some(rest) = text.strip_prefix("<{") {
            let (fields, rest) = self.fields(rest);
            let size = fields.iter().map(|field| field.size).sum();
            let rest = rest
                .trim_start()
                .strip_prefix('>')
                .expect("a packed struct's end");
            return (Layout { size, align: 1 }, rest);
        }
        if let Some(rest) = text.strip_prefix('{') {
            let (fields, rest) = self.fields(rest);
            return (Layout::of_fields(&fields), rest);
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (count, of, rest) = self.repeated(rest, ']');
            let size = count * of.size;
            return (Layout { size, ..of }, rest);
        }
        if let Some(rest) = text.strip_prefix('<') {
            let (count, of, rest) = self.repeated(rest, '>');
            let size = (count * of.size).next_power_of_two();
            return (Layout { size, align: size }, rest);
        }
        if text.starts_with('%') {
            let end = end_of_name(text);
            let (name, rest) = text.split_at(end);
            let body = self.types.get(name);
            let body = body.unwrap_or_else(|| panic!("no type {name}"));
            return (self.layout(body).0, rest);
        }
        if let Some(rest) = text.strip_prefix("ptr addrspace(") {
            let (space, rest) = rest.split_once(')').expect("an address space's number");
            let size = if matches!(space, "3" | "5") { 4 } else { 8 };
            return (Layout { size, align: size }, rest);
        }
        let end = text.find(|c: char| !c.is_ascii_alphanumeric());
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        let size = match word {
            "half" | "bfloat" => 2,
            "float" => 4,
            "double" | "ptr" => 8,
            integer => {
                let bits = integer
                    .strip_prefix('i')
                    .and_then(|bits| bits.parse::<u64>().ok());
                let bits = bits.unwrap_or_else(|| panic!("no size of {text}"));
                bits.div_ceil(8).next_power_of_two()
            }
        };
        (Layout { size, align: size }, rest)
    }

    /// A count and a type, `4 x float`, up to this bracket.
    fn repeated<'t>(&self, text: &'t str, end: char) -> (u64, Layout, &'t str) {
        let (count, rest) = text.split_once(" x ").expect("a count");
        let (of, rest) = self.layout(rest);
        let rest = rest.trim_start().strip_prefix(end).expect("a bracket");
        (count.trim().parse().expect("a count"), of, rest)
    }

    /// The fields of a struct, up to its bracket.
    fn fields<'t>(&self, mut text: &'t str) -> (Vec<Layout>, &'t str) {
        let mut fields = Vec::new();
        loop {
            text = text.trim_start().trim_start_matches(',').trim_start();
            if let Some(rest) = text.strip_prefix('}') {
                return (fields, rest);
            }
            let (field, rest) = self.layout(text);
            fields.push(field);
            text = rest;
        }
    }
}

/// Bytes of a type, and what it is aligned to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Layout {
    size: u64,
    align: u64,
}

impl Layout {
    fn of_fields(fields: &[Self]) -> Self {
        let align = fields.iter().map(|field| field.align).max().unwrap_or(1);
        let end = fields.iter().fold(0, |at: u64, field| {
            at.next_multiple_of(field.align.max(1)) + field.size
        });
        let size = end.next_multiple_of(align);
        Self { size, align }
    }
}

/// The names of functions and variables in a text, without `@` and quotes.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices('@').map(|(at, _)| &text[at..]);
    starts.map(|name| name[1..end_of_name(name)].trim_matches('"'))
}

/// Where the name ends that a text begins with.
fn end_of_name(text: &str) -> usize {
    if let Some(quoted) = text[1..].strip_prefix('"') {
        return quoted.find('"').map_or(text.len(), |end| end + 3);
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._$-".contains(c);
    let end = text[1..].find(|c| !is_part(c));
    end.map_or(text.len(), |end| end + 1)
}
