//! CUDA source compiled at run time, where cudarc asks NVRTC: by AMD's hiprtc where it loads, else by a clang on the
//! machine; by NVRTC on NVIDIA GPUs.
//!
//! hiprtc has neither a preprocessor nor the C library's headers. So a source that it refuses goes to clang, where
//! there is one, whose word is the last.

use std::collections::BTreeSet;
use std::path::Path;

use candle_rocm_cuda::{run_time, text, Compiler, Options, Program, Source};

use super::image::Image;
use super::rtc::{self, HIPRTC_VARIABLE};
use crate::base::error::{CompileError, Error, ErrorKind};
use crate::runtime::{self, RuntimeKind};

/// What a source is called where nobody names it: as NVRTC does.
const NAME: &str = "default_program";
/// Says which compiles for AMD GPUs: `hiprtc` or `clang`; without it hiprtc where it loads, else clang.
pub const COMPILER_VARIABLE: &str = "CANDLE_ROCM_CUDA_COMPILER";

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
    /// As NVRTC has them, for this processor where they name none.
    fn for_nvrtc(&self, arch: &str) -> Vec<String> {
        let mut all = Vec::new();
        let switches = [
            ("ftz", self.ftz),
            ("prec-sqrt", self.prec_sqrt),
            ("prec-div", self.prec_div),
            ("fmad", self.fmad),
        ];
        let switches = switches.into_iter();
        all.extend(switches.filter_map(|(name, on)| on.map(|on| format!("--{name}={on}"))));
        if self.use_fast_math == Some(true) {
            all.push("--use_fast_math".to_owned());
        }
        let registers = self.maxrregcount.iter();
        all.extend(registers.map(|count| format!("--maxrregcount={count}")));
        let folders = self.include_paths.iter();
        all.extend(folders.map(|folder| format!("--include-path={folder}")));
        let own = arch.replacen("sm_", "compute_", 1);
        all.push(format!("--gpu-architecture={}", self.arch.unwrap_or(&own)));
        all.extend(self.options.iter().cloned());
        all
    }
}

/// Compiles CUDA source for the GPUs of this machine. Results are kept with the compiled kernels, by content, options
/// and compiler.
///
/// # Errors
/// As [`compile_text_with`].
pub fn compile_text<S: AsRef<str>>(text: S) -> Result<Image, CompileError> {
    compile_text_with(text, CompileOptions::default())
}

/// The same, with options.
///
/// # Errors
/// There is no GPU or nothing that compiles, an option is not known, or the source does not compile: then with the
/// compiler's log, whose lines are the source's. PTX is no source, and is refused.
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
    let options = options.options().map_err(wrong)?;
    let program = match std::env::var(COMPILER_VARIABLE)
        .unwrap_or_default()
        .as_str()
    {
        "" => by_either(text, name, &options, &archs)?,
        "hiprtc" => by_hiprtc(text, name, &options, &archs)?.map_err(wrong)?,
        "clang" => by_clang(text, name, &options, &archs).map_err(wrong)?,
        other => {
            let message = format!("{COMPILER_VARIABLE}={other}: hiprtc and clang compile");
            return Err(Error::invalid(message).into());
        }
    };
    for line in program.warnings.lines() {
        tracing::warn!("{line}");
    }
    Ok(Image::from_src(text::encode(&program)))
}

fn wrong(error: candle_rocm_cuda::Error) -> Error {
    Error::new(ErrorKind::Module, error.to_string())
}

/// By hiprtc where it loads and takes the source, else by clang.
fn by_either(
    text: &str,
    name: &str,
    options: &Options,
    archs: &[String],
) -> Result<Program, Error> {
    let refused = match by_hiprtc(text, name, options, archs) {
        Ok(Ok(program)) => return Ok(program),
        Ok(Err(error)) => error,
        Err(not_loaded) => {
            return by_clang(text, name, options, archs).map_err(|error| match error {
                candle_rocm_cuda::Error::Setup(message) => {
                    let message = format!("{message}\n{}", not_loaded.message());
                    Error::new(ErrorKind::Module, message)
                }
                error => wrong(error),
            })
        }
    };
    tracing::debug!("hiprtc does not compile {name}, and clang is asked: {refused}");
    by_clang(text, name, options, archs).map_err(|error| match error {
        // There is none, and hiprtc's word stands.
        candle_rocm_cuda::Error::Setup(_) => wrong(refused),
        error => wrong(error),
    })
}

/// By AMD's library.
///
/// # Errors
/// It does not load; inside, what it or we have against the source.
fn by_hiprtc(
    text: &str,
    name: &str,
    options: &Options,
    archs: &[String],
) -> Result<candle_rocm_cuda::Result<Program>, Error> {
    let library = rtc::hiprtc().map_err(|tried| {
        Error::new(
            ErrorKind::Module,
            format!(
                "AMD's hiprtc, which needs no compiler on the machine, was not found either: install ROCm's, or set \
                 ROCM_PATH to where it is, or {HIPRTC_VARIABLE} to the library itself. {tried}"
            ),
        )
    })?;
    let compiled = run_time::compile(library, archs, name, text, options);
    Ok(compiled.map(|(program, troubles)| {
        tracing::debug!("{name} was compiled by {}", library.path());
        warn_of_cache(troubles);
        program
    }))
}

/// By a clang on the machine.
fn by_clang(
    text: &str,
    name: &str,
    options: &Options,
    archs: &[String],
) -> candle_rocm_cuda::Result<Program> {
    let compiler = Compiler::at_run_time(&archs.join(","))?;
    let source = Source::Text {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let program = compiler.compile(&source, options)?;
    tracing::debug!("{name} was compiled by {}", compiler.clang().0.display());
    warn_of_cache(compiler.finish());
    Ok(program)
}

fn warn_of_cache(troubles: Vec<String>) {
    for trouble in troubles {
        tracing::warn!("kernel cache: {trouble}");
    }
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
