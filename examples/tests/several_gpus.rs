//! A model over two emulated GPUs writes what one writes, in examples as a person runs them.

#![cfg(feature = "rocm")]

use anyhow::{ensure, Result};
use assert_cmd::Command;

const PROMPT: [&str; 4] = ["--prompt", "Once upon a time", "--max-tokens", "12"];

/// The text, and what was said beside it.
fn written(program: &str, gpus: usize, more: &[&str]) -> Result<(bool, String, String)> {
    let arch = std::env::var("ROCM_EMU_ARCH").unwrap_or("gfx1100".into());
    let archs = [arch.split(',').next().unwrap_or("gfx1100"); 2].join(",");
    let output = Command::new(program)
        .env_remove("RUST_BACKTRACE")
        .env("ROCM_EMU_ARCH", archs)
        .env("CANDLE_ROCM_RUNTIME", "emulator")
        .args(PROMPT)
        .args(["--temperature", "0", "--gpus", &gpus.to_string()])
        .args(more)
        .output()?;
    Ok((
        output.status.success(),
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    ))
}

#[test]
fn two_gpus_write_what_one_writes() -> Result<()> {
    for program in [
        env!("CARGO_BIN_EXE_llama"),
        env!("CARGO_BIN_EXE_quantized-llama"),
    ] {
        let (succeeds, expected, said) = written(program, 1, &[])?;
        ensure!(succeeds && expected.len() > 20, "{program}: {said}");
        let (succeeds, found, said) = written(program, 2, &[])?;
        ensure!(succeeds, "{program}: {said}");
        ensure!(
            found == expected,
            "{program}: {found:?} instead of {expected:?}"
        );
    }
    Ok(())
}

#[test]
fn more_gpus_than_there_are() -> Result<()> {
    let llama = env!("CARGO_BIN_EXE_llama");
    for (gpus, more, expected) in [
        (3, &[][..], "--gpus 3: this machine has 2"),
        (0, &[], "--gpus 0: this machine has 2"),
        (
            2,
            &["--model-code", "candle"],
            "--gpus: candle's code runs a model on one",
        ),
    ] {
        let (succeeds, text, said) = written(llama, gpus, more)?;
        ensure!(!succeeds && text.is_empty(), "{text}");
        ensure!(said.contains(expected), "{said}");
    }
    Ok(())
}
