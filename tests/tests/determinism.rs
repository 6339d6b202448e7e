//! Twenty runs at different thread counts print the same bits.

use std::process::Command;

use anyhow::{ensure, Result};

#[test]
fn twenty_runs_at_different_thread_counts_agree() -> Result<()> {
    let run = |threads: usize| -> Result<String> {
        let output = Command::new(env!("CARGO_BIN_EXE_fingerprint"))
            .env("ROCM_EMU_THREADS", threads.to_string())
            .output()?;
        ensure!(
            output.status.success(),
            "fingerprint with {threads} threads failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    };
    let expected = run(1)?;
    ensure!(
        expected.lines().count() == 10,
        "fingerprint printed:\n{expected}"
    );
    for i in 1..20 {
        let threads = [1, 2, 3, 5, 8][i % 5];
        let actual = run(threads)?;
        ensure!(
            actual == expected,
            "run {i} with {threads} threads printed\n{actual}\nnot\n{expected}"
        );
    }
    Ok(())
}
