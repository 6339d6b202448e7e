//! Every case on the GPU under test (the emulated one, unless `CANDLE_ROCM_RUNTIME` says otherwise), held to what stock
//! Candle's CUDA backend gave on an NVIDIA GPU.

use std::path::PathBuf;

use anyhow::{ensure, Result};
use candle_core::Device;
use candle_rocm_backend::{runtime, DeviceExt as _};
use parity::cases;
use parity::compare::{compare, Held, Reference};
use parity::record::{about, record};
use parity::recording::Recording;

/// Largest size of a committed recording.
const MOST_BYTES: u64 = 8 << 20;

fn recorded() -> Result<Vec<PathBuf>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/recorded");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".safetensors.zst") {
            files.push(path);
        }
    }
    ensure!(!files.is_empty(), "{folder} has no recording");
    Ok(files)
}

#[test]
fn recordings_are_of_these_cases_and_small() -> Result<()> {
    let cases = cases::all()?;
    for path in recorded()? {
        let size = path.metadata()?.len();
        ensure!(size <= MOST_BYTES, "{}: {size} bytes", path.display());
        let recording = Recording::load(&path)?;
        let program = recording.about.get("program").map(String::as_str);
        ensure!(
            program == Some("stock-parity"),
            "{}: made by {program:?}, not by stock Candle",
            path.display()
        );
        let names: Vec<&String> = recording.outcomes.keys().collect();
        let mut expected: Vec<&String> = cases.iter().map(|case| &case.name).collect();
        expected.sort();
        ensure!(names == expected, "{}: other cases", path.display());
    }
    Ok(())
}

#[test]
fn every_case_is_as_on_cuda() -> Result<()> {
    if std::env::var_os("CANDLE_ROCM_RUNTIME").is_none() {
        runtime::select(runtime::RuntimeKind::Emulator)?;
    }
    let device = Device::new_rocm(0)?;
    let cases = cases::all()?;
    let mut ours = Recording {
        about: about(&device)?,
        ..Recording::default()
    };
    let lost = record(&cases, &device, &mut ours)?;
    ensure!(lost.is_none(), "the device was lost after {lost:?}");
    for path in recorded()? {
        let stock = Recording::load(&path)?;
        let report = compare(&cases, &Reference::Stock(&stock), &ours)?;
        println!("{}, held to {}\n{report}", ours.title(), stock.title());
        ensure!(report.failures.is_empty(), "{report}");
        // A recording of refusals would hold us to nothing.
        let held = report.held.get(&Held::ToStock).copied().unwrap_or(0);
        ensure!(
            held * 10 > cases.len() * 6,
            "only {held} cases are held to CUDA"
        );
    }
    Ok(())
}
