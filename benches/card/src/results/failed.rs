//! The smallest case that failed, in a file.

use std::path::{Path, PathBuf};

use anyhow::Result;
use candle_core::DType;
use parity::numbers::Numbers;
use parity::recording::{Array, Recording};

use super::tally::Smallest;

/// Writes inputs, result and truth as tensors of a safetensors file beside the record, and gives its path.
///
/// # Errors
/// It cannot be written.
pub fn write(out: &Path, item: &str, failed: &Smallest) -> Result<PathBuf> {
    let letters = item
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let stem = out.file_stem().unwrap_or_default().to_string_lossy();
    let letters: String = letters.collect();
    let path = out.with_file_name(format!("{stem}.{letters}.safetensors"));
    let mut recording = Recording::default();
    for (key, value) in [
        ("program", "candle-rocm-card"),
        ("case", failed.name.as_str()),
        ("what", failed.what.as_str()),
    ] {
        recording.about.insert(key.to_owned(), value.to_owned());
    }
    for (number, input) in failed.inputs.iter().enumerate() {
        let array = Array::of(input.tensor())?;
        recording
            .outcomes
            .insert(format!("input {number}"), Ok(array));
    }
    if let Some(found) = &failed.judged.found {
        recording
            .outcomes
            .insert("found".to_owned(), Ok(found.clone()));
    }
    if let Some(truth) = &failed.judged.truth {
        let dtype = match truth {
            Numbers::Floats(_) => DType::F64,
            Numbers::Integers(_) => DType::I64,
        };
        let array = Array::of(&truth.tensor(dtype, &[truth.len()])?)?;
        recording.outcomes.insert("truth".to_owned(), Ok(array));
    }
    recording.save(&path)?;
    Ok(path)
}
