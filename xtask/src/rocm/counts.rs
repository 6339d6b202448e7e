//! What rocBLAS' kernel of a large product executes, beside ours, as the emulator counts both, and what its products of
//! LLaMA's layers take by the model of time.

use std::fs;
use std::path::Path;
use std::process::Command;

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

/// Rows and k of LLaMA 8B's layers, as the kernel report has them, and the tokens that go through them.
const LAYERS: [[usize; 2]; 4] = [[6144, 4096], [4096, 4096], [28672, 4096], [4096, 14336]];
const TOKENS: [usize; 4] = [128, 512, 1024, 8192];

/// Multiply by both, and print what their kernels executed.
pub fn run(library: &Path, programs: &Programs, runner: &Runner) -> Result<()> {
    let mut kernels = Vec::new();
    for (name, choice) in BY {
        let mut command = programs.test(runner, PROGRAM, ARCH)?;
        command
            .arg("what_is_written_of_a_large_product_is_right")
            .env("CANDLE_ROCM_GEMM", choice);
        kernels.push((name, product(launches(command, library)?)?));
    }
    eprint!("{}", table(&kernels));
    Ok(())
}

/// Multiply LLaMA's layers by rocBLAS, and print what its launches take.
pub fn run_layers(library: &Path, programs: &Programs, runner: &Runner) -> Result<()> {
    for tokens in TOKENS {
        for [rows, k] in LAYERS {
            let mut command = programs.test(runner, PROGRAM, ARCH)?;
            command
                .arg("a_product_of_zeros_has_zeros")
                .env("CANDLE_ROCM_GEMM", "library")
                .env("CANDLE_ROCM_TEST_PRODUCT", format!("{rows},{tokens},{k}"))
                .env("ROCM_EMU_COUNTS_WORKGROUPS", "timed");
            let layer = format!("bf16 {rows} x {tokens} x {k}");
            let launches = launches(command, library)?;
            eprintln!("  {layer:24} {}", times(&launches).context(layer.clone())?);
        }
    }
    Ok(())
}

/// What a program that multiplies by this library launches.
fn launches(mut command: Command, library: &Path) -> Result<Vec<Value>> {
    let file = std::path::absolute(cargo::target_folder().join("rocm/counts.jsonl"))?;
    if file.exists() {
        fs::remove_file(&file)?;
    }
    command
        .args(["--include-ignored", "--nocapture"])
        .env("CANDLE_ROCM_BLAS_LIBRARY", library)
        .env("ROCM_EMU_COUNTS", &file);
    cargo::run_quietly(&mut command)?;
    let text = fs::read_to_string(&file).context(file.display().to_string())?;
    parsed(&text)
}

/// A launch of each line.
fn parsed(lines: &str) -> Result<Vec<Value>> {
    let launches = lines.lines().map(serde_json::from_str);
    Ok(launches.collect::<Result<_, _>>()?)
}

/// Microseconds of all launches but AMD's HIP's own, and of each.
fn times(launches: &[Value]) -> Result<String> {
    let mut sum = 0.0;
    let mut each = Vec::new();
    for launch in launches {
        let kernel = launch["kernel"].as_str().context("a launch of no kernel")?;
        if launch["hips_own"] == true {
            continue;
        }
        let microseconds = launch["microseconds"].as_f64();
        let microseconds = microseconds.with_context(|| format!("{kernel} has no time"))?;
        sum += microseconds;
        let workgroups = &launch["workgroups"];
        each.push(format!(
            "{kernel}, {workgroups} workgroups, {microseconds:.1}"
        ));
    }
    ensure!(!each.is_empty(), "no launch multiplied");
    Ok(format!("{sum:8.1} us: {}", each.join("; ")))
}

/// The launch that multiplied: the one with matrix instructions.
fn product(launches: Vec<Value>) -> Result<Value> {
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
    use super::{parsed, product, table, times};

    const COPY: &str =
        r#"{"kernel": "copy", "hips_own": true, "matrix": 0, "workgroups": 2, "executed": 2}"#;
    const PRODUCT: &str =
        r#"{"kernel": "mm", "matrix": 8, "workgroups": 2, "executed": 2, "microseconds": 1.5}"#;

    #[test]
    fn the_launch_with_matrix_instructions_is_told() {
        let launches = parsed(&format!("{COPY}\n{PRODUCT}\n")).unwrap();
        let found = product(launches).unwrap();
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
            assert!(product(parsed(&lines).unwrap()).is_err(), "{lines}");
        }
    }

    #[test]
    fn a_products_launches_are_added_up() {
        let launches = parsed(&format!("{COPY}\n{PRODUCT}\n{PRODUCT}\n")).unwrap();
        let text = times(&launches).unwrap();
        assert!(text.contains("3.0 us: mm, 2 workgroups, 1.5; mm"), "{text}");
        assert!(times(&launches[..1]).is_err(), "none multiplied");
        let untimed = parsed(&PRODUCT.replace("1.5", "null")).unwrap();
        assert!(times(&untimed).is_err());
    }
}
