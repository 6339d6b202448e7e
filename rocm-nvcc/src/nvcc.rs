//! `nvcc` as build scripts call it: its options, and what it makes of them.

use std::path::{Path, PathBuf};

use rocm_toolchain::variables;

use crate::compiler::Compiler;
use crate::error::{Error, Result};
use crate::options::{self, Options};
use crate::program::Source;
use crate::text;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// `--version`
    Version,
    /// `--list-gpu-code` or `--list-gpu-arch`: `sm` or `compute`.
    List(&'static str),
    /// `--help`
    Help,
    /// Code objects as text, for each file.
    Compile(Job),
    /// An object of both sides, for each file.
    Objects(Job),
    /// A static library: objects as they are, sources compiled.
    Library(Job),
}

/// Files to compile.
#[derive(Debug, PartialEq, Eq)]
pub struct Job {
    /// The `.cu` files, and for a library objects too.
    pub inputs: Vec<PathBuf>,
    /// Where the one result goes.
    pub output: Option<PathBuf>,
    /// Where all go that have no name.
    pub folder: PathBuf,
    /// How to compile.
    pub options: Options,
}

/// What `--help` says.
pub const HELP: &str = "\
nvcc of candle-rocm: compiles CUDA C++ for AMD GPUs.

  nvcc --ptx [-o FILE | --output-directory DIR] [options] FILE.cu...

  nvcc -c    [-o FILE | --output-directory DIR] [options] FILE.cu...
  nvcc --lib -o FILE [options] FILE.cu|FILE.o...

--ptx writes text with code objects for the architectures of CANDLE_ROCM_ARCHS; it is embedded and loaded where PTX would
be (--cubin and --fatbin write the same). -c writes objects whose host code launches their kernels (<<<>>>), --lib a static
library of such; a Rust program that links it has the CUDA runtime's functions from candle-rocm's cudarc. Options that code
depends on are known (-I, -D, -U, -std, -include, --use_fast_math, --fmad, --default-stream); those about NVIDIA's GPUs change
nothing; others are errors. Programs and shared libraries cannot be made.
";

/// Forms of output that are text here.
const TEXTS: &[&str] = &["-ptx", "--ptx", "-cubin", "--cubin", "-fatbin", "--fatbin"];
/// Those that cannot be made.
const OTHERS: &[&str] = &[
    "-dc",
    "--device-c",
    "-dlink",
    "--device-link",
    "-shared",
    "--shared",
    "-link",
    "--link",
    "-run",
    "--run",
];

/// What the arguments, without the program's own name, ask for. Relative paths are relative to `folder`.
///
/// # Errors
/// An option is not known, lacks its value, or asks for what cannot be made; or there is no file.
pub fn parse<S: AsRef<str>>(arguments: &[S], folder: &Path) -> Result<Command> {
    let unknown = |option: &str, advice: &str| Error::Option {
        option: option.to_owned(),
        advice: advice.to_owned(),
    };
    let mut left = arguments.iter().map(AsRef::as_ref);
    let mut job = Job {
        inputs: Vec::new(),
        output: None,
        folder: folder.to_owned(),
        options: Options::default(),
    };
    let mut form: Option<fn(Job) -> Command> = None;
    while let Some(argument) = left.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        match name {
            "--version" | "-V" => return Ok(Command::Version),
            "--help" | "-h" => return Ok(Command::Help),
            "--list-gpu-code" | "-code-ls" => return Ok(Command::List("sm")),
            "--list-gpu-arch" | "-arch-ls" => return Ok(Command::List("compute")),
            "-o" | "--output-file" | "-odir" | "--output-directory" => {
                let value = value.or_else(|| left.next());
                let path = folder.join(value.ok_or_else(|| unknown(name, " without its value"))?);
                if name.starts_with("-od") || name.ends_with("directory") {
                    job.folder = path;
                } else {
                    job.output = Some(path);
                }
            }
            name if TEXTS.contains(&name) => form = Some(Command::Compile),
            "-c" | "--compile" => form = Some(Command::Objects),
            "-lib" | "--lib" => form = Some(Command::Library),
            name if OTHERS.contains(&name) => {
                return Err(unknown(
                    name,
                    " here: programs, shared libraries and device code that is linked later cannot be made for AMD GPUs. \
                     -c and --lib make what a Rust program links, --ptx what it loads",
                ));
            }
            name if name.starts_with('-') => job.options.take(argument, &mut left, folder)?,
            file => job.inputs.push(folder.join(file)),
        }
    }
    let no_output = job.output.is_none();
    match (form.map(|form| form(job)), no_output) {
        (
            Some(Command::Compile(job) | Command::Objects(job) | Command::Library(job)),
            _,
        ) if job.inputs.is_empty() => {
            Err(Error::Setup("no input file; --help says more".to_owned()))
        }
        (Some(Command::Compile(job) | Command::Objects(job)), false) if job.inputs.len() > 1 => {
            Err(Error::Setup(
                "several input files, and one output file: --output-directory names a folder for all".to_owned(),
            ))
        }
        (Some(Command::Library(_)), true) => Err(Error::Setup(
            "a library without a name: -o FILE names it".to_owned(),
        )),
        (Some(command), _) => Ok(command),
        (None, _) => Err(Error::Setup(
            "a program cannot be made for AMD GPUs: -c and --lib make what a Rust program links, --ptx what it loads".to_owned(),
        )),
    }
}

/// Does it. What it returns is for standard output.
///
/// # Errors
/// A file does not compile, or cannot be read or written.
pub fn run(command: &Command) -> Result<String> {
    let arch = options::cuda_arch()? / 10;
    match command {
        // Build scripts read the fourth line.
        Command::Version => Ok(format!(
            "nvcc: candle-rocm {}, which compiles for AMD GPUs\n\
             Copyright (c) the authors of candle-rocm\n\
             Built as a part of candle-rocm\n\
             Cuda compilation tools, release 12.8, V12.8.0\n\
             Build cuda_12.8.r12.8/candle-rocm\n",
            env!("CARGO_PKG_VERSION")
        )),
        Command::List(kind) => Ok(format!("{kind}_{arch}\n")),
        Command::Help => Ok(HELP.to_owned()),
        Command::Compile(job) => to_texts(job),
        Command::Objects(job) => to_objects(job),
        Command::Library(job) => to_library(job),
    }
}

fn compiler() -> Result<Compiler> {
    Compiler::at_run_time(&std::env::var(variables::ARCHS).unwrap_or_default())
}

fn sources<'a>(job: &Job, files: impl IntoIterator<Item = &'a PathBuf>) -> Vec<(Source, Options)> {
    let source = |file: &PathBuf| (Source::File(file.clone()), job.options.clone());
    files.into_iter().map(source).collect()
}

/// Where the result of one file goes.
fn path_of(job: &Job, input: &Path, extension: &str) -> PathBuf {
    let named = job.folder.join(input.file_stem().unwrap_or_default());
    let named = named.with_extension(extension);
    job.output.clone().unwrap_or(named)
}

fn with_line_end(mut text: String) -> String {
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// What the user should hear beside what the compiler said, a line each.
fn notices(compiler: &Compiler) -> String {
    let lines = compiler.finish().into_iter();
    lines.map(|notice| format!("nvcc: {notice}\n")).collect()
}

fn to_texts(job: &Job) -> Result<String> {
    let compiler = compiler()?;
    let mut said = String::new();
    let programs = compiler.compile_all(&sources(job, &job.inputs))?;
    for (program, input) in programs.into_iter().zip(&job.inputs) {
        let path = path_of(job, input, "ptx");
        std::fs::write(&path, text::encode(&program)).map_err(Error::file(&path))?;
        said += &with_line_end(program.warnings);
    }
    Ok(said + &notices(&compiler))
}

fn to_objects(job: &Job) -> Result<String> {
    let compiler = compiler()?;
    let mut said = String::new();
    let objects = compiler.compile_objects(&sources(job, &job.inputs))?;
    for (object, input) in objects.into_iter().zip(&job.inputs) {
        let path = path_of(job, input, "o");
        std::fs::write(&path, &object.object).map_err(Error::file(&path))?;
        said += &with_line_end(object.warnings);
    }
    Ok(said + &notices(&compiler))
}

fn to_library(job: &Job) -> Result<String> {
    let is_object = |file: &&PathBuf| {
        file.extension()
            .is_some_and(|end| end == "o" || end == "obj")
    };
    let (mut objects, files): (Vec<_>, Vec<_>) = job.inputs.iter().partition(is_object);
    let compiler = compiler()?;
    let folder = tempfile::tempdir().map_err(Error::file(&std::env::temp_dir()))?;
    let (mut said, mut made) = (String::new(), Vec::new());
    for object in compiler.compile_objects(&sources(job, files))? {
        let path = folder
            .path()
            .join(format!("{}-{}.o", object.name, made.len()));
        std::fs::write(&path, &object.object).map_err(Error::file(&path))?;
        said += &with_line_end(object.warnings);
        made.push(path);
    }
    objects.extend(&made);
    let objects: Vec<PathBuf> = objects.into_iter().cloned().collect();
    // Always there: parsing refuses a library without a name.
    if let Some(library) = &job.output {
        compiler.archive(&objects, library)?;
    }
    Ok(said + &notices(&compiler))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command> {
        let words: Vec<&str> = line.split_whitespace().collect();
        parse(&words, Path::new("/at"))
    }

    #[test]
    fn build_scripts_calls_are_understood() {
        let line = "-gencode=arch=compute_80,code=sm_80 --ptx --default-stream per-thread --output-directory /out -O3 \
                    -std=c++17 -Iinclude -allow-unsupported-compiler -ccbin g++ --threads=4 src/one.cu src/two.cu";
        let Command::Compile(job) = parsed(line).expect("as bindgen_cuda and cudaforge call it")
        else {
            panic!("another command");
        };
        assert_eq!(job.folder, PathBuf::from("/out"));
        assert_eq!(
            job.inputs,
            [
                PathBuf::from("/at/src/one.cu"),
                PathBuf::from("/at/src/two.cu")
            ]
        );
        assert_eq!(job.options.include, [PathBuf::from("/at/include")]);
        let linked =
            "-std=c++17 -O3 -c -o /out/x.o --default-stream per-thread --verbose src/one.cu";
        let Command::Objects(job) = parsed(linked).expect("as scripts that link call it") else {
            panic!("another command");
        };
        assert_eq!(job.output, Some(PathBuf::from("/out/x.o")));
        assert!(job
            .options
            .flags
            .contains(&"-fgpu-default-stream=per-thread".to_owned()));
        let Command::Library(job) = parsed("--lib -o /out/libx.a /out/x.o").expect("a library")
        else {
            panic!("another command");
        };
        assert_eq!(job.inputs, [PathBuf::from("/out/x.o")]);
        assert_eq!(
            parsed("--list-gpu-code").expect("a list"),
            Command::List("sm")
        );
        assert_eq!(parsed("--version").expect("a version"), Command::Version);
    }

    #[test]
    fn what_cannot_be_done_says_so() {
        for (line, said) in [
            (
                "-shared x.cu -o x.so",
                "`-shared` is not known here: programs",
            ),
            ("--lib a.o", "-o FILE names it"),
            ("--lib -o lib.a", "no input file"),
            ("-c x.cu y.cu -o x.o", "--output-directory"),
            ("--ptx --tomorrow x.cu", "`--tomorrow` is not known"),
            ("--ptx -o a.ptx x.cu y.cu", "--output-directory"),
            ("--ptx", "no input file"),
            ("x.cu", "a program cannot be made"),
            ("--ptx x.cu -o", "`-o` is not known without its value"),
        ] {
            let error = parsed(line).expect_err(line).to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
