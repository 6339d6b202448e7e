//! A model over two emulated GPUs, in parts of each layer or by layers, writes what one writes, in examples as a person runs
//! them.

#![cfg(feature = "rocm")]

use anyhow::{ensure, Result};
use assert_cmd::Command;
use candle_rocm_testing::process::{gpus_alike, GPUS};

const PROMPT: [&str; 4] = ["--prompt", "Once upon a time", "--max-tokens", "8"];

/// The text, and what was said beside it, on a machine of two GPUs.
fn written(program: &str, more: &[&str]) -> Result<(bool, String, String)> {
    let output = Command::new(program)
        .env_remove("RUST_BACKTRACE")
        .env(GPUS, gpus_alike(2))
        .env("CANDLE_ROCM_RUNTIME", "emulator")
        .args(PROMPT)
        .args(["--temperature", "0"])
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
        let (succeeds, expected, said) = written(program, &[])?;
        ensure!(succeeds && expected.len() > 20, "{program}: {said}");
        for way in [&["--gpus", "2"][..], &["--gpus", "2", "--pipeline"]] {
            let (succeeds, found, said) = written(program, way)?;
            ensure!(succeeds, "{program} {way:?}: {said}");
            ensure!(
                found == expected,
                "{program} {way:?}: {found:?} instead of {expected:?}"
            );
        }
    }
    Ok(())
}

/// The first process writes, and the other is silent.
#[test]
fn two_processes_write_what_one_writes() -> Result<()> {
    let llama = env!("CARGO_BIN_EXE_llama");
    let (_, expected, _) = written(llama, &[])?;
    let folder = tempfile::tempdir()?;
    for (name, way) in [("parts", &[][..]), ("layers", &["--pipeline", "1,3"])] {
        let file = folder.path().join(name);
        let of_rank = |rank: &str| {
            let place = file.to_string_lossy();
            let options = ["--world", "2", "--rank", rank, "--meet-at", &place];
            written(llama, &[&options, way].concat())
        };
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| of_rank("1"));
            (of_rank("0"), second.join().expect("rank 1"))
        });
        let ((succeeds, text, said), (second, silence, more)) = (first?, second?);
        ensure!(succeeds && second, "{said}\n{more}");
        ensure!(
            text == expected,
            "{way:?}: {text:?} instead of {expected:?}"
        );
        ensure!(silence.is_empty(), "rank 1 wrote {silence:?}");
        let (succeeds, _, said) = of_rank("0")?;
        ensure!(!succeeds && said.contains("is there already"), "{said}");
    }
    Ok(())
}

#[test]
fn more_gpus_than_there_are() -> Result<()> {
    let llama = env!("CARGO_BIN_EXE_llama");
    let candle = "--gpus: candle's code runs a model on one";
    for (options, expected) in [
        (&["--gpus", "3"][..], "--gpus 3: this machine has 2"),
        (&["--gpus", "0"], "--gpus 0: this machine has 2"),
        (&["--gpus", "2", "--model-code", "candle"], candle),
        (
            &["--world", "2", "--rank", "2", "--meet-at", "/tmp/none"],
            "--rank 2: ranks of --world 2 count from 0",
        ),
        (
            &["--gpus", "2", "--pipeline", "3,3"],
            "shares of layers [3, 3] are 6, and the model has 4",
        ),
        (
            &["--gpus", "2", "--pipeline", "4"],
            "shares of layers [4] are of 1 GPUs, and there are 2",
        ),
        (
            &["--gpus", "2", "--pipeline", "3;1"],
            "`3;1` is neither `memory` nor layers of each GPU, such as 20,12",
        ),
        (&["--pipeline"], "--gpus <N>|--world <N>"),
    ] {
        let (succeeds, text, said) = written(llama, options)?;
        ensure!(!succeeds && text.is_empty(), "{text}");
        ensure!(said.contains(expected), "{said}");
    }
    Ok(())
}
