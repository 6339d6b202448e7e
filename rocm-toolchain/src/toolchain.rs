//! Finds the compiler for AMD GPUs: a clang with the amdgcn target, its lld, and ROCm's device
//! libraries (ocml bitcode).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Missing, Result};
use crate::installations;
use crate::nvidia;
use crate::variables;

/// The newest and oldest `clang-NN` looked for. LLVM 17 was the first to know gfx942.
const CLANG_VERSIONS: std::ops::RangeInclusive<u32> = 17..=30;

/// A compiler and the device libraries it links.
#[derive(Debug, Clone)]
pub struct Toolchain {
    /// The clang driver.
    pub clang: PathBuf,
    /// The first line of its `--version`.
    pub version: String,
    /// The folder with `ocml.bc` and the `oclc_*.bc` beside it.
    pub device_libs: PathBuf,
    /// Processors and generic targets it compiles for, such as `gfx1100` and `gfx11-generic`, of the generations that HIP
    /// serves (gfx9 on).
    pub processors: Vec<String>,
}

fn clang_candidates(tried: &mut Vec<String>) -> Vec<PathBuf> {
    if let Some(choice) = std::env::var_os(variables::CLANG) {
        return match which::which(&choice) {
            Ok(path) => vec![path],
            Err(error) => {
                tried.push(format!(
                    "{}={}: {error}",
                    variables::CLANG,
                    choice.to_string_lossy()
                ));
                vec![]
            }
        };
    }
    let mut found = Vec::new();
    for root in installations::here() {
        let before = found.len();
        for folder in ["lib/llvm/bin", "llvm/bin", "bin"] {
            for name in ["amdclang++", "clang++"] {
                found.extend(which::which(root.join(folder).join(name)));
            }
        }
        if found.len() == before {
            tried.push(format!(
                "{}: no amdclang++ nor clang++ there",
                root.display()
            ));
        }
    }
    for version in CLANG_VERSIONS.rev() {
        for name in ["clang++", "clang"] {
            found.extend(which::which(format!("{name}-{version}")));
        }
    }
    for name in ["amdclang++", "clang++", "clang"] {
        found.extend(which::which(name));
    }
    found
}

/// Checks that `clang` can compile and link for AMD GPUs.
fn inspect(clang: &Path) -> std::result::Result<Toolchain, String> {
    let version = output(clang, &["--version"])?
        .lines()
        .next()
        .unwrap_or_default()
        .to_string();
    let listing = output(
        clang,
        &[
            "--target=amdgcn-amd-amdhsa",
            "-nogpulib",
            "--print-supported-cpus",
        ],
    )
    .map_err(|reason| format!("no amdgcn target ({reason})"))?;
    let processors: Vec<String> = listing
        .split_whitespace()
        .filter(|word| generation(word).is_some_and(|generation| generation >= 9))
        .map(str::to_string)
        .collect();
    if processors.is_empty() {
        return Err("no amdgcn target".to_string());
    }
    // clang prints the bare name back when it knows no such program.
    let lld = output(clang, &["-print-prog-name=ld.lld"])?;
    if which::which(lld.trim()).is_err() {
        return Err("no ld.lld beside it (package lld)".to_string());
    }
    let device_libs = device_libs(clang)?;
    Ok(Toolchain {
        clang: clang.to_path_buf(),
        version,
        device_libs,
        processors,
    })
}

/// The major version in a processor's name: 9 of `gfx90a`, 11 of `gfx1100` and `gfx11-generic`.
fn generation(processor: &str) -> Option<u32> {
    isa_version(processor).map(|version| version / 1000)
}

/// `__oclc_ISA_version` of a processor or of a file's suffix: `gfx90a` or `90a` is 9010, whose last two characters are minor
/// version and stepping, in hexadecimal; `gfx10-3-generic` is 10300.
pub fn isa_version(processor: &str) -> Option<u32> {
    let digits = processor.strip_prefix("gfx").unwrap_or(processor);
    if let Some(versions) = digits.strip_suffix("-generic") {
        let (major, minor) = versions.split_once('-').unwrap_or((versions, "0"));
        return Some(major.parse::<u32>().ok()? * 1000 + minor.parse::<u32>().ok()? * 100);
    }
    if !(3..=4).contains(&digits.len()) || !digits.is_ascii() {
        return None;
    }
    let (major, rest) = digits.split_at(digits.len() - 2);
    let minor = u32::from_str_radix(&rest[..1], 16).ok()?;
    let stepping = u32::from_str_radix(&rest[1..], 16).ok()?;
    Some(major.parse::<u32>().ok()? * 1000 + minor * 100 + stepping)
}

/// The folder with `ocml.bc`.
fn device_libs(clang: &Path) -> std::result::Result<PathBuf, String> {
    if let Some(choice) = std::env::var_os(variables::DEVICE_LIBS) {
        let folder = PathBuf::from(choice);
        return match folder.join("ocml.bc").is_file() {
            true => Ok(folder),
            false => Err(format!(
                "{}={}: no ocml.bc there",
                variables::DEVICE_LIBS,
                folder.display()
            )),
        };
    }
    let mut folders = Vec::new();
    for root in installations::here() {
        folders.push(root.join("amdgcn/bitcode"));
        folders.extend(children(
            &root.join("lib/llvm/lib/clang"),
            "lib/amdgcn/bitcode",
        ));
    }
    if let Ok(resources) = output(clang, &["-print-resource-dir"]) {
        let resources = Path::new(resources.trim());
        folders.push(resources.join("lib/amdgcn/bitcode"));
        folders.push(resources.join("amdgcn/bitcode"));
    }
    for base in [
        "/usr/lib",
        "/usr/lib64",
        "/usr",
        "/usr/local/lib",
        "/usr/local",
    ] {
        folders.push(Path::new(base).join("amdgcn/bitcode"));
    }
    // Debian's multiarch folder, then Fedora's per-clang folder.
    folders.extend(children(Path::new("/usr/lib"), "amdgcn/bitcode"));
    folders.extend(children(Path::new("/usr/lib/clang"), "amdgcn/bitcode"));
    folders.extend(children(Path::new("/usr/lib64/clang"), "amdgcn/bitcode"));
    folders
        .into_iter()
        .find(|folder| folder.join("ocml.bc").is_file())
        .ok_or_else(|| {
            format!(
                "no ocml.bc (package rocm-device-libs; or set {})",
                variables::DEVICE_LIBS
            )
        })
}

/// `folder/*/suffix` for each entry, in descending order of name.
fn children(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return vec![];
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join(suffix))
        .collect();
    found.sort();
    found.reverse();
    found
}

/// Standard output of a command that succeeded.
fn output<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> std::result::Result<String, String> {
    let result = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| error.to_string())?;
    if !result.status.success() {
        let message = String::from_utf8_lossy(&result.stderr);
        return Err(message.lines().next().unwrap_or("failed").to_string());
    }
    // Listings such as --print-supported-cpus go to standard error.
    let mut text = String::from_utf8_lossy(&result.stdout).into_owned();
    text += &String::from_utf8_lossy(&result.stderr);
    Ok(text)
}

impl Toolchain {
    /// Finds one: the variables first, then ROCm's own, then the system's, newest first.
    ///
    /// # Errors
    /// If no candidate has the amdgcn target, lld and device libraries; the error lists why.
    pub fn find() -> std::result::Result<Self, Missing> {
        let mut tried = Vec::new();
        let candidates = clang_candidates(&mut tried);
        let clangs = candidates.len();
        for clang in candidates {
            match inspect(&clang) {
                Ok(toolchain) => return Ok(toolchain),
                Err(reason) => tried.push(format!("{}: {reason}", clang.display())),
            }
        }
        if clangs == 0 {
            tried.push("no clang in PATH".to_string());
        }
        Err(Missing { tried })
    }

    /// What this compiler makes code for: [`Toolchain::processors`], and NVIDIA's architectures where it was built with
    /// them.
    pub fn targets(&self) -> Vec<String> {
        let mut all = self.processors.clone();
        all.extend(nvidia::processors(&self.clang));
        all
    }

    /// The bitcode to link for `processor`.
    ///
    /// ocml reads these constants to pick between ways of computing. We ask for denormals kept,
    /// infinities and NaNs honoured, no unsafe rewrites and correctly rounded square roots.
    ///
    /// `__oclc_ISA_version` gets the file of the processor or, where an older ocml has none, the
    /// nearest below it. That is no approximation: disassembled, ocml compares the number with 8000
    /// and 9000 alone (what GCN 3 and Vega added), so every gfx9 and later number means the same to
    /// it. (ockl does compare finer, and is not linked.)
    ///
    /// # Errors
    /// If a file that ocml needs is not there.
    pub fn bitcode(&self, processor: &str) -> Result<Vec<PathBuf>> {
        const REQUIRED: [&str; 4] = [
            "ocml",
            "oclc_daz_opt_off",
            "oclc_unsafe_math_off",
            "oclc_finite_only_off",
        ];
        // Later ocml leaves square roots to the compiler, and may drop the file.
        const WHERE_PRESENT: [&str; 1] = ["oclc_correctly_rounded_sqrt_on"];
        let path = |stem: &str| self.device_libs.join(format!("{stem}.bc"));
        let mut files = Vec::new();
        for stem in REQUIRED {
            let file = path(stem);
            if !file.is_file() {
                return Err(Error::NoBitcode(file));
            }
            files.push(file);
        }
        files.extend(
            WHERE_PRESENT
                .iter()
                .map(|stem| path(stem))
                .filter(|file| file.is_file()),
        );
        let wanted =
            isa_version(processor).ok_or_else(|| Error::NoProcessor(processor.to_owned()))?;
        let nearest = std::fs::read_dir(&self.device_libs)
            .map_err(Error::file(&self.device_libs))?
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let version = name
                    .strip_prefix("oclc_isa_version_")?
                    .strip_suffix(".bc")?;
                Some((isa_version(version)?, entry.path()))
            })
            .filter(|(version, _)| (9000..=wanted).contains(version))
            .max()
            .ok_or_else(|| Error::NoIsaVersion {
                folder: self.device_libs.clone(),
                processor: processor.to_owned(),
            })?;
        files.push(nearest.1);
        Ok(files)
    }

    /// Compiles a source that needs neither headers nor device libraries, such as a test's, to the
    /// code object of one `processor`.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn compile_alone(&self, source: &Path, processor: &str) -> Result<Vec<u8>> {
        let object = std::env::temp_dir().join(format!(
            "candle-rocm-{}-{processor}-{}.hsaco",
            source.file_stem().unwrap_or_default().to_string_lossy(),
            std::process::id()
        ));
        let mut command = Command::new(&self.clang);
        command
            .args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output"])
            .args(["-nogpuinc", "-nogpulib", "-O3", "-c"])
            .arg(format!("--offload-arch={processor}"))
            .arg(source)
            .arg("-o")
            .arg(&object);
        let result = command.output().map_err(Error::file(&self.clang))?;
        if !result.status.success() {
            return Err(Error::Clang {
                log: String::from_utf8_lossy(&result.stderr).into_owned(),
                command: format!("{command:?}"),
            });
        }
        let bytes = std::fs::read(&object).map_err(Error::file(&object));
        // A leftover in the temporary folder harms nobody.
        let _ = std::fs::remove_file(&object);
        bytes
    }
}
