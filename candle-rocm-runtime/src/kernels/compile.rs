//! CUDA source compiled at run time, where cudarc asks NVRTC.

use std::collections::BTreeSet;
use std::path::Path;

use candle_rocm_cuda::{text, Compiler, Options, Source};

use super::image::Image;
use crate::base::error::{CompileError, Error, ErrorKind};
use crate::runtime::{self, RuntimeKind};

/// What a source is called where nobody names it: as NVRTC does.
const NAME: &str = "default_program";

/// How to compile. The fields are cudarc's; what is about NVIDIA's GPUs alone changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CompileOptions {
    /// Subnormal numbers as zeros. They are kept here.
    pub ftz: Option<bool>,
    /// Square roots rounded correctly, which they are but for `use_fast_math`.
    pub prec_sqrt: Option<bool>,
    /// Quotients rounded correctly, likewise.
    pub prec_div: Option<bool>,
    /// `a * b + c` rounded once, as on NVIDIA unless this is false.
    pub fmad: Option<bool>,
    /// Other options of NVRTC. One that is not known is an error.
    pub options: Vec<String>,
    /// Functions, quotients and roots faster than they are precise.
    pub use_fast_math: Option<bool>,
    /// NVIDIA's registers.
    pub maxrregcount: Option<usize>,
    /// Folders of headers. Those of CUDA, of the same names, are there in any case.
    pub include_paths: Vec<String>,
    /// NVIDIA's architecture. What is compiled for are this machine's GPUs.
    pub arch: Option<&'static str>,
    /// What messages call the source.
    pub name: Option<String>,
}

impl CompileOptions {
    /// As the compiler of this project has them.
    fn options(&self) -> candle_rocm_cuda::Result<Options> {
        let mut arguments = self.options.clone();
        let folders = self.include_paths.iter();
        arguments.extend(folders.map(|folder| format!("--include-path={folder}")));
        if self.use_fast_math == Some(true) {
            arguments.push("--use_fast_math".to_owned());
        }
        arguments.extend(self.fmad.map(|fmad| format!("--fmad={fmad}")));
        Options::from_nvcc(&arguments, Path::new(""))
    }
}

/// Compiles CUDA source for the GPUs of this machine. Results are kept with the compiled kernels, by content, options and
/// compiler.
///
/// # Errors
/// As [`compile_text_with`].
pub fn compile_text<S: AsRef<str>>(text: S) -> Result<Image, CompileError> {
    compile_text_with(text, CompileOptions::default())
}

/// The same, with options.
///
/// # Errors
/// There is no GPU or no compiler, an option is not known, or the source does not compile: then with the compiler's log,
/// whose lines are the source's.
pub fn compile_text_with<S: AsRef<str>>(
    text: S,
    options: CompileOptions,
) -> Result<Image, CompileError> {
    let wrong = |error: candle_rocm_cuda::Error| Error::new(ErrorKind::Module, error.to_string());
    let archs = architectures()?;
    let compiler = Compiler::at_run_time(&archs).map_err(wrong)?;
    let source = Source::Text {
        name: options.name.clone().unwrap_or_else(|| NAME.to_owned()),
        text: text.as_ref().to_owned(),
    };
    let options = options.options().map_err(wrong)?;
    let program = compiler.compile(&source, &options).map_err(wrong)?;
    for trouble in compiler.finish() {
        tracing::warn!("kernel cache: {trouble}");
    }
    for line in program.warnings.lines() {
        tracing::warn!("{line}");
    }
    Ok(Image::from_src(text::encode(&program)))
}

/// The processors of the runtime's GPUs, separated by commas.
fn architectures() -> Result<String, Error> {
    let runtime = runtime::current()?;
    if runtime.kind() == RuntimeKind::Nvidia {
        return Err(Error::unsupported(
            "CUDA source is compiled at run time for AMD GPUs alone, not by the `nvidia` runtime",
        ));
    }
    let mut archs = BTreeSet::new();
    for ordinal in 0..runtime.device_count() {
        archs.insert(runtime.device(ordinal)?.info().arch.clone());
    }
    if archs.is_empty() {
        return Err(Error::unsupported("there is no GPU to compile for"));
    }
    Ok(archs.into_iter().collect::<Vec<_>>().join(","))
}
