//! Code objects in text: which of them a GPU gets.

use candle_rocm_kernels::choice;
use rocm_toolchain::text;

use super::no_code::no_code;
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::gpu::Device;

/// What to do instead of loading something else. All of it gives text or bytes that Candle's functions take.
pub(super) const HOW_CODE_IS_MADE: &str =
    "Code for AMD GPUs is made of a kernel's CUDA source: in a build script by cudaforge or bindgen_cuda, with \
     candle-rocm's patched in (`cudaforge = { git = ... }` under [patch.crates-io]), or at run time by \
     cudarc::nvrtc::compile_ptx";

/// The name of the program in `text`, and its code for a GPU.
///
/// # Errors
/// The text holds no code objects, and the error says what it is instead; or none that the GPU runs.
pub(super) fn code_object(text: &str, device: &Device) -> Result<(String, Vec<u8>)> {
    let wrong = |message: String| Error::new(ErrorKind::Module, message);
    if !text::is_encoded(text) {
        return Err(wrong(refusal(text)));
    }
    let processor = device.info().arch.as_str();
    let text::Decoded { name, objects } =
        text::decode(text).map_err(|error| wrong(error.to_string()))?;
    let objects: Vec<(&str, &[u8])> = objects
        .iter()
        .map(|(arch, frame)| (arch.as_str(), frame.as_slice()))
        .collect();
    match choice::object_for(&objects, processor) {
        Some(Ok(code)) => Ok((name, code)),
        Some(Err(reason)) => Err(wrong(format!(
            "the code of `{name}` for {processor} is damaged: {reason}"
        ))),
        None => {
            let held: Vec<&str> = objects.iter().map(|(arch, _)| *arch).collect();
            Err(no_code(
                device,
                &format!("`{name}`"),
                &held,
                "what the build that made it was asked for",
            ))
        }
    }
}

/// Whether the text is PTX.
pub(super) fn is_ptx(text: &str) -> bool {
    let starts = |word: &str| text.lines().any(|line| line.trim_start().starts_with(word));
    starts(".version") && starts(".target")
}

/// Why other text is not loaded or compiled, and what to do.
pub(super) fn refusal(text: &str) -> String {
    let what = if is_ptx(text) {
        "this is PTX, which NVIDIA's driver alone compiles"
    } else {
        "this is text without code objects"
    };
    format!("{what}. {HOW_CODE_IS_MADE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_text_is_refused_with_what_to_do() {
        for (text, named) in [
            (".version 8.0\n.target sm_80\n", "PTX"),
            ("__global__ void f() {}", "without code objects"),
        ] {
            let refusal = refusal(text);
            assert!(refusal.contains(named), "{refusal}");
            assert!(refusal.contains("nvrtc::compile_ptx"), "{refusal}");
        }
    }
}
