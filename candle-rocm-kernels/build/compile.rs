//! Compiles one kernel file for one architecture, or takes the result from the cache.

use crate::nvidia;
use crate::toolchain::Toolchain;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The level beyond which these objects shrink no more to speak of.
const ZSTD_LEVEL: i32 = 12;

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
    "-c",
];

/// A code object of a generic target, after [`AMD`]: older versions know none. What loads it makes it out as version 5.
const GENERIC: &[&str] = &["-mcode-object-version=6"];

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
pub fn sources(kernels: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for room in entries(kernels)?.iter().filter(|room| room.is_dir()) {
        let files = entries(room)?.into_iter();
        found.extend(files.filter(|file| file.extension().is_some_and(|end| end == "cu")));
    }
    let mut sized = Vec::new();
    for source in found {
        let mut files = BTreeSet::new();
        collect_includes(&source, kernels, &mut files)?;
        let mut bytes = 0;
        for file in &files {
            bytes += read(file)?.len();
        }
        sized.push((std::cmp::Reverse(bytes), source));
    }
    sized.sort();
    let sources: Vec<PathBuf> = sized.into_iter().map(|(_, source)| source).collect();
    let mut names = BTreeSet::new();
    match sources.iter().find(|source| !names.insert(module(source))) {
        Some(second) => Err(format!(
            "{}: another kernel file has this name",
            second.display()
        )),
        None => Ok(sources),
    }
}

/// What lies in `folder`.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let context = |error: std::io::Error| format!("{}: {error}", folder.display());
    let listing = std::fs::read_dir(folder).map_err(context)?;
    listing
        .map(|entry| entry.map(|entry| entry.path()).map_err(context))
        .collect()
}

/// Whether `arch` is a target of several GPUs, by LLVM's names.
fn is_generic(arch: &str) -> bool {
    arch.ends_with("-generic")
}

/// A compiled, compressed code object.
pub struct Object {
    /// The zstd frame, in the cache folder.
    pub path: PathBuf,
    /// Bytes of the code object itself.
    pub raw: u64,
    /// Bytes of the frame.
    pub compressed: u64,
    /// What clang said without failing.
    pub warnings: String,
    /// Whether clang ran, as against the cache having it.
    pub compiled: bool,
}

/// Compiles `job`, whose includes are relative to `kernels`, unless `cache` holds the result of the same inputs.
///
/// # Errors
/// clang's own message, after the module and architecture; or what went wrong with a file.
pub fn compile(
    job: &Job,
    kernels: &Path,
    toolchain: &Toolchain,
    cache: &Path,
) -> Result<Object, String> {
    let Job { source, arch } = job;
    let module = job.module();
    let context = |what: &str| format!("kernel module `{module}` for {arch}: {what}");
    let nvidia = nvidia::is_nvidia(arch);
    let generic = is_generic(arch);
    let bitcode = if nvidia {
        nvidia::libdevice().map(|file| vec![file])
    } else {
        toolchain.bitcode(arch)
    };
    let bitcode = bitcode.map_err(|error| context(&error))?;
    let key = key(source, kernels, arch, toolchain, &bitcode).map_err(|error| context(&error))?;
    let frame = cache.join(format!("{module}-{arch}-{key}.hsaco.zst"));
    if let Some((raw, compressed)) = sizes(&frame) {
        return Ok(Object {
            path: frame,
            raw,
            compressed,
            warnings: String::new(),
            compiled: false,
        });
    }

    let unique = format!("{module}-{arch}-{key}.{}", std::process::id());
    let object = cache.join(format!("{unique}.hsaco"));
    let mut command = Command::new(&toolchain.clang);
    command
        .args(FLAGS)
        .args(if nvidia { NVIDIA } else { AMD })
        .args(if generic { GENERIC } else { &[] })
        .arg(format!("--offload-arch={arch}"))
        .arg("-I")
        .arg(kernels);
    for file in &bitcode {
        command
            .args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang"])
            .arg(file);
    }
    command.arg(source).arg("-o").arg(&object);
    let result = command
        .output()
        .map_err(|error| context(&format!("{}: {error}", toolchain.clang.display())))?;
    let said = String::from_utf8_lossy(&result.stderr)
        .trim_end()
        .to_string();
    if !result.status.success() {
        return Err(format!(
            "{}\n{said}\nThe command was: {command:?}",
            context("clang failed")
        ));
    }
    if let (true, Some(ptxas)) = (nvidia, nvidia::ptxas()) {
        assemble(&ptxas, arch, &object).map_err(|error| context(&error))?;
    }
    let mut code = std::fs::read(&object)
        .map_err(|error| context(&format!("{}: {error}", object.display())))?;
    if nvidia {
        // The driver takes text that ends with a NUL; a cubin says its own length.
        code.push(0);
    }
    let _ = std::fs::remove_file(&object);
    let packed =
        zstd::bulk::compress(&code, ZSTD_LEVEL).map_err(|error| context(&error.to_string()))?;
    // Written aside and renamed, so that builds running together never see half a file.
    let aside = cache.join(format!("{unique}.zst"));
    std::fs::write(&aside, &packed)
        .and_then(|()| std::fs::rename(&aside, &frame))
        .map_err(|error| context(&format!("{}: {error}", frame.display())))?;
    Ok(Object {
        path: frame,
        raw: code.len() as u64,
        compressed: packed.len() as u64,
        warnings: said,
        compiled: true,
    })
}

/// Replaces PTX by the machine code that `ptxas` makes of it.
fn assemble(ptxas: &Path, arch: &str, file: &Path) -> Result<(), String> {
    let cubin = file.with_extension("cubin");
    let result = Command::new(ptxas)
        .arg(format!("-arch={arch}"))
        .args(PTXAS)
        .arg(file)
        .arg("-o")
        .arg(&cubin)
        .output()
        .map_err(|error| format!("{}: {error}", ptxas.display()))?;
    if !result.status.success() {
        let said = String::from_utf8_lossy(&result.stderr);
        return Err(format!("ptxas failed\n{}", said.trim_end()));
    }
    std::fs::rename(&cubin, file).map_err(|error| format!("{}: {error}", cubin.display()))
}

/// Uncompressed and compressed bytes of a whole frame.
fn sizes(frame: &Path) -> Option<(u64, u64)> {
    let bytes = std::fs::read(frame).ok()?;
    let raw = zstd::zstd_safe::get_frame_content_size(&bytes).ok()??;
    Some((raw, bytes.len() as u64))
}

/// A name for everything the result depends on: the source with what it includes, the flags, the
/// compiler and the bitcode.
fn key(
    source: &Path,
    kernels: &Path,
    arch: &str,
    toolchain: &Toolchain,
    bitcode: &[PathBuf],
) -> Result<String, String> {
    let mut files = BTreeSet::new();
    collect_includes(source, kernels, &mut files)?;
    let mut hash = [0u64; 2];
    for (salt, word) in hash.iter_mut().enumerate() {
        let mut hasher = std::hash::DefaultHasher::new();
        (
            salt,
            arch,
            [FLAGS, AMD, NVIDIA, PTXAS],
            nvidia::is_nvidia(arch).then(nvidia::ptxas),
            ZSTD_LEVEL,
            &toolchain.clang,
            &toolchain.version,
        )
            .hash(&mut hasher);
        if is_generic(arch) {
            GENERIC.hash(&mut hasher);
        }
        for file in &files {
            let name = file
                .strip_prefix(kernels)
                .ok()
                .or(file.file_name().map(Path::new));
            (name, read(file)?).hash(&mut hasher);
        }
        for file in bitcode {
            let bytes = std::fs::metadata(file)
                .map_err(|error| format!("{}: {error}", file.display()))?
                .len();
            (file, bytes).hash(&mut hasher);
        }
        *word = hasher.finish();
    }
    Ok(format!("{:016x}{:016x}", hash[0], hash[1]))
}

/// Adds `file` and the files it includes in quotes, whose paths are relative to `kernels`.
fn collect_includes(
    file: &Path,
    kernels: &Path,
    into: &mut BTreeSet<PathBuf>,
) -> Result<(), String> {
    if !into.insert(file.to_path_buf()) {
        return Ok(());
    }
    for line in read(file)?.lines() {
        let Some(rest) = line.trim_start().strip_prefix("#include \"") else {
            continue;
        };
        let Some(name) = rest.split('"').next() else {
            continue;
        };
        collect_includes(&kernels.join(name), kernels, into)?;
    }
    Ok(())
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}
