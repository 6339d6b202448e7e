//! What can go wrong.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::topology::NoGpu;
use crate::variables;

/// A result with this crate's [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What to install on Debian or Ubuntu where there is no ROCm.
pub const DEBIAN_PACKAGES: &str = "clang-19 lld-19 llvm-19 rocm-device-libs";

/// Why no code for GPUs was found or made. Each text names what to do, where the user can do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no compiler.
    #[error(transparent)]
    NoCompiler(#[from] Missing),
    /// A file, a folder or a program cannot be used.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A variable of the environment has a value that cannot be used.
    #[error("{name}={value}: {reason}")]
    Variable {
        /// The variable, one of [`crate::variables`].
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it, in words.
        reason: String,
    },
    /// The machine's GPUs are to be compiled for, and it has none.
    #[error(
        "{archs}=native, but {0}; name the architectures instead, as in {archs}=gfx1100,gfx942",
        archs = variables::ARCHS
    )]
    NoGpu(#[from] NoGpu),
    /// A list of architectures without one.
    #[error("{archs}={0} names no architecture", archs = variables::ARCHS)]
    NoArchitecture(String),
    /// The compiler knows neither the architecture nor a generic target that covers it.
    #[error(
        "{archs}: the compiler does not know the architecture {name}. It knows {known}. (gfx950, gfx1153 and \
         gfx9-4-generic need LLVM 20, other generic targets LLVM 19; {clang} chooses another compiler.)",
        archs = variables::ARCHS,
        clang = variables::CLANG,
        known = known.join(", ")
    )]
    UnknownArchitecture {
        /// The architecture.
        name: String,
        /// Those that the compiler knows.
        known: Vec<String>,
    },
    /// A name that is not of an AMD processor, nor of a generic target.
    #[error("{0} is no AMD processor's name")]
    NoProcessor(String),
    /// A part of ROCm's device libraries is not there.
    #[error("{file} is missing (package rocm-device-libs)", file = .0.display())]
    NoBitcode(PathBuf),
    /// The device libraries have no constants for a processor.
    #[error("{folder}: no oclc_isa_version_*.bc for {processor}", folder = folder.display())]
    NoIsaVersion {
        /// The folder of the device libraries.
        folder: PathBuf,
        /// The processor.
        processor: String,
    },
    /// NVIDIA's device library is in none of the usual places.
    #[error(
        "no libdevice (a part of the CUDA toolkit; {libdevice} names the file). Tried {tried}",
        libdevice = variables::LIBDEVICE,
        tried = joined(.0)
    )]
    NoLibdevice(Vec<PathBuf>),
    /// A source includes what is not there.
    #[error("{file}: includes {name}, which is not there", file = file.display())]
    NoInclude {
        /// The file with the directive.
        file: PathBuf,
        /// The name in it.
        name: String,
    },
    /// A header of kernels, or a list in one, says what no build can read.
    #[error("{file}{line}: {reason}", file = file.display(), line = of_line(*line))]
    Header {
        /// The header.
        file: PathBuf,
        /// The line, from 1; 0 where it is no line's.
        line: usize,
        /// What is wrong, in words.
        reason: String,
    },
    /// Two kernel files make one module.
    #[error("{file}: another kernel file has this name", file = .0.display())]
    SameModule(PathBuf),
    /// A compiled kernel cannot be packed, or not be unpacked.
    #[error("zstd: {0}")]
    Frame(io::Error),
    /// clang refuses a source.
    #[error("clang failed\n{log}\nThe command was: {command}")]
    Clang {
        /// What it said.
        log: String,
        /// How it was called.
        command: String,
    },
    /// NVIDIA's assembler refuses what clang made.
    #[error("ptxas failed\n{0}")]
    Ptxas(String),
    /// A kernel module does not compile for an architecture.
    #[error("kernel module `{module}` for {arch}: {source}")]
    Module {
        /// The module's name.
        module: String,
        /// The GPU or generic target.
        arch: String,
        /// What is wrong.
        source: Box<Error>,
    },
    /// Another process keeps the lock of this entry of the cache.
    #[error("the cache's lock of {0} is kept")]
    Busy(String),
    /// `__CUDA_ARCH__` is to be what is no number.
    #[error("{variable}={value} is no number such as {default}", variable = variables::CUDA_ARCH)]
    CudaArch {
        /// What the variable says.
        value: String,
        /// A number that it may be.
        default: u32,
    },
    /// Text that should hold code objects does not.
    #[error("code objects as text: {0}")]
    Text(String),
}

impl Error {
    /// For files: `result.map_err(Error::file(path))`.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        |source| Error::File {
            path: path.to_owned(),
            source,
        }
    }

    /// That a header says what no build can read.
    #[cfg(feature = "build")]
    pub(crate) fn header(file: &Path, line: usize, reason: impl Into<String>) -> Self {
        Error::Header {
            file: file.to_owned(),
            line,
            reason: reason.into(),
        }
    }
}

fn of_line(line: usize) -> String {
    match line {
        0 => String::new(),
        line => format!(":{line}"),
    }
}

fn joined(files: &[PathBuf]) -> String {
    let shown: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    shown.join(", ")
}

/// No usable compiler; shows what was tried and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// One line for each candidate: what it is and why it was refused.
    pub tried: Vec<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (clang, device_libs) = (variables::CLANG, variables::DEVICE_LIBS);
        write!(
            f,
            "no compiler for AMD GPUs was found (clang with the amdgcn target, lld, ROCm's device libraries).\n  \
             Debian, Ubuntu:  apt-get install {DEBIAN_PACKAGES}\n  \
             ROCm elsewhere:  set ROCM_PATH (as in ROCM_PATH=/opt/rocm/core-10.2), or activate the Python environment \
             of its wheels\n  \
             By hand:         {clang}=/path/to/clang++ {device_libs}=/path/to/amdgcn/bitcode\n  \
             Without kernels: {}=1 (checks and documents; cannot run on a GPU)\n\
             Tried:",
            variables::SKIP_KERNELS
        )?;
        self.tried
            .iter()
            .try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Missing {}
