//! What nvcc and NVRTC are told, and what clang is told instead.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

pub use rocm_toolchain::cuda_arch::DEFAULT as CUDA_ARCH;
pub use rocm_toolchain::variables::CUDA_ARCH as CUDA_ARCH_VARIABLE;

/// How to compile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Folders of the user's headers, in the order in which they are searched.
    pub include: Vec<PathBuf>,
    /// What is told clang besides: definitions, the language's version, warnings.
    pub flags: Vec<String>,
    /// `__CUDA_ARCH__`, if it is not [`cuda_arch`].
    pub cuda_arch: Option<u32>,
}

/// `__CUDA_ARCH__` as the environment says, or [`CUDA_ARCH`].
///
/// # Errors
/// [`CUDA_ARCH_VARIABLE`] is no number.
pub fn cuda_arch() -> Result<u32> {
    Ok(rocm_toolchain::cuda_arch::of_environment()?)
}

/// What an option of nvcc means here.
enum Meaning {
    /// These flags of clang.
    Flags(&'static [&'static str]),
    /// Nothing: it is about NVIDIA's tools or GPUs, or about host code.
    Nothing,
    /// The same with a value, in the next argument or after `=`.
    NothingOf,
    /// `-I`
    Include,
    /// `-D` and others that clang knows by the same name, with a value.
    Same(&'static str),
    /// `-std`
    Standard,
    /// `--default-stream`
    DefaultStream,
    /// `-include`
    IncludeFile,
    /// Options of the host's compiler, of which those with definitions and folders matter.
    Host,
}

/// nvcc's options (and NVRTC's, which have the long names), and their meaning.
const MEANINGS: &[(&[&str], Meaning)] = &[
    (
        &["-I", "--include-path", "-isystem", "--system-include"],
        Meaning::Include,
    ),
    (&["-D", "--define-macro"], Meaning::Same("-D")),
    (&["-U", "--undefine-macro"], Meaning::Same("-U")),
    (&["-std", "--std"], Meaning::Standard),
    (
        &["-default-stream", "--default-stream"],
        Meaning::DefaultStream,
    ),
    (&["-include", "--pre-include"], Meaning::IncludeFile),
    (
        &["-use_fast_math", "--use_fast_math"],
        Meaning::Flags(&[
            "-fgpu-approx-transcendentals",
            "-fno-hip-fp32-correctly-rounded-divide-sqrt",
        ]),
    ),
    (&["-w", "--disable-warnings"], Meaning::Flags(&["-w"])),
    (
        &["-lineinfo", "--generate-line-info"],
        Meaning::Flags(&["-gline-tables-only"]),
    ),
    (&["-restrict", "--restrict"], Meaning::Nothing),
    (
        &[
            "-G",
            "--device-debug",
            "-g",
            "--debug",
            "--expt-relaxed-constexpr",
            "-expt-relaxed-constexpr",
            "--expt-extended-lambda",
            "-expt-extended-lambda",
            "--extended-lambda",
            "-extended-lambda",
            "--verbose",
            "-v",
            "--keep",
            "-keep",
            "-ptx",
            "--ptx",
            "-cubin",
            "--cubin",
            "-fatbin",
            "--fatbin",
            "-c",
            "--compile",
            "-dc",
            "-rdc=false",
            "--device-c",
            "--dopt",
            "-extra-device-vectorization",
            "--extra-device-vectorization",
            "-m64",
            "--m64",
            "-default-device",
            "--device-as-default-execution-space",
            "--no-source-include",
            "--split-compile",
            "-allow-unsupported-compiler",
            "--allow-unsupported-compiler",
            "--device-int128",
            "-fPIC",
            "--display-error-number",
            "-fvisibility=hidden",
        ],
        Meaning::Nothing,
    ),
    (
        &[
            "-gencode",
            "--generate-code",
            "-arch",
            "--gpu-architecture",
            "-code",
            "--gpu-code",
            "-maxrregcount",
            "--maxrregcount",
            "-ccbin",
            "--compiler-bindir",
            "-Xptxas",
            "--ptxas-options",
            "-Xlinker",
            "--linker-options",
            "-Xnvlink",
            "-t",
            "--threads",
            "-diag-suppress",
            "--diag-suppress",
            "-diag_suppress",
            "--diag_suppress",
            "-Werror",
            "--Werror",
            "-cudart",
            "--cudart",
            "-split-compile",
            "--split-compile-extended",
            "-Xfatbin",
            "--fatbin-options",
            "-prec-div",
            "--prec-div",
            "-prec-sqrt",
            "--prec-sqrt",
            "-ftz",
            "--ftz",
            "-rdc",
            "--relocatable-device-code",
            "-l",
            "-L",
            "-j",
        ],
        Meaning::NothingOf,
    ),
    (&["-Xcompiler", "--compiler-options"], Meaning::Host),
];

impl Options {
    /// From nvcc's options, or NVRTC's, which have the same names. Relative folders are relative to `folder`.
    ///
    /// # Errors
    /// An option that is not known, or one whose value is missing.
    pub fn from_nvcc<S: AsRef<str>>(arguments: &[S], folder: &Path) -> Result<Self> {
        let mut options = Self::default();
        let mut left = arguments.iter().map(AsRef::as_ref);
        while let Some(argument) = left.next() {
            options.take(argument, &mut left, folder)?;
        }
        Ok(options)
    }

    /// Without what the preprocessor is told: definitions and files.
    pub(crate) fn without_preprocessor(&self) -> Self {
        let mut flags = Vec::new();
        let mut left = self.flags.iter();
        while let Some(flag) = left.next() {
            if flag == "-include" {
                left.next();
            } else if !flag.starts_with("-D") && !flag.starts_with("-U") {
                flags.push(flag.clone());
            }
        }
        Self {
            include: Vec::new(),
            flags,
            cuda_arch: self.cuda_arch,
        }
    }

    /// For host code that does not compile: with device code in sight of it.
    ///
    /// Some files define what their kernels call only where `__CUDA_ARCH__` is defined, which it is on the device's side
    /// alone. nvcc does not look into kernels on the host's side; clang does.
    pub(crate) fn with_device_code(&self) -> Result<Self> {
        let mut options = self.clone();
        let arch = self.cuda_arch()?;
        options.flags.push(format!("-D__CUDA_ARCH__={arch}"));
        Ok(options)
    }

    /// `__CUDA_ARCH__` for this source.
    pub(crate) fn cuda_arch(&self) -> Result<u32> {
        self.cuda_arch.map_or_else(cuda_arch, Ok)
    }

    /// Takes one option and its value, if it has one.
    ///
    /// # Errors
    /// As [`Options::from_nvcc`].
    pub fn take<'a>(
        &mut self,
        argument: &str,
        rest: &mut impl Iterator<Item = &'a str>,
        folder: &Path,
    ) -> Result<()> {
        let unknown = |advice: &str| Error::Option {
            option: argument.to_owned(),
            advice: advice.to_owned(),
        };
        if let Some(level) = argument.strip_prefix("-O") {
            // clang's levels, of which the lower ones leave GPU code that nobody wants to run.
            return match level {
                "" | "0" | "1" | "2" | "3" | "s" => Ok(()),
                _ => Err(unknown(": -O0 to -O3 are")),
            };
        }
        if let Some(value) = ["-fmad=", "--fmad="]
            .iter()
            .find_map(|name| argument.strip_prefix(name))
        {
            if value == "false" {
                self.flags.push("-ffp-contract=off".to_owned());
            }
            return Ok(());
        }
        let (meaning, mut value) = meaning_of(argument).ok_or_else(|| {
            unknown(
                " of those that nvcc has; it can be left out where it is about NVIDIA's GPUs alone",
            )
        })?;
        let needed = || {
            value
                .take()
                .or_else(|| rest.next().map(str::to_owned))
                .ok_or_else(|| unknown(" without its value"))
        };
        self.apply(meaning, needed, &unknown, folder)
    }

    /// Takes what an option means. `needed` is its value, `unknown` an error that names it.
    fn apply(
        &mut self,
        meaning: &Meaning,
        mut needed: impl FnMut() -> Result<String>,
        unknown: &dyn Fn(&str) -> Error,
        folder: &Path,
    ) -> Result<()> {
        match meaning {
            Meaning::Nothing => {}
            Meaning::Flags(flags) => self
                .flags
                .extend(flags.iter().map(|flag| (*flag).to_owned())),
            Meaning::NothingOf => {
                needed()?;
            }
            Meaning::Include => {
                let path = folder.join(needed()?);
                self.include.push(path);
            }
            Meaning::IncludeFile => {
                let file = needed()?;
                self.flags.extend(["-include".to_owned(), file]);
            }
            Meaning::Same(short) => {
                let value = needed()?;
                match value.strip_prefix("__CUDA_ARCH__=") {
                    Some(arch) => {
                        let number = arch.parse();
                        let advice = ": it is a number, as in __CUDA_ARCH__=800";
                        self.cuda_arch = Some(number.map_err(|_| unknown(advice))?);
                    }
                    None => self.flags.push(format!("{short}{value}")),
                }
            }
            Meaning::Standard => {
                let standard = needed()?;
                self.flags.push(format!("-std={standard}"));
            }
            Meaning::DefaultStream => match needed()?.as_str() {
                "legacy" | "null" => {}
                "per-thread" => self
                    .flags
                    .push("-fgpu-default-stream=per-thread".to_owned()),
                _ => return Err(unknown(": legacy, null and per-thread are")),
            },
            Meaning::Host => {
                // Several, with commas between them; what the host's compiler does besides is not the device's.
                for option in needed()?.split(',') {
                    if option.starts_with("-D") || option.starts_with("-U") {
                        self.flags.push(option.to_owned());
                    } else if let Some(path) = option.strip_prefix("-I") {
                        self.include.push(folder.join(path));
                    }
                }
            }
        }
        Ok(())
    }
}

/// What an argument means, and the value that it has in it.
fn meaning_of(argument: &str) -> Option<(&'static Meaning, Option<String>)> {
    let known = |name: &str| {
        let all = MEANINGS.iter().find(|(names, _)| names.contains(&name));
        all.map(|(_, meaning)| meaning)
    };
    let (name, value) = match argument.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (argument, None),
    };
    if let Some(meaning) = known(argument).or_else(|| known(name)) {
        return Some((meaning, value));
    }
    // `-DNAME=1` and `-Ifolder` have their values behind them.
    let joined = ["-D", "-U", "-I", "-L", "-l", "-t", "-j"];
    let short = joined.into_iter().find(|short| {
        argument.starts_with(short) && argument.len() > 2 && !argument.starts_with("--")
    })?;
    Some((known(short)?, Some(argument[2..].to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_device_code_needs_is_kept_and_the_rest_is_known() {
        let options = Options::from_nvcc(
            &[
                "-O3",
                "-std=c++17",
                "--expt-relaxed-constexpr",
                "-gencode",
                "arch=compute_80,code=sm_80",
                "-Iinclude",
                "-I",
                "/abs",
                "-DA=1",
                "-D",
                "B",
                "--define-macro=C=2",
                "-Xcompiler",
                "-fPIC,-DHOST",
                "--use_fast_math",
                "-arch=sm_90",
                "--fmad=false",
                "-D__CUDA_ARCH__=700",
                "--threads",
                "4",
                "-t4",
            ],
            Path::new("/at"),
        )
        .expect("all are known");
        assert_eq!(
            options.include,
            [PathBuf::from("/at/include"), PathBuf::from("/abs")]
        );
        assert_eq!(options.cuda_arch, Some(700));
        assert_eq!(
            options.flags,
            [
                "-std=c++17",
                "-DA=1",
                "-DB",
                "-DC=2",
                "-DHOST",
                "-fgpu-approx-transcendentals",
                "-fno-hip-fp32-correctly-rounded-divide-sqrt",
                "-ffp-contract=off",
            ]
        );
    }

    #[test]
    fn others_are_errors_that_name_them() {
        for (arguments, named) in [
            (&["--no-such"][..], "--no-such"),
            (&["-I"], "-I"),
            (&["-O9"], "-O9"),
        ] {
            let error = Options::from_nvcc(arguments, Path::new("/")).expect_err("not known");
            assert!(error.to_string().contains(&format!("`{named}`")), "{error}");
        }
    }
}
