//! CUDA source compiled at run time for AMD GPUs: by AMD's hiprtc where it loads, else by a clang on the machine.
//!
//! hiprtc has neither a preprocessor nor the C library's headers. So a source that it refuses goes to clang, where
//! there is one, whose word is the last.

use std::path::Path;

use rocm_nvcc::{run_time, text, Compiler, Error as FrontEndError, Options, Program, Source};
use rocm_toolchain::Notices;

use super::compile_options::{CompileOptions, COMPILER_VARIABLE};
use super::hiprtc::{self, HIPRTC_VARIABLE};
use super::image::Image;
use crate::base::error::{Error, ErrorKind};

/// Compiles a source for these processors, by what [`COMPILER_VARIABLE`] names.
///
/// # Errors
/// Nothing compiles, an option is not known, or the source does not compile.
pub(super) fn compile(
    text: &str,
    name: &str,
    options: &CompileOptions,
    archs: &[String],
) -> Result<Image, Error> {
    let options = front_end_options(options).map_err(wrong)?;
    let chosen = std::env::var(COMPILER_VARIABLE).unwrap_or_default();
    let program = match chosen.as_str() {
        "" => by_either(text, name, &options, archs)?,
        "hiprtc" => by_hiprtc(text, name, &options, archs)?.map_err(wrong)?,
        "clang" => by_clang(text, name, &options, archs).map_err(wrong)?,
        other => {
            let message = format!("{COMPILER_VARIABLE}={other}: hiprtc and clang compile");
            return Err(Error::invalid(message));
        }
    };
    for line in program.warnings.lines() {
        tracing::warn!("{line}");
    }
    Ok(Image::from_src(text::encode(&program)))
}

/// Options as the compiler of this project has them.
fn front_end_options(options: &CompileOptions) -> rocm_nvcc::Result<Options> {
    let mut arguments = options.options.clone();
    let folders = options.include_paths.iter();
    arguments.extend(folders.map(|folder| format!("--include-path={folder}")));
    if options.use_fast_math == Some(true) {
        arguments.push("--use_fast_math".to_owned());
    }
    arguments.extend(options.fmad.map(|fmad| format!("--fmad={fmad}")));
    Options::from_nvcc(&arguments, Path::new(""))
}

fn wrong(error: FrontEndError) -> Error {
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
                error if lacks_a_compiler(&error) => {
                    let message = format!("{error}\n{}", not_loaded.message());
                    Error::new(ErrorKind::Module, message)
                }
                error => wrong(error),
            })
        }
    };
    tracing::debug!("hiprtc does not compile {name}, and clang is asked: {refused}");
    by_clang(text, name, options, archs).map_err(|error| match error {
        // There is none, and hiprtc's word stands.
        error if lacks_a_compiler(&error) => wrong(refused),
        error => wrong(error),
    })
}

/// Whether it is about the machine, and not about the source.
fn lacks_a_compiler(error: &FrontEndError) -> bool {
    matches!(error, FrontEndError::Toolchain(_) | FrontEndError::Setup(_))
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
) -> Result<rocm_nvcc::Result<Program>, Error> {
    let library = hiprtc::library().map_err(|tried| {
        Error::new(
            ErrorKind::Module,
            format!(
                "AMD's hiprtc, which needs no compiler on the machine, was not found either: install ROCm's, or set \
                 ROCM_PATH to where it is, or {HIPRTC_VARIABLE} to the library itself. {tried}"
            ),
        )
    })?;
    let compiled = run_time::compile(library, archs, name, text, options);
    Ok(compiled.map(|(program, notices)| {
        tracing::debug!("{name} was compiled by {}", library.path());
        warn(&notices);
        program
    }))
}

/// By a clang on the machine.
fn by_clang(
    text: &str,
    name: &str,
    options: &Options,
    archs: &[String],
) -> rocm_nvcc::Result<Program> {
    let compiler = Compiler::at_run_time(&archs.join(","))?;
    let source = Source::Text {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let program = compiler.compile(&source, options)?;
    tracing::debug!("{name} was compiled by {}", compiler.clang().0.display());
    warn(&compiler.finish());
    Ok(program)
}

fn warn(notices: &Notices) {
    for notice in notices {
        tracing::warn!("{notice}");
    }
}
