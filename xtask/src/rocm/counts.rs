//! What rocBLAS' kernel of a large product executes, beside ours, as the emulator counts both.

use std::fs;

use anyhow::{ensure, Context, Result};
use serde_json::Value;

use super::programs::{Programs, Runner};
use crate::cargo;

/// The GPU whose kernels are compared.
pub const ARCH: &str = "gfx942";
/// The test program that multiplies.
const PROGRAM: &str = "large_product";
/// Who multiplies, and what says so in `CANDLE_ROCM_GEMM`.
const BY: [(&str, &str); 2] = [("rocBLAS", "library"), ("ours", "own")];
/// What is told of each kernel, as it is called in the file.
const TOLD: [(&str, &str); 14] = [
    ("workgroups", "workgroups"),
    ("work-items of each", "items"),
    ("matrix instructions", "matrix"),
    ("cycles of the matrix units", "matrix_cycles"),
    ("vector instructions", "vector"),
    ("scalar instructions", "scalar"),
    ("memory instructions", "memory"),
    ("bytes loaded", "bytes_loaded"),
    ("bytes stored", "bytes_stored"),
    ("lines touched", "lines"),
    ("lines that the bytes fill", "least_lines"),
    ("LDS cycles", "lds_cycles"),
    ("of those, bank conflicts", "lds_conflicts"),
    ("us by the model of time", "microseconds"),
];

/// Multiply by both, and print what their kernels executed.
pub fn run(library: &std::path::Path, programs: &Programs, runner: &Runner) -> Result<()> {
    let mut kernels = Vec::new();
    for (name, choice) in BY {
        let file = cargo::target_folder().join(format!("rocm/counts-{choice}.jsonl"));
        if file.exists() {
            fs::remove_file(&file)?;
        }
        let file = std::path::absolute(&file)?;
        let mut command = programs.test(runner, PROGRAM, ARCH)?;
        command
            .args(["--include-ignored", "--nocapture"])
            .env("CANDLE_ROCM_GEMM", choice)
            .env("CANDLE_ROCM_BLAS_LIBRARY", library)
            .env("ROCM_EMU_COUNTS", &file);
        cargo::run_quietly(&mut command)?;
        let text = fs::read_to_string(&file).context(file.display().to_string())?;
        kernels.push((name, product(&text)?));
    }
    eprint!("{}", table(&kernels));
    Ok(())
}

/// The launch that multiplied: the one with matrix instructions.
fn product(lines: &str) -> Result<Value> {
    let launches = lines.lines().map(serde_json::from_str);
    let launches = launches.collect::<Result<Vec<Value>, _>>()?;
    let mut products = launches
        .into_iter()
        .filter(|launch| launch["matrix"].as_u64() > Some(0));
    let product = products.next().context("no launch multiplied")?;
    ensure!(products.next().is_none(), "more than one launch multiplied");
    ensure!(
        product["executed"] == product["workgroups"],
        "only a part was executed"
    );
    Ok(product)
}

/// Rows of what is told, a column for each kernel.
fn table(kernels: &[(&str, Value)]) -> String {
    let mut text = String::new();
    for (name, kernel) in kernels {
        text += &format!("  {name}: {}\n", kernel["kernel"].as_str().unwrap_or("?"));
    }
    let cells = |cell: &dyn Fn(&(&str, Value)) -> String| -> String {
        kernels
            .iter()
            .map(|kernel| format!("{:>16}", cell(kernel)))
            .collect()
    };
    text += &format!("  {:28}{}\n", "", cells(&|(name, _)| (*name).to_owned()));
    for (told, key) in TOLD {
        text += &format!(
            "  {told:28}{}\n",
            cells(&|(_, kernel)| kernel[key].to_string())
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{product, table};

    const COPY: &str = r#"{"kernel": "copy", "matrix": 0, "workgroups": 2, "executed": 2}"#;
    const PRODUCT: &str = r#"{"kernel": "mm", "matrix": 8, "workgroups": 2, "executed": 2}"#;

    #[test]
    fn the_launch_with_matrix_instructions_is_told() {
        let found = product(&format!("{COPY}\n{PRODUCT}\n")).unwrap();
        let text = table(&[("ours", found)]);
        assert!(text.starts_with("  ours: mm\n"), "{text}");
        let row = text
            .lines()
            .find(|line| line.contains("matrix instructions"));
        assert!(row.unwrap().ends_with(" 8"), "{text}");
    }

    #[test]
    fn none_or_several_or_a_part_is_an_error() {
        let part = PRODUCT.replace("\"executed\": 2", "\"executed\": 1");
        for lines in [COPY.to_owned(), format!("{PRODUCT}\n{PRODUCT}"), part] {
            assert!(product(&lines).is_err(), "{lines}");
        }
    }
}
