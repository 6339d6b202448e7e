//! Compiles CUDA source: preprocessed, its PTX rewritten, compiled for each architecture, or taken from the cache.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocm_gpus::CodeTarget;
use rocm_toolchain::cache::Cache;
use rocm_toolchain::workers::{self, Outcome};
use rocm_toolchain::{architectures, variables, Chosen, Notices, Toolchain};
use xxhash_rust::xxh3::xxh3_128;

use crate::dependent;
use crate::error::{Error, Result};
use crate::headers;
use crate::options::Options;
use crate::program::{Object, Program, Source};
use crate::ptx;

/// Counts changes of what results are made by, beside the headers, which are part of what is compiled.
pub(crate) const FORMAT: u32 = 1;

/// What both passes are told, of either side.
const FLAGS: &[&str] = &[
    // Neither HIP's headers nor a search for ROCm: ours and explicit bitcode replace them.
    "-nogpuinc",
    "-nogpulib",
    "-O3",
    // As on NVIDIA: adding a float to memory that the GPU owns is one instruction.
    "-munsafe-fp-atomics",
    // Host functions in a file call what is the host's.
    "-Wno-unused-command-line-argument",
    "-Wno-unknown-warning-option",
    // Written for another compiler, whose warnings are others.
    "-Wno-pass-failed",
    "-Wno-ignored-attributes",
];
/// What compiling device code is told besides.
const COMPILE: &[&str] = &["--no-gpu-bundle-output", "-mcode-object-version=5", "-c"];
/// The language's version where the source's flags name none: nvcc's.
const STANDARD: &str = "-std=c++17";
/// What clang 19 says of every generic target.
const KNOWN_WARNING: &str = "code object v6 is still in development";

/// For whom a source is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side<'a> {
    /// This GPU or generic target.
    Device(&'a str),
    /// The machine that launches.
    Host,
}

impl Side<'_> {
    /// As messages name it.
    pub fn name(&self) -> &str {
        match self {
            Side::Device(arch) => arch,
            Side::Host => "the host",
        }
    }
}

/// The toolchain, what to compile for, and where results are kept.
pub struct Compiler {
    pub(crate) toolchain: Toolchain,
    chosen: Chosen,
    pub(crate) cache: Cache,
    headers: PathBuf,
    pub(crate) scratch: PathBuf,
    /// The same, where it goes with the compiler.
    _temporary: Option<tempfile::TempDir>,
    pub(crate) threads: usize,
}

impl Compiler {
    /// As the environment says: `CANDLE_ROCM_ARCHS` and the others of [`crate::variables`]. `scratch` is a folder for what
    /// does not last.
    ///
    /// # Errors
    /// There is no compiler, it does not know an architecture, or no folder can be written. Each says what to do.
    pub fn from_environment(scratch: &Path) -> Result<Self> {
        let choice = std::env::var(variables::ARCHS).unwrap_or_default();
        Self::new(scratch, &choice)
    }

    /// For these architectures: processors and generic targets separated by commas, or what else `CANDLE_ROCM_ARCHS` may
    /// be.
    ///
    /// # Errors
    /// As [`Compiler::from_environment`].
    pub fn new(scratch: &Path, archs: &str) -> Result<Self> {
        let toolchain = Toolchain::find().map_err(rocm_toolchain::Error::from)?;
        let chosen = architectures::of_machine(archs, &toolchain.processors)?;
        std::fs::create_dir_all(scratch).map_err(Error::file(scratch))?;
        Ok(Self {
            toolchain,
            chosen,
            cache: Cache::of_environment(scratch)?,
            headers: headers::folder(scratch)?,
            scratch: scratch.to_owned(),
            _temporary: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }

    /// As [`Compiler::new`], with a temporary folder for what does not last.
    ///
    /// # Errors
    /// As [`Compiler::from_environment`].
    pub fn at_run_time(archs: &str) -> Result<Self> {
        let system = std::env::temp_dir();
        let folder = tempfile::tempdir().map_err(Error::file(&system))?;
        let mut compiler = Self::new(folder.path(), archs)?;
        compiler._temporary = Some(folder);
        Ok(compiler)
    }

    /// How many compilations may run at once; without it as many as the machine has CPUs. In a build script, cargo's own
    /// limit holds besides.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// What is compiled for.
    pub fn architectures(&self) -> &[String] {
        &self.chosen.archs
    }

    /// Why these, in words.
    pub fn reason(&self) -> &str {
        &self.chosen.reason
    }

    /// The folder of the headers under CUDA's names.
    pub fn headers(&self) -> &Path {
        &self.headers
    }

    /// The compiler's path and what it says of itself.
    pub fn clang(&self) -> (&Path, &str) {
        (&self.toolchain.clang, &self.toolchain.version)
    }

    /// One source for all architectures.
    ///
    /// # Errors
    /// It does not compile, or a file cannot be read.
    pub fn compile(&self, source: &Source, options: &Options) -> Result<Program> {
        let mut programs = self.compile_all(&[(source.clone(), options.clone())])?;
        // One for each.
        Ok(programs.remove(0))
    }

    /// Several sources, side by side, each for all architectures.
    ///
    /// # Errors
    /// The first source that does not compile, or a file that cannot be read.
    pub fn compile_all(&self, sources: &[(Source, Options)]) -> Result<Vec<Program>> {
        let archs = &self.chosen.archs;
        let objects = workers::run(self.threads, sources.len() * archs.len(), |index, wait| {
            let (source, options) = &sources[index / archs.len()];
            self.object(source, options, &archs[index % archs.len()], wait)
        });
        let mut objects = objects.map_err(first)?.into_iter();
        let programs = sources.iter().map(|(source, _)| {
            let mut program = Program::of(source.name());
            for one in objects.by_ref().take(archs.len()) {
                program.objects.push(one.object);
                program.dependencies.extend(one.dependencies);
                if program.warnings.is_empty() {
                    program.warnings = one.warnings;
                }
            }
            program.dependencies.sort();
            program.dependencies.dedup();
            program
        });
        Ok(programs.collect())
    }

    /// Whether a source would compile for one side, without compiling it: its syntax, its types, its PTX. What compiling
    /// finds besides, such as more LDS than there is, it does not find.
    ///
    /// # Errors
    /// It would not compile, or a file cannot be read.
    pub fn check(&self, source: &Source, options: &Options, side: Side<'_>) -> Result<()> {
        match (self.check_as_it_is(source, options, side), side) {
            (Err(error @ Error::Compile { .. }), Side::Host) => {
                let options = options.with_device_code()?;
                self.check_as_it_is(source, &options, side)
                    .map_err(|_| error)
            }
            (checked, _) => checked,
        }
    }

    fn check_as_it_is(&self, source: &Source, options: &Options, side: Side<'_>) -> Result<()> {
        let scratch = tempfile::tempdir_in(&self.scratch).map_err(Error::file(&self.scratch))?;
        let (code, _) = self.preprocess(source, options, side, scratch.path())?;
        let rewritten = match side {
            Side::Device(_) => ptx::rewrite(&code),
            Side::Host => ptx::Rewritten::default(),
        };
        let input = scratch.path().join("code.hip");
        let mut command = Command::new(&self.toolchain.clang);
        command
            .args(["-x", "hip"])
            .args(self.flags(&options.without_preprocessor(), side))
            .arg(&input);
        match rewritten.is_known() {
            true => command.arg("-fsyntax-only"),
            // Only the code of kernels tells which of the rest they use.
            false => command
                .args(["-S", "-o"])
                .arg(scratch.path().join("output")),
        };
        let code = rewritten.code.as_ref().unwrap_or(&code);
        self.run_on(&mut command, &input, code, source, side)
            .map_err(|error| with_ptx(error, &rewritten))
            .map(|_| ())
    }

    /// Holds the cache to its size. Returns what the user should hear: of the cache, and of the choice of architectures.
    pub fn finish(&self) -> Notices {
        let mut notices = self.chosen.notices.clone();
        notices.extend(self.cache.finish());
        notices
    }

    /// One source for one architecture.
    fn object(
        &self,
        source: &Source,
        options: &Options,
        arch: &str,
        wait: bool,
    ) -> Result<Outcome<Compiled>> {
        let scratch = tempfile::tempdir_in(&self.scratch).map_err(Error::file(&self.scratch))?;
        let (preprocessed, dependencies) =
            self.preprocess(source, options, Side::Device(arch), scratch.path())?;
        let rewritten = ptx::rewrite(&preprocessed);
        let code = rewritten.code.as_ref().unwrap_or(&preprocessed);
        let bitcode = self.bitcode(arch)?;
        let key = self.key(code, options, arch, &bitcode);
        let stem = source
            .name()
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        let name = format!(
            "{}-{arch}-{key}",
            stem.replace(|c: char| !c.is_alphanumeric(), "_")
        );
        let mut warnings = String::new();
        let entry = self.cache.get_or_make(&name, wait, || {
            let object;
            (object, warnings) = self
                .compile_code(source, code, options, arch, &bitcode, scratch.path())
                .map_err(|error| with_ptx(error, &rewritten))?;
            Ok::<_, Error>(object)
        })?;
        Ok(match entry {
            Outcome::Busy => Outcome::Busy,
            Outcome::Done(entry) => Outcome::Done(Compiled {
                object: Object {
                    arch: arch.to_owned(),
                    frame: entry.frame,
                    made: entry.made,
                },
                dependencies,
                warnings,
            }),
        })
    }

    /// The device libraries of one architecture, with what `printf` needs. Of what is linked so, no more is taken than is
    /// called.
    fn bitcode(&self, arch: &str) -> Result<Vec<PathBuf>> {
        let mut bitcode = self.toolchain.bitcode(arch)?;
        let lanes = arch
            .parse::<CodeTarget>()
            .map(|target| target.unit().wavefront);
        let wavefront = match lanes {
            Ok(64) => "oclc_wavefrontsize64_on.bc",
            _ => "oclc_wavefrontsize64_off.bc",
        };
        let more = ["ockl.bc", wavefront, "oclc_abi_version_500.bc"]
            .map(|name| self.toolchain.device_libs.join(name));
        bitcode.extend(more.into_iter().filter(|file| file.is_file()));
        Ok(bitcode)
    }

    /// What both passes are told for one side.
    pub(crate) fn flags(&self, options: &Options, side: Side<'_>) -> Vec<OsString> {
        let mut flags: Vec<OsString> = FLAGS.iter().map(OsString::from).collect();
        match side {
            Side::Device(arch) => flags.extend([
                "--cuda-device-only".into(),
                format!("--offload-arch={arch}").into(),
            ]),
            Side::Host => flags.extend(["--cuda-host-only".into(), "-fPIC".into()]),
        }
        if !options.flags.iter().any(|flag| flag.starts_with("-std=")) {
            flags.push(STANDARD.into());
        }
        flags.extend(options.flags.iter().map(OsString::from));
        flags
    }

    /// The source after the preprocessor, and the user's files in it.
    pub(crate) fn preprocess(
        &self,
        source: &Source,
        options: &Options,
        side: Side<'_>,
        scratch: &Path,
    ) -> Result<(String, Vec<PathBuf>)> {
        let (dependencies, output) = (scratch.join("dependencies"), scratch.join("preprocessed"));
        let mut command = Command::new(&self.toolchain.clang);
        command.args(["-x", "hip", "-E"]);
        command.args(self.flags(options, side));
        if let Side::Device(_) = side {
            let cuda_arch = options.cuda_arch()?;
            command.arg(format!("-D__CUDA_ARCH__={cuda_arch}"));
        }
        // Standard headers that call functions of the device, then clang's own view of HIP, then ours of CUDA.
        command.arg("-isystem").arg(self.wrappers()?);
        command.arg("-isystem").arg(&self.headers);
        command.args([
            "-include",
            "__clang_hip_runtime_wrapper.h",
            "-include",
            "cuda_runtime.h",
        ]);
        for folder in &options.include {
            // CUDA's own headers, where they are installed, would go before ours.
            if !folder.join("cuda_runtime.h").is_file() {
                let folder = std::path::absolute(folder).map_err(Error::file(folder))?;
                command.arg("-I").arg(folder);
            }
        }
        command.args(["-MD", "-MT", "it", "-MF"]).arg(&dependencies);
        let input = match source {
            Source::File(path) => path.clone(),
            Source::Text { name, text } => {
                let file = scratch.join("source.cu");
                std::fs::write(&file, format!("# 1 {name:?}\n{text}"))
                    .map_err(Error::file(&file))?;
                // By its name alone: the folder's is another each time, and would be part of what names the result.
                command.current_dir(scratch);
                PathBuf::from("source.cu")
            }
        };
        command.arg(&input).arg("-o").arg(&output);
        self.run(&mut command, source, side)?;
        let text = std::fs::read(&output).map_err(Error::file(&output))?;
        let files = std::fs::read_to_string(&dependencies).map_err(Error::file(&dependencies))?;
        let own = |path: &PathBuf| {
            path.as_path() != Path::new("source.cu")
                && !path.starts_with(&self.headers)
                && !path.starts_with("/usr")
        };
        let files = makefile_names(&files).filter(own).collect();
        Ok((String::from_utf8_lossy(&text).into_owned(), files))
    }

    /// clang's folder of standard headers made fit for device code.
    fn wrappers(&self) -> Result<PathBuf> {
        let clang = &self.toolchain.clang;
        let printed = Command::new(clang)
            .arg("-print-resource-dir")
            .output()
            .map_err(Error::file(clang))?;
        let folder = String::from_utf8_lossy(&printed.stdout).trim().to_owned();
        let folder = Path::new(&folder).join("include/cuda_wrappers");
        match folder.is_dir() {
            true => Ok(folder),
            false => Err(Error::Setup(format!(
                "{} has no headers for device code: {} is no folder (on Debian, package libclang-common-19-dev)",
                clang.display(),
                folder.display()
            ))),
        }
    }

    /// 32 hexadecimal digits for all that the result depends on.
    fn key(&self, code: &str, options: &Options, arch: &str, bitcode: &[PathBuf]) -> String {
        let files: Vec<_> = bitcode
            .iter()
            .map(|file| {
                (
                    file.file_name(),
                    std::fs::read(file).map(|bytes| xxh3_128(&bytes)).ok(),
                )
            })
            .collect();
        let all = format!(
            "cuda, format {FORMAT}\n{}\n{arch}\n{:?}\n{COMPILE:?}\n{files:?}\n{:032x}",
            self.toolchain.version,
            self.flags(options, Side::Device(arch)),
            xxh3_128(code.as_bytes())
        );
        format!("{:032x}", xxh3_128(all.as_bytes()))
    }

    /// Compiles preprocessed code, which the command finds in `input`; what clang said.
    pub(crate) fn run_on(
        &self,
        command: &mut Command,
        input: &Path,
        code: &str,
        source: &Source,
        side: Side<'_>,
    ) -> Result<String> {
        let write = |code: &str| std::fs::write(input, code).map_err(Error::file(input));
        write(code)?;
        let error = match self.run(command, source, side) {
            Err(error) if dependent::is_meant(&error.to_string()) => error,
            done => return done,
        };
        let Some(code) = dependent::with_word(code) else {
            return Err(error);
        };
        write(&code)?;
        // What is said of source that nobody wrote helps nobody.
        self.run(command, source, side).map_err(|_| error)
    }

    /// The code object of preprocessed code, and what clang said.
    fn compile_code(
        &self,
        source: &Source,
        code: &str,
        options: &Options,
        arch: &str,
        bitcode: &[PathBuf],
        scratch: &Path,
    ) -> Result<(Vec<u8>, String)> {
        let (input, output) = (scratch.join("code.hip"), scratch.join("object"));
        let mut command = Command::new(&self.toolchain.clang);
        // Once more through the preprocessor, which has nothing left to do: of what is preprocessed, clang's driver expects
        // a bundle.
        command.args(["-x", "hip"]);
        command
            .args(self.flags(&options.without_preprocessor(), Side::Device(arch)))
            .args(COMPILE);
        command.args(rocm_toolchain::compile::target_flags(arch));
        for file in bitcode {
            command
                .args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang"])
                .arg(file);
        }
        command.arg(&input).arg("-o").arg(&output);
        let said = self.run_on(&mut command, &input, code, source, Side::Device(arch))?;
        let object = std::fs::read(&output).map_err(Error::file(&output))?;
        Ok((object, said))
    }

    /// Runs clang; what it said.
    pub(crate) fn run(
        &self,
        command: &mut Command,
        source: &Source,
        side: Side<'_>,
    ) -> Result<String> {
        let clang = &self.toolchain.clang;
        let result = command.output().map_err(Error::file(clang))?;
        let said: Vec<String> = String::from_utf8_lossy(&result.stderr)
            .lines()
            .filter(|line| !line.contains(KNOWN_WARNING))
            .map(str::to_owned)
            .collect();
        match result.status.success() {
            true => Ok(said.join("\n")),
            false => Err(Error::Compile {
                file: source.name().to_owned(),
                arch: side.name().to_owned(),
                log: said.join("\n"),
            }),
        }
    }
}

/// A source's result for one architecture.
struct Compiled {
    object: Object,
    dependencies: Vec<PathBuf>,
    warnings: String,
}

/// The compiler's error; the PTX that is not known, where it is that.
fn with_ptx(error: Error, rewritten: &ptx::Rewritten) -> Error {
    let used = match &error {
        Error::Compile { log, .. } => rewritten.used(log),
        _ => Vec::new(),
    };
    match used.is_empty() {
        true => error,
        false => Error::Ptx(used),
    }
}

/// Of several failures side by side, the first. There is one at least.
pub(crate) fn first(failures: Vec<Error>) -> Error {
    let first = failures.into_iter().next();
    first.unwrap_or_else(|| Error::Setup("work side by side failed and says nothing".to_owned()))
}

/// The files that a makefile's rule names.
fn makefile_names(text: &str) -> impl Iterator<Item = PathBuf> + '_ {
    let names = text.split_once(": ").map_or("", |(_, names)| names);
    // A space in a name is escaped; a line's end, too.
    let marked = names.replace("\\\n", " ").replace("\\ ", "\0");
    let names: Vec<String> = marked
        .split_whitespace()
        .map(|name| name.replace('\0', " "))
        .collect();
    names.into_iter().map(PathBuf::from)
}
