//! CUDA source compiled at run time, where cudarc asks NVRTC: for AMD GPUs by what the feature `rtc` has, on NVIDIA GPUs
//! by NVRTC.

use std::collections::BTreeSet;

pub use super::compile_options::{CompileOptions, COMPILER_VARIABLE};
use super::image::Image;
#[cfg(not(feature = "rtc"))]
use super::no_rtc as amd;
use super::rtc;
#[cfg(feature = "rtc")]
use super::rtc_amd as amd;
use crate::base::error::{CompileError, Error, ErrorKind};
use crate::runtime::{self, RuntimeKind};

/// What a source is called where nobody names it: as NVRTC does.
const NAME: &str = "default_program";

/// Compiles CUDA source for the GPUs of this machine. Results are kept with the compiled kernels, by content, options
/// and compiler.
///
/// # Errors
/// As [`compile_text_with`].
pub fn compile_text<S: AsRef<str>>(text: S) -> Result<Image, CompileError> {
    compile_text_with(text, CompileOptions::default())
}

/// Compiles CUDA source for the GPUs of this machine, with options.
///
/// # Errors
/// There is no GPU or nothing that compiles, an option is not known, or the source does not compile: then with the
/// compiler's log, whose lines are the source's. PTX is no source, and is refused. Without this crate's feature `rtc`
/// nothing compiles for AMD GPUs.
pub fn compile_text_with<S: AsRef<str>>(
    text: S,
    options: CompileOptions,
) -> Result<Image, CompileError> {
    let text = text.as_ref();
    let name = options.name.as_deref().unwrap_or(NAME);
    let runtime = runtime::current()?;
    let archs = architectures()?;
    if runtime.kind() == RuntimeKind::Nvidia {
        return Ok(by_nvrtc(text, name, &options.for_nvrtc(&archs[0]))?);
    }
    if super::text::is_ptx(text) {
        return Err(Error::new(ErrorKind::Module, super::text::refusal(text)).into());
    }
    Ok(amd::compile(text, name, &options, &archs)?)
}

/// By NVIDIA's library, to PTX that the driver compiles and keeps.
fn by_nvrtc(text: &str, name: &str, options: &[String]) -> Result<Image, Error> {
    let module = |message| Error::new(ErrorKind::Module, message);
    let library = rtc::nvrtc().map_err(|tried| {
        module(format!(
            "NVIDIA's NVRTC was not found: install CUDA's, or set CUDA_HOME to where it is. {tried}"
        ))
    })?;
    let compiled = library.compile(name, text, &[], options);
    let (ptx, said) =
        compiled.map_err(|log| module(format!("{name} does not compile:\n{}", log.trim_end())))?;
    for line in said.lines() {
        tracing::warn!("{line}");
    }
    let (major, minor) = library.version();
    tracing::debug!("{name} was compiled by {}, {major}.{minor}", library.path());
    let ptx = String::from_utf8_lossy(&ptx);
    Ok(Image::from_src(ptx.trim_end_matches('\0')))
}

/// The processors of the runtime's GPUs, at least one.
fn architectures() -> Result<Vec<String>, Error> {
    let runtime = runtime::current()?;
    let mut archs = BTreeSet::new();
    for ordinal in 0..runtime.device_count() {
        archs.insert(runtime.device(ordinal)?.info().arch.clone());
    }
    if archs.is_empty() {
        return Err(Error::unsupported("there is no GPU to compile for"));
    }
    Ok(archs.into_iter().collect())
}
