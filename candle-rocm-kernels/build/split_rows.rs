//! What replaces kernels of rows where these are few and long: the table that `src/split_rows.rs` reads.

use std::path::Path;

use rocm_toolchain::headers::lists::{Header, Row};
use rocm_toolchain::Result;

use crate::save;

/// Writes `split_rows.rs` to `out`.
///
/// # Errors
/// The header cannot be read, or has a row that is none; or the result cannot be written.
pub fn write(kernels: &Path, out: &Path) -> Result<()> {
    let header = Header::read(&kernels.join("norms/split_kernels.cuh"))?;
    let rows = header.rows("FOR_SPLIT_KERNELS", 2)?;
    let rows: Result<String> = rows.iter().map(of_row).collect();
    save(&out.join("split_rows.rs"), &format!("&[\n{}]\n", rows?))
}

/// A row's Rust: module, kernel, `SplitRows`.
fn of_row(row: &Row) -> Result<String> {
    let words = row.arguments.iter().map(String::as_str);
    let words: Vec<&str> = words.collect();
    let (module, kernel, pointers, number, pair, of) = match (row.callback, words.as_slice()) {
        (0, [module, kernel, pointers, number, pair @ ..]) => {
            let pointers = pointers.split_whitespace().collect();
            (module, kernel, pointers, *number, pair, "FUSED_OPERATORS")
        }
        (1, [module, kernel, number, pair @ ..]) => {
            (module, kernel, Vec::new(), *number, pair, "REDUCE")
        }
        _ => return Err(row.strange()),
    };
    let is_fold = row.callback == 1;
    let numbers = match number {
        "1" if is_fold => "COLUMNS".to_string(),
        number if is_fold => format!("{number} * COLUMNS"),
        number => number.to_string(),
    };
    let [first, of_first, second, of_second] = pair else {
        return Err(row.strange());
    };
    let pair = [(first, of_first), (second, of_second)].map(|(name, arguments)| {
        let arguments: Option<Vec<_>> = arguments.split_whitespace().map(argument).collect();
        let arguments = arguments?.join(", ");
        Some(format!(
            "SplitKernel {{ prefix: {name:?}, arguments: &[{arguments}] }}"
        ))
    });
    let are_numbers = is_number(number) && pointers.iter().all(|word| is_number(word));
    let ([Some(first), Some(second)], true) = (pair, are_numbers) else {
        return Err(row.strange());
    };
    Ok(format!(
        "({module:?}, {kernel:?}, SplitRows {{ pointers: &[{}], numbers: {numbers}, reads_once: {is_fold}, module: &crate::{of}, \
         kernels: [{first}, {second}] }}),\n",
        pointers.join(", ")
    ))
}

fn argument(word: &str) -> Option<String> {
    let of = match word {
        "partial" => "Partial",
        "splits" => "Splits",
        "wide" => "Wide",
        "one" => "One",
        "null" => "Null",
        number if is_number(number) => return Some(format!("SplitArgument::Given({number})")),
        _ => return None,
    };
    Some(format!("SplitArgument::{of}"))
}

fn is_number(word: &str) -> bool {
    word.parse::<usize>().is_ok()
}
