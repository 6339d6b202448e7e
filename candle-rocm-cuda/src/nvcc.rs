//! `nvcc` as build scripts call it: its options, and what it makes of them.

use std::path::{Path, PathBuf};

use crate::architectures;
use crate::compiler::{Compiler, Source};
use crate::error::{Error, Result};
use crate::options::{self, Options};
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
}

/// Files to compile.
#[derive(Debug, PartialEq, Eq)]
pub struct Job {
    /// The `.cu` files.
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

What it writes is text with code objects for the architectures of CANDLE_ROCM_ARCHS; it is embedded and loaded where PTX
would be (--cubin and --fatbin write the same). Options that device code depends on are known (-I, -D, -U, -std, -include,
--use_fast_math, --fmad); those about NVIDIA's GPUs change nothing; others are errors. Objects and libraries with host code
(-c, --lib, linking) cannot be made yet.
";

/// Forms of output that are text here.
const TEXTS: &[&str] = &["-ptx", "--ptx", "-cubin", "--cubin", "-fatbin", "--fatbin"];
/// Those that cannot be made.
const HOST: &[&str] = &[
    "-c",
    "--compile",
    "-dc",
    "--device-c",
    "-dlink",
    "--device-link",
    "-lib",
    "--lib",
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
    let mut to_text = false;
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
            name if TEXTS.contains(&name) => to_text = true,
            name if HOST.contains(&name) => {
                return Err(unknown(
                    name,
                    " here: objects and libraries with host code that launches kernels cannot be made for AMD GPUs yet. \
                     --ptx compiles kernels that are launched from Rust",
                ));
            }
            name if name.starts_with('-') => job.options.take(argument, &mut left, folder)?,
            file => job.inputs.push(folder.join(file)),
        }
    }
    match (job.inputs.len(), &job.output) {
        (0, _) => Err(Error::Setup("no input file; --help says more".to_owned())),
        (2.., Some(output)) => Err(Error::Setup(format!(
            "several input files, and one output file {}: --output-directory names a folder for all",
            output.display()
        ))),
        _ if !to_text => Err(Error::Setup(
            "a program cannot be made for AMD GPUs yet: --ptx compiles kernels that are launched from Rust".to_owned(),
        )),
        _ => Ok(Command::Compile(job)),
    }
}

/// Does it. What it returns is for standard output.
///
/// # Errors
/// A file does not compile, or cannot be read or written.
pub fn run(command: &Command) -> Result<String> {
    let arch = options::cuda_arch()? / 10;
    match command {
        Command::Version => Ok(format!(
            "nvcc: candle-rocm {}, which compiles for AMD GPUs\n\
             Cuda compilation tools, release 12.8, V12.8.0\n",
            env!("CARGO_PKG_VERSION")
        )),
        Command::List(kind) => Ok(format!("{kind}_{arch}\n")),
        Command::Help => Ok(HELP.to_owned()),
        Command::Compile(job) => {
            let compiler =
                Compiler::at_run_time(&std::env::var(architectures::VARIABLE).unwrap_or_default())?;
            let sources: Vec<_> = job
                .inputs
                .iter()
                .map(|file| (Source::File(file.clone()), job.options.clone()))
                .collect();
            let mut said = String::new();
            for (program, input) in compiler.compile_all(&sources)?.iter().zip(&job.inputs) {
                let named = job.folder.join(input.file_stem().unwrap_or_default());
                let path = job
                    .output
                    .clone()
                    .unwrap_or_else(|| named.with_extension("ptx"));
                std::fs::write(&path, text::encode(program)).map_err(Error::file(&path))?;
                if !program.warnings.is_empty() {
                    said += &program.warnings;
                    said.push('\n');
                }
            }
            compiler.finish();
            Ok(said)
        }
    }
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
                "-c x.cu -o x.o",
                "`-c` is not known here: objects and libraries with host code",
            ),
            ("--lib -o lib.a a.o", "`--lib`"),
            ("--ptx --tomorrow x.cu", "`--tomorrow` is not known"),
            ("--ptx -o a.ptx x.cu y.cu", "--output-directory"),
            ("--ptx", "no input file"),
            ("x.cu", "--ptx compiles kernels"),
            ("--ptx x.cu -o", "`-o` is not known without its value"),
        ] {
            let error = parsed(line).expect_err(line).to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
