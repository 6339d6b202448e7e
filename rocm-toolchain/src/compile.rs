//! Compiles one kernel file of this project for one architecture, or takes the result from the cache.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rocm_gpus::{Architecture, Gpu};
use wait4::Wait4;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::key::Contents;
use crate::nvidia;
use crate::toolchain::Toolchain;
use crate::workers::Outcome;

/// What every compilation is told, besides what [`AMD`] or [`NVIDIA`] adds, the architecture and the bitcode.
const FLAGS: &[&str] = &[
    "-std=c++17",
    "--cuda-device-only",
    // No HIP headers, no search for ROCm: portable.cuh and explicit bitcode replace them.
    "-nogpuinc",
    "-nogpulib",
    "-nostdinc",
    "-O3",
    // `a * b + c` rounds twice unless the source says fma, as on Candle's CPU backend.
    "-ffp-contract=off",
    // Signed integers wrap, as in Rust.
    "-fwrapv",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Wno-unused-command-line-argument",
];

/// A code object.
const AMD: &[&str] = &[
    "-x",
    "hip",
    "--no-gpu-bundle-output",
    // Understood by ROCm 6 and later; newer compilers would default to version 6.
    "-mcode-object-version=5",
    // Kernels have the LDS that their sources declare. LLVM would move private arrays there, as many bytes for each
    // work-item of the largest workgroup, and few workgroups would fit a compute unit.
    "-mllvm",
    "-disable-promote-alloca-to-lds",
    "-c",
];

/// A code object of a generic target, after [`AMD`]: older versions know none. What loads it makes it out as version 5.
const GENERIC: &[&str] = &["-mcode-object-version=6"];

/// A code object for Vega 20, after [`AMD`]: a lane of a workgroup of 1024 has 64 registers there, and no accumulation
/// registers to keep more in. Kernels that are asked for such workgroups say so themselves.
const FEW_REGISTERS: &[&str] = &["--gpu-max-threads-per-block=512"];

/// PTX. Version 8.0 is the first that knows sm_90.
const NVIDIA: &[&str] = &[
    "-x",
    "cuda",
    "-S",
    "-Xclang",
    "-target-feature",
    "-Xclang",
    "+ptx80",
];

/// What NVIDIA's assembler is told. Kernels without launch bounds are launched with up to 1024 threads, which have 64
/// registers each; to the others the bound does not apply.
const PTXAS: &[&str] = &["--maxrregcount", "64"];

/// glibc's variable for its allocator, and what it says: large pages. clang's work is in small objects all over its memory,
/// and takes a twelfth less time so.
const TUNABLES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// One (module, architecture) to compile.
pub struct Job {
    /// The kernel file.
    pub source: PathBuf,
    /// The processor.
    pub arch: String,
}

impl Job {
    /// The module's name.
    pub fn module(&self) -> &str {
        module(&self.source)
    }
}

/// The name of the module that a kernel file makes: its stem.
pub fn module(source: &Path) -> &str {
    let stem = source.file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or_default()
}

/// The kernel files `*/*.cu` under `kernels`, those first that read most: they take longest to compile, and the last to
/// end should be a short one.
///
/// # Errors
/// A folder or file cannot be read, or two files make one module.
pub fn sources(kernels: &Path, contents: &Contents) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in entries(kernels)?.iter().filter(|folder| folder.is_dir()) {
        let files = entries(folder)?.into_iter();
        found.extend(files.filter(|file| file.extension().is_some_and(|end| end == "cu")));
    }
    let mut sized = Vec::new();
    for source in found {
        let bytes = contents.bytes(&source)?;
        sized.push((std::cmp::Reverse(bytes), source));
    }
    sized.sort();
    let sources: Vec<PathBuf> = sized.into_iter().map(|(_, source)| source).collect();
    let mut names = BTreeSet::new();
    match sources.iter().find(|source| !names.insert(module(source))) {
        Some(second) => Err(Error::SameModule(second.clone())),
        None => Ok(sources),
    }
}

/// What lies in `folder`.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listing = std::fs::read_dir(folder).map_err(Error::file(folder))?;
    listing
        .map(|entry| entry.map(|entry| entry.path()).map_err(Error::file(folder)))
        .collect()
}

/// What clang 19 says of every generic target. It does not concern us: what loads a code object makes it out as one of
/// version 5 (`GENERIC`).
const KNOWN_WARNING: &str = "code object v6 is still in development";

/// Runs `command` to its end: how it ended, what it said on standard error, and the CPU time of it and its children.
fn watched(command: &mut Command) -> std::io::Result<(ExitStatus, String, Duration)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut said)?;
    }
    let result = child.wait4()?;
    let said: Vec<String> = String::from_utf8_lossy(&said)
        .lines()
        .filter(|line| !line.contains(KNOWN_WARNING))
        .map(str::to_string)
        .collect();
    let time = result.rusage.utime + result.rusage.stime;
    Ok((result.status, said.join("\n"), time))
}

/// Whether `arch` is a target of several GPUs, by LLVM's names.
fn is_generic(arch: &str) -> bool {
    arch.ends_with("-generic")
}

fn is_vega20(arch: &str) -> bool {
    let gpu = arch.parse::<Gpu>();
    gpu.is_ok_and(|gpu| gpu.architecture() == Architecture::Vega20)
}

/// What clang is told of one architecture besides its name, by its LLVM name: the version of a generic target's code
/// object, or how large workgroups are where a lane has few registers.
pub fn target_flags(arch: &str) -> &'static [&'static str] {
    match arch {
        _ if is_generic(arch) => GENERIC,
        _ if is_vega20(arch) => FEW_REGISTERS,
        _ => &[],
    }
}

/// What clang is told besides the files, for one architecture.
fn flags(arch: &str) -> impl Iterator<Item = &'static str> {
    let kind = match nvidia::is_nvidia(arch) {
        true => NVIDIA,
        false => AMD,
    };
    FLAGS.iter().chain(kind).chain(target_flags(arch)).copied()
}

/// A compiled, compressed code object.
pub struct Object {
    /// The zstd frame, in the build's own folder.
    pub path: PathBuf,
    /// Bytes of the code object itself.
    pub raw: usize,
    /// Bytes of the frame.
    pub compressed: usize,
    /// What clang said without failing.
    pub warnings: String,
    /// The CPU time that clang took; none if the cache had it.
    pub compiled: Option<Duration>,
}

/// What all compilations of a build share.
pub struct Compiler<'a> {
    /// The compiler and its bitcode.
    pub toolchain: &'a Toolchain,
    /// The sources, and the folders that includes are relative to.
    pub contents: &'a Contents,
    /// Where results are kept between builds.
    pub cache: &'a Cache,
    /// The folder of this build's own, where its objects go.
    pub out: &'a Path,
}

impl Compiler<'_> {
    /// Compiles `job`, unless the cache holds the result of the same inputs. Busy if another build compiles the same and
    /// we do not `wait` for it.
    ///
    /// # Errors
    /// [`Error::Module`]: clang's own message, after the module and architecture; or what went wrong with a file.
    pub fn object(&self, job: &Job, wait: bool) -> Result<Outcome<Object>> {
        self.named_object(job, wait)
            .map_err(|source| Error::Module {
                module: job.module().to_owned(),
                arch: job.arch.clone(),
                source: Box::new(source),
            })
    }

    fn named_object(&self, job: &Job, wait: bool) -> Result<Outcome<Object>> {
        let bitcode = self.bitcode(job)?;
        let mut warnings = String::new();
        let mut time = Duration::ZERO;
        let name = self.name_of(job, &bitcode)?;
        let entry = self.cache.get_or_make(&name, wait, || {
            let code;
            (code, warnings, time) = self.compile(job, &bitcode)?;
            Ok::<_, Error>(code)
        })?;
        let entry = match entry {
            Outcome::Done(entry) => entry,
            Outcome::Busy => return Ok(Outcome::Busy),
        };
        // A copy: cargo may read it long after, when the cache has dropped it.
        let path = self
            .out
            .join(format!("{}-{}.hsaco.zst", job.module(), job.arch));
        std::fs::write(&path, &entry.frame).map_err(Error::file(&path))?;
        Ok(Outcome::Done(Object {
            path,
            raw: entry.raw,
            compressed: entry.frame.len(),
            warnings,
            compiled: entry.made.then_some(time),
        }))
    }

    /// The name of `job`'s result in the cache: of all that it depends on.
    ///
    /// # Errors
    /// A source or a part of the device libraries cannot be read.
    pub fn name(&self, job: &Job) -> Result<String> {
        self.name_of(job, &self.bitcode(job)?)
    }

    fn bitcode(&self, job: &Job) -> Result<Vec<PathBuf>> {
        match nvidia::is_nvidia(&job.arch) {
            true => nvidia::libdevice().map(|file| vec![file]),
            false => self.toolchain.bitcode(&job.arch),
        }
    }

    fn name_of(&self, job: &Job, bitcode: &[PathBuf]) -> Result<String> {
        let assembler = nvidia::ptxas_version();
        let mut all = vec![job.arch.as_str(), &self.toolchain.version];
        for flag in flags(&job.arch) {
            all.push(flag);
        }
        if nvidia::is_nvidia(&job.arch) {
            all.extend(PTXAS);
            all.push(assembler.as_deref().unwrap_or("no ptxas"));
        }
        let key = self.contents.key(&job.source, bitcode, &all)?;
        Ok(format!("{}-{}-{key}", job.module(), job.arch))
    }

    /// The code of `job`, what clang said, and the CPU time that it took.
    fn compile(&self, job: &Job, bitcode: &[PathBuf]) -> Result<(Vec<u8>, String, Duration)> {
        let nvidia = nvidia::is_nvidia(&job.arch);
        let object = self.out.join(format!("{}-{}.o", job.module(), job.arch));
        let mut command = clang(self.toolchain, self.contents, &job.arch);
        for file in bitcode {
            command
                .args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang"])
                .arg(file);
        }
        command.arg(&job.source).arg("-o").arg(&object);
        let (status, log, time) =
            watched(&mut command).map_err(Error::file(&self.toolchain.clang))?;
        check(status, log.clone(), &command)?;
        if let (true, Some(ptxas)) = (nvidia, nvidia::ptxas()) {
            assemble(&ptxas, &job.arch, &object)?;
        }
        let mut code = std::fs::read(&object).map_err(Error::file(&object))?;
        std::fs::remove_file(&object).map_err(Error::file(&object))?;
        if nvidia {
            // The driver takes text that ends with a NUL; a cubin says its own length.
            code.push(0);
        }
        Ok((code, log, time))
    }
}

/// clang with all that it is told for one architecture but the files.
fn clang(toolchain: &Toolchain, contents: &Contents, arch: &str) -> Command {
    let mut command = Command::new(&toolchain.clang);
    if std::env::var_os(TUNABLES.0).is_none() {
        command.env(TUNABLES.0, TUNABLES.1);
    }
    command
        .args(flags(arch))
        .arg(format!("--offload-arch={arch}"));
    for folder in contents.include() {
        command.arg("-I").arg(folder);
    }
    command
}

fn check(status: ExitStatus, log: String, command: &Command) -> Result<()> {
    match status.success() {
        true => Ok(()),
        false => Err(Error::Clang {
            log,
            command: format!("{command:?}"),
        }),
    }
}

/// Replaces PTX by the machine code that `ptxas` makes of it.
fn assemble(ptxas: &Path, arch: &str, file: &Path) -> Result<()> {
    let cubin = file.with_extension("cubin");
    let result = Command::new(ptxas)
        .arg(format!("-arch={arch}"))
        .args(PTXAS)
        .arg(file)
        .arg("-o")
        .arg(&cubin)
        .output()
        .map_err(Error::file(ptxas))?;
    if !result.status.success() {
        let said = String::from_utf8_lossy(&result.stderr);
        return Err(Error::Ptxas(said.trim_end().to_owned()));
    }
    std::fs::rename(&cubin, file).map_err(Error::file(&cubin))
}
