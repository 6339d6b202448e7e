//! How kernels are launched: their files list it, and for kernels of rows `norms/row_kernels.cuh` does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rocm_toolchain::compile;
use rocm_toolchain::headers::lists::{Header, Row};
use rocm_toolchain::Result;

use crate::save;

/// The list of a kernel file: `LAUNCHES(X, EVERY)`, where X(kernel, how) is one kernel's, by its name without types, and
/// EVERY(how) that of all others of the file.
const LIST: &str = "LAUNCHES";

/// What there is of a module: of kernels by name, and of others.
#[derive(Default)]
struct Launches {
    of: Vec<String>,
    named: BTreeSet<String>,
    every: Option<String>,
}

impl Launches {
    fn add(&mut self, row: &Row, kernel: &str, how: String) -> Result<()> {
        if !self.named.insert(kernel.to_string()) {
            return Err(row.error(format!("{kernel} is listed twice")));
        }
        self.of.push(format!("({kernel:?}, {how})"));
        Ok(())
    }
}

/// Writes `launches.rs` to `out`: an array of `Launches`, one for each module that has a list.
///
/// # Errors
/// A file cannot be read, or has a list with a row that is none; or the result cannot be written.
pub fn write(sources: &[PathBuf], kernels: &Path, out: &Path) -> Result<()> {
    let mut modules: BTreeMap<String, Launches> = BTreeMap::new();
    for source in sources {
        let file = Header::read(source)?;
        if !file.has(LIST) {
            continue;
        }
        let module = modules
            .entry(compile::module(source).to_string())
            .or_default();
        for row in file.rows(LIST, 2)? {
            let (kernel, how) = match (row.callback, row.arguments.as_slice()) {
                (0, [kernel, ..]) => (Some(kernel), how(&row, 1)?),
                _ => (None, how(&row, 0)?),
            };
            match kernel {
                Some(kernel) => module.add(&row, kernel, how)?,
                None if module.every.is_none() => module.every = Some(how),
                None => return Err(row.strange()),
            }
        }
    }
    let rows = Header::read(&kernels.join("norms/row_kernels.cuh"))?;
    for row in rows.rows("FOR_ROW_KERNELS", 1)? {
        let [module, kernel, axis, _, _, _, _] = row.arguments.as_slice() else {
            return Err(row.strange());
        };
        let axis = match axis.as_str() {
            "x" => 0,
            "y" => 1,
            _ => return Err(row.strange()),
        };
        let [length, vectors, numbers, threads] = row.numbers(3)?;
        let how = format!("rows_of({axis}, {length}, {vectors}, {numbers}, {threads})");
        let module = modules.entry(module.clone()).or_default();
        module.add(&row, kernel, how)?;
    }
    let text = |(module, Launches { of, every, .. }): (&String, &Launches)| {
        let every = every
            .as_ref()
            .map_or("None".to_string(), |how| format!("Some({how})"));
        let of = of.join(", ");
        format!("Launches {{ module: {module:?}, every: {every}, of: &[{of}] }},\n")
    };
    let text: String = modules.iter().map(text).collect();
    save(&out.join("launches.rs"), &format!("&[\n{text}]\n"))
}

/// The Rust of a row's words from the first on, which say how a kernel is launched.
fn how(row: &Row, first: usize) -> Result<String> {
    let words: Vec<&str> = row
        .arguments
        .iter()
        .skip(first)
        .map(String::as_str)
        .collect();
    let is_number = |word: &&str| word.parse::<u32>().is_ok();
    Ok(match words.as_slice() {
        ["AsAsked"] => "LaunchHeuristic::AsAsked".to_string(),
        ["LoopsOverY"] => "LaunchHeuristic::LoopsOverY".to_string(),
        ["Sorted", length] if is_number(length) => {
            format!("LaunchHeuristic::Sorted {{ length: {length} }}")
        }
        ["Outputs", total, length] if is_number(total) && is_number(length) => {
            format!("LaunchHeuristic::Outputs {{ total: {total}, length: {length} }}")
        }
        ["AnyGrid", elements, "Longest"] if is_number(elements) => {
            format!("loops({elements}, Count::Longest)")
        }
        ["AnyGrid", elements, of @ ("Sizes" | "Words" | "Shared" | "Narrow"), numbers @ ..]
            if is_number(elements) && !numbers.is_empty() && numbers.iter().all(is_number) =>
        {
            format!("loops({elements}, Count::{of}(&[{}]))", numbers.join(", "))
        }
        ["Mapped", elements, layout] if is_number(elements) && is_number(layout) => {
            format!("maps({elements}, {layout})")
        }
        _ => return Err(row.strange()),
    })
}
