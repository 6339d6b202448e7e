//! Candle comes unmodified from the registry; only the crates under its CUDA backend and its flash attention are ours.

use std::process::Command;

use anyhow::{ensure, Context, Result};

#[test]
fn candle_is_unmodified() -> Result<()> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let source = |name: &str| -> Result<&serde_json::Value> {
        let package = packages.iter().find(|p| p["name"] == name);
        Ok(&package.with_context(|| format!("{name} is not in the graph"))?["source"])
    };
    for name in ["candle-core", "candle-nn", "candle-transformers"] {
        let from = source(name)?.as_str().unwrap_or("a path");
        ensure!(from.starts_with("registry+"), "{name} comes from {from}");
    }
    for name in ["cudarc", "candle-kernels", "candle-flash-attn"] {
        ensure!(source(name)?.is_null(), "{name} is not the workspace's own");
    }
    Ok(())
}
